"""Fetch the answers of a run that was submitted as batches.

Fetch what batches have answered into the run, and score it. Repeat it at will, also on another machine: a copy of the
run directory and the key in the environment are enough. Exit code 3: batches have not ended.

  rolecall run config.py --out runs/first --batch
  rolecall runs collect runs/first                      what has been answered so far
  rolecall runs collect runs/first --wait               until every batch has ended
  rolecall runs collect runs/first --wait --submit      and later turns and judges in batches of their own
  rolecall runs collect runs/first --cancel             stop; answers so far are kept
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rolecall.ui.cli.output import fail, print_lines

if TYPE_CHECKING:
    from rolecall.runs import CollectSummary


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError(f'expected a number of seconds above 0, up to 86,400; got {text!r:.40}')
    return seconds


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs import collect_run
    from rolecall.ui.cli.report import show_scores
    from rolecall.ui.views.run_progress import progress_for

    if arguments.cancel and arguments.submit:
        return fail('--cancel ends the run; leave --submit out.')
    summary = collect_run(
        arguments.directory,
        config=arguments.config,
        wait=arguments.wait,
        cancel=arguments.cancel,
        submit=arguments.submit,
        every=arguments.every,
        progress=progress_for(quiet=arguments.quiet),
    )
    if summary.run is not None and summary.run.outcomes:
        show_scores(arguments.directory, arguments.prices)
    print_lines(_next_steps(summary, arguments.directory), to=sys.stderr)
    return summary.exit_code


def _next_steps(summary: CollectSummary, directory: str) -> Iterator[str]:
    from rolecall.strings import count_noun

    if summary.unfinished:
        yield f'The answers are stored, but rows cannot be finished from the run directory alone:\n{summary.unfinished}'
        yield f'Where the config is: rolecall runs collect {directory} --config CONFIG'
    if summary.waiting:
        yield f'{count_noun(summary.waiting, "request")} not answered yet: rolecall runs collect {directory} --wait'
    if summary.unanswered:
        yield f'{count_noun(summary.unanswered, "request")} without an answer: failed, expired or cancelled.'
        yield f'Send live: {summary.command}'
        yield f'Or in a new batch: {summary.command} --batch'
    if summary.unsubmitted:
        what = f'{count_noun(summary.unsubmitted, "request")} of the next stage (later turns, judges) to submit'
        yield f'{what}: rolecall runs collect {directory} --submit'
    if summary.run is not None and (failed := summary.run.outcomes.get('failed')):
        yield f'{count_noun(failed, "row")} failed; retry with: {summary.command} --rerun failed'
    if summary.exit_code == 0:
        yield f'Everything collected. Results are in {directory}.'
