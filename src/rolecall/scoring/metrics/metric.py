"""Metrics and aggregations: a metric marks one answer, its aggregation turns the marks of all rows into the score."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import wraps
from numbers import Real
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.quick_init import quick_init
from rolecall.scoring.blame import ScoringError

Number = float | bool


@dataclass(frozen=True, slots=True)
class Rival:
    """Another answer to the same row, and the order in which a judge sees the two."""

    name: str
    """The model that gave it, or the column that holds it."""
    prediction: Any = ''
    turns: tuple[Mapping[str, Any], ...] = ()
    stands_first: bool = False
    """Whether the judge sees it before the answer that is marked."""
    reason: str = ''
    """Why there is none."""


@quick_init
@dataclass(frozen=True, slots=True)
class Answer:
    """What a metric marks: prediction and gold answer after their postprocessors."""

    prediction: Any
    gold: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The row of the dataset."""
    judge_reply: str | None = None
    """The judge's reply, if there is one."""
    history: tuple[Mapping[str, Any], ...] = ()
    """The turns before this one: their columns, and the reply as `prediction`."""
    turns: tuple[Mapping[str, Any], ...] = ()
    """All turns, in the same form, where a dialogue is judged as a whole."""
    rival: Rival | None = None
    """The answer that this one is compared with."""
    calls: tuple[Mapping[str, Any], ...] = ()
    """The tools that the model called on its way to the answer."""
    used: Mapping[str, float] = field(default_factory=dict)
    """What the answer took, for metrics that take it: `seconds`, and `cost` where the price is known."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The score of one answer."""

    score: float
    correct: bool | None = None
    """Whether it is right; None for graded scores."""
    parts: Mapping[str, float] = field(default_factory=dict)
    """Further numbers of the row; their means are reported beside the metric."""
    tally: tuple[float, ...] = ()
    """What a corpus metric sums over all rows."""
    note: str = ''
    """How the answer fared, where there is more to say than right or wrong (`timeout: …`)."""
    rival: Rival | None = field(default=None, repr=False)
    """What it was compared with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The score is the mean of the rows' scores. The other aggregations differ from it in one point each."""

    derive: Callable[[Mapping[str, float]], Mapping[str, float]] | None = None
    """Further numbers computed from the means of the marks' parts."""
    breakdown: Callable[[Sequence[tuple[Answer, Mark]]], Mapping[str, float]] | None = None
    """Further numbers that need all rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus(Mean):
    """The score is computed from the sums of the marks' tallies, as BLEU is."""

    total: Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups(Mean):
    """Groups of rows are counted: a group is right if all its rows are."""

    group: Callable[[Answer], str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate(Mean):
    """Rows are samples of problems: pass@k is counted over problems."""

    problem: Callable[[Answer], str | None] | None
    k: tuple[int, ...] = ()
    """The k of pass@k, unless `eval_cfg` has its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WinRate(Mean):
    """Answers are marked against those of other models: 1 for a win, 0.5 for a tie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Mean):
    """All rows are scored at once, by a `score(predictions, references)` evaluator."""

    score: Callable[[Sequence[Answer]], Mapping[str, Any]]
    takes_turns: bool = False
    """Whether it takes the replies to all turns of a dialogue as one list, as OpenCompass' evaluators do."""
    with_prompts: Callable[[Callable[[Mapping[str, Any]], Any]], Metric] | None = None
    """The same metric, for an evaluator that reads the prompts too: it is given a function from a row to its prompt."""


@dataclass(frozen=True, slots=True)
class Metric:
    """How one answer is marked, and how the marks of all rows are aggregated.

    >>> exact = Metric('accuracy', mark_by(lambda prediction, gold: prediction == gold))
    >>> exact.mark(Answer('B', 'B'))
    Mark(score=1.0, correct=True, parts={}, tally=(), note='')
    """

    name: str
    mark: Callable[[Answer], Mark | None]
    """The mark of an answer; None if it cannot be marked (the judge gave no verdict)."""
    aggregation: Mean = Mean()
    unit: str = '%'
    """`%` for scores between 0 and 1, which are shown times 100; nothing for numbers on a scale of their own."""
    needs_gold: bool = True
    by_turn: bool = False
    """Whether several predictions are the turns of a dialogue, each with its own gold answer; otherwise samples."""
    weighs: bool = False
    """Whether it takes probabilities of choices as they are; otherwise the likeliest choice is the answer."""
    lower_is_better: bool = False
    needs_judge: Callable[[Answer], bool] | None = None
    """Which answers need a judge's verdict."""
    reads: Callable[[Answer], bool] | None = None
    """Whether its own postprocessor reads an answer in a reply; None if it has none."""
    takes_usage: bool = False
    """Whether it looks at what an answer took."""
    prepare: Callable[[Sequence[Answer]], None] | None = None
    """Called once with all answers before they are marked, where work can be done side by side."""

    @property
    def whole(self) -> Whole | None:
        """What scores all rows at once; None if they are marked one by one."""
        return self.aggregation if isinstance(self.aggregation, Whole) else None

    @property
    def compares(self) -> bool:
        return isinstance(self.aggregation, WinRate)

    @property
    def group(self) -> Callable[[Answer], str | None] | None:
        """The group of a row, where groups of rows are counted."""
        return self.aggregation.group if isinstance(self.aggregation, Groups) else None


