"""When a run has asked enough: models are told apart, or scores are known closely, by intervals that may be watched."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.runs.store.results import Result
from rolecall.scoring.confidence_sequence import DECIDING, MEASURING, ConfidenceSequence
from rolecall.scoring.scorecard import IntervalBasis, Scorecard
from rolecall.scoring.statistics import Interval
from rolecall.strings import count_noun

CONFIDENCE = 0.95
_FIRST_ROWS, _FEWEST_ROWS = 24, 8
_GROWTH = 16
"""Each round asks about a sixteenth more rows, so that a run stops soon after it could."""
_ROUNDED = 0.05
_LOST_BY_MODEL = ('too_long', 'filtered', 'thinking_exhausted')
_WIDTH = re.compile(r'(?:±|\+-|\+/-)?\s*(\d+(?:\.\d+)?)\s*(?:points?|%)?')
Place = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Goal:
    """What a run stops at: that models are told apart, or the half width of every model's interval, in points."""

    width: float | None = None

    @classmethod
    def read(cls, text: str) -> Goal:
        """`decided`, or a width.

        >>> Goal.read('decided'), Goal.read('±2')
        (Goal(width=None), Goal(width=2.0))
        """
        match = _WIDTH.fullmatch(text.strip())
        if text.strip() != 'decided' and (match is None or not float(match[1])):
            what = f'expected decided, or a width in points as ±2, got {text!r}.'
            raise ConfigError(Problem('until', what))
        return cls(float(match[1]) if match else None)

    def check_models(self, count: int) -> None:
        """Refuse to decide between fewer than two."""
        if self.width is None and count < 2:
            what = f'there is nothing to decide between: the run has {count_noun(count, "model")}.'
            raise ConfigError(Problem('until', what, 'Name two models, or a width: --until ±2.'))

    def __str__(self) -> str:
        return 'decided' if self.width is None else f'±{self.width:g}'


def list_rounds(total: int) -> Iterator[tuple[int, int]]:
    """From which row to which each round asks.

    >>> list(list_rounds(50))
    [(0, 24), (24, 32), (32, 40), (40, 48), (48, 50)]
    """
    begin = 0
    while begin < total:
        end = min(total, begin + max(_FEWEST_ROWS if begin else _FIRST_ROWS, begin // _GROWTH))
        yield begin, end
        begin = end


def measured_score(result: Result) -> float | None:
    """The score of a row: 0 where the model lost it (too long, refused), None where it failed and was not measured."""
    return 0.0 if result.score is None and result.outcome in _LOST_BY_MODEL else result.score


class Watch:
    """The scores of a run's rows as they come in, over all its datasets together, and whether they are enough."""

    def __init__(self, goal: Goal, models: Sequence[str], total: int) -> None:
        self.goal = goal
        self._total = total
        self._scores: dict[str, dict[Place, float]] = {model: {} for model in models}

    def add(self, result: Result | None) -> None:
        """A finished row."""
        if result is not None and (score := measured_score(result)) is not None:
            self._scores[result.model][result.dataset, result.row] = score

    def check(self, cards: Sequence[Scorecard]) -> None:
        """Refuse scores that are no percentages of their rows: their error does not follow from single rows."""
        for card in cards:
            rows = [value for (dataset, _), value in self._scores[card.model].items() if dataset == card.dataset]
            is_mean = rows and card.value is not None and abs(100 * sum(rows) / len(rows) - card.value) <= _ROUNDED
            if len(rows) == card.scored > 0 and not (card.is_percent and is_mean):
                what = f'{card.dataset} × {card.model}: {card.metric} is no mean of rows between 0 and 100 %'
                raise RunError(f'{what}, so --until cannot tell when it is known. Leave --until out, or use --sample.')

    def is_enough(self) -> bool:
        """Whether every two models are told apart, or every interval is narrow enough."""
        if self.goal.width is not None:
            return all(high - low <= self.goal.width / 50 for low, high in map(self.interval, self._scores))
        return all(self.difference(*pair).excludes(0, confidence=self._shared) for pair in self._pairs())

    def interval(self, model: str, dataset: str | None = None) -> Interval:
        """The interval of a model's score, from 0 to 1, on all datasets or one of them."""
        values = [value for place, value in self._scores[model].items() if dataset in (None, place[0])]
        return ConfidenceSequence(0, 1, values, stakes=MEASURING).interval(confidence=CONFIDENCE)

    def difference(self, left: str, right: str) -> ConfidenceSequence:
        """The differences of two models on the rows that both have a score for."""
        ours, theirs = self._scores[left], self._scores[right]
        values = [value - theirs[place] for place, value in ours.items() if place in theirs]
        return ConfidenceSequence(-1, 1, values, stakes=DECIDING)

    def describe(self) -> str:
        """What was found, in a sentence for each two models, or for each model."""
        rows = max(map(len, self._scores.values()), default=0)
        of = f'{rows:,} of {count_noun(self._total, "row")}'
        if self.goal.width is not None:
            scores = ', '.join(self._describe_score(model) for model in self._scores)
            known = f'Known to {self.goal} points' if self.is_enough() else f'Not known to {self.goal} points'
            return f'{known} after {of}: {scores}.'
        return f'{" ".join(self._describe_pair(*pair) for pair in self._pairs())} After {of}, in random order.'

    def note(self, card: Scorecard) -> Scorecard:
        """A score with the interval that holds although the run stopped when it said enough."""
        if card.value is None or card.group is not None:
            return card
        low, high = self.interval(card.model, card.dataset)
        basis = replace(card.interval or IntervalBasis(), method='confidence sequence', confidence=CONFIDENCE)
        return replace(card, low=100 * low, high=100 * high, interval=basis, stopped=self.describe())

    @property
    def _shared(self) -> float:
        """The confidence of each comparison, so that all hold together."""
        return 1 - (1 - CONFIDENCE) / max(len(self._pairs()), 1)

    def _pairs(self) -> list[tuple[str, str]]:
        return list(combinations(self._scores, 2))

    def _describe_pair(self, left: str, right: str) -> str:
        values = self.difference(left, right)
        low, high = values.interval(confidence=self._shared)
        mean = values.mean
        if mean < 0:
            left, right, mean, low, high = right, left, -mean, -high, -low
        points = f'{100 * mean:.1f} points ({100 * low:.1f} to {100 * high:.1f})'
        if values.excludes(0, confidence=self._shared):
            return f'{left} beats {right} by {points}.'
        return f'{left} and {right} are not told apart: they differ by {points}.'

    def _describe_score(self, model: str) -> str:
        low, high = self.interval(model)
        values: Mapping[Place, float] = self._scores[model]
        mean = sum(values.values()) / max(len(values), 1)
        return f'{model} {100 * mean:.1f} ({100 * low:.1f} to {100 * high:.1f})'
