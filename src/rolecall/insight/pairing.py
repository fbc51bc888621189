"""The same rows under two runs or two models: paired means, a paired test, and the rows whose score changed."""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from rolecall.runs.store.results import Result
from rolecall.scoring.statistics import compare_paired

_CONFIDENCE = 0.95

Groups = Mapping[str, Sequence[Sequence[int]]]
"""By dataset, the rows that are counted together."""


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A row whose score changed."""

    row: int
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class PairedScores:
    """One dataset, A against B. Differences are B − A, on the scale of the rows' scores.

    Where whole groups of rows are compared, a group stands for its rows in every count, under its first row's number.
    """

    dataset: str
    model_a: str
    model_b: str
    n: int
    """Rows with a score in both runs; only these are compared."""
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    test: Literal['mcnemar', 'paired mean', 'none']
    clusters: int
    gained: tuple[ScoreChange, ...]
    """Rows that B does better, largest change first."""
    lost: tuple[ScoreChange, ...]
    only_a: int
    """Rows with a score in A alone."""
    only_b: int
    different_gold: int
    """Rows left out because their gold answers differ: not the same question."""
    different_requests: int
    """Compared rows for which the two runs sent different requests."""
    grouped: bool = False
    """Whether groups of rows are compared, each right if all its rows are."""
    all_mean_a: float | None = None
    """The mean of all rows with a score in A, compared or not."""
    all_mean_b: float | None = None


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two runs, dataset by dataset, and what could not be paired."""

    pairs: tuple[PairedScores, ...]
    unpaired_a: tuple[tuple[str, str], ...] = ()
    """(dataset, model) that only A has."""
    unpaired_b: tuple[tuple[str, str], ...] = ()


def pair_results(
    results_a: Iterable[Result],
    results_b: Iterable[Result],
    *,
    groups: Groups | None = None,
    confidence: float = _CONFIDENCE,
) -> Pairing:
    """Compare two runs row by row.

    Datasets are paired by name, models by name or, where each run has one left for a dataset, with each other. `groups`
    holds the rows that a dataset counts together (the rotations of one question): then these are compared.
    `confidence` is that of the intervals.

    >>> old = [Result('gsm8k', 'm', row, 'ok', score=float(row > 7), fingerprint='x') for row in range(20)]
    >>> new = [Result('gsm8k', 'm', row, 'ok', score=float(row > 1), fingerprint='y') for row in range(20)]
    >>> pair = pair_results(old, new).pairs[0]
    >>> pair.n, round(pair.difference, 2), round(pair.p, 3), len(pair.gained), len(pair.lost)
    (20, 0.3, 0.025, 6, 0)
    """
    a, b = _by_pair(results_a), _by_pair(results_b)
    matched = _match_pairs(a, b)
    return Pairing(
        pairs=tuple(
            _pair_scores(left, right, a[left], b[right], (groups or {}).get(left[0], ()), confidence)
            for left, right in matched
        ),
        unpaired_a=tuple(key for key in a if key not in {left for left, _ in matched}),
        unpaired_b=tuple(key for key in b if key not in {right for _, right in matched}),
    )


class _Columns:
    """The columns that pairing uses of a dataset × model, a few bytes per row: there may be a million.

    Scores that are missing are NaN. Gold answers and requests are stored as hashes.
    """

    def __init__(self) -> None:
        self.rows = array('q')
        self.scores = array('d')
        self.golds = array('q')
        self.requests = array('q')
        self.clusters: list[str | None] = []

    def add(self, row: int, score: float | None, gold: int, request: int, cluster: str | None) -> None:
        """Append a row."""
        self.rows.append(row)
        self.scores.append(math.nan if score is None else score)
        self.golds.append(gold)
        self.requests.append(request)
        self.clusters.append(cluster)

    def mean(self) -> float | None:
        """The mean of the scores there are."""
        scores = [score for score in self.scores if not math.isnan(score)]
        return sum(scores) / len(scores) if scores else None

    def find_scored(self) -> array[int]:
        """Where the rows with a score stand, in the order of their numbers."""
        scored = array('q', (place for place, score in enumerate(self.scores) if not math.isnan(score)))
        if all(self.rows[earlier] <= self.rows[later] for earlier, later in pairwise(scored)):
            return scored
        return array('q', sorted(scored, key=self.rows.__getitem__))

    def count_together(self, groups: Sequence[Sequence[int]]) -> _Columns:
        """One row for each group, under the number of its first; rows that belong to none stay as they are.

        A group is right if all its rows are, and has no score if one of them has none.
        """
        places = {row: place for place, row in enumerate(self.rows)}
        named = {row for group in groups for row in group}
        columns = _Columns()
        for group in (*groups, *((row,) for row in self.rows if row not in named)):
            members = [places[row] for row in group if row in places]
            scores = [self.scores[place] for place in members]
            if not members:
                continue
            score = scores[0] if group[0] not in named else float(all(mark == 1 for mark in scores))
            if len(members) < len(group) or any(map(math.isnan, scores)):
                score = math.nan
            golds, requests = (tuple(each[place] for place in members) for each in (self.golds, self.requests))
            columns.add(group[0], score, hash(golds), hash(requests), self.clusters[members[0]])
        return columns


