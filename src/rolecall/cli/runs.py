"""`rolecall runs`: the run directories below a folder, with their scores."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rolecall.cli.options import declare_command, fail

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ['add_runs']


def add_runs(commands: Any) -> None:
    """Declare `rolecall runs`."""
    parser = declare_command(
        commands,
        'runs',
        'list run directories with their scores',
        'List the run directories below a folder, newest last, each with its scores.',
        '  rolecall runs\n  rolecall runs experiments --json | jq .scores',
    )
    parser.set_defaults(run=_list_runs)
    parser.add_argument('folder', metavar='DIR', nargs='?', default='runs', help='where to look (default: runs)')
    parser.add_argument('--json', action='store_true', help='one JSON object per run')


def _list_runs(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.strings import printable
    from rolecall.views.jsonl import json_line

    folder = Path(arguments.folder)
    if not folder.is_dir():
        return fail(f'{folder}: no such folder. rolecall run writes run directories below runs/ unless --out is given.')
    found = sorted(_find_runs(folder), key=lambda path: (path / 'run.sqlite').stat().st_mtime)
    if not found:
        return fail(f'{folder}: no run directories found.')
    for directory in found:
        described = _describe(directory)
        if arguments.json:
            print(json_line(described))
            continue
        print(printable(f'{directory}  {described["started"]}  {described.get("error", "")}'.rstrip()))
        for score in described['scores']:
            print(printable(f'  {score["line"]}'))
    return 0


def _find_runs(folder: Path) -> Iterator[Path]:
    from rolecall.runs.store.directory import FILE

    for file in folder.rglob(FILE):
        yield file.parent


def _describe(directory: Path) -> dict[str, Any]:
    """A run's start and scores; what keeps it from being read, if something does."""
    from rolecall.errors import RolecallError
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.views.run_progress import score_line

    try:
        with RunReader(directory) as run:
            scores = [
                {
                    **{name: getattr(card, name) for name in ('dataset', 'model', 'metric', 'value', 'low', 'high')},
                    **{name: getattr(card, name) for name in ('scored', 'total')},
                    'line': score_line(card),
                }
                for card in run.scorecards()
            ]
            return {'run': str(directory), 'started': run.created, 'scores': scores}
    except RolecallError as error:
        return {'run': str(directory), 'started': '', 'scores': [], 'error': str(error)}
