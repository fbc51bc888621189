"""How many requests are on their way at once: more while it helps, fewer when the server says it is too much."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ['Limiter', 'Limits', 'Signal']

Signal = Literal['ok', 'busy', 'trouble', 'other']
"""How a call ended: answered; too much for the server (429, time-out); the server had trouble; anything else."""

_CUT = 0.6
_STEP = 0.1
"""By what share calls at once grow after the first time that doubling them did not help."""
_WORTH = 0.2
"""Of the share by which calls at once grew, the share by which answers per second must have grown."""
_ROUNDS_OF_REST = 10
_LONGEST_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How many calls at once to start with, at most, and how many may begin each second."""

    start: int = 8
    most: int = 128
    per_second: float | None = None


class Limiter:
    """Lets calls through. `enter` before a call, `leave` after it.

    Calls at once double each round until that stops helping, and then try a little more from time to time. A server
    that is busy cuts them once per round, and `Retry-After` closes the gate for everybody.
    """

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = float(limits.most)
        self._gap = 1 / limits.per_second if limits.per_second else 0.0
        self._clock = clock
        self.limit = float(min(limits.start, limits.most))
        self.active = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._closed_until = 0.0
        self._next_start = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._last_cut = float('-inf')
        self._growth = 1.0
        self._rest = 0
        self._before: tuple[float, float] | None = None
        self._start_round(clock())

    async def acquire(self) -> float:
        """Wait for a place. The result is the ticket to leave with."""
        if self._waiting or not self._may_start():
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(place)
            self._let_in()
            try:
                await place
            except asyncio.CancelledError:
                if place.done() and not place.cancelled():
                    self.active -= 1
                    self._let_in()
                raise
        else:
            self._started()
        return self._clock()

    def release(self, ticket: float, signal: Signal, *, retry_after: float | None = None) -> None:
        """A call has ended."""
        self.active -= 1
        now = self._clock()
        if signal == 'ok':
            self._answered(ticket, now)
        elif signal == 'busy':
            self._cut(ticket, now)
        elif signal == 'trouble':
            self._start_round(now)
        if retry_after:
            self._closed_until = max(self._closed_until, now + min(retry_after, _LONGEST_PAUSE))
        self._let_in()

    def _may_start(self) -> bool:
        now = self._clock()
        return self.active < int(self.limit) and now >= self._closed_until and now >= self._next_start

    def _started(self) -> None:
        self.active += 1
        if self._gap:
            self._next_start = max(self._next_start, self._clock()) + self._gap

    def _let_in(self) -> None:
        while self._waiting and self._may_start():
            place = self._waiting.popleft()
            if not place.done():
                self._started()
                place.set_result(None)
        opens = max(self._closed_until, self._next_start)
        if self._waiting and self._alarm is None and (wait := opens - self._clock()) > 0:
            self._alarm = asyncio.get_running_loop().call_later(wait, self._open)

    def _open(self) -> None:
        self._alarm = None
        self._let_in()

    def _answered(self, ticket: float, now: float) -> None:
        """Rounds are as long as they have calls at once; a call counts if it began in this round."""
        if ticket < self._began:
            return
        self._done += 1
        self._waited += now - ticket
        if self._done >= max(8, int(self.limit)):
            self._judge(self.limit * self._done / max(self._waited, 1e-6))
            self._start_round(now)

    def _start_round(self, now: float) -> None:
        self._done, self._waited, self._began = 0, 0.0, now

    def _judge(self, rate: float) -> None:
        """Go on growing if that brought answers quicker; otherwise go back to where it did, and rest."""
        self._rest = max(0, self._rest - 1)
        if self._before is not None and self.limit > self._before[0]:
            limit, earlier = self._before
            if rate < earlier * (1 + _WORTH * (self.limit / limit - 1)):
                self.limit, self._growth, self._rest, self._before = limit, _STEP, _ROUNDS_OF_REST, None
                return
        self._before = (self.limit, rate)
        if self._waiting and self._rest == 0:
            self.limit = min(self._most, self.limit + max(1.0, self.limit * self._growth))

    def _cut(self, ticket: float, now: float) -> None:
        if ticket > self._last_cut:  # calls that began before the last cut say nothing about what came of it
            self.limit = max(1.0, self.limit * _CUT)
            self._last_cut, self._growth, self._before = now, _STEP, None
        self._start_round(now)
