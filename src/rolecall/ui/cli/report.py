"""Show the scores of a run.

Show the scores of a run with confidence intervals, or write them with every row to an HTML page.

  rolecall report runs/first
  rolecall report runs/first --open
  rolecall report runs/first --html report.html --config config.py
  rolecall report runs/first --markdown > scores.md
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rolecall.ui.cli.output import fail, print_json, print_lines, print_note, terminal, write_page

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.insight.run_source import StoredRun
    from rolecall.models.prices import Price


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.serving.bench_files import is_bench

    if arguments.open and (arguments.markdown or arguments.csv or arguments.json):
        return fail('--open shows the page: leave out --markdown, --csv and --json.')
    page = arguments.html or (os.path.join(arguments.directory, 'report.html') if arguments.open else '')
    if is_bench(arguments.directory):
        _report_bench(arguments, page)
    else:
        _report_run(arguments, page)
    if arguments.open:
        import webbrowser
        from pathlib import Path

        if not webbrowser.open(Path(page).absolute().as_uri()):
            print_note(f'no browser could be started; open {page} yourself.')
    return 0


def _report_run(arguments: argparse.Namespace, page: str) -> None:
    from rolecall.ui.report import report_csv, report_markdown, report_terminal

    with open_stored(arguments.directory) as run:
        prices = run.prices(_read_overrides(arguments.prices))
        if arguments.junit:
            from rolecall.ui.report.junit import write_run

            write_run(run.archive, arguments.junit)
        if page:
            _write_page(run, page, arguments, prices)
        elif arguments.by or arguments.json:
            _print_slices(run, arguments)
        elif arguments.markdown or arguments.csv:
            print((report_markdown if arguments.markdown else report_csv)(run, prices=prices), end='')
        else:
            report_terminal(run, terminal(), everything=arguments.all, prices=prices)


def _print_slices(run: StoredRun, arguments: argparse.Namespace) -> None:
    from rolecall.ui.report.slice_tables import RunSlices
    from rolecall.ui.report.terminal_report import print_table
    from rolecall.ui.report.text_reports import tables_markdown

    slices = RunSlices.of(run.archive, arguments.by)
    if arguments.json:
        print_json({'scores': [card.to_record() for card in run.archive.scorecards()], **slices.as_json()})
    elif arguments.markdown or arguments.csv:
        print(tables_markdown(slices.tables()) if arguments.markdown else slices.as_csv(), end='')
    else:
        for table in slices.tables():
            print_table(table, terminal())


def _report_bench(arguments: argparse.Namespace, page: str) -> None:
    from rolecall.errors import ConfigError, Problem
    from rolecall.runs.serving.bench_files import StoredBench
    from rolecall.ui.report.bench_page import bench_html
    from rolecall.ui.report.bench_text import bench_terminal

    for option in ('markdown', 'junit', 'all', 'by', 'prices', 'config'):
        if getattr(arguments, option):
            raise ConfigError(Problem(f'--{option}', f'{arguments.directory} is a benchmark: it has no such report.'))
    stored = StoredBench.load(arguments.directory)
    if page:
        write_page(page, bench_html(stored))
    elif arguments.csv:
        print(stored.read_csv(), end='')
    elif arguments.json:
        print_json({'settings': stored.settings, 'levels': stored.levels})
    else:
        bench_terminal(stored, terminal())


@contextmanager
def open_stored(directory: str | Path) -> Iterator[StoredRun]:
    """A run with something to report; at the end, which parts of it could not be read goes to stderr."""
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report import StoredRun

    with RunReader(directory) as archive:
        archive.refuse_if_nothing_is_whole()
        run = StoredRun(archive)
        yield run
        note_damage(run)


def note_damage(run: StoredRun) -> None:
    """Print to stderr which parts of a run could not be read, if any."""
    if run.damage:
        print_note(f'{run.title}: {run.damage}')


def _read_overrides(path: str | None) -> dict[str, Price]:
    from rolecall.models.prices import read_prices

    return read_prices(path) if path else {}


def show_scores(directory: str | Path, prices: str | None) -> None:
    """Print the scores of a run to the terminal."""
    from rolecall.ui.report import report_terminal

    with open_stored(directory) as run:
        report_terminal(run, terminal(), prices=run.prices(_read_overrides(prices)))


def _write_page(run: StoredRun, target: str, arguments: argparse.Namespace, prices: Mapping[str, Price | None]) -> None:
    from rolecall.runs.atomic import write_atomically
    from rolecall.ui.report import ConfigPreviews
    from rolecall.ui.report.page import build_page
    from rolecall.ui.report.slice_tables import RunSlices

    config = arguments.config
    with write_atomically(target) as part, open(part, 'w', encoding='utf-8') as page:
        previews = ConfigPreviews(config) if config else ConfigPreviews.of_stored(run.archive.config())
        slices = list(RunSlices.of(run.archive, arguments.by).tables())
        report_page = build_page(run, previews=previews, prices=prices, slices=slices)
        page.writelines(report_page.parts)
    if previews is not None and config:
        for (dataset, model), problem in previews.problems.items():
            print_note(f'{dataset} × {model}: shown without origins: {problem}')
    print_lines(filter(None, (report_page.headline, f'Wrote {target}')), to=sys.stderr)
