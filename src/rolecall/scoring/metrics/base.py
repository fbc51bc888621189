"""What every metric is: a function that marks one answer, and how the marks of all rows become a number."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import Any

from rolecall.scoring.usercode import ScoringError

__all__ = ['Answer', 'Mark', 'Metric', 'Number', 'compared', 'is_verdict', 'mark_of']

Number = float | bool


@dataclass(frozen=True, slots=True)
class Answer:
    """One row as it is marked: both sides after their postprocessors."""

    prediction: Any
    gold: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The row of the dataset."""
    opinion: str | None = None
    """What the judge said, where there is one."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What one answer is worth."""

    score: float
    correct: bool | None = None
    """Whether it is right, where that can be said."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Further numbers of the row; their means are reported beside the metric."""
    tally: tuple[float, ...] = ()
    """What a metric over the whole corpus adds up."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One way of scoring.

    >>> exact = Metric('accuracy', compared(lambda prediction, gold: prediction == gold))
    >>> exact.mark(Answer('B', 'B'))
    Mark(score=1.0, correct=True, parts={}, tally=())
    """

    name: str
    mark: Callable[[Answer], Mark | None]
    """The mark of an answer; None if it cannot be marked (a judge's opinion that says nothing)."""
    unit: str = '%'
    """`%` for scores between 0 and 1, which are shown times 100; nothing for numbers on a scale of their own."""
    needs_gold: bool = True
    by_turn: bool = False
    """Whether several predictions are the turns of a dialogue, each with its own gold answer; otherwise samples."""
    weighs: bool = False
    """Whether it takes the probabilities of choices as they are; otherwise the likeliest choice is the answer."""
    lower_is_better: bool = False
    total: Callable[[Sequence[float]], float] | None = None
    """From the added-up tallies to the number; without it, the number is the mean of the scores."""
    group: Callable[[Answer], str | None] | None = None
    """The group a row belongs to, where whole groups are counted: right if every row of them is."""
    breakdown: Callable[[Sequence[tuple[Answer, Mark]]], Mapping[str, float]] | None = None
    """Further numbers that need all rows."""
    asks: Callable[[Answer], bool] | None = None
    """For which answers a judge's opinion is needed."""
    whole: Callable[[Sequence[Answer]], Mapping[str, Any]] | None = None
    """A user's evaluator that scores all rows at once, in the reference's form."""


def mark_of(result: Any) -> Mark:
    """The mark a result stands for: right or wrong, a number, or several numbers of which the first counts.

    >>> mark_of(False).score, mark_of({'f1': 0.5, 'exact': 0.0}).score
    (0.0, 0.5)
    >>> mark_of(None)
    Traceback (most recent call last):
    rolecall.scoring.usercode.ScoringError: returned None; expected right or wrong, a number, or a dict of numbers.
    """
    if isinstance(result, Mapping) and result and all(map(_is_finite, result.values())):
        parts = {name: float(number) for name, number in result.items()}
        return Mark(next(iter(parts.values())), parts=parts)
    if not _is_finite(result):
        raise ScoringError(f'returned {result!r:.80}; expected right or wrong, a number, or a dict of numbers.')
    return Mark(float(result), correct=bool(result) if is_verdict(result) else None)


def is_verdict(result: Any) -> bool:
    """Whether this says right or wrong: Python's True and False, or numpy's."""
    return isinstance(result, bool) or type(result).__name__ in ('bool_', 'bool')


def _is_finite(result: Any) -> bool:
    return is_verdict(result) or (isinstance(result, (Real, Decimal)) and math.isfinite(result))


def compared(compare: Callable[[Any, Any], Any]) -> Callable[[Answer], Mark]:
    """A comparison of prediction and gold, as a metric's mark."""
    return lambda answer: mark_of(compare(answer.prediction, answer.gold))
