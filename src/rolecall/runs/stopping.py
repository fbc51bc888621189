"""When a run has asked enough: models are told apart, or scores are known closely, by intervals that may be watched."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.runs.store.results import Result
from rolecall.scoring.confidence_sequence import DECIDING, MEASURING, ConfidenceSequence
from rolecall.scoring.scorecard import IntervalBasis, Scorecard
from rolecall.strings import count_noun

CONFIDENCE = 0.95
_FIRST_ROWS, _FEWEST_ROWS = 16, 2
_ROUNDED = 0.05
_DIGITS = 9
"""Of scores that are computed, some are 1.0000000000000004."""
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

    def goes_on_from(self, other: Goal) -> bool:
        """Whether it asks about all rows that the other goal asked about, in the same order.

        >>> Goal(5).goes_on_from(Goal(10)), Goal(5).goes_on_from(Goal())
        (True, False)
        """
        return self == other or (self.width or math.inf) < (other.width or 0)

    def check_models(self, count: int) -> None:
        """Refuse to decide between fewer than two."""
        if self.width is None and count < 2:
            what = f'there is nothing to decide between: the run has {count_noun(count, "model")}.'
            raise ConfigError(Problem('until', what, 'Name two models, or a width: --until ±2.'))

    def __str__(self) -> str:
        return 'decided' if self.width is None else f'±{self.width:g}'


def size_round(asked: int, to_go: float) -> int:
    """How many rows to ask about next: a tenth of those still to go, so that a run stops soon after it could.

    >>> size_round(0, math.inf), size_round(600, math.inf), size_round(600, 70)
    (16, 50, 7)
    """
    return max(_FEWEST_ROWS, int(min(asked / 12, to_go / 10))) if asked else _FIRST_ROWS


def measured_score(result: Result) -> float | None:
    """The score of a row: 0 where the model lost it (too long, refused), None where it failed and was not measured."""
    return 0.0 if result.score is None and result.outcome in _LOST_BY_MODEL else result.score


def _refuse(what: str) -> RunError:
    return RunError(f'{what}, so --until cannot tell when it is known. Leave --until out, or use --sample.')


class Watch:
    """The scores of a run's rows as they come in, over all its datasets together, and whether they are enough."""

    def __init__(self, goal: Goal, models: Sequence[str], totals: Mapping[str, int]) -> None:
        """`totals`: the rows of each dataset."""
        self.goal = goal
        self._models = models
        self._total = sum(totals.values())
        sizes: dict[str | None, int] = {None: self._total, **{name: rows for name, rows in totals.items() if rows}}
        self._scores = {(model, name): self._open_sequence(size) for model in models for name, size in sizes.items()}
        self._differences = {pair: ConfidenceSequence(-1, 1, stakes=DECIDING) for pair in combinations(models, 2)}

    def _open_sequence(self, rows: int) -> ConfidenceSequence:
        """Of what all these rows would score; without a width to reach, of what the model would on any such rows."""
        if self.goal.width is None:
            return ConfidenceSequence(0, 1, stakes=MEASURING)
        width = self.goal.width / 100 * math.sqrt(self._total / rows)  # a dataset has its share of what is asked
        return ConfidenceSequence(0, 1, population=rows, half_width=width)

    def add_round(self, results: Iterable[Result | None]) -> None:
        """The rows of a round; all models were asked about the same ones."""
        scores: dict[str, dict[Place, float]] = {model: {} for model in self._models}
        for result in results:
            if result is not None and (score := measured_score(result)) is not None:
                if not 0 <= round(score, _DIGITS) <= 1:
                    raise _refuse(f'{result.dataset} × {result.model}: row {result.row} scores {score:g}')
                scores[result.model][result.dataset, result.row] = round(score, _DIGITS)
        for (model, name), sequence in self._scores.items():
            sequence.add([score for (dataset, _), score in scores[model].items() if name in (None, dataset)])
        for (left, right), sequence in self._differences.items():
            theirs = scores[right]
            sequence.add(score - theirs[place] for place, score in scores[left].items() if place in theirs)

    def check(self, cards: Sequence[Scorecard]) -> None:
        """Refuse scores that are no percentages of their rows: their error does not follow from single rows."""
        for card in cards:
            rows = self._scores[card.model, card.dataset]
            is_mean = card.value is not None and abs(100 * rows.mean - card.value) <= _ROUNDED
            if rows.count in (0, card.scored) and card.scored > 0 and not (card.is_percent and is_mean):
                raise _refuse(f'{card.dataset} × {card.model}: {card.metric} is no mean of rows between 0 and 100 %')

    def rows_to_go(self) -> float:
        """About how many more rows tell every two models apart, or make every interval narrow enough; 0 if they do."""
        if self.goal.width is None:
            return max(pair.count_to_exclude(0, confidence=self._shared) for pair in self._differences.values())
        scores = (self._scores[model, None] for model in self._models)
        return max(rows.count_to_narrow(self.goal.width / 100, confidence=CONFIDENCE) for rows in scores)

    def describe(self) -> str:
        """What was found, in a sentence for each two models, or for each model."""
        rows = max((self._scores[model, None].count for model in self._models), default=0)
        of = f'{rows:,} of {count_noun(self._total, "row")}'
        if self.goal.width is None:
            pairs = ' '.join(self._describe_pair(*pair) for pair in self._differences)
            return f'{pairs} After {of}, in random order.'
        scores = ', '.join(map(self._describe_score, self._models))
        known = 'Not known' if self.rows_to_go() else 'Known'
        return f'{known} to {self.goal} points after {of}; all of them would score: {scores}.'

    def note(self, card: Scorecard) -> Scorecard:
        """A score with the interval that holds although the run stopped when it said enough."""
        if card.value is None or card.group is not None:
            return card
        low, high = self._scores[card.model, card.dataset].interval(confidence=CONFIDENCE)
        basis = replace(card.interval or IntervalBasis(), method='confidence sequence', confidence=CONFIDENCE)
        return replace(card, low=100 * low, high=100 * high, interval=basis, stopped=self.describe())

    @property
    def _shared(self) -> float:
        """The confidence of each comparison, so that all hold together."""
        return 1 - (1 - CONFIDENCE) / max(len(self._differences), 1)

    def _describe_pair(self, left: str, right: str) -> str:
        values = self._differences[left, right]
        low, high = values.interval(confidence=self._shared)
        mean = values.mean
        if mean < 0:
            left, right, mean, low, high = right, left, -mean, -high, -low
        points = f'{100 * mean:.1f} points ({100 * low:.1f} to {100 * high:.1f})'
        if values.excludes(0, confidence=self._shared):
            return f'{left} beats {right} by {points}.'
        return f'{left} and {right} are not told apart: they differ by {points}.'

    def _describe_score(self, model: str) -> str:
        scores = self._scores[model, None]
        low, high = scores.interval(confidence=CONFIDENCE)
        return f'{model} {100 * scores.mean:.1f} ({100 * low:.1f} to {100 * high:.1f})'
