"""Selects the requests that `view` shows, by pattern, number or menu, one by one or side by side."""

from __future__ import annotations

import fnmatch
import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import TYPE_CHECKING, TypeVar

from rolecall.errors import ConfigError, DataError, Problem, RolecallError, did_you_mean
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.sources.datasets.rows import count_skipped
from rolecall.strings import count_noun, printable
from rolecall.ui.cli.output import print_note
from rolecall.ui.views.shapes import Shape
from rolecall.ui.views.tokens import count_tokens

if TYPE_CHECKING:
    from rolecall.models.tokenizers.tokenizer import Tokenizer

_Named = TypeVar('_Named', TaskEntry, ModelEntry)
Ask = Callable[[str], str]
Say = Callable[[str], object]
Complain = Callable[[str], object]


class Quit(Exception):  # noqa: N818  # not an error: the user is done
    """The user left the menu."""


def select_by_menu(experiment: Experiment, *, ask: Ask, say: Say) -> Experiment:
    """Let the user narrow an experiment down, first by dataset, then by model."""
    tasks = _ask_which(experiment.tasks, 'dataset', ask, say)
    return replace(experiment, tasks=tuple(tasks), models=tuple(_ask_which(experiment.models, 'model', ask, say)))


def _ask_which(named: Sequence[_Named], what: str, ask: Ask, say: Say) -> list[_Named]:
    if len(named) < 2:
        return list(named)
    width = len(str(len(named)))
    for number, item in enumerate(named, 1):
        say(f'  {number:>{width}}  {printable(item.abbr)}')
    while True:
        answer = ask(f'Which {what}? A number, a pattern, a for all, q to quit [1]: ').strip() or '1'
        if answer == 'q':
            raise Quit
        if matches := _match_answer(named, answer):
            return matches
        say(f'{answer!r} matches none of them.')


def _match_answer(named: Sequence[_Named], answer: str) -> list[_Named]:
    if answer == 'a':
        return list(named)
    if answer.isdecimal():
        return [named[int(answer) - 1]] if 0 < int(answer) <= len(named) else []
    return [item for item in named if fnmatch.fnmatchcase(item.abbr, answer)]


def open_pairs(experiment: Experiment, *, on_failure: Callable[[TaskEntry, RolecallError], None]) -> Iterator[Pair]:
    """Each dataset × model, compiled one after the other. Datasets that cannot be opened go to `on_failure`."""
    for task in experiment.tasks:
        try:
            pairs = experiment.pairs_of(task)
        except RolecallError as error:
            on_failure(task, error)
            continue
        for pair in pairs:
            yield pair
        if count := count_skipped(pair.data.test):
            print_note(f"{task.abbr}: {count_noun(count, 'malformed line')} skipped (on_error='skip').")


@dataclass(frozen=True, slots=True)
class PreviewQuery:
    """Which requests of a dataset × model to show."""

    rows: tuple[int, ...] = ()
    """Rows by number; otherwise the first `count` of them."""
    count: int | None = None
    label: str | None = None
    turn: int | None = None
    replies: Sequence[str] | None = None
    judge: bool = False
    """Whether to show the judge's requests instead of the model's."""

    def previews(self, pair: Pair) -> Iterator[Preview]:
        """The matching requests."""
        limit = max(self.rows) + 1 if self.rows else 1 if self.count is None else self.count
        missing = set(self.rows)
        matched = False
        for number, row, picked in pair.rows(limit):
            if self.rows and number not in self.rows:
                continue
            missing.discard(number)
            for preview in pair.previews(number, row, picked, replies=self.replies):
                if self.label is not None and str(preview.label) != self.label:
                    continue
                if self.turn is not None and preview.turn != self.turn:
                    continue
                matched = True
                yield preview
        if missing:
            numbers = ', '.join(map(str, sorted(missing)))
            has = count_noun(len(pair.data.test), 'row')
            raise DataError(f'{pair.task.abbr} has no row {numbers}: it has {has}, numbered from 0.')
        if not matched and limit:
            raise DataError(_describe_nothing(pair, label=self.label, turn=self.turn))


def _describe_nothing(pair: Pair, *, label: str | None, turn: int | None) -> str:
    if not len(pair.data.test):
        return f'{pair.task.abbr} has no rows.'
    if label is not None:
        labels = ', '.join(map(str, pair.task.labels)) or 'none'
        return f'{pair.task.abbr} has no label {label!r}. Its labels: {labels}.'
    return f'{pair.task.abbr} has no turn {turn} in these rows.'


