"""Which datasets, models and rows are shown: by pattern, by number, or chosen from a menu."""

from __future__ import annotations

import fnmatch
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from rolecall.datasets.rows import count_skipped
from rolecall.errors import DataError, RolecallError
from rolecall.pairs.build import Plan
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair, Picking, Preview, fitting
from rolecall.pairs.tasks import Task
from rolecall.views.facts import counted

__all__ = ['Chosen', 'Quit', 'choose', 'choose_by_menu', 'opened', 'wanted']

_Named = TypeVar('_Named', Task, ModelEntry)
Ask = Callable[[str], str]
Say = Callable[[str], object]


class Quit(Exception):  # noqa: N818  # not an error: the user has seen enough
    """The user left the menu."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Some datasets and some models of a plan; every dataset meets every model."""

    tasks: tuple[Task, ...]
    model_entries: tuple[ModelEntry | None, ...]

    @property
    def pairs(self) -> int:
        """How many datasets × models this is."""
        return len(self.tasks) * len(self.model_entries)


def choose(plan: Plan, *, dataset: str | None = None, model: str | None = None) -> Chosen:
    """The datasets and models whose abbr fits the patterns. A config without models is shown as the dataset has it."""
    tasks = fitting(plan.tasks, dataset, 'dataset')
    model_entries: Sequence[ModelEntry | None] = fitting(plan.model_entries, model, 'model')
    return Chosen(tuple(tasks), tuple(model_entries) or (None,))


def choose_by_menu(chosen: Chosen, *, ask: Ask, say: Say) -> Chosen:
    """Let the user narrow a choice down, first by dataset, then by model."""
    tasks = _from_menu(chosen.tasks, 'dataset', ask, say)
    model_entries = [model_entry for model_entry in chosen.model_entries if model_entry is not None]
    return Chosen(tuple(tasks), tuple(_from_menu(model_entries, 'model', ask, say)) or (None,))


def _from_menu(named: Sequence[_Named], what: str, ask: Ask, say: Say) -> list[_Named]:
    if len(named) < 2:
        return list(named)
    width = len(str(len(named)))
    for number, one in enumerate(named, 1):
        say(f'  {number:>{width}}  {one.abbr}')
    while True:
        answer = ask(f'Which {what}? A number, a pattern, a for all, q to quit [1]: ').strip() or '1'
        if answer == 'q':
            raise Quit
        if found := _answered(named, answer):
            return found
        say(f'{answer!r} fits none of them.')


def _answered(named: Sequence[_Named], answer: str) -> list[_Named]:
    if answer == 'a':
        return list(named)
    if answer.isdecimal():
        return [named[int(answer) - 1]] if 0 < int(answer) <= len(named) else []
    return [one for one in named if fnmatch.fnmatchcase(one.abbr, answer)]


def opened(
    chosen: Chosen, *, base: Path | None, data: Mapping[str, str] | None, failed: Callable[[Task, RolecallError], None]
) -> Iterator[Pair]:
    """Each dataset × model, compiled one after the other. What cannot be opened is handed to `failed`."""
    for task in chosen.tasks:
        try:
            rows = task.open(base=base, data=data)
        except RolecallError as error:
            failed(task, error)
            continue
        picking = Picking(task, rows, keeps=len(chosen.model_entries) > 1)
        for model_entry in chosen.model_entries:
            yield Pair(task, model_entry, rows, picking=picking)
        if count := count_skipped(rows.test):
            said = f"{task.abbr}: {counted(count, 'malformed line')} left out, since the entry says on_error='skip'."
            print(f'rolecall: {said}', file=sys.stderr)


def wanted(
    pair: Pair,
    *,
    rows: Collection[int] = (),
    count: int | None = None,
    label: str | None = None,
    turn: int | None = None,
    replies: Sequence[str] | None = None,
) -> Iterator[Preview]:
    """The previews of one pair: of the rows with these numbers, or of the first `count` rows (one, if not said)."""
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
        raise DataError(_nothing(pair, label=label, turn=turn))


def _refuse_missing(pair: Pair, missing: Collection[int]) -> None:
    if missing:
        numbers = ', '.join(map(str, sorted(missing)))
        there = len(pair.data.test)
        raise DataError(f'{pair.task.abbr} has no row {numbers}: it has {there} rows, counted from 0.')


def _nothing(pair: Pair, *, label: str | None, turn: int | None) -> str:
    if not len(pair.data.test):
        return f'{pair.task.abbr} has no rows.'
    if label is not None:
        known = ', '.join(map(str, pair.task.labels)) or 'none'
        return f'{pair.task.abbr} has no label {label!r}. Its labels: {known}.'
    return f'{pair.task.abbr} is not asked for a turn {turn} in the rows shown.'
