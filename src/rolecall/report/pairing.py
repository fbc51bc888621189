"""The same rows under two runs or two models: paired means, a paired test, and the rows whose score changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from rolecall.scoring.statistics import compare_paired

__all__ = ['Groups', 'PairedScores', 'Pairing', 'Row', 'ScoreChange', 'pair_results']

_CONFIDENCE = 0.95

Groups = Mapping[str, Sequence[Sequence[int]]]
"""By dataset, the rows that are counted together."""


class Row(Protocol):
    """What pairing needs to know of a finished row."""

    @property
    def dataset(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def row(self) -> int: ...
    @property
    def outcome(self) -> str: ...
    @property
    def score(self) -> float | None: ...
    @property
    def gold(self) -> Any: ...
    @property
    def fingerprint(self) -> str: ...
    @property
    def cluster(self) -> str | None: ...


@dataclass(frozen=True, slots=True)
class ScoreChange:
    """A row whose score changed. Different fingerprints mean that different requests were sent."""

    row: int
    before: float
    after: float
    fingerprint_a: str
    fingerprint_b: str


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


@dataclass(frozen=True, slots=True)
class Pairing:
    """Two runs, dataset by dataset, and what could not be paired."""

    pairs: tuple[PairedScores, ...]
    unpaired_a: tuple[tuple[str, str], ...] = ()
    """(dataset, model) that only A has."""
    unpaired_b: tuple[tuple[str, str], ...] = ()


def pair_results(
    results_a: Iterable[Row], results_b: Iterable[Row], *, groups: Groups | None = None, confidence: float = _CONFIDENCE
) -> Pairing:
    """Compare two runs row by row.

    Datasets are paired by name, models by name or, where each run has one left for a dataset, with each other. `groups`
    holds the rows that a dataset counts together (the rotations of one question): then these are compared.
    `confidence` is that of the intervals.

    >>> from rolecall.runs.store.results import Result
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
            _pair_scores(one, other, a[one], b[other], (groups or {}).get(one[0], ()), confidence)
            for one, other in matched
        ),
        unpaired_a=tuple(key for key in a if key not in {one for one, _ in matched}),
        unpaired_b=tuple(key for key in b if key not in {other for _, other in matched}),
    )


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """Rows that count as one: correct if all of them are, unscored if any is."""

    rows: tuple[Row, ...]
    whole: bool

    @property
    def dataset(self) -> str:
        return self.rows[0].dataset

    @property
    def model(self) -> str:
        return self.rows[0].model

    @property
    def row(self) -> int:
        return self.rows[0].row

    @property
    def outcome(self) -> str:
        return next((row.outcome for row in self.rows if row.outcome != 'ok'), 'ok')

    @property
    def score(self) -> float | None:
        if not self.whole or any(row.score is None for row in self.rows):
            return None
        return float(all(row.score == 1 for row in self.rows))

    @property
    def gold(self) -> Any:
        return [row.gold for row in self.rows]

    @property
    def fingerprint(self) -> str:
        return ' '.join(row.fingerprint for row in self.rows)

    @property
    def cluster(self) -> str | None:
        return self.rows[0].cluster


_Key = tuple[str, str]
_Rows = Mapping[int, Row]


def _in_groups(results: _Rows, groups: Sequence[Sequence[int]]) -> dict[int, Row]:
    """One row for each group, under the number of its first; rows that belong to none stay as they are."""
    named = {row for group in groups for row in group}
    found: dict[int, Row] = {number: result for number, result in results.items() if number not in named}
    for group in groups:
        known = tuple(results[row] for row in group if row in results)
        if known:
            found[group[0]] = _RowGroup(known, whole=len(known) == len(group))
    return found


def _by_pair(results: Iterable[Row]) -> dict[_Key, dict[int, Row]]:
    found: dict[_Key, dict[int, Row]] = defaultdict(dict)
    for result in results:
        found[result.dataset, result.model][result.row] = result
    return dict(found)


def _match_pairs(a: Iterable[_Key], b: Iterable[_Key]) -> list[tuple[_Key, _Key]]:
    a, b = list(a), list(b)
    same = [(key, key) for key in a if key in b]
    rest_a, rest_b = _find_unmatched(a, b), _find_unmatched(b, a)
    renamed = [(rest_a[name], rest_b[name]) for name in rest_a if name in rest_b]
    pairs = dict(same) | {one[0]: other[0] for one, other in renamed if len(one) == len(other) == 1}
    return [(key, pairs[key]) for key in a if key in pairs]


def _find_unmatched(keys: Iterable[_Key], others: Sequence[_Key]) -> dict[str, list[_Key]]:
    left: dict[str, list[_Key]] = defaultdict(list)
    for key in keys:
        if key not in others:
            left[key[0]].append(key)
    return left


def _pair_scores(
    key_a: _Key, key_b: _Key, a: _Rows, b: _Rows, groups: Sequence[Sequence[int]], confidence: float
) -> PairedScores:
    if groups:
        a, b = _in_groups(a, groups), _in_groups(b, groups)
    scored_a = {row for row, result in a.items() if result.score is not None}
    scored_b = {row for row, result in b.items() if result.score is not None}
    shared = sorted(scored_a & scored_b)
    other_question = [row for row in shared if a[row].gold != b[row].gold]
    rows = [row for row in shared if a[row].gold == b[row].gold]
    before, after = _scores_at(a, rows), _scores_at(b, rows)
    flips = [
        ScoreChange(row, one, other, a[row].fingerprint, b[row].fingerprint)
        for row, one, other in zip(rows, before, after, strict=True)
        if one != other
    ]
    flips.sort(key=lambda flip: (-abs(flip.after - flip.before), flip.row))
    gained = tuple(flip for flip in flips if flip.after > flip.before)
    lost = tuple(flip for flip in flips if flip.after < flip.before)
    tested = compare_paired(before, after, [a[row].cluster for row in rows], confidence=confidence)
    return PairedScores(
        dataset=key_a[0],
        model_a=key_a[1],
        model_b=key_b[1],
        n=len(rows),
        mean_a=sum(before) / len(rows) if rows else None,
        mean_b=sum(after) / len(rows) if rows else None,
        difference=(sum(after) - sum(before)) / len(rows) if rows else None,
        low=None if tested.interval is None else tested.interval.low,
        high=None if tested.interval is None else tested.interval.high,
        p=tested.p,
        test=tested.name,
        clusters=tested.clusters,
        gained=gained,
        lost=lost,
        only_a=len(scored_a - scored_b),
        only_b=len(scored_b - scored_a),
        different_gold=len(other_question),
        different_requests=sum(a[row].fingerprint != b[row].fingerprint for row in rows),
        grouped=bool(groups),
    )


def _scores_at(results: _Rows, rows: Iterable[int]) -> list[float]:
    return [score for row in rows if (score := results[row].score) is not None]
