"""Scores of parts of a dataset: by a column of its rows, by length, by the place of the answer, and by class."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.core.render.spans import texts_of
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.insight.pairing import PairedScores, pair_results
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.paired_ranking import adjust_p_values
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.statistics import cluster_sums, clustered_wilson, mean_interval
from rolecall.sources.datasets.columns import flatten
from rolecall.strings import count_noun

_PARTS = 4
"""Into how many parts of equal size rows are divided by a number."""
_MOST_VALUES = 50
_MOST_CLASSES = 30
_LONG = 40
_LETTER = re.compile(r'\s*\(?([A-Z])\)?[.:]?\s*')
LENGTH, POSITION, CLASS = 'length', 'answer_position', 'class'
"""Words that `--by` knows beside the columns: the prompt's length, which option is right, the gold answer."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The score of the rows of one dataset × model that have the same value in a column."""

    dataset: str
    model: str
    column: str
    value: str
    rows: int
    score: float | None
    """The mean of the rows' scores, from 0 to 1 where they are right or wrong."""
    low: float | None
    high: float | None

    @property
    def name(self) -> str:
        return f'{self.column}={self.value}'


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How one class of answers was told from the others."""

    label: str
    gold: int
    """Rows whose gold answer it is."""
    predicted: int
    right: int

    @property
    def precision(self) -> float | None:
        return self.right / self.predicted if self.predicted else None

    @property
    def recall(self) -> float | None:
        return self.right / self.gold if self.gold else None

    @property
    def f1(self) -> float | None:
        return 2 * self.right / (self.gold + self.predicted) if self.gold + self.predicted else None


@dataclass(frozen=True, slots=True)
class Confusion:
    """Gold answers against what was read, for a dataset × model whose answers are a few classes."""

    dataset: str
    model: str
    counts: Mapping[tuple[str, str], int]
    """By gold answer and answer; an answer that could not be read is the empty text."""

    @property
    def labels(self) -> list[str]:
        """The classes, the gold ones first."""
        golds = dict.fromkeys(sorted({gold for gold, _ in self.counts}))
        return list(golds | dict.fromkeys(sorted({answer for _, answer in self.counts})))

    @property
    def classes(self) -> list[ClassScore]:
        golds, answers = Counter[str](), Counter[str]()
        for (gold, answer), rows in self.counts.items():
            golds[gold] += rows
            answers[answer] += rows
        return [
            ClassScore(label, golds[label], answers[label], self.counts.get((label, label), 0))
            for label in self.labels
            if label
        ]

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the gold classes."""
        scores = [each.f1 or 0.0 for each in self.classes if each.gold]
        return sum(scores) / len(scores)

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        counts = [{'gold': gold, 'answer': answer, 'rows': rows} for (gold, answer), rows in self.counts.items()]
        classes = [
            asdict(each) | {'precision': each.precision, 'recall': each.recall, 'f1': each.f1} for each in self.classes
        ]
        return {'dataset': self.dataset, 'model': self.model, 'counts': counts, 'classes': classes}


@dataclass(frozen=True, slots=True)
class SliceChange:
    """A slice under two runs. `p` is corrected (Holm) for the number of slices that were looked at."""

    column: str
    value: str
    paired: PairedScores
    p: float | None = None


