"""Intervals that may be looked at after every row: a run can stop as soon as they say enough, and they stay honest.

Someone who does not believe that the mean is `m` bets on every row that it is higher, or lower, at odds that are fair
if it is `m`. If they ever multiply their money by 20, `m` is out of the 95 % interval: by Ville's inequality that
happens to the true mean in at most 5 % of runs, however often one looks. The money is spread over bets of several
sizes, so no size has to be guessed; where the width that is wanted is known, one size is best. Rows have to come in
random order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rolecall.scoring.statistics import Interval

DECIDING = (0.75, 0.5, 0.3, 0.18, 0.1)
"""The shares of the money that are bet to tell two means apart: large ones settle large differences soon."""
MEASURING = (0.25, 0.1, 0.05, 0.025)
"""The same for an interval whose width is not chosen."""
_LARGEST_STAKE = 0.75
_LEAST_VARIANCE = 0.02
_HALVINGS = 24


class _Round(NamedTuple):
    """Values that were added together: how many came before them, their sum, and the bet that follows from those."""

    before: int
    total: float
    bet: float
    values: Counter[float]


class ConfidenceSequence:
    """The interval of a mean of values between two ends, valid after every value.

    >>> drawn = ConfidenceSequence(-1, 1, [1, 1, 0, -1] * 30)
    >>> [round(end, 2) for end in drawn.interval()], drawn.excludes(0)
    ([0.01, 0.47], True)

    With `population`, it is the mean of that many values from which these were drawn, none twice. With `half_width`,
    the money is bet so that the interval becomes this narrow soon; otherwise it is spread over `stakes`.

    >>> drawn = ConfidenceSequence(0, 1, population=200, half_width=0.1)
    >>> for _ in range(15):
    ...     drawn.add([1, 0] * 5)
    >>> [round(end, 2) for end in drawn.interval()]
    [0.44, 0.56]
    """

    def __init__(
        self,
        low: float,
        high: float,
        values: Iterable[float] = (),
        *,
        stakes: Sequence[float] = DECIDING,
        population: int | None = None,
        half_width: float | None = None,
    ) -> None:
        self._stakes = stakes
        self._population = population
        self._half_width = half_width
        self._ends = Interval(low, high)
        self._rounds: list[_Round] = []
        self.count = 0
        self._sum = self._squares = 0.0
        self.add(values)

    def add(self, values: Iterable[float]) -> None:
        """Add the values of a round. Their order does not matter, as long as it is random."""
        self.add_counts(Counter(values))

    def add_counts(self, counts: Mapping[float, int]) -> None:
        """Add the values of a round, each as often as it is counted."""
        if counts and not self._ends.low <= min(counts) <= max(counts) <= self._ends.high:
            raise ValueError(f'values from {min(counts)} to {max(counts)} are not within {self._ends}')
        if self._rounds and self._population is None and self._half_width is None:
            self._rounds[0].values.update(counts)  # bets do not depend on what came before
        else:
            self._rounds.append(_Round(self.count, self._sum, self._choose_bet(), Counter(counts)))
        for value, times in counts.items():
            self.count += times
            self._sum += value * times
            self._squares += value * value * times

    @property
    def mean(self) -> float:
        return self._sum / max(self.count, 1)

    def excludes(self, mean: float, *, confidence: float = 0.95) -> bool:
        """Whether the mean is not this one."""
        return self.count_to_exclude(mean, confidence=confidence) == 0

    def count_to_exclude(self, mean: float, *, confidence: float = 0.95) -> float:
        """How many more values exclude this mean, if they are like those so far; 0 if it is excluded."""
        evidence, needed = self._evidence(mean), -math.log(1 - confidence)
        if evidence > needed:
            return 0.0
        return self.count * (needed / evidence - 1) + 1 if evidence > 0 else math.inf

    def count_to_narrow(self, half_width: float, *, confidence: float = 0.95) -> float:
        """How many more values make the interval this narrow, if they are like those so far; 0 if it is."""
        low, high = self.interval(confidence=confidence)
        share = (high - low) / (2 * half_width)
        return self.count * (share**2 - 1) + 1 if share > 1 else 0.0

    def interval(self, *, confidence: float = 0.95) -> Interval:
        """The means that are not excluded."""
        return Interval(self._find_end(self._ends.low, confidence), self._find_end(self._ends.high, confidence))

    def _find_end(self, outside: float, confidence: float) -> float:
        """The last mean that is not excluded, on the way from the observed one to an end of the scale."""
        inside = self.mean if self.count else sum(self._ends) / 2
        if not self.excludes(outside, confidence=confidence):
            return outside
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if self.excludes(middle, confidence=confidence) else (middle, outside)
        return inside

    def _choose_bet(self) -> float:
        """The bet that grows fastest against a mean which is off by the half width, by the variance so far."""
        if self._half_width is None:
            return 0.0
        low, high = self._ends
        middle, count = (low + high) / 2, self.count + 1  # as if one value of the largest variance came first
        squares = self._squares + middle**2 + (high - low) ** 2 / 4
        variance = squares / count - ((self._sum + middle) / count) ** 2
        return self._half_width / max(variance, _LEAST_VARIANCE)

    def _evidence(self, mean: float) -> float:
        """The logarithm of the money that was made against this mean, from 1."""
        low, high = self._ends
        rest = 0 if self._population is None else self._population - self.count
        if self._population and not low * rest <= mean * self._population - self._sum <= high * rest:
            return math.inf  # whatever the other values are
        gains: list[float] = []
        for played in self._rounds:
            left = mean if self._population is None else self._find_rest(mean, played)
            if not low < left < high:
                if any(value != left for value in played.values):
                    return math.inf
                continue
            rates = self._list_rates(left, played.bet)
            gains = gains or [0.0] * len(rates)
            for place, rate in enumerate(rates):
                gains[place] += sum(times * math.log1p(rate * (value - left)) for value, times in played.values.items())
        most = max(gains, default=0.0)
        return most + math.log(sum(math.exp(gain - most) for gain in gains) / len(gains)) if gains else 0.0

    def _list_rates(self, mean: float, bet: float) -> list[float]:
        """The bets that it is higher, and that it is lower."""
        low, high = self._ends
        if self._half_width is not None:
            return [min(bet, _LARGEST_STAKE / (mean - low)), -min(bet, _LARGEST_STAKE / (high - mean))]
        rates = [stake / (mean - low) for stake in self._stakes]
        return rates + [-stake / (high - mean) for stake in self._stakes]

    def _find_rest(self, mean: float, played: _Round) -> float:
        """The mean of the values that were left before a round, if that of all is `mean`."""
        population = self._population or 0
        return (mean * population - played.total) / (population - played.before)
