"""Which datasets, models and rows a command works on: by pattern, by number, or chosen from a menu."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rolecall.errors import DataError, RolecallError
from rolecall.experiment.opening.entries import Entries
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import Task
from rolecall.experiment.pairs.pair import Pair, Picking, Preview, match_abbr
from rolecall.sources.datasets.rows import count_skipped
from rolecall.strings import count_noun, printable
from rolecall.ui.cli.options import print_note

_Named = TypeVar('_Named', Task, ModelEntry)
Ask = Callable[[str], str]
Say = Callable[[str], object]


class Quit(Exception):  # noqa: N818  # not an error: the user is done
    """The user left the menu."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Some datasets and some models of a plan; every dataset meets every model."""

    tasks: tuple[Task, ...]
    model_entries: tuple[ModelEntry | None, ...]

    @property
    def pairs(self) -> int:
        """The number of dataset × model pairs."""
        return len(self.tasks) * len(self.model_entries)


def select(plan: Entries, *, dataset: str | None = None, model: str | Sequence[str] | None = None) -> Selection:
    """The datasets and models whose abbr matches. Without models, prompts are shown as the dataset words them."""
    tasks = match_abbr(plan.tasks, dataset, 'dataset')
    model_entries: Sequence[ModelEntry | None] = match_abbr(plan.model_entries, model, 'model')
    return Selection(tuple(tasks), tuple(model_entries) or (None,))


def select_by_menu(selection: Selection, *, ask: Ask, say: Say) -> Selection:
    """Let the user narrow a selection down, first by dataset, then by model."""
    tasks = _ask_which(selection.tasks, 'dataset', ask, say)
    model_entries = [model_entry for model_entry in selection.model_entries if model_entry is not None]
    return Selection(tuple(tasks), tuple(_ask_which(model_entries, 'model', ask, say)) or (None,))


def _ask_which(named: Sequence[_Named], what: str, ask: Ask, say: Say) -> list[_Named]:
    if len(named) < 2:
        return list(named)
    width = len(str(len(named)))
    for number, one in enumerate(named, 1):
        say(f'  {number:>{width}}  {printable(one.abbr)}')
    while True:
        answer = ask(f'Which {what}? A number, a pattern, a for all, q to quit [1]: ').strip() or '1'
        if answer == 'q':
            raise Quit
        if found := _match_answer(named, answer):
            return found
        say(f'{answer!r} matches none of them.')


def _match_answer(named: Sequence[_Named], answer: str) -> list[_Named]:
    if answer == 'a':
        return list(named)
    if answer.isdecimal():
        return [named[int(answer) - 1]] if 0 < int(answer) <= len(named) else []
    return [one for one in named if fnmatch.fnmatchcase(one.abbr, answer)]


def open_pairs(
    selection: Selection,
    *,
    base: Path | None,
    data: Mapping[str, str] | None,
    on_failure: Callable[[Task, RolecallError], None],
) -> Iterator[Pair]:
    """Each dataset × model, compiled one after the other. Datasets that cannot be opened go to `on_failure`."""
    for task in selection.tasks:
        try:
            rows = task.open(base=base, data=data)
        except RolecallError as error:
            on_failure(task, error)
            continue
        picking = Picking(task, rows, keeps=len(selection.model_entries) > 1)
        for model_entry in selection.model_entries:
            yield Pair(task, model_entry, rows, picking=picking)
        if count := count_skipped(rows.test):
            print_note(f"{task.abbr}: {count_noun(count, 'malformed line')} skipped (on_error='skip').")


def find_previews(
    pair: Pair,
    *,
    rows: Collection[int] = (),
    count: int | None = None,
    label: str | None = None,
    turn: int | None = None,
    replies: Sequence[str] | None = None,
) -> Iterator[Preview]:
    """The previews of one pair: of the rows with these numbers, or of the first `count` rows (default: one)."""
    limit = max(rows) + 1 if rows else 1 if count is None else count
    missing = set(rows)
    found = False
    for number, row, picked in pair.rows(limit):
        if rows and number not in rows:
            continue
        missing.discard(number)
        for preview in pair.previews(number, row, picked, replies=replies):
            if label is not None and str(preview.label) != label:
                continue
            if turn is not None and preview.turn != turn:
                continue
            found = True
            yield preview
    _refuse_missing(pair, missing)
    if not found and limit:
        raise DataError(_describe_nothing(pair, label=label, turn=turn))


def _refuse_missing(pair: Pair, missing: Collection[int]) -> None:
    if missing:
        numbers = ', '.join(map(str, sorted(missing)))
        has = count_noun(len(pair.data.test), 'row')
        raise DataError(f'{pair.task.abbr} has no row {numbers}: it has {has}, numbered from 0.')


def _describe_nothing(pair: Pair, *, label: str | None, turn: int | None) -> str:
    if not len(pair.data.test):
        return f'{pair.task.abbr} has no rows.'
    if label is not None:
        known = ', '.join(map(str, pair.task.labels)) or 'none'
        return f'{pair.task.abbr} has no label {label!r}. Its labels: {known}.'
    return f'{pair.task.abbr} has no turn {turn} in these rows.'
