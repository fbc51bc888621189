"""From the marks of all rows to the metric's number, its interval, and what else is worth saying."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rolecall.scoring.metrics.base import Answer, Mark, Metric
from rolecall.scoring.statistics import (
    Interval,
    bootstrap,
    cluster_sums,
    clustered_wilson,
    g_pass_at_k,
    mean_interval,
    pass_at_k,
)

__all__ = ['Marked', 'Summary', 'summarise']

_CONFIDENCE = 0.95
_THRESHOLDS = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Marked:
    """A row with its answers and their marks; no marks if it does not count."""

    cluster: str | None
    answers: tuple[Answer, ...]
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The number, and for every row its marks and whether it counts."""

    marks: tuple[tuple[Mark, ...], ...]
    counted: tuple[bool, ...]
    metric: str = ''
    value: float | None = None
    low: float | None = None
    high: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Estimate:
    value: float
    interval: Interval | None
    method: str
    clusters: int


def summarise(metric: Metric, rows: Sequence[Marked], *, k: Sequence[int] = ()) -> Summary:
    """The metric over all rows that count."""
    if metric.whole is not None:
        return _by_the_user(metric, rows)
    counts = _in_whole_groups(metric, rows) if metric.group else [bool(row.marks) for row in rows]
    counted = [row for row, counts_too in zip(rows, counts, strict=True) if counts_too]
    marks = tuple(row.marks for row in rows)
    if not counted:
        return Summary(marks, tuple(counts), metric.name)
    percent = metric.unit == '%' or all(mark.correct is not None for row in counted for mark in row.marks)
    factor = 100.0 if percent else 1.0
    estimate = _estimate(metric, counted)
    further = {**_parts(counted), **_breakdown(metric, counted), **_passes(counted, k)}
    interval = estimate.interval
    return Summary(
        marks,
        tuple(counts),
        metric.name,
        value=estimate.value * factor,
        low=None if interval is None else interval.low * factor,
        high=None if interval is None else interval.high * factor,
        details={
            'unit': '%' if percent else '',
            'lower_is_better': metric.lower_is_better,
            'interval': estimate.method,
            'confidence': _CONFIDENCE,
            'clusters': estimate.clusters,
            **({'further': {name: number * factor for name, number in further.items()}} if further else {}),
        },
    )


def _estimate(metric: Metric, rows: Sequence[Marked]) -> _Estimate:
    if metric.total is not None:
        return _corpus(metric.total, rows)
    if metric.group is None:
        return _mean([_score(row) for row in rows], [row.cluster for row in rows], binary=all(map(_binary, rows)))
    groups = _groups(metric, rows)
    right = [float(all(_score(row) == 1 for row in group)) for group in groups]
    return _mean(right, [group[0].cluster for group in groups], binary=True)


def _mean(scores: Sequence[float], clusters: Sequence[str | None], *, binary: bool) -> _Estimate:
    sums = cluster_sums(scores, clusters)
    value = sum(scores) / len(scores)
    if binary:
        return _Estimate(value, clustered_wilson(sums, confidence=_CONFIDENCE), 'wilson', len(sums))
    interval = mean_interval(sums, confidence=_CONFIDENCE) if len(sums) > 1 else None
    return _Estimate(value, interval, 'bootstrap', len(sums))


def _corpus(total: Callable[[Sequence[float]], float], rows: Sequence[Marked]) -> _Estimate:
    """A number that is made from what all rows add up to."""
    tallies: dict[Hashable, list[tuple[float, ...]]] = defaultdict(list)
    for place, row in enumerate(rows):
        tallies[(place,) if row.cluster is None else row.cluster] += [mark.tally for mark in row.marks]
    units = [_added(each) for each in tallies.values()]
    interval = bootstrap(units, lambda drawn: total(_added(drawn)), confidence=_CONFIDENCE) if len(units) > 1 else None
    return _Estimate(total(_added(units)), interval, 'bootstrap', len(units))


def _groups(metric: Metric, rows: Sequence[Marked]) -> list[list[Marked]]:
    groups: dict[Hashable, list[Marked]] = defaultdict(list)
    for place, row in enumerate(rows):
        name = metric.group(row.answers[0]) if metric.group else None
        groups[(place,) if name is None else name].append(row)
    return list(groups.values())


def _in_whole_groups(metric: Metric, rows: Sequence[Marked]) -> list[bool]:
    """A group with a row that has no marks does not count: it can no longer be right."""
    whole = {id(row) for group in _groups(metric, rows) if all(row.marks for row in group) for row in group}
    return [id(row) in whole for row in rows]


def _binary(row: Marked) -> bool:
    return len(row.marks) == 1 and row.marks[0].correct is not None


def _score(row: Marked) -> float:
    return sum(mark.score for mark in row.marks) / len(row.marks)


def _added(tallies: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*tallies, strict=True)))


def _parts(rows: Sequence[Marked]) -> dict[str, float]:
    numbers: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for mark in row.marks:
            for name, number in mark.parts.items():
                numbers[name].append(number)
    return {name: sum(each) / len(each) for name, each in numbers.items()}


def _breakdown(metric: Metric, rows: Sequence[Marked]) -> Mapping[str, float]:
    if metric.breakdown is None:
        return {}
    return metric.breakdown([pair for row in rows for pair in zip(row.answers, row.marks, strict=False)])


def _passes(rows: Sequence[Marked], k: Sequence[int]) -> dict[str, float]:
    """pass@k and G-Pass@k, where every row has enough samples that are right or wrong."""
    counts = [(len(row.marks), sum(mark.correct is True for mark in row.marks)) for row in rows]
    numbers = {}
    for one in k:
        if all(samples >= one for samples, _ in counts):
            numbers[f'pass@{one}'] = sum(pass_at_k(*count, one) for count in counts) / len(counts)
            for threshold in _THRESHOLDS:
                chances = [g_pass_at_k(*count, one, threshold) for count in counts]
                numbers[f'g-pass@{one}_{threshold}'] = sum(chances) / len(counts)
    return numbers


def _by_the_user(metric: Metric, rows: Sequence[Marked]) -> Summary:
    """What a user's evaluator says about all rows at once; `details` with `correct` for every row give an interval."""
    counted = [row for row in rows if row.marks]
    said = metric.whole([row.answers[0] for row in counted]) if metric.whole and counted else {}
    numbers = {name: float(value) for name, value in said.items() if isinstance(value, (int, float))}
    if not numbers:
        return Summary(tuple(() for _ in rows), tuple(False for _ in rows), metric.name)
    name, value = next(iter(numbers.items()))
    right = _right_or_wrong(said.get('details'), len(counted))
    sums = cluster_sums(right, [row.cluster for row in counted]) if right else []
    interval = clustered_wilson(sums, confidence=_CONFIDENCE) if right else None
    each = iter([Mark(one, correct=bool(one)) for one in right] or [Mark(value)] * len(counted))
    return Summary(
        tuple((next(each),) if row.marks else () for row in rows),
        tuple(bool(row.marks) for row in rows),
        name,
        value=value,
        low=None if interval is None else interval.low * 100,
        high=None if interval is None else interval.high * 100,
        details={
            'unit': '%' if right else '',
            'interval': 'wilson' if right else '',
            'confidence': _CONFIDENCE,
            'further': dict(list(numbers.items())[1:]),
        },
    )


def _right_or_wrong(details: Any, size: int) -> list[float]:
    each = details if isinstance(details, list) else []
    said = [one.get('correct') for one in each if isinstance(one, Mapping)]
    return [float(one) for one in said if isinstance(one, bool)] if len(said) == size else []