def make_mark(result: Any) -> Mark:
    """Turn a result into a mark: right or wrong, a number, or several numbers of which the first counts.

    >>> make_mark(False).score, make_mark({'f1': 0.5, 'exact': 0.0}).score
    (0.0, 0.5)
    >>> make_mark(None)
    Traceback (most recent call last):
    rolecall.scoring.blame.ScoringError: returned None; expected right or wrong, a number, or a dict of numbers.
    """
    if isinstance(result, bool):
        return _RIGHT if result else _WRONG
    if isinstance(result, Mark):
        return result
    if isinstance(result, Mapping) and result and all(map(_is_finite, result.values())):
        parts = {name: float(number) for name, number in result.items()}
        return Mark(next(iter(parts.values())), parts=parts)
    if not _is_finite(result):
        raise ScoringError(f'returned {result!r:.80}; expected right or wrong, a number, or a dict of numbers.')
    return (_RIGHT if result else _WRONG) if is_boolean(result) else Mark(float(result))


_RIGHT, _WRONG = Mark(1.0, correct=True), Mark(0.0, correct=False)


def is_boolean(result: Any) -> bool:
    """Whether this is a Python or numpy boolean."""
    return isinstance(result, bool) or type(result).__name__ in ('bool_', 'bool')


def _is_finite(result: Any) -> bool:
    return is_boolean(result) or (isinstance(result, (Real, Decimal)) and math.isfinite(result))


def mark_by(compare: Callable[[Any, Any], Any]) -> Callable[[Answer], Mark]:
    """Turn a comparison of prediction and gold into a metric's mark."""
    return lambda answer: make_mark(compare(answer.prediction, answer.gold))


def share_of_tallies(tally: Sequence[float]) -> float:
    """The share of right parts in all parts, where rows have several: for tallies of (right, all)."""
    return tally[0] / tally[1] if tally[1] else 0.0


def comparison(
    name: str,
    *,
    unit: str = '%',
    lower_is_better: bool = False,
    total: Callable[[Sequence[float]], float] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Metric]]:
    """Decorate a comparison of prediction (as text) and gold: the result makes a metric from its further options.

    >>> @comparison('accuracy')
    ... def same(prediction, gold, fold=False):
    ...     return prediction.lower() == gold.lower() if fold else prediction == gold
    >>> same(fold=True).mark(Answer('A', 'a')).correct
    True
    """

    def decorate(compare: Callable[..., Any]) -> Callable[..., Metric]:
        def mark(answer: Answer, options: Mapping[str, Any]) -> Mark:
            return make_mark(compare(text_of(answer.prediction), answer.gold, **options))

        how = Corpus(total=total) if total else Mean()
        return _make_factory(compare, mark, 2, name, unit=unit, lower_is_better=lower_is_better, aggregation=how)

    return decorate


def row_comparison(
    name: str,
    *,
    needs_gold: bool = True,
    lower_is_better: bool = False,
    total: Callable[[Sequence[float]], float] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Metric]]:
    """Like `comparison`, for a function of the whole `Answer`, which also has the row's columns."""

    def decorate(compare: Callable[..., Any]) -> Callable[..., Metric]:
        def mark(answer: Answer, options: Mapping[str, Any]) -> Mark:
            return make_mark(compare(answer, **options))

        how = Corpus(total=total) if total else Mean()
        return _make_factory(
            compare, mark, 1, name, needs_gold=needs_gold, lower_is_better=lower_is_better, aggregation=how
        )

    return decorate


def _make_factory(
    compare: Callable[..., Any],
    mark: Callable[[Answer, Mapping[str, Any]], Mark],
    skip: int,
    name: str,
    **settings: Any,
) -> Callable[..., Metric]:
    @wraps(compare)
    def make(**options: Any) -> Metric:
        return Metric(name, lambda answer: mark(answer, options), **settings)

    parameters = list(inspect.signature(compare).parameters.values())[skip:]
    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what a config may say
    return make
