"""`rolecall view`: from a config and the user's wishes to requests on the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING

from rolecall.cli.picking import Chosen, choose, opened, wanted
from rolecall.cli.sources import Source
from rolecall.errors import ConfigError, Problem, RolecallError, did_you_mean
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair, Preview
from rolecall.pairs.tasks import Task
from rolecall.views.shapes import Shape
from rolecall.views.tokens import count_tokens

if TYPE_CHECKING:
    from rolecall.tokenizers.tokenizer import Tokenizer

__all__ = ['Wish', 'compare', 'sides_of_diff', 'view']

Complain = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Wish:
    """Which requests the user wants to see."""

    dataset: str | None = None
    model: str | None = None
    rows: tuple[int, ...] = ()
    count: int | None = None
    label: str | None = None
    turn: int | None = None
    replies: Sequence[str] | None = None
    data: Mapping[str, str] = field(default_factory=dict)

    def previews(self, pair: Pair) -> Iterator[Preview]:
        """What the user wants to see of one dataset × model."""
        return wanted(pair, rows=self.rows, count=self.count, label=self.label, turn=self.turn, replies=self.replies)


def view(
    source: Source,
    chosen: Chosen,
    wish: Wish,
    shape: Shape,
    *,
    complain: Complain,
    tokens: bool = False,
    tokenizer: str | None = None,
) -> bool:
    """Show what is wished for of the chosen datasets and models; False if some could not be shown."""
    tokenizers = _Tokenizers(tokenizer) if tokens else None
    complaints = _Once(complain)
    for pair in _opened(source, chosen, wish, complaints):
        try:
            for preview in wish.previews(pair):
                counted = None
                if tokenizers is not None:
                    counted = count_tokens(pair, preview, tokenizers.of(pair), replies=wish.replies)
                shape.show(preview, counted)
        except RolecallError as error:
            complaints(str(error))
    return not complaints.said


class _Once:
    """Complains of each thing once: what is wrong with a dataset or a model is wrong in every pair it is in."""

    def __init__(self, complain: Complain) -> None:
        self.said: set[str] = set()
        self._complain = complain

    def __call__(self, complaint: str) -> None:
        if complaint not in self.said:
            self.said.add(complaint)
            self._complain(complaint)


def _opened(source: Source, chosen: Chosen, wish: Wish, complain: Complain) -> Iterator[Pair]:
    def failed(task: Task, error: RolecallError) -> None:
        complain(str(error) if isinstance(error, ConfigError) else f'{task.abbr}: {error}')

    return opened(chosen, base=source.base, data=wish.data or None, failed=failed)


class _Tokenizers:
    """Each model's tokenizer, or the one that the user named, read once."""

    def __init__(self, named: str | None) -> None:
        self._named = named
        self._read: dict[str, Tokenizer] = {}

    def of(self, pair: Pair) -> Tokenizer:
        key = pair.model_entry.where if pair.model_entry and self._named is None else ''
        if key not in self._read:
            self._read[key] = _tokenizer(pair.model_entry, self._named)
        return self._read[key]


def _tokenizer(model_entry: ModelEntry | None, named: str | None) -> Tokenizer:
    from rolecall.tokenizers.tokenizer import find_tokenizer, load_tokenizer

    if named is not None:
        return load_tokenizer(named)
    if model_entry is None:
        what = 'the config has no model, so there is no tokenizer.'
        raise ConfigError(Problem('models', what, 'Name one with --tokenizer.'))
    found = find_tokenizer(model_entry.entry)
    if found is None:
        remedy = 'Name one with --tokenizer: a tokenizer.json, a model folder, a .gguf file, or tiktoken:NAME.'
        what = "the model's tokenizer is not on this machine."
        raise ConfigError(Problem(f'{model_entry.where} ({model_entry.abbr})', what, remedy))
    return found


Sides = tuple[tuple[Source, Chosen], tuple[Source, Chosen]]


def sides_of_diff(source: Source, names: tuple[str, str], wish: Wish) -> Sides:
    """Two models for the same datasets, or two datasets for the same models, by their abbrs."""
    models = {model_entry.abbr for model_entry in source.plan.model_entries}
    datasets = {task.abbr for task in source.plan.tasks}
    if set(names) <= models:
        left, right = (choose(source.plan, dataset=wish.dataset, model=_exactly(name)) for name in names)
    elif set(names) <= datasets:
        left, right = (choose(source.plan, dataset=_exactly(name), model=wish.model) for name in names)
    else:
        unknown = next((name for name in names if name not in models | datasets), None)
        what = f'{unknown!r} is no model and no dataset of this config, and no file.'
        if unknown is None:
            what = f'{names[0]!r} and {names[1]!r}: one is a model and the other a dataset.'
        hint = did_you_mean(unknown or names[0], [*sorted(models), *sorted(datasets)])
        raise ConfigError(Problem('--diff', what, hint))
    return (source, left), (source, right)


def _exactly(name: str) -> str:
    """A pattern that fits this name alone."""
    return ''.join(f'[{letter}]' if letter in '*?[' else letter for letter in name)


def compare(sides: Sides, wish: Wish, shape: Shape) -> bool:
    """Show what is wished for of both sides beside each other; True if all requests are the same."""
    left, right = (_all_previews(source, chosen, wish) for source, chosen in sides)
    same = True
    for one, other in zip_longest(left, right):
        if one is None or other is None:
            lonely = one or other
            raise ConfigError(
                Problem('--diff', f'one side has more to show: {lonely.dataset} × {lonely.model}, row {lonely.row}.')
            )
        shape.compare(one, other)
        same = same and _sent(one) == _sent(other)
    return same


def _sent(preview: Preview) -> object:
    return preview.prompt if preview.request is None else preview.request


def _all_previews(source: Source, chosen: Chosen, wish: Wish) -> Iterator[Preview]:
    complaints: list[str] = []
    for pair in _opened(source, chosen, wish, complaints.append):
        yield from wish.previews(pair)
    if complaints:
        raise RolecallError('\n'.join(complaints))
