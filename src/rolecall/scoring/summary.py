"""Summarise the marks of all rows: the metric's value, its interval, and further numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, is_boolean
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
_ROUNDED = 0.005


@dataclass(frozen=True, slots=True)
class Marked:
    """A row with its answers and their marks; no marks if it is excluded."""

    cluster: str | None
    answers: tuple[Answer, ...]
    marks: tuple[Mark, ...]
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Summary:
    """The value, and for every row its marks and whether it counts."""

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
        return _summarise_whole(metric, rows)
    rows = _cluster_by_problem(metric, rows)
    counts = _in_whole_groups(metric, rows) if metric.group else [bool(row.marks) for row in rows]
    counted = [row for row, counts_too in zip(rows, counts, strict=True) if counts_too]
    marks = tuple(row.marks for row in rows)
    if not counted:
        return Summary(marks, tuple(counts), metric.name)
    percent = metric.unit == '%' or all(mark.correct is not None for row in counted for mark in row.marks)
    factor = 100.0 if percent else 1.0
    estimate = _estimate(metric, counted)
    turns = _turns(counted) if metric.by_turn else {}
    parts = _parts(counted)
    derived = metric.derive(parts) if metric.derive and parts else {}
    pass_rates, intervals = _pass_rates(_merge_samples(metric, counted), k)
    further = {**parts, **derived, **turns, **_compute_breakdown(metric, counted), **pass_rates}
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
            **({'further_intervals': intervals} if intervals else {}),
        },
    )


def _estimate(metric: Metric, rows: Sequence[Marked]) -> _Estimate:
    if metric.total is not None:
        return _corpus(metric.total, rows)
    if metric.group is None:
        return _mean([_score(row) for row in rows], [row.cluster for row in rows], binary=all(map(_is_binary, rows)))
    groups = _groups(metric, rows)
    right = [float(all(_score(row) == 1 for row in group)) for group in groups]
    return _mean(right, [group[0].cluster for group in groups], binary=True)


def _mean(scores: Sequence[float], clusters: Sequence[str | None], *, binary: bool) -> _Estimate:
    sums = cluster_sums(scores, clusters)
    value = sum(scores) / max(len(scores), 1)
    if binary:
        return _Estimate(value, clustered_wilson(sums, confidence=_CONFIDENCE), 'wilson', len(sums))
    interval = mean_interval(sums, confidence=_CONFIDENCE) if len(sums) > 1 else None
    return _Estimate(value, interval, 'bootstrap', len(sums))


def _corpus(total: Callable[[Sequence[float]], float], rows: Sequence[Marked]) -> _Estimate:
    """A metric computed from the sum of all tallies."""
    tallies: dict[Hashable, list[tuple[float, ...]]] = defaultdict(list)
    for place, row in enumerate(rows):
        tallies[(place,) if row.cluster is None else row.cluster] += [mark.tally for mark in row.marks]
    units = [_add_up(each) for each in tallies.values()]
    interval = bootstrap(units, lambda drawn: total(_add_up(drawn)), confidence=_CONFIDENCE) if len(units) > 1 else None
    return _Estimate(total(_add_up(units)), interval, 'bootstrap', len(units))


def _groups(metric: Metric, rows: Sequence[Marked]) -> list[list[Marked]]:
    groups: dict[Hashable, list[Marked]] = defaultdict(list)
    for place, row in enumerate(rows):
        name = metric.group(row.answers[0]) if metric.group else None
        groups[(place,) if name is None else name].append(row)
    return list(groups.values())


def _in_whole_groups(metric: Metric, rows: Sequence[Marked]) -> list[bool]:
    """Exclude groups with an unmarked row: they can no longer be right."""
    whole = {id(row) for group in _groups(metric, rows) if all(row.marks for row in group) for row in group}
    return [id(row) in whole for row in rows]


def _is_binary(row: Marked) -> bool:
    return len(row.marks) == 1 and row.marks[0].correct is not None


def _score(row: Marked) -> float:
    return sum(mark.score for mark in row.marks) / len(row.marks)


def _add_up(tallies: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(map(sum, zip(*tallies, strict=True)))


def _parts(rows: Sequence[Marked]) -> dict[str, float]:
    numbers: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        own: dict[str, list[float]] = defaultdict(list)
        for mark in row.marks:
            for name, number in mark.parts.items():
                own[name].append(number)
        for name, each in own.items():
            numbers[name].append(sum(each) / len(each))
    return {name: sum(each) / len(each) for name, each in numbers.items()}


def _turns(rows: Sequence[Marked]) -> dict[str, float]:
    """The mean score of the first turns, of the second turns, and so on."""
    numbers: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for number, mark in enumerate(row.marks, start=1):
            numbers[f'turn_{number}'].append(mark.score)
    return {name: sum(each) / len(each) for name, each in numbers.items()}


def _compute_breakdown(metric: Metric, rows: Sequence[Marked]) -> Mapping[str, float]:
    if metric.breakdown is None:
        return {}
    return metric.breakdown([pair for row in rows for pair in zip(row.answers, row.marks, strict=False)])


def _cluster_by_problem(metric: Metric, rows: Sequence[Marked]) -> Sequence[Marked]:
    """Samples of one problem in several rows are one cluster."""
    if metric.problem is None:
        return rows
    problems = [metric.problem(row.answers[0]) if row.answers else None for row in rows]
    return [replace(row, cluster=row.cluster or name) for row, name in zip(rows, problems, strict=True)]


def _merge_samples(metric: Metric, rows: Sequence[Marked]) -> list[Marked]:
    """One row for each problem, with the samples of all its rows."""
    if metric.problem is None:
        return list(rows)
    problems: dict[Hashable, list[Marked]] = defaultdict(list)
    for place, row in enumerate(rows):
        name = metric.problem(row.answers[0]) if row.answers else None
        problems[(place,) if name is None else name].append(row)
    return [
        Marked(
            same[0].cluster,
            tuple(answer for row in same for answer in row.answers),
            tuple(mark for row in same for mark in row.marks),
            answered=all(row.answered for row in same) or len(same) > 1,
        )
        for same in problems.values()
    ]


def _pass_rates(rows: Sequence[Marked], k: Sequence[int]) -> tuple[dict[str, float], dict[str, tuple[float, float]]]:
    """pass@k and G-Pass@k, where every row has enough samples that are right or wrong; intervals of pass@k in percent.

    A counted row without an answer is wrong in as many samples as the other rows have.
    """
    verdicts = [[_is_right(mark) for mark in row.marks] for row in rows]
    if any(right is None for row in verdicts for right in row):
        return {}, {}
    most = max(map(len, verdicts), default=0)
    counts = [
        (len(right) if row.answered else most, sum(map(bool, right))) for row, right in zip(rows, verdicts, strict=True)
    ]
    numbers, intervals = {}, {}
    for one in k:
        if all(samples >= one for samples, _ in counts):
            chances = [pass_at_k(*count, one) for count in counts]
            numbers[f'pass@{one}'] = sum(chances) / len(counts)
            if len(counts) > 1:
                found = mean_interval([(chance, 1) for chance in chances], confidence=_CONFIDENCE)
                intervals[f'pass@{one}'] = (found.low * 100, found.high * 100)
            for threshold in _THRESHOLDS if most > 1 else ():
                grouped = [g_pass_at_k(*count, one, threshold) for count in counts]
                numbers[f'g-pass@{one}_{threshold}'] = sum(grouped) / len(counts)
    return numbers, intervals


def _is_right(mark: Mark) -> bool | None:
    """Whether a mark says right or wrong; None if it says how good."""
    return mark.correct if mark.correct is not None else bool(mark.score) if mark.score in (0, 1) else None


def _summarise_whole(metric: Metric, rows: Sequence[Marked]) -> Summary:
    """The result of a user's evaluator over all answers; `details` with `correct` for each give an interval.

    Without them a row counts but has no score of its own.
    """
    counted = [row for row in rows if row.marks]
    answers = [answer for row in counted for answer in row.answers]
    counts = tuple(bool(row.marks) for row in rows)
    if metric.whole is None or not answers:
        return Summary(tuple(() for _ in rows), counts, metric.name)
    told = metric.whole(answers)
    numbers = _read_numbers(told)
    name, value = next(iter(numbers.items()))
    right = _read_verdicts(told.get('details'), len(answers))
    known: list[tuple[Mark, ...]] = [(Mark(one, correct=bool(one)),) for one in right]
    each = iter(known or [()] * len(answers))
    marks = tuple(tuple(mark for _ in row.answers for mark in next(each)) if row.marks else () for row in rows)
    scored = [replace(row, marks=given) for row, given in zip(rows, marks, strict=True) if given]
    estimate = _mean(list(map(_score, scored)), [row.cluster for row in scored], binary=all(map(_is_binary, scored)))
    factor = _find_scale(value, estimate.value) if scored else 0.0
    interval = estimate.interval if factor else None
    return Summary(
        marks,
        counts,
        name,
        value=value,
        low=None if interval is None else interval.low * factor,
        high=None if interval is None else interval.high * factor,
        details={
            'unit': '%' if factor == 100 else '',
            'interval': estimate.method if interval else '',
            'confidence': _CONFIDENCE,
            'further': dict(list(numbers.items())[1:]),
        },
    )


def _read_numbers(told: Any) -> dict[str, float]:
    """The numbers a user's evaluator returned."""
    found = told.items() if isinstance(told, Mapping) else ()
    numbers = {str(name): float(value) for name, value in found if isinstance(value, Real)}
    if not numbers:
        raise ScoringError(f'returned {told!r:.120}; expected a dict with a number.')
    return numbers


def _find_scale(value: float, mean: float) -> float:
    """The factor from the rows' mean to the value: 100 or 1; 0 where the value is something else.

    >>> _find_scale(66.67, 2 / 3), _find_scale(0.67, 2 / 3), _find_scale(41.0, 2 / 3)
    (100.0, 1.0, 0.0)
    """
    off, factor = min((abs(value / one - mean), one) for one in (100.0, 1.0))
    return factor if off <= _ROUNDED else 0.0


def _read_verdicts(details: Any, size: int) -> list[float]:
    """Each answer's `correct`, where the details have it."""
    each = details if isinstance(details, (list, tuple)) else []
    found: list[Any] = [one['correct'] for one in each if isinstance(one, Mapping) and 'correct' in one]
    odd = [one for one in found if not is_boolean(one) and one not in (0, 1)]
    if odd or len(found) not in (0, size):
        got = f'{odd[0]!r:.60}' if odd else f'{len(found)} in all'
        raise ScoringError(f"returned details whose 'correct' is not True or False for each of {size} answers: {got}.")
    return [float(one) for one in found]