def show_previews(
    experiment: Experiment,
    query: PreviewQuery,
    shape: Shape,
    *,
    complain: Complain,
    tokens: bool = False,
    tokenizer: str | None = None,
) -> bool:
    """Show the requests of the selected datasets and models; False if some could not be shown."""
    loaded: dict[str, Tokenizer] = {}
    reported: set[str] = set()

    def complain_once(complaint: str) -> None:  # a problem of a dataset or a model recurs in every pair it belongs to
        if complaint not in reported:
            reported.add(complaint)
            complain(complaint)

    for pair in _open_selected(experiment, query, complain_once):
        try:
            for preview in query.previews(pair):
                counted = None
                if tokens:
                    key = pair.model_entry.where if pair.model_entry and tokenizer is None else ''
                    if key not in loaded:
                        loaded[key] = _load_tokenizer(pair.model_entry, tokenizer)
                    counted = count_tokens(pair, preview, loaded[key])
                shape.show(preview, counted)
        except RolecallError as error:
            complain_once(str(error))
    return not reported


def _open_selected(experiment: Experiment, query: PreviewQuery, complain: Complain) -> Iterator[Pair]:
    def on_failure(task: TaskEntry, error: RolecallError) -> None:
        complain(str(error) if isinstance(error, ConfigError) else f'{task.abbr}: {error}')

    pairs = open_pairs(experiment, on_failure=on_failure)
    return _open_judges(pairs, experiment.all_models, complain) if query.judge else pairs


def _open_judges(pairs: Iterable[Pair], model_entries: Sequence[ModelEntry], complain: Complain) -> Iterator[Pair]:
    """Each dataset as its judges see it, whichever model answers; a complaint if no dataset has a judge."""
    from rolecall.experiment.opening.judges import find_judges
    from rolecall.experiment.pairs.judge_pair import JudgePair

    reported: set[str] = set()
    unjudged: list[str] = []
    for pair in pairs:
        if pair.task.where in reported:
            continue
        reported.add(pair.task.where)
        try:
            judges = find_judges(pair.task, model_entries)
        except RolecallError as error:
            complain(f'{pair.task.abbr}: {error}')
            continue
        if not judges:
            unjudged.append(pair.task.abbr)
        yield from (JudgePair(pair, judge) for judge in judges)
    if len(unjudged) == len(reported):
        for abbr in unjudged:
            complain(f'{abbr}: its evaluator does not ask a judge.')


def _load_tokenizer(model_entry: ModelEntry | None, named: str | None) -> Tokenizer:
    from rolecall.models.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    if named is not None:
        return load_tokenizer(named)
    if model_entry is None:
        what = 'the config has no models, so there is no tokenizer.'
        raise ConfigError(Problem('models', what, 'Name one with --tokenizer.'))
    tokenizer = find_tokenizer(model_entry.entry)
    if tokenizer is None:
        remedy = 'Name one with --tokenizer: a tokenizer.json, a model folder, a .gguf file, or tiktoken:NAME.'
        what = "the model's tokenizer is not on this machine."
        raise ConfigError(Problem(f'{model_entry.where} ({model_entry.abbr})', what, remedy))
    return tokenizer


def split_selection(experiment: Experiment, names: tuple[str, str]) -> tuple[Experiment, Experiment]:
    """Two models for the same datasets, or two datasets for the same models, by their abbrs."""
    models = {model.abbr for model in experiment.all_models}
    datasets = {task.abbr for task in experiment.all_tasks}
    patterns = [glob.escape(name) for name in names]
    if set(names) <= models:
        left, right = (experiment.select(model=pattern) for pattern in patterns)
    elif set(names) <= datasets:
        left, right = (experiment.select(dataset=pattern) for pattern in patterns)
    else:
        unknown = next((name for name in names if name not in models | datasets), None)
        what = f'{unknown!r} is not a model or a dataset of this config, nor a file.'
        if unknown is None:
            what = f'{names[0]!r} and {names[1]!r}: one is a model and the other a dataset.'
        hint = did_you_mean(unknown or names[0], [*sorted(models), *sorted(datasets)])
        raise ConfigError(Problem('--diff', what, hint))
    return left, right


def show_differences(both: Sequence[Experiment], query: PreviewQuery, shape: Shape) -> bool:
    """Show the requests of both beside each other; True if all of them are the same."""
    left, right = (_all_previews(experiment, query) for experiment in both)
    same = True
    for before, after in zip_longest(left, right):
        if before is None or after is None:
            extra = before or after
            what = f'one has more requests than the other: {extra.dataset} × {extra.model}, row {extra.row}.'
            raise ConfigError(Problem('--diff', what))
        shape.compare(before, after)
        same = same and _request_of(before) == _request_of(after)
    return same


def _request_of(preview: Preview) -> object:
    return preview.prompt if preview.request is None else preview.request


def _all_previews(experiment: Experiment, query: PreviewQuery) -> Iterator[Preview]:
    complaints: list[str] = []
    for pair in _open_selected(experiment, query, complaints.append):
        yield from query.previews(pair)
    if complaints:
        raise RolecallError('\n'.join(complaints))
