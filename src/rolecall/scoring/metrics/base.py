"""What every metric is: a function that marks one answer, and how the marks of all rows become a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ['Answer', 'Mark', 'Metric', 'Number', 'compared', 'mark_of']

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
    takes_lists: bool = False
    """Whether the predictions of several turns are marked together; otherwise several are samples of one answer."""
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


def mark_of(result: Number | Mapping[str, float]) -> Mark:
    """The mark a result stands for: right or wrong, a number, or several numbers of which the first counts.

    >>> mark_of(False).score, mark_of({'f1': 0.5, 'exact': 0.0}).score
    (0.0, 0.5)
    """
    if isinstance(result, Mapping):
        parts = {name: float(number) for name, number in result.items()}
        return Mark(next(iter(parts.values())), parts=parts)
    return Mark(float(result), correct=result if isinstance(result, bool) else None)


def compared(compare: Callable[[Any, Any], Number | Mapping[str, float]]) -> Callable[[Answer], Mark]:
    """A comparison of prediction and gold, as a metric's mark."""
    return lambda answer: mark_of(compare(answer.prediction, answer.gold))
