"""List run directories with their scores.

List the run directories below a folder, newest first, each with its name, tags and scores. With WORDS, only those
whose path, name, note, tags, datasets or models contain all of them.

  rolecall runs list
  rolecall runs list gpt gsm8k                   of these words
  rolecall runs list --tag paper
  rolecall runs list experiments --json | jq .scores
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.output import fail, print_json, print_lines

if TYPE_CHECKING:
    from pathlib import Path

    from rolecall.runs.parts import PartDigests


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.runs.store.directory import FILE
    from rolecall.strings import count_noun

    folder = Path(arguments.folder)
    if not folder.exists() and '/' not in arguments.folder and Path('runs').is_dir():  # a word
        arguments.words.insert(0, arguments.folder)
        folder = Path('runs')
    if not folder.is_dir():
        return fail(f'{folder}: no such folder. rolecall run writes run directories below runs/ unless --out is given.')
    directories = [file.parent for file in folder.rglob(FILE)]
    if not directories:
        return fail(f'{folder}: no run directories found.')
    newest: dict[tuple[str, str], tuple[Path, PartDigests]] = {}
    in_order = [_describe(path, newest) for path in sorted(directories, key=_read_start)]
    chosen = [described for described in reversed(in_order) if _is_wanted(described, arguments)]
    if not chosen:
        return fail(f'{folder}: none of {count_noun(len(in_order), "run")} matches.')
    for described in chosen:
        directory = described['run']
        if arguments.json:
            print_json(described)
            continue
        tags = ' '.join(f'#{tag}' for tag in described['tags'])
        began = described['started'][:16].replace('T', ' ')
        heads = (directory, began, described['name'], tags, described.get('error', ''))
        hidden = sum(score['folded'] for score in described['scores'])
        lines = [score['line'] for score in described['scores'] if not score['folded']]
        folded = (
            [f'{count_noun(hidden, "score")} folded into groups: rolecall report {directory} --all'] if hidden else []
        )
        print_lines(['  '.join(filter(None, heads))])
        print_lines(f'  {line}' for line in (*described['note'].splitlines(), *lines, *folded, *described['waiting']))
    return 0


def _read_start(directory: Path) -> tuple[str, float]:
    """When a run began; where that cannot be read, when it was last written to."""
    from rolecall.errors import RolecallError
    from rolecall.runs.store.directory import FILE
    from rolecall.runs.store.run_reader import RunReader

    written = (directory / FILE).stat().st_mtime
    try:
        with RunReader(directory) as run:
            return run.created, written
    except RolecallError:
        return '', written


def _is_wanted(described: dict[str, Any], arguments: argparse.Namespace) -> bool:
    from rolecall.runs.store.labels import matches_words

    pairs = [score[key] for score in described['scores'] for key in ('dataset', 'model')]
    texts = [described['run'], described['name'], described['note'], *described['tags'], *pairs]
    return matches_words(' '.join(arguments.words), texts) and arguments.tag in (None, *described['tags'])


def _find_changes(before: tuple[Path, PartDigests] | None, parts: PartDigests) -> str:
    """Which parts differ from those of an earlier run of the same dataset × model; nothing if none does."""
    from rolecall.strings import join_words
    from rolecall.ui.views.chinese import translate_message

    differing = parts.list_differing(before[1]) if before is not None else []
    if before is None or not differing:
        return ''
    return f'; {translate_message(f"other {join_words(differing)} than {before[0]}")}'


def _describe(directory: Path, newest: dict[tuple[str, str], tuple[Path, PartDigests]]) -> dict[str, Any]:
    """A run's start and scores, or why it cannot be read; which parts differ from the `newest` run of the same pair."""
    from rolecall.errors import RolecallError
    from rolecall.insight.run_source import StoredRun
    from rolecall.runs.batches.ledger_reader import describe_waiting
    from rolecall.runs.parts import PartDigests
    from rolecall.runs.store.labels import RunNotes
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report.score_text import FOLD_FROM, grid_of
    from rolecall.ui.views.run_progress import score_line

    notes = RunNotes.read(directory).as_json()
    try:
        with RunReader(directory) as run:
            stored = StoredRun(run)
            grid, parts = grid_of(stored.scorecards()), stored.parts
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
            return {'run': str(directory), 'started': run.created, **notes, 'scores': scores, 'waiting': waiting}
    except RolecallError as error:
        return {'run': str(directory), 'started': '', **notes, 'scores': [], 'waiting': [], 'error': str(error)}
