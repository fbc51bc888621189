"""Summarise a `score(predictions, references)` evaluator, which scores all rows at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from rolecall.scoring.accumulate import CONFIDENCE, MarkAccumulator, MarkedRow
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.metrics.metric import Mark, Metric, is_boolean
from rolecall.scoring.scorecard import IntervalBasis, Scorecard

_ROUNDED = 0.005


def summarise_whole(metric: Metric, rows: Sequence[MarkedRow]) -> tuple[Scorecard, list[tuple[Mark, ...]]]:
    """The result over all answers, and each row's marks. Only rows with marks count; their marks are placeholders.

    `details` with `correct` for each answer give an interval. Without them a row counts but has no score of its own.
    """
    counted = [row for row in rows if row.marks]
    answers = [answer for row in counted for answer in row.answers]
    if metric.whole is None or not answers:
        return Scorecard('', '', metric.name, None, scored=len(counted)), [()] * len(rows)
    result = metric.whole.score(answers)
    numbers = _read_numbers(result)
    name, value = next(iter(numbers.items()))
    right = _read_verdicts(result.get('details'), len(answers))
    row_marks: list[tuple[Mark, ...]] = [(Mark(verdict, correct=bool(verdict)),) for verdict in right]
    each = iter(row_marks or [()] * len(answers))
    marks = [tuple(mark for _ in row.answers for mark in next(each)) if row.marks else () for row in rows]
    rows_scored = MarkAccumulator(Metric(name, metric.mark))
    for row, own in zip(rows, marks, strict=True):
        rows_scored.add(MarkedRow(row.cluster, (), own))
    mean, _ = rows_scored.summarise()
    factor = 0.0 if mean.value is None else _find_scale(value, mean.value / 100)
    method = mean.interval.method if mean.interval and factor and mean.low is not None else ''
    card = Scorecard(
        '',
        '',
        name,
        value=value,
        low=mean.low * factor / 100 if factor and mean.low is not None else None,
        high=mean.high * factor / 100 if factor and mean.high is not None else None,
        scored=len(counted),
        unit='%' if factor == 100 else '',
        interval=IntervalBasis(method, CONFIDENCE),
        further=dict(list(numbers.items())[1:]),
        returned=_further_details(result),
    )
    return card, marks


def _read_numbers(result: Any) -> dict[str, float]:
    """The numbers an evaluator returned."""
    items = result.items() if isinstance(result, Mapping) else ()
    numbers = {str(name): float(value) for name, value in items if isinstance(value, Real)}
    if not numbers:
        raise ScoringError(f'returned {result!r:.120}; expected a dict with a number.')
    return numbers


def _further_details(result: Mapping[str, Any]) -> dict[str, Any] | None:
    """What an evaluator returned besides numbers and verdicts, if it can be stored."""
    further = {
        str(name): value
        for name, value in result.items()
        if name != 'details' and not isinstance(value, Real) and isinstance(value, (str, dict, list))
    }
    return further or None


def unwrap_verdict(verdict: Any) -> Any:
    """The verdict in a list of one; any other value as it is."""
    return verdict[0] if isinstance(verdict, (list, tuple)) and len(verdict) == 1 else verdict


def _find_scale(value: float, mean: float) -> float:
    """The factor from the rows' mean to the value: 100 or 1; 0 where the value is something else.

    >>> _find_scale(66.67, 2 / 3), _find_scale(0.67, 2 / 3), _find_scale(41.0, 2 / 3)
    (100.0, 1.0, 0.0)
    """
    off, factor = min((abs(value / scale - mean), scale) for scale in (100.0, 1.0))
    return factor if off <= _ROUNDED else 0.0


def _read_verdicts(details: Any, size: int) -> list[float]:
    """The `correct` of each answer in the details; empty without them."""
    each = list(details.values()) if isinstance(details, Mapping) else details
    entries = [entry for entry in each if isinstance(entry, Mapping)] if isinstance(each, (list, tuple)) else []
    key = next((name for name in ('correct', 'is_correct') if entries and all(name in entry for entry in entries)), '')
    verdicts: list[Any] = [unwrap_verdict(entry[key]) for entry in entries] if key else []
    if key == 'is_correct' and len(verdicts) != size:
        return []  # of another system, which may count otherwise
    odd = [verdict for verdict in verdicts if not is_boolean(verdict) and verdict not in (0, 1)]
    if odd or len(verdicts) not in (0, size):
        got = f'{odd[0]!r:.60}' if odd else f'{len(verdicts)} in all'
        raise ScoringError(f"returned details whose 'correct' is not True or False for each of {size} answers: {got}.")
    return [float(verdict) for verdict in verdicts]
