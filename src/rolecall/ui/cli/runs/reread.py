"""Read the replies of a run with all readers, and count reading errors in.

Read the stored replies with all readers. About thirty decisions of a person in the page, or of a judge, show how
often each reader errs: scores get an interval that includes reading error, and orders of models say whether they
survive it. Decisions are kept with the run.

  rolecall runs reread runs/gsm8k
  rolecall web runs/gsm8k                                 decide rows in the page
  rolecall runs reread runs/gsm8k --judge openai/gpt-4.1
  rolecall export results runs/gsm8k --labels -o decisions.csv
"""

from __future__ import annotations

import argparse
import sys

from rolecall.ui.cli.output import fail, print_json, print_lines


def execute(arguments: argparse.Namespace) -> int:
    from rich.progress import track

    from rolecall.insight.reading_errors import DECISIONS, Rereading
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report.calibration_text import describe_order, describe_reading
    from rolecall.ui.views.run_progress import progress_for
    from rolecall.ui.views.terminal import make_console

    console = make_console(sys.stderr)
    with RunReader(arguments.directory) as run:
        names = track(run.pairs(), 'reading', console=console, disable=not console.is_terminal, transient=True)
        rereading = Rereading(run, names, most=arguments.rows)
        if not rereading.pairs:
            what = 'no verdict of this run rests on an answer that our readers can read from a reply'
            advice = 'Verdicts of judges and of code of your own are corrected by labels'
            return fail(f'{arguments.directory}: {what}.\n  {advice}: rolecall runs label {arguments.directory}')
        if arguments.judge:
            from rolecall.insight.reply_scan import ask_for_answers

            ask_for_answers(run, rereading.queue(DECISIONS), arguments.judge, progress_for(quiet=arguments.json))
        for error in rereading.errors():
            print_json(error) if arguments.json else print_lines(describe_reading(error))
        print_lines(map(describe_order, () if arguments.json else rereading.orders()))
    return 0
