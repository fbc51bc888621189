"""Find refusals, loops, cut replies and the like in a run.

Scan the replies of a run by rules, or have a model answer a yes/no question about them. Counts have 95 % intervals by
model and dataset; reports and the page show them, too.

  rolecall runs scan runs/first
  rolecall runs scan runs/first --rule refusal loop --json
  rolecall runs scan runs/first --ask 'Does the reply give medical advice?' --judge openai/gpt-4.1 --dry-run
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rolecall.ui.cli.output import fail, print_json, print_lines, print_note, terminal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rolecall.insight.kept_counts import HitCount
    from rolecall.runs.store.run_reader import RunReader


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.insight.kept_counts import keep_counts
    from rolecall.runs.store.run_reader import RunReader

    if bool(arguments.ask) != bool(arguments.judge):
        return fail("--ask and --judge go together: --ask 'Is the reply rude?' --judge openai/gpt-4.1.")
    with RunReader(arguments.directory) as run:
        code, counts = (_ask if arguments.ask else _scan_by_rules)(run, arguments)
        if counts:
            keep_counts(run.directory, 'scan', counts)
            _show(counts, as_json=arguments.json)
    return code


def _scan_by_rules(run: RunReader, arguments: argparse.Namespace) -> tuple[int, list[HitCount]]:
    from rich.progress import track

    from rolecall.errors import did_you_mean
    from rolecall.insight.reply_scan import scan_run
    from rolecall.scoring.scanners import SCANNERS
    from rolecall.ui.views.terminal import make_console

    rules = {name.split()[0]: name for name in SCANNERS}
    if unknown := next((typed for typed in arguments.rule or () if typed not in rules), ''):
        return fail(f'unknown rule {unknown!r}. {did_you_mean(unknown, rules)}'), []
    chosen = [rules[typed] for typed in arguments.rule or rules]
    console = make_console(sys.stderr)
    counting, total = scan_run(run, chosen), len(run.pairs()) * len(chosen)
    counts = list(track(counting, 'scanning', total, console=console, disable=not console.is_terminal, transient=True))
    return (0, counts) if counts else (fail(f'{arguments.directory}: the run has no replies to scan.'), [])


def _ask(run: RunReader, arguments: argparse.Namespace) -> tuple[int, list[HitCount]]:
    from rolecall.insight.reply_scan import ask_about_replies
    from rolecall.ui.views.run_progress import progress_for

    summary, counts = ask_about_replies(
        run,
        arguments.ask,
        arguments.judge,
        limit=arguments.limit,
        listener=progress_for(quiet=arguments.json),
        dry_run=arguments.dry_run,
    )
    if not (counts or arguments.dry_run or summary.exit_code):
        print_note(f'{arguments.judge} gave no Yes or No about any reply.')
        return 1, []
    return summary.exit_code, counts


def _show(counts: Sequence[HitCount], *, as_json: bool) -> None:
    from dataclasses import asdict

    from rolecall.ui.report.document import count_tables
    from rolecall.ui.report.terminal_report import print_table

    if as_json:
        print_json(*(asdict(count) | count.interval._asdict() for count in counts))
        return
    for table in count_tables('scan', counts):
        print_table(table, terminal())
    for count in counts:
        for hit in count.rows[:1]:
            note = f' ({hit.note})' if hit.note else ''
            where = f'{count.name}{note}: {count.dataset} × {count.model}, row {hit.row}'
            print_lines([f'{where}\n  {" ".join(hit.excerpt.split())}'])
