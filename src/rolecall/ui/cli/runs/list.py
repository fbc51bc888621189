"""`rolecall runs list`: the run directories below a folder, with their scores."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.languages import translate_message
from rolecall.ui.cli.options import declare_command, fail

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.runs.parts import PartDigests


def add_list(commands: Any) -> None:
    """Declare `rolecall runs list`."""
    parser = declare_command(
        commands,
        'list',
        'list run directories with their scores',
        'List the run directories below a folder, newest last, each with its scores.',
        '  rolecall runs list\n  rolecall runs list experiments --json | jq .scores',
    )
    parser.set_defaults(run=_list_runs)
    parser.add_argument('folder', metavar='DIR', nargs='?', default='runs', help='where to look (default: runs)')
    parser.add_argument('--json', action='store_true', help='one JSON object per run')


def _list_runs(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.experiment.previews.jsonl import json_line
    from rolecall.strings import count_noun, printable, wrap_for

    folder = Path(arguments.folder)
    if not folder.is_dir():
        return fail(f'{folder}: no such folder. rolecall run writes run directories below runs/ unless --out is given.')
    directories = sorted(_find_runs(folder), key=lambda path: (path / 'run.sqlite').stat().st_mtime)
    if not directories:
        return fail(f'{folder}: no run directories found.')
    newest: dict[tuple[str, str], tuple[Path, PartDigests]] = {}
    for directory in directories:
        described = _describe(directory, newest)
        if arguments.json:
            print(json_line(described))
            continue
        print(printable(f'{directory}  {described["started"]}  {described.get("error", "")}'.rstrip()))
        hidden = sum(score['folded'] for score in described['scores'])
        lines = [score['line'] for score in described['scores'] if not score['folded']]
        folded = (
            [f'{count_noun(hidden, "score")} folded into groups: rolecall report {directory} --all'] if hidden else []
        )
        for line in (*lines, *folded, *described['waiting']):
            print(wrap_for(sys.stdout, printable(translate_message(f'  {line}'))))
    return 0


def _find_runs(folder: Path) -> Iterator[Path]:
    from rolecall.runs.store.directory import FILE

    for file in folder.rglob(FILE):
        yield file.parent


def _find_changes(before: tuple[Path, PartDigests] | None, parts: PartDigests) -> str:
    """Which parts differ from those of an earlier run of the same dataset × model; nothing if none does."""
    from rolecall.strings import join_words

    differing = parts.find_differing(before[1]) if before is not None else []
    return f'; other {join_words(differing)} than {before[0]}' if before is not None and differing else ''


def _describe(directory: Path, newest: dict[tuple[str, str], tuple[Path, PartDigests]]) -> dict[str, Any]:
    """A run's start and scores, or why it cannot be read; which parts differ from the `newest` run of the same pair."""
    from rolecall.errors import RolecallError
    from rolecall.insight.run_source import StoredRun, find_parts
    from rolecall.runs.batches.ledger_reader import describe_waiting
    from rolecall.runs.parts import PartDigests
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report.score_text import FOLD_FROM, grid_of
    from rolecall.ui.views.run_progress import score_line

    try:
        with RunReader(directory) as run:
            stored = StoredRun(run)
            grid, parts = grid_of(stored.scorecards()), find_parts(stored)
            differing = {names: _find_changes(newest.get(names), digests) for names, digests in parts.items()}
            newest |= {names: (directory, digests) for names, digests in parts.items()}
            members = {line[0] for line in grid.groups}
            fold = len(members) >= FOLD_FROM
            scores = [
                {
                    **{name: getattr(card, name) for name in ('dataset', 'model', 'metric', 'value', 'low', 'high')},
                    **{name: getattr(card, name) for name in ('scored', 'total')},
                    'line': f'{score_line(card)}{differing.get((card.dataset, card.model), "")}',
                    'parts': parts.get((card.dataset, card.model), PartDigests()).as_dict(),
                    'folded': fold and card.dataset in members,
                }
                for card in grid.cards_in_order()
            ]
            waiting = describe_waiting(directory)
            return {'run': str(directory), 'started': run.created, 'scores': scores, 'waiting': waiting}
    except RolecallError as error:
        return {'run': str(directory), 'started': '', 'scores': [], 'waiting': [], 'error': str(error)}
