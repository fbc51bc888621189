"""From a config and what was asked to see, to requests on the screen: one after the other, or two side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from rolecall.errors import ConfigError, Problem, RolecallError, did_you_mean
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import Task
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.ui.cli.inputs import OpenedConfig
from rolecall.ui.cli.selection import Selection, find_previews, open_pairs, select
from rolecall.ui.views.shapes import Shape
from rolecall.ui.views.tokens import count_tokens

if TYPE_CHECKING:
    from rolecall.models.tokenizers.tokenizer import Tokenizer


Complain = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class PreviewQuery:
    """Which requests to show."""

    dataset: str | None = None
    model: str | Sequence[str] | None = None
    rows: tuple[int, ...] = ()
    count: int | None = None
    label: str | None = None
    turn: int | None = None
    replies: Sequence[str] | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    judge: bool = False
    """Whether to show what the judge is asked about the answers, instead of what the model is asked."""

    def previews(self, pair: Pair) -> Iterator[Preview]:
        """The matching requests of one dataset × model."""
        return find_previews(
            pair, rows=self.rows, count=self.count, label=self.label, turn=self.turn, replies=self.replies
        )


def show_previews(
    opened: OpenedConfig,
    selection: Selection,
    query: PreviewQuery,
    shape: Shape,
    *,
    complain: Complain,
    tokens: bool = False,
    tokenizer: str | None = None,
) -> bool:
    """Show the requests of the selected datasets and models; False if some could not be shown."""
    tokenizers = _Tokenizers(tokenizer) if tokens else None
    complaints = _Complaints(complain)
    for pair in _open_selected(opened, selection, query, complaints):
        try:
            for preview in query.previews(pair):
                counted = None
                if tokenizers is not None:
                    counted = count_tokens(pair, preview, tokenizers.find(pair))
                shape.show(preview, counted)
        except RolecallError as error:
            complaints(str(error))
    return not complaints.seen


class _Complaints:
    """Passes each complaint on once: a problem of a dataset or a model recurs in every pair it belongs to."""

    def __init__(self, complain: Complain) -> None:
        self.seen: set[str] = set()
        self._complain = complain

    def __call__(self, complaint: str) -> None:
        if complaint not in self.seen:
            self.seen.add(complaint)
            self._complain(complaint)


def _open_selected(
    opened: OpenedConfig, selection: Selection, query: PreviewQuery, complain: Complain
) -> Iterator[Pair]:
    def on_failure(task: Task, error: RolecallError) -> None:
        complain(str(error) if isinstance(error, ConfigError) else f'{task.abbr}: {error}')

    pairs = open_pairs(selection, base=opened.base, data=query.data or None, on_failure=on_failure)
    return _open_judges(pairs, opened.plan.model_entries, complain) if query.judge else pairs


def _open_judges(pairs: Iterable[Pair], model_entries: Sequence[ModelEntry], complain: Complain) -> Iterator[Pair]:
    """Each dataset as its judges see it, whichever model answers; a complaint if no dataset has a judge."""
    from rolecall.experiment.opening.judges import find_judges
    from rolecall.experiment.pairs.judge_pair import JudgePair

    seen: set[str] = set()
    unjudged: list[str] = []
    for pair in pairs:
        if pair.task.where in seen:
            continue
        seen.add(pair.task.where)
        try:
            judges = find_judges(pair.task, model_entries)
        except RolecallError as error:
            complain(f'{pair.task.abbr}: {error}')
            continue
        if not judges:
            unjudged.append(pair.task.abbr)
        yield from (JudgePair(pair, judge) for judge in judges)
    if len(unjudged) == len(seen):
        for abbr in unjudged:
            complain(f'{abbr}: its evaluator does not ask a judge.')


class _Tokenizers:
    """Each model's tokenizer, or the one named on the command line, read once."""

    def __init__(self, named: str | None) -> None:
        self._named = named
        self._read: dict[str, Tokenizer] = {}

    def find(self, pair: Pair) -> Tokenizer:
        key = pair.model_entry.where if pair.model_entry and self._named is None else ''
        if key not in self._read:
            self._read[key] = _load_tokenizer(pair.model_entry, self._named)
        return self._read[key]


def _load_tokenizer(model_entry: ModelEntry | None, named: str | None) -> Tokenizer:
    from rolecall.models.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    if named is not None:
        return load_tokenizer(named)
    if model_entry is None:
        what = 'the config has no models, so there is no tokenizer.'
        raise ConfigError(Problem('models', what, 'Name one with --tokenizer.'))
    found = find_tokenizer(model_entry.entry)
    if found is None:
        remedy = 'Name one with --tokenizer: a tokenizer.json, a model folder, a .gguf file, or tiktoken:NAME.'
        what = "the model's tokenizer is not on this machine."
        raise ConfigError(Problem(f'{model_entry.where} ({model_entry.abbr})', what, remedy))
    return found


Both = tuple[tuple[OpenedConfig, Selection], tuple[OpenedConfig, Selection]]


def split_selection(opened: OpenedConfig, names: tuple[str, str], query: PreviewQuery) -> Both:
    """Two models for the same datasets, or two datasets for the same models, by their abbrs."""
    models = {model_entry.abbr for model_entry in opened.plan.model_entries}
    datasets = {task.abbr for task in opened.plan.tasks}
    if set(names) <= models:
        left, right = (select(opened.plan, dataset=query.dataset, model=_literal_pattern(name)) for name in names)
    elif set(names) <= datasets:
        left, right = (select(opened.plan, dataset=_literal_pattern(name), model=query.model) for name in names)
    else:
        unknown = next((name for name in names if name not in models | datasets), None)
        what = f'{unknown!r} is not a model or a dataset of this config, nor a file.'
        if unknown is None:
            what = f'{names[0]!r} and {names[1]!r}: one is a model and the other a dataset.'
        hint = did_you_mean(unknown or names[0], [*sorted(models), *sorted(datasets)])
        raise ConfigError(Problem('--diff', what, hint))
    return (opened, left), (opened, right)


def _literal_pattern(name: str) -> str:
    """A pattern that matches this name alone."""
    return ''.join(f'[{letter}]' if letter in '*?[' else letter for letter in name)


def show_differences(both: Both, query: PreviewQuery, shape: Shape) -> bool:
    """Show the requests of both beside each other; True if all of them are the same."""
    left, right = (_all_previews(opened, selection, query) for opened, selection in both)
    same = True
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            extra = one or other
            what = f'one has more requests than the other: {extra.dataset} × {extra.model}, row {extra.row}.'
            raise ConfigError(Problem('--diff', what))
        shape.compare(one, other)
        same = same and _request_of(one) == _request_of(other)
    return same


def _request_of(preview: Preview) -> object:
    return preview.prompt if preview.request is None else preview.request


def _all_previews(opened: OpenedConfig, selection: Selection, query: PreviewQuery) -> Iterator[Preview]:
    complaints: list[str] = []
    for pair in _open_selected(opened, selection, query, complaints.append):
        yield from query.previews(pair)
    if complaints:
        raise RolecallError('\n'.join(complaints))
