"""Intervals that may be looked at after every row: a run can stop as soon as they say enough, and they stay honest.

Someone who does not believe that the mean is `m` bets on every row that it is higher, or lower, at odds that are fair
if it is `m`. If they ever multiply their money by 20, `m` is out of the 95 % interval: by Ville's inequality that
happens to the true mean in at most 5 % of runs, however often one looks. The money is spread over bets of several
sizes, so no size has to be guessed. Rows have to come in random order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from rolecall.scoring.statistics import Interval

DECIDING = (0.75, 0.5, 0.3, 0.18, 0.1)
"""The shares of the money that are bet to tell two means apart: large ones settle large differences soon."""
MEASURING = (0.25, 0.1, 0.05, 0.025)
"""The same for a narrow interval."""
_HALVINGS = 30


class ConfidenceSequence:
    """The interval of a mean of values between two ends, valid after every value.

    >>> drawn = ConfidenceSequence(-1, 1, [1, 1, 0, -1] * 30)
    >>> [round(end, 2) for end in drawn.interval()], drawn.excludes(0)
    ([0.01, 0.47], True)
    """

    def __init__(
        self, low: float, high: float, values: Iterable[float] = (), *, stakes: Sequence[float] = DECIDING
    ) -> None:
        self._stakes = stakes
        self._ends = Interval(low, high)
        self._counts: Counter[float] = Counter()
        self.add(values)

    def add(self, values: Iterable[float]) -> None:
        """Add values. Their order does not matter, as long as it is random."""
        self.add_counts(Counter(values))

    def add_counts(self, counts: Mapping[float, int]) -> None:
        """Add values, each as often as it is counted."""
        for value, times in counts.items():
            self._counts[value] += times
        if self._counts and not self._ends.low <= min(self._counts) <= max(self._counts) <= self._ends.high:
            raise ValueError(f'values from {min(self._counts)} to {max(self._counts)} are not within {self._ends}')

    @property
    def count(self) -> int:
        return self._counts.total()

    @property
    def mean(self) -> float:
        return sum(value * times for value, times in self._counts.items()) / max(self.count, 1)

    def excludes(self, mean: float, *, confidence: float = 0.95) -> bool:
        """Whether the mean is not this one."""
        return self._evidence(mean) > -math.log(1 - confidence)

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

    def _evidence(self, mean: float) -> float:
        """The logarithm of the money that was made against this mean, from 1."""
        low, high = self._ends
        if not low < mean < high:
            return math.inf if any(value != mean for value in self._counts) else 0.0
        rates = [stake / (mean - low) for stake in self._stakes]
        rates += [-stake / (high - mean) for stake in self._stakes]
        gains = [
            sum(times * math.log1p(rate * (value - mean)) for value, times in self._counts.items()) for rate in rates
        ]
        most = max(gains)
        return most + math.log(sum(math.exp(gain - most) for gain in gains) / len(gains))
