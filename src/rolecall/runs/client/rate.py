"""The rate that a server accepts, learnt from what it refuses and from what it announces.

Calls are judged in windows, in the order in which they were sent. Refusals come sooner than answers, so a call that was
not refused after a while counts as accepted. A share of refusals above the tolerance cuts the rate to what was
accepted. Refusals that stay as frequent after two cuts are random: the rate is lifted, and so is the tolerance.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from rolecall.models.http.rate_limits import RateLimit

__all__ = ['RateController', 'SentCall']

_TOLERANCE = 0.01
_STORM, _STORM_CALLS = 0.3, 8
"""A share of refusals that is acted upon after this many calls; twice as many after each cut that did not help."""
_WINDOW, _LONGEST_WINDOW, _WINDOW_SECONDS = 50, 400, 2.0
"""Calls, or seconds, after which the rate may grow, and calls after which a window ends without a verdict."""
_GROWTH, _FASTEST = 0.1, 0.25
"""Growth per second, times the square root of the rate; it doubles with every window without refusals."""
_EXTRA_CUT, _DEEPEST_EXTRA_CUT = 0.01, 0.1
"""Cut beyond what was refused, times the square root of the rate: large rates give way, so that runs share fairly."""
_MARGIN, _REST = 0.98, 5
"""Near the rate at which refusals began, rest at this part of it for some windows, so that the server has reserves."""
_NEAR, _SLOW_START = 0.1, 1.5
_SLOWEST, _SHORTEST_MEASURE, _LONGEST_BURST = 0.2, 0.01, 0.5
_LONGEST_WAIT = 300.0
"""Seconds between two calls at the most, whatever a server announces."""
_TELLING = 4
"""Units that must be used up before a bucket shows how fast it refills."""
_DEEP = 0.75
"""Part of the rate that a deep cut leaves at most."""
_SAME, _STAYED, _USELESS_CUTS = 0.5, 0.7, 2
"""A cut was useless if this part of the refusals stayed; so many useless cuts suggest that refusals are random."""


@dataclass(slots=True)
class SentCall:
    """A call as a rate controller sees it: when it was sent, how much it takes of the limit, and what became of it."""

    began: float
    amount: float
    state: Literal['sent', 'accepted', 'refused', 'void'] = 'sent'
    charged: bool = False
    """Whether calls after it wait for what it takes, because a rate was known."""


class RateController:
    """Holds the highest rate of one unit (requests, tokens) that a server accepts."""

    def __init__(self, *, most: float | None = None) -> None:
        self._most = most
        self._learnt: float | None = None
        self._announced: float | None = None
        self._last_bucket: tuple[float, float] | None = None
        self._learnt_while_answering: float | None = None
        self._tolerance = _TOLERANCE
        self._mean = 0.0
        self._refusal_seconds: float | None = None
        self._hold_until = 0.0
        self._ceiling = self._clean_rate = 0.0
        self._share_before = 0.0
        self._useless_cuts = self._clean_windows = self._rest = 0
        self._storm_calls = _STORM_CALLS
        self._tested: float | None = None
        self._rate_before_cut: tuple[()] | tuple[float | None] = ()
        self._open_since: float | None = None
        self._accepted_since_open = 0.0
        self._sent: deque[SentCall] = deque()
        self._window_began = self._last_began = 0.0
        self._calls = self._refused = self._refused_in_flight = 0
        self._accepted = self._accepted_at_first_refusal = 0.0
        self._first_refusal: float | None = None
        self._middle = (0.0, 0.0)
        """When the first calls of the window were sent, and what was accepted until then: a start is slow."""

    @property
    def rate(self) -> float | None:
        """Units per second that may be sent; None while no limit is known."""
        if self._learnt is None and self._announced is None:  # asked for several times with every call
            return self._most
        return min(rate for rate in (self._most, self._learnt, self._announced) if rate is not None)

    @property
    def hold_until(self) -> float:
        """While most calls are refused, nothing more is sent until their number is known."""
        return self._hold_until

    def send(self, call: SentCall) -> None:
        """A call is sent."""
        self._mean += (0.05 if self._mean else 1.0) * (call.amount - self._mean)
        if self._open_since is None:
            self._open_since = self._window_began = self._last_began = call.began
        self._sent.append(call)

    def settle(self, call: SentCall, now: float) -> None:
        """A call was accepted, refused, or says nothing about the limit (`void`)."""
        if call.state == 'refused':
            took = now - call.began
            known = took if self._refusal_seconds is None else self._refusal_seconds
            self._refusal_seconds = known + 0.1 * (took - known)
            if call.began >= self._window_began:
                self._refused_in_flight += 1
                if self._refused_in_flight >= max(4, _STORM * (len(self._sent) + self._calls)):
                    self._hold_until = max(self._hold_until, now + 2 * self._refusal_seconds)
        elif call.state == 'accepted':
            self._accepted_since_open += call.amount
            self._learnt_while_answering = self._learnt
        self.update(now)

    def update(self, now: float) -> None:
        """Judge what is known by now."""
        decided = now - 3 * (self._refusal_seconds or 0.0)
        while self._sent and (self._sent[0].state != 'sent' or self._sent[0].began < decided):
            self._count(self._sent.popleft())
        if self._calls and now >= self._hold_until:
            self._judge(now)

    def rescale(self, factor: float) -> None:
        """What calls take turned out to be this many times what was assumed."""
        for name in (
            '_mean',
            '_accepted',
            '_accepted_at_first_refusal',
            '_accepted_since_open',
            '_ceiling',
            '_clean_rate',
        ):
            setattr(self, name, factor * getattr(self, name))
        for name in ('_learnt', '_learnt_while_answering', '_tested'):
            rate: float | None = getattr(self, name)
            setattr(self, name, None if rate is None else factor * rate)
        self._middle = (self._middle[0], factor * self._middle[1])
        for call in self._sent:
            if call.state != 'accepted':
                call.amount *= factor

    def close_until(self, until: float) -> None:
        """The server refuses everything until then. What it accepted since it last opened is its rate."""
        if self._open_since is not None and until - self._open_since > 1 and self._accepted_since_open > 0:
            learnt = self._accepted_since_open / (until - self._open_since)
            self._learnt = learnt if self._learnt is None else min(max(learnt, self._learnt / 2), 2 * self._learnt)
        self._open_since, self._accepted_since_open = until, 0.0
        self._start_window(until)

    def forget_outage(self, now: float) -> None:
        """The server is down: its refusals say nothing about its limits."""
        self._learnt, self._useless_cuts = self._learnt_while_answering, 0
        self._start_window(now)

    def announce(self, said: RateLimit) -> None:
        """Take what the server announces: the rate of a bucket that refills steadily; otherwise spread what is left."""
        steady = None
        if said.limit is not None and said.reset > 0 and said.limit - said.remaining >= _TELLING:
            refill = (said.limit - said.remaining) / said.reset
            if self._last_bucket is not None and abs(refill - self._last_bucket[0]) <= 0.1 * refill:
                before, remaining = self._last_bucket
                steady = min(1.002 * before, refill) if said.remaining != remaining else before
            self._last_bucket = (steady or refill, said.remaining)
        spread = max(said.remaining, 1.0) / min(said.reset, _LONGEST_WAIT) if said.reset >= 1 else None
        self._announced = steady if steady is not None else spread

    def _count(self, call: SentCall) -> None:
        """Take a call into the window. Calls that were sent before the window say nothing about its rate."""
        if call.began < self._window_began or call.state == 'void':
            return
        self._calls += 1
        self._last_began = call.began
        if self._calls == _WINDOW:
            self._middle = (call.began, self._accepted)
        if call.state != 'refused':
            self._accepted += call.amount
            return
        self._refused += 1
        if self._first_refusal is None:
            self._first_refusal, self._accepted_at_first_refusal = call.began, self._accepted

    def _judge(self, now: float) -> None:
        before, expected = self._learnt, self._tolerance * self._calls
        share = self._refused / self._calls
        storm = self._calls >= self._storm_calls and share >= max(_STORM, 2.5 * self._tolerance)
        enough = _WINDOW if self._learnt is not None else 2 * _WINDOW
        many = self._calls >= enough and self._refused > max(2, expected + self._sigmas * math.sqrt(expected))
        refuted = self._tested is not None and self._calls >= _WINDOW and self._refused > expected
        if storm or many or refuted:
            if self._tested is not None:
                self._learnt, self._tolerance, self._tested = self._tested, _TOLERANCE, None
            self._cut(share, now)
        elif self._may_grow(now) and self._refused <= expected:
            if not self._undo_useless_cut(share):
                self._grow()
        elif self._calls < _LONGEST_WINDOW:
            return
        self._start_window(now if self._learnt != before else self._last_began)

    def _may_grow(self, now: float) -> bool:
        """Whether the window is long enough for growth; short ones are, until the limit was met once."""
        seconds = now - self._window_began
        if self._tested is not None and self._calls < 2 * _STORM_CALLS:
            return False
        if self._learnt is not None and not self._ceiling:
            return self._calls >= 2 * _STORM_CALLS or seconds > _WINDOW_SECONDS / 4
        return self._calls >= _WINDOW or seconds > _WINDOW_SECONDS

    @property
    def _sigmas(self) -> float:
        """How far refusals must exceed the tolerance; further, once random refusals were seen."""
        return 2.0 if self._tolerance == _TOLERANCE else 3.0

    def _undo_useless_cut(self, share: float) -> bool:
        """Go back to the rate before the last cut, if refusals have stayed as they were."""
        before, self._rate_before_cut = self._rate_before_cut, ()
        if not before or self._refused < 2 or share < _STAYED * self._share_before:
            return False
        self._learnt, self._tolerance = before[0], max(self._tolerance, 2 * share)
        return True

    def _cut(self, share: float, now: float) -> None:
        """Send no more than what was accepted, unless cuts have not helped so far."""
        stayed = share >= _SAME * self._share_before
        if share >= _STORM:
            self._storm_calls = min(2 * self._storm_calls, 2 * _WINDOW) if stayed else 2 * _STORM_CALLS
        if self._is_telling(now):
            self._useless_cuts = self._useless_cuts + 1 if stayed and self._share_before else 1
        self._share_before, self._clean_windows, self._rest = share, 0, _REST
        if self._useless_cuts > _USELESS_CUTS and self._learnt is not None:
            self._tested, self._learnt, self._rate_before_cut = self._learnt, 2 * self._learnt, ()
            self._tolerance, self._useless_cuts = min(2 * share, 0.25 + 0.75 * share), 0
            return
        self._rate_before_cut = (self._learnt,)
        accepted = self._accepted_rate(now)
        if self._learnt is not None and share < _STORM:
            accepted = self._learnt * (1 - share)
            self._ceiling = accepted
            accepted *= 1 - min(_DEEPEST_EXTRA_CUT, _EXTRA_CUT * math.sqrt(accepted / (self._mean or 1.0)))
        elif self._learnt is not None and self._clean_rate:
            self._ceiling = accepted = min(self._learnt, max(accepted, self._clean_rate))
        else:
            self._ceiling, self._rest = 0.0, 0
        self._clean_rate = 0.0
        self._learnt = max(_SLOWEST * self._mean, min(accepted, self._learnt or math.inf))

    def _is_telling(self, now: float) -> bool:
        """Whether the window shows what the last cut did: it is long, or the cut was deep and has had time to help."""
        if self._calls >= _WINDOW:
            return True
        before = self._rate_before_cut[0] if self._rate_before_cut else None
        deep = self._learnt is not None and before is not None and self._learnt <= _DEEP * before
        return deep and self._calls >= 2 * _STORM_CALLS and now - self._window_began >= _WINDOW_SECONDS / 2

    def _accepted_rate(self, now: float) -> float:
        """What was accepted per second; since the first refusal, for before it the server may have let a burst pass."""
        if self._first_refusal is None or self._refused < _STORM * self._calls:
            began, before = self._middle
            return (self._accepted - before) / max(self._last_began - began, _SHORTEST_MEASURE)
        accepted = self._accepted - self._accepted_at_first_refusal
        since = (accepted + self._mean) / max(now - self._first_refusal, _SHORTEST_MEASURE)
        if self._learnt is not None:
            return since
        return max(since, self._accepted / max(now - self._window_began, _LONGEST_BURST))

    def _grow(self) -> None:
        """Grow faster the longer nothing is refused, and rest near the rate at which refusals last began."""
        if self._calls >= _STORM_CALLS:
            self._useless_cuts, self._storm_calls = 0, _STORM_CALLS
        if self._tested is not None:  # twice the rate, and no more refusals: they are random
            self._tested = self._learnt = None
        if self._learnt is None:
            return
        self._clean_rate = self._learnt
        if not self._ceiling:  # nothing is known but that an early burst was refused
            self._learnt *= _SLOW_START
            return
        seconds = min(self._last_began - self._window_began, _WINDOW_SECONDS)
        growth = _GROWTH * math.sqrt(self._learnt * self._mean) * seconds
        if abs(self._learnt - self._ceiling) > _NEAR * self._ceiling:
            growth *= 2**self._clean_windows
        grown = self._learnt + min(growth, _FASTEST * self._learnt)
        if self._rest and grown >= _MARGIN * self._ceiling:
            self._learnt = max(self._learnt, _MARGIN * self._ceiling)
            self._rest, self._clean_windows = self._rest - 1, 0
        else:
            self._learnt = grown
            self._clean_windows += 1

    def _start_window(self, now: float) -> None:
        self._window_began = self._last_began = now
        self._middle = (now, 0.0)
        self._calls = self._refused = self._refused_in_flight = 0
        self._accepted = self._accepted_at_first_refusal = 0.0
        self._first_refusal = None
