"""`rolecall run`: run a config, show progress, and print what to do next."""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rolecall.cli.options import add_selection_options, add_task_options, declare_command, task_options, whole_number
from rolecall.cli.report import show_report

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.runs import RunSummary

__all__ = ['add_run', 'run_command']

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')
_BETWEEN_COLLECTIONS = 20_000


def add_run(commands: Any) -> None:
    """Declare `rolecall run`."""
    parser = declare_command(
        commands,
        'run',
        'send every dataset to every model and score the answers',
        'Run a config, or resume the run in its directory: finished requests are not sent again.',
        '  rolecall run config.py --out runs/first\n'
        '  rolecall run config.py --out runs/first --dry-run     plan only: rows, tokens, price\n'
        '  rolecall run config.py --out runs/first --rerun failed\n'
        "  rolecall run config.py --dataset 'bbh-*' --model smollm2 --limit 20",
    )
    parser.set_defaults(run=_run)
    parser.add_argument('config', metavar='CONFIG', help='a config file')
    parser.add_argument('--out', metavar='DIR', help='run directory (default: runs/NAME_OF_CONFIG)')
    add_selection_options(parser)
    add_task_options(parser)
    parser.add_argument('--limit', metavar='N', type=whole_number, help='only the first N rows of each dataset')
    parser.add_argument('--rerun', nargs='+', choices=_OUTCOMES, default=[], help='resend rows with these outcomes')
    parser.add_argument(
        '--keep-going', action='store_true', help='run what can run; report at the end what could not, and exit with 1'
    )
    parser.add_argument('--dry-run', action='store_true', help='print the plan and stop')
    parser.add_argument('-q', '--quiet', action='store_true', help='print only scores and problems')


def _run(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.config.lm_eval import CATALOGUE, is_task_source

    out = Path(arguments.out or Path('runs') / Path(arguments.config.removeprefix(CATALOGUE)).stem)
    given: str | Mapping[str, Any] = arguments.config
    if is_task_source(arguments.config):
        from rolecall.cli.inputs import open_tasks

        given = open_tasks(arguments.config, task_options(arguments), models=arguments.models)
    code = run_command(
        given,
        shown=arguments.config,
        out=out,
        limit=arguments.limit,
        dataset=arguments.dataset,
        model=arguments.model,
        rerun=arguments.rerun,
        dry_run=arguments.dry_run,
        quiet=arguments.quiet,
        data=dict(arguments.data) or None,
        keep_going=arguments.keep_going,
    )
    if not arguments.dry_run and code in (0, 1):
        show_report(out)
        print(f'Every row: rolecall report {out} --html report.html --config {arguments.config}', file=sys.stderr)
    return code


def run_command(
    config: str | Path | Mapping[str, Any],
    *,
    shown: str = '',
    out: str | Path | None = None,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | None = None,
    rerun: Collection[str] = (),
    dry_run: bool = False,
    quiet: bool = False,
    data: Mapping[str, str] | None = None,
    keep_going: bool = False,
) -> int:
    """Run a config, `shown` by the name of its file. The exit code: 0, 1 if rows failed, 130 if interrupted."""
    from pathlib import Path

    from rolecall.runs import run_config
    from rolecall.strings import printable
    from rolecall.views.run_progress import progress_for

    name = shown or str(config)
    directory = Path(out) if out is not None else Path('runs') / Path(name).stem
    with _rare_collections():
        summary = run_config(
            config,
            out=directory,
            limit=limit,
            dataset=dataset,
            model=model,
            rerun=rerun,
            dry_run=dry_run,
            progress=progress_for(quiet=quiet),
            data=data,
            keep_going=keep_going,
        )
    for line in _next_steps(summary, name):
        print(printable(line), file=sys.stderr)
    return summary.exit_code


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Collect garbage less often: a run creates many objects and few cycles, which saves a tenth of its time."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_BETWEEN_COLLECTIONS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _next_steps(summary: RunSummary, config: str | Path) -> list[str]:
    from rolecall.strings import count_noun

    again = f'rolecall run {config} --out {summary.out}'
    left_out = [f'left out: {problem}' for problem in summary.skipped]
    if summary.dry:
        return [*left_out, 'Nothing was sent (dry run).']
    if summary.interrupted:
        return [f'Interrupted. Finished rows are kept; resume with: {again}']
    lines = [f'{model} was unreachable: {why}' for model, why in summary.broken.items()]
    if summary.broken:
        lines.append(f'Finished rows are kept; fix the problem and resume with: {again}')
    if failed := summary.outcomes.get('failed'):
        lines.append(f'{count_noun(failed, "row")} failed; retry with: {again} --rerun failed')
    if summary.unjudged:
        lines.append(f'{count_noun(summary.unjudged, "answer")} not judged; retry with: {again} --rerun failed')
    return [*left_out, *lines, f'Results are in {summary.out}.']
