"""Rank the models of one run by paired tests on the rows that all answered. Models that do not differ tie."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TypeVar

from rolecall.scoring.statistics import compare_paired

_LEVEL = 0.05
_Key = TypeVar('_Key', bound=Hashable)


@dataclass(frozen=True, slots=True)
class PairedRow:
    """One model's score of a row, with the cluster the row belongs to."""

    score: float
    correct: bool | None = None
    cluster: str | None = None


@dataclass(frozen=True, slots=True)
class ModelPair:
    """The difference of two models on the rows both were scored on; `adjusted` is p after Holm's correction."""

    better: str
    worse: str
    difference: float
    low: float | None
    """The bounds of the difference; None where there are too few clusters for any."""
    high: float | None
    p: float
    adjusted: float
    rows: int
    test: str

    @property
    def told_apart(self) -> bool:
        return self.adjusted < _LEVEL


@dataclass(frozen=True, slots=True)
class Place:
    """A model's rank, which it shares with those it cannot be told apart from: `1`, or `2–3`."""

    model: str
    value: float
    best: int
    worst: int

    @property
    def rank(self) -> str:
        return str(self.best) if self.best == self.worst else f'{self.best}–{self.worst}'


@dataclass(frozen=True, slots=True)
class Ranking:
    """The models from best to worst, every pair of them, and how many rows they share."""

    places: tuple[Place, ...]
    pairs: tuple[ModelPair, ...]
    rows: int


def rank_models(scores: Mapping[str, Mapping[_Key, PairedRow]], *, lower_is_better: bool = False) -> Ranking:
    """Rank models by their mean over the rows that all of them were scored on.

    A model's best rank is one more than the number of significantly better models; its worst rank leaves room for the
    significantly worse ones.

    >>> def model(right):
    ...     return {row: PairedRow(float(row < right), row < right) for row in range(200)}
    >>> ranked = rank_models({'a': model(120), 'b': model(180), 'c': model(119)})
    >>> [(place.model, place.rank) for place in ranked.places]
    [('b', '1'), ('a', '2–3'), ('c', '2–3')]
    """
    shared = _shared_rows(scores)
    means = {model: _mean_over(rows, shared) for model, rows in scores.items()}
    order = sorted(means, key=lambda model: means[model] if lower_is_better else -means[model])
    tested = [_compare(a, b, scores, shared) for a, b in combinations(order, 2)] if shared else []
    pairs = _adjust(tested)
    places = []
    for model in order:
        better = sum(pair.worse == model and pair.told_apart for pair in pairs)
        worse = sum(pair.better == model and pair.told_apart for pair in pairs)
        places.append(Place(model, means[model], 1 + better, len(order) - worse))
    return Ranking(tuple(places), tuple(pairs), len(shared))


def _shared_rows(scores: Mapping[str, Mapping[_Key, PairedRow]]) -> list[_Key]:
    first, *others = scores.values() if scores else [{}]
    return [row for row in first if all(row in other for other in others)]


def _mean_over(rows: Mapping[_Key, PairedRow], shared: Sequence[_Key]) -> float:
    return sum(rows[row].score for row in shared) / len(shared) if shared else 0.0


def _compare(
    better: str, worse: str, scores: Mapping[str, Mapping[_Key, PairedRow]], shared: Sequence[_Key]
) -> ModelPair:
    ours, theirs = ([scores[model][row] for row in shared] for model in (better, worse))
    before, after = ([row.score for row in rows] for rows in (theirs, ours))
    tested = compare_paired(before, after, [row.cluster for row in ours])
    low, high = tested.interval or (None, None)
    difference = (sum(after) - sum(before)) / len(shared)
    p = 1.0 if tested.p is None else tested.p
    return ModelPair(better, worse, difference, low, high, p, 1.0, len(shared), tested.name)


def _adjust(pairs: Sequence[ModelPair]) -> list[ModelPair]:
    adjusted = adjust_p_values([pair.p for pair in pairs])
    return [replace(pair, adjusted=p) for pair, p in zip(pairs, adjusted, strict=True)]


def adjust_p_values(values: Sequence[float]) -> list[float]:
    """Holm's correction: the smallest p is multiplied by the number of tests, the next by one less, and so on.

    >>> adjust_p_values([0.5, 0.01])
    [0.5, 0.02]
    """
    adjusted, least = [1.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        least = max(least, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = least
    return adjusted
