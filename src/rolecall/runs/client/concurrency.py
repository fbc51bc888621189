"""How many calls should be in flight: a hill climb on the rate of answers.

The number stands still for a round. The rate of a round is calls in flight over mean time per answer (Little's law),
which is indifferent to bursts; failed calls count by the time they took. Levels are compared by that rate.
"""

from __future__ import annotations

import math

_STEP = 2**0.5
_GAIN = 0.15
"""Share of a step in concurrency that must arrive as answers for the step to count as a gain."""
_WORSE, _CHANGED = 0.97, 0.8
_LONGEST_TRIAL = 2.0
_SMALLEST_ROUND, _FEW_ANSWERS = 8, 16
"""Calls of a round at the least, and answers that are enough where a higher level brings less than the one before."""
_MOST_AT_FIRST = 64
"""Calls in flight until the first answers are there; from there their number doubles each round while that helps."""
_FIRST_REST, _LONGEST_REST = 8, 64
"""Rounds between two tries of a neighbouring level; the rest doubles while tries bring nothing."""


class ConcurrencyController:
    """Finds the number of calls in flight with the highest rate of answers, between 1 and `most`.

    >>> controller = ConcurrencyController(start=8, most=64)
    >>> for call in range(8):
    ...     controller.record(began=0.0, ended=0.2, answered=True)
    >>> controller.limit
    16
    """

    def __init__(self, *, start: int, most: int) -> None:
        self._most = most
        self.limit = min(start, most, _MOST_AT_FIRST)
        self._rates: dict[int, float] = {}
        self._home = self.limit
        self._factor = 2.0 if self.limit < most else 0.5
        self._rest = 0
        self._pause = _FIRST_REST
        self._start_round(0.0)

    def record(self, *, began: float, ended: float, answered: bool) -> None:
        """A call that took the last place has ended. (Other calls do not show how the server does at this level.)"""
        if began < self._round_began:
            if ended - self._round_began > self._longest_trial():
                self._judge(0.0)
                self._start_round(ended)
            return
        self._answers += answered
        self._calls += 1
        self._time += ended - began
        rate = self.limit * self._answers / max(self._time, 1e-9)
        hopeless = self.limit > self._home and self._answers >= _FEW_ANSWERS and rate < self._rates[self._home]
        if hopeless or self._calls >= max(_SMALLEST_ROUND, self.limit):
            self._judge(rate)
            self._start_round(ended)

    def _start_round(self, now: float) -> None:
        self._round_began = now
        self._answers = self._calls = 0
        self._time = 0.0

    def _judge(self, rate: float) -> None:
        known = self._rates.get(self.limit)
        if self.limit == self._home:
            self._rates[self.limit] = rate if known is None else (known + rate) / 2
            if known is not None and rate < _CHANGED * known:
                self._rest, self._pause = min(self._rest, 1), _FIRST_REST
            self._rest -= 1
            if self._rest <= 0:
                self._try_neighbour()
            return
        self._rates[self.limit] = rate
        if self._is_better(self.limit):
            self._home, self._pause, self._rest = self.limit, _FIRST_REST, 0
            self._try_neighbour()
        else:
            self._step_back()

    def _longest_trial(self) -> float:
        """Seconds after which a level that is tried cannot be better any more than home."""
        if self.limit <= self._home:  # calls of the level before are still being answered
            return math.inf
        return _LONGEST_TRIAL * max(_SMALLEST_ROUND, self.limit) / max(self._rates[self._home], 1e-9)

    def _is_better(self, level: int) -> bool:
        """Whether a level that was tried beats home: more answers for more calls, or as many for fewer."""
        ratio = self._rates[level] / max(self._rates[self._home], 1e-9)
        if level < self._home:
            return ratio >= _WORSE
        return ratio >= 1 + _GAIN * (level / self._home - 1)

    def _step_back(self) -> None:
        """Return home and look the other way: at once, if nothing is known of it yet."""
        self.limit = self._home
        other = 0.5 if self._factor > 1 else 2.0
        level = _neighbour(self._home, other, self._most)
        if level != self._home and level not in self._rates:
            self.limit, self._factor = level, other
        else:
            self._wait()

    def _try_neighbour(self) -> None:
        level = _neighbour(self._home, self._factor, self._most)
        if level == self._home:
            self._wait()
        self.limit = level

    def _wait(self) -> None:
        """Stay home for a while, then look the other way with a smaller step."""
        self._factor = 1 / _STEP if self._factor > 1 else _STEP
        self._rest = self._pause
        self._pause = min(_LONGEST_REST, 2 * self._pause)


def _neighbour(level: int, factor: float, most: int) -> int:
    moved = level * factor
    rounded = math.ceil(moved - 1e-9) if factor > 1 else math.floor(moved + 1e-9)
    return max(1, min(most, max(rounded, level + 1) if factor > 1 else min(rounded, level - 1)))