_Key = tuple[str, str]


def _by_pair(results: Iterable[Result]) -> dict[_Key, _Columns]:
    by_pair: dict[_Key, _Columns] = defaultdict(_Columns)
    for result in results:
        columns = by_pair[result.dataset, result.model]
        columns.add(result.row, result.score, _digest(result.gold), hash(result.fingerprint), result.cluster)
    return dict(by_pair)


def _digest(value: Any) -> int:
    """A number for a value: equal values have the same.

    >>> _digest([1, 'a']) == _digest([1.0, 'a']), _digest(-1) == _digest(-2)
    (True, False)
    """
    if isinstance(value, str) or value is None:
        return hash(value)
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return hash(f'number {int(value):x}')
    if isinstance(value, Mapping):
        return hash(frozenset((key, _digest(inner)) for key, inner in value.items()))
    return hash(tuple(map(_digest, value))) if isinstance(value, (list, tuple)) else hash(repr(value))


def _match_pairs(a: Iterable[_Key], b: Iterable[_Key]) -> list[tuple[_Key, _Key]]:
    a, b = list(a), list(b)
    same = [(key, key) for key in a if key in b]
    rest_a, rest_b = _find_unmatched(a, b), _find_unmatched(b, a)
    renamed = [(rest_a[name], rest_b[name]) for name in rest_a if name in rest_b]
    pairs = dict(same) | {ours[0]: theirs[0] for ours, theirs in renamed if len(ours) == len(theirs) == 1}
    return [(key, pairs[key]) for key in a if key in pairs]


def _find_unmatched(keys: Iterable[_Key], others: Sequence[_Key]) -> dict[str, list[_Key]]:
    left: dict[str, list[_Key]] = defaultdict(list)
    for key in keys:
        if key not in others:
            left[key[0]].append(key)
    return left


def _pair_scores(
    key_a: _Key, key_b: _Key, a: _Columns, b: _Columns, groups: Sequence[Sequence[int]], confidence: float
) -> PairedScores:
    all_means = a.mean(), b.mean()
    if groups:
        a, b = a.count_together(groups), b.count_together(groups)
    scored_a, scored_b = a.find_scored(), b.find_scored()
    ours, theirs, shared = array('q'), array('q'), 0
    for left, right in _find_shared(a.rows, scored_a, b.rows, scored_b):
        shared += 1
        if a.golds[left] == b.golds[right]:
            ours.append(left)
            theirs.append(right)
    before, after = (array('d', map(side.scores.__getitem__, places)) for side, places in ((a, ours), (b, theirs)))
    flips = [
        ScoreChange(a.rows[place], left, right)
        for place, left, right in zip(ours, before, after, strict=True)
        if left != right
    ]
    flips.sort(key=lambda flip: (-abs(flip.after - flip.before), flip.row))
    tested = compare_paired(before, after, [a.clusters[place] for place in ours], confidence=confidence)
    return PairedScores(
        dataset=key_a[0],
        model_a=key_a[1],
        model_b=key_b[1],
        n=len(ours),
        mean_a=sum(before) / len(ours) if ours else None,
        mean_b=sum(after) / len(ours) if ours else None,
        difference=(sum(after) - sum(before)) / len(ours) if ours else None,
        low=None if tested.interval is None else tested.interval.low,
        high=None if tested.interval is None else tested.interval.high,
        p=tested.p,
        test=tested.name,
        clusters=tested.clusters,
        gained=tuple(flip for flip in flips if flip.after > flip.before),
        lost=tuple(flip for flip in flips if flip.after < flip.before),
        only_a=len(scored_a) - shared,
        only_b=len(scored_b) - shared,
        different_gold=shared - len(ours),
        different_requests=sum(a.requests[left] != b.requests[right] for left, right in zip(ours, theirs, strict=True)),
        grouped=bool(groups),
        all_mean_a=all_means[0],
        all_mean_b=all_means[1],
    )


def _find_shared(
    rows_a: Sequence[int], places_a: Sequence[int], rows_b: Sequence[int], places_b: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """The places of rows with the same number. Both sequences of places are in the order of these numbers."""
    at = 0
    for place in places_a:
        while at < len(places_b) and rows_b[places_b[at]] < rows_a[place]:
            at += 1
        if at < len(places_b) and rows_b[places_b[at]] == rows_a[place]:
            yield place, places_b[at]
