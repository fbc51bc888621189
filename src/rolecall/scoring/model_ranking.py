"""Rank the models of one run: paired tests on the rows that all answered, and ties where they cannot be told apart."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rolecall.scoring.statistics import (
    Interval,
    cluster_sums,
    mcnemar,
    mean_interval,
    paired_difference,
    sign_flip,
)

__all__ = ['ModelPair', 'PairedRow', 'Place', 'Ranking', 'rank_models']

_LEVEL = 0.05


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
    low: float
    high: float
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


def rank_models(
    scores: Mapping[str, Mapping[Hashable, PairedRow]], *, lower_is_better: bool = False, seed: int = 0
) -> Ranking:
    """Rank models by their mean over the rows that all of them were scored on.

    A model's best rank is one more than the number of models that are surely better; its worst counts those that are
    surely worse from the end.

    >>> def model(right):
    ...     return {row: PairedRow(float(row < right), row < right) for row in range(200)}
    >>> ranked = rank_models({'a': model(120), 'b': model(180), 'c': model(119)})
    >>> [(place.model, place.rank) for place in ranked.places]
    [('b', '1'), ('a', '2–3'), ('c', '2–3')]
    """
    shared = _shared_rows(scores)
    means = {model: _mean_over(rows, shared) for model, rows in scores.items()}
    order = sorted(means, key=lambda model: means[model] if lower_is_better else -means[model])
    tested = [_compare(a, b, scores, shared, seed) for a, b in combinations(order, 2)] if shared else []
    pairs = _adjust(tested)
    places = []
    for model in order:
        better = sum(pair.worse == model and pair.told_apart for pair in pairs)
        worse = sum(pair.better == model and pair.told_apart for pair in pairs)
        places.append(Place(model, means[model], 1 + better, len(order) - worse))
    return Ranking(tuple(places), tuple(pairs), len(shared))


def _shared_rows(scores: Mapping[str, Mapping[Hashable, PairedRow]]) -> list[Hashable]:
    first, *others = scores.values() if scores else [{}]
    return [row for row in first if all(row in other for other in others)]


def _mean_over(rows: Mapping[Hashable, PairedRow], shared: Sequence[Hashable]) -> float:
    return sum(rows[row].score for row in shared) / len(shared) if shared else 0.0


def _compare(
    better: str,
    worse: str,
    scores: Mapping[str, Mapping[Hashable, PairedRow]],
    shared: Sequence[Hashable],
    seed: int,
) -> ModelPair:
    pairs = [(scores[better][row], scores[worse][row]) for row in shared]
    differences = [ours.score - theirs.score for ours, theirs in pairs]
    mean = sum(differences) / len(differences)
    clusters = [ours.cluster for ours, _ in pairs]
    verdicts = all(one.correct is not None for pair in pairs for one in pair)
    if verdicts and all(cluster is None for cluster in clusters):
        gained, lost = sum(one > 0 for one in differences), sum(one < 0 for one in differences)
        interval = paired_difference(gained, lost, len(pairs))
        return ModelPair(better, worse, mean, *interval, mcnemar(gained, lost), 1.0, len(pairs), 'mcnemar')
    sums = cluster_sums(differences, clusters)
    interval = mean_interval(sums, seed=seed) if len(sums) > 1 else Interval(mean, mean)
    p = sign_flip([total for total, _ in sums], seed=seed)
    return ModelPair(better, worse, mean, *interval, p, 1.0, len(pairs), 'permutation')


def _adjust(pairs: Sequence[ModelPair]) -> list[ModelPair]:
    """Holm's correction: the smallest p counts as often as there are pairs, the next once less, and so on."""
    order = sorted(range(len(pairs)), key=lambda place: pairs[place].p)
    adjusted = [1.0] * len(pairs)
    least = 0.0
    for rank, place in enumerate(order):
        least = max(least, min(1.0, (len(pairs) - rank) * pairs[place].p))
        adjusted[place] = least
    return [replace(pair, adjusted=one) for pair, one in zip(pairs, adjusted, strict=True)]
