"""The limit that a server announces in its headers: how much is left, and when it is full again.

Nothing is held back while enough is left. After that the two kinds of limit differ: a window gives everything back at
once when it ends, a bucket refills steadily. The reset of a window stands still; that of a bucket moves with its use.
"""

from __future__ import annotations

from dataclasses import dataclass

from rolecall.models.http.rate_limits import RateLimit

_LONGEST_WAIT = 300.0
"""Seconds that calls are held back at the most, whatever a server announces."""
_TELLING, _MORE = 4, 1.25
"""Units that must be used before a reset shows anything, and the growth of that number that tells the kinds apart."""
_SMOOTH = 1.01
"""Growth of the pace with each statement, at most: whole numbers overstate what is used of a small bucket."""
_DOUBTFUL, _PATIENCE = 16, 8
"""Calls answered at a stated pace before twice the pace is tried; that many times as many after a refusal."""


@dataclass(slots=True)
class Statement:
    """What was used of a limit at some time, and the seconds to its reset."""

    at: float
    used: float
    reset: float


class AnnouncedLimit:
    """Holds calls back where a server says that nothing is left, never beyond the reset that it stated last."""

    def __init__(self) -> None:
        self.opens_at = 0.0
        """When the next call may be sent."""
        self.is_window = False
        self.sent = 0.0
        self._before: Statement | None = None
        self._pace: float | None = None
        self._ends = 0.0
        self._factor = 1.0
        """How many times the stated pace is sent: servers that say 0 with every answer may mean nothing by it."""
        self._answered, self._doubtful = 0, _DOUBTFUL

    @property
    def is_exhausted(self) -> bool:
        """Whether calls are paced because nothing is left."""
        return self._pace is not None

    def send(self, began: float, amount: float) -> float:
        """A call is sent. How much was sent with it, as a mark in time."""
        self.sent += amount
        if self._pace is not None:
            self.opens_at = min(max(self.opens_at, began) + amount / (self._pace * self._factor), self._ends)
        return self.sent

    def settle(self, *, refused: bool) -> None:
        """A call that was sent while nothing was left has ended."""
        if refused:
            self._factor = max(1.0, self._factor / 2)
            self._answered, self._doubtful = 0, min(_PATIENCE * self._doubtful, 10**6)
            return
        self._answered += 1
        if self._answered >= self._doubtful:
            self._answered, self._factor = 0, 2 * self._factor

    def hear(self, stated: RateLimit, *, began: float, amount: float, mark: float, now: float) -> None:
        """Take what came with the answer to a call that began then; `mark`: what `send` returned for it."""
        used = stated.limit - stated.remaining if stated.limit is not None else 0.0
        self._compare(Statement(now, used, stated.reset))
        self._ends = now + min(stated.reset, _LONGEST_WAIT)
        left = stated.remaining - max(0.0, self.sent - mark)
        if left >= amount or stated.reset <= 0:
            self.opens_at, self._pace = 0.0, None
        elif self.is_window:
            self.opens_at, self._pace = self._ends, None
        else:
            refill = (used or max(self.sent, _TELLING * amount)) / stated.reset
            self._pace = refill if self._pace is None else min(_SMOOTH * self._pace, refill)
            pace = self._pace * self._factor
            self.opens_at = min(max(now, began + (amount - left) / pace), self._ends)

    def _compare(self, statement: Statement) -> None:
        """See from two statements whether the reset stays where it is (a window) or moves with what is used."""
        before = self._before
        if before is not None and before.used <= statement.used < _MORE * before.used:
            return
        if before is not None and before.used >= _TELLING and statement.used >= before.used:
            window, bucket = before.reset - (statement.at - before.at), before.reset * statement.used / before.used
            self.is_window = abs(statement.reset - window) < abs(statement.reset - bucket)
        self._before = statement

    def rescale(self, factor: float) -> None:
        """What calls take turned out to be this many times what was assumed."""
        self.sent *= factor