class Slicer:
    """Finds the slice that a row of a run belongs to, for each column that was asked for."""

    def __init__(self, reader: RunReader, by: Sequence[str]) -> None:
        self._reader = reader
        self.by = list(dict.fromkeys(by))
        self._in_tokens = LENGTH in self.by and any(result.input_tokens is not None for result in reader.results())
        self._name_value = self._divide()

    def values(self, result: Result) -> Iterator[tuple[str, str]]:
        """The columns and what the row has there."""
        for column, value in self._values_of(result, self._fields(result)):
            if (name := self._name_value[column](value)) is not None:
                yield column, name

    def _fields(self, result: Result) -> dict[str, Any]:
        return flatten(self._reader.fields(result.dataset, result.row))

    def _values_of(self, result: Result, fields: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for column in self.by:
            if column in fields:
                value = fields[column]
            elif column == LENGTH:
                value = self._length(result)
            else:
                find = _FINDERS.get(column)
                value = find(result, fields) if find is not None else None
            if value is not None and value == value:  # NaN is a number that is missing
                yield column, value

    def _length(self, result: Result) -> int | None:
        """How long the prompt is: in tokens, or in characters if no reply of the run says how many."""
        if self._in_tokens:
            return result.input_tokens
        request = self._reader.request(result.fingerprint)
        return None if request is None else sum(map(len, texts_of(request).values()))

    def _divide(self) -> dict[str, Callable[[Any], str | None]]:
        """How the values of each column are named: as they are, or by the part of the range that a number lies in."""
        values: dict[str, list[Any]] = {column: [] for column in self.by}
        columns: dict[str, Any] = dict.fromkeys((LENGTH, *_FINDERS))
        for result in self._reader.results():
            fields = self._fields(result)
            columns |= dict.fromkeys(fields)
            for column, value in self._values_of(result, fields):
                values[column].append(value)
        for column in (column for column in self.by if not values[column]):
            what = f'no row has {column!r}.'
            raise ConfigError(Problem('by', what, did_you_mean(column, [name for name in columns if name != column])))
        return {column: _name_values(column, values[column]) for column in self.by}


def _name_values(column: str, values: Sequence[Any]) -> Callable[[Any], str | None]:
    distinct = {text_of(value) for value in values}
    if len(distinct) > 2 * _PARTS:
        numbers = [number for value in values if (number := _read_number(value)) is not None]
        if len(numbers) + values.count('') == len(values):  # an empty cell of a CSV file is a missing number
            name = _name_parts(sorted(numbers))
            return lambda value: None if (number := _read_number(value)) is None else name(number)
    if len(distinct) > _MOST_VALUES:
        what = f'{column!r} has {count_noun(len(distinct), "value")}, too many to compare.'
        raise ConfigError(Problem('by', what, 'Name a column with fewer values, or of numbers.'))
    return lambda value: text_of(value)[:_LONG]


def can_divide(values: Sequence[Any]) -> bool:
    """Whether a column with these first values divides rows: values return, or are numbers.

    >>> can_divide(['en', 'de', 'en', 'fr', 'de']), can_divide(['Who?', 'Where?', 'When?', 'Why?', 'How?'])
    (True, False)
    """
    distinct = {text_of(value) for value in values}
    return len(distinct) < max(len(values), _PARTS) or all(_read_number(value) is not None for value in values)


def _read_number(value: Any) -> float | None:
    """A number, or a text that is one, as all numbers of a CSV file are."""
    if isinstance(value, str):
        return number_of(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _name_parts(numbers: Sequence[float]) -> Callable[[Any], str]:
    """Parts of equal size of a range of numbers.

    >>> name = _name_parts([1, 2, 3, 4, 5, 6, 7, 8])
    >>> name(1), name(8)
    ('1 to 2', '7 to 8')
    """
    edges = sorted({numbers[len(numbers) * part // _PARTS] for part in range(_PARTS)})
    places = [(number, bisect_right(edges, number) - 1) for number in numbers]
    spans = {place: [number for number, _ in group] for place, group in groupby(places, key=lambda pair: pair[1])}
    names = {place: f'{span[0]:g} to {span[-1]:g}' for place, span in spans.items()}
    return lambda value: names[max(0, bisect_right(edges, value) - 1)]


def _find_position(result: Result, fields: Mapping[str, Any]) -> str | None:
    """Which option is the right one: its letter, or its place among the row's choices."""
    gold = text_of(result.gold) if result.gold is not None else ''
    if letter := _LETTER.fullmatch(gold):
        return letter[1]
    for value in fields.values():
        if isinstance(value, list | tuple) and len(value) > 1:
            texts = [text_of(option) for option in value]
            if gold in texts:
                return str(texts.index(gold) + 1)
    return None


_FINDERS: Mapping[str, Callable[[Result, Mapping[str, Any]], Any]] = {
    POSITION: _find_position,
    CLASS: lambda result, fields: None if result.gold is None else _name_class(result.gold),
}


def slice_run(reader: RunReader, by: Sequence[str]) -> list[Slice]:
    """The scores of a run by each of some columns."""
    slicer = Slicer(reader, by)
    slices: list[Slice] = []
    for dataset, model in reader.pairs():
        groups: dict[tuple[str, str], list[Result]] = defaultdict(list)
        for result in reader.results(dataset, model):
            for place in slicer.values(result):
                groups[place].append(_without_texts(result))
        ordered = sorted(groups, key=lambda place: (slicer.by.index(place[0]), _sort_key(place[1])))
        slices += [_score(dataset, model, *place, groups[place]) for place in ordered]
    return slices


def _sort_key(value: str) -> tuple[float, str]:
    number = re.match(r'-?\d+(?:\.\d+)?', value)
    return (float(number[0]) if number else float('inf'), value)


def _score(dataset: str, model: str, column: str, value: str, results: Sequence[Result]) -> Slice:
    scored = [(result.score, result.cluster) for result in results if result.score is not None]
    if not scored:
        return Slice(dataset, model, column, value, 0, None, None, None)
    scores, clusters = zip(*scored, strict=True)
    sums = cluster_sums(scores, clusters)
    interval = clustered_wilson(sums) if {*scores} <= {0.0, 1.0} else mean_interval(sums)
    low, high = interval or (None, None)
    return Slice(dataset, model, column, value, len(scored), sum(scores) / len(scored), low, high)


def find_confusions(reader: RunReader) -> list[Confusion]:
    """Of each dataset × model whose gold answers are a few classes, which were taken for which."""
    confusions = []
    for dataset, model in reader.pairs():
        counts: Counter[tuple[str, str]] = Counter()
        for result in reader.results(dataset, model):
            if result.gold is not None and result.score is not None:
                answer = result.gold if result.correct else result.extracted
                counts[_name_class(result.gold), '' if answer is None else _name_class(answer)] += 1
            if len({gold for gold, _ in counts}) > _MOST_CLASSES:
                break
        golds = {gold for gold, _ in counts}
        if 2 <= len(golds) <= _MOST_CLASSES and counts.total() >= 3 * len(golds):
            confusions.append(Confusion(dataset, model, _merge_strange(counts, golds)))
    if not confusions:
        what = f'no dataset has 2 to {_MOST_CLASSES} different gold answers, each in three rows on average.'
        raise ConfigError(Problem('by class', what, 'Name a column of the rows instead.'))
    return confusions


def _name_class(value: Any) -> str:
    return text_of(value).strip()[:_LONG]


def _merge_strange(counts: Mapping[tuple[str, str], int], golds: set[str]) -> dict[tuple[str, str], int]:
    """The counts with all answers that are no class put together."""
    merged: Counter[tuple[str, str]] = Counter()
    other = 'other' if 'other' not in golds else '(no class)'
    for (gold, answer), rows in counts.items():
        merged[gold, answer if answer in golds or not answer else other] += rows
    return dict(merged)


def compare_slices(left: RunReader, right: RunReader, by: Sequence[str]) -> list[SliceChange]:
    """Two runs by the columns of the first one's rows: the surest changes first, p corrected for how many there are."""
    slicer = Slicer(left, by)
    places: dict[tuple[str, int], list[tuple[str, str]]] = {}
    sides: list[dict[tuple[str, str], list[Result]]] = [defaultdict(list), defaultdict(list)]
    for run, slices in zip((left, right), sides, strict=True):
        for result in run.results():
            row = (result.dataset, result.row)
            if run is left and row not in places:
                places[row] = list(slicer.values(result))
            for place in places.get(row, ()):
                slices[place].append(_without_texts(result))
    changes = [
        SliceChange(*place, pair, pair.p)
        for place in sorted(sides[0])
        for pair in pair_results(sides[0][place], sides[1][place]).pairs
        if pair.n
    ]
    adjusted = adjust_p_values([1.0 if change.p is None else change.p for change in changes])
    changes = [replace(change, p=p) for change, p in zip(changes, adjusted, strict=True)]
    return sorted(changes, key=lambda change: (change.p or 0.0, -abs(change.paired.difference or 0.0)))


def _without_texts(result: Result) -> Result:
    return replace(result, prediction=None, replies=(), reasoning=())
