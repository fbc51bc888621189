"""The rate that a server accepts: learnt from what it refuses, or announced in its headers.

A server refuses a call when its reserve is used up. What it accepts between two such moments, over the time between
them, is its rate, whatever was sent: each refusal is a measurement. After one, the controller sends less than was
measured, so that the server has a reserve and other runs have their share, and then more and more until the next.

Calls that are refused again and again although less is sent than was measured are refused at random. Such refusals are
left alone; from then on, only a greater share of them counts.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal

from rolecall.models.http.failures import RateLimit

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
        self.pace: float | None = None
        """At what pace calls are sent because nothing is left."""
        self._ends = 0.0
        self._factor = 1.0
        """How many times the stated pace is sent: servers that say 0 with every answer may mean nothing by it."""
        self._answered, self._doubtful = 0, _DOUBTFUL

    def send(self, began: float, amount: float) -> float:
        """A call is sent. How much was sent with it, as a mark in time."""
        self.sent += amount
        if self.pace is not None:
            self.opens_at = min(max(self.opens_at, began) + amount / (self.pace * self._factor), self._ends)
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
            self.opens_at, self.pace = 0.0, None
        elif self.is_window:
            self.opens_at, self.pace = self._ends, None
        else:
            refill = (used or max(self.sent, _TELLING * amount)) / stated.reset
            self.pace = refill if self.pace is None else min(_SMOOTH * self.pace, refill)
            pace = self.pace * self._factor
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


_STORM, _STORM_CALLS = 0.3, 8
"""Share of refusals among the last few calls that shows a limit: three in a row, where refusals are rare."""
_USUAL, _USUAL_CALLS = 0.01, 100
"""Share of refusals among the last calls that shows nothing yet."""
_FIRST_RATE = 10.0
"""Calls a second to begin with, where little or nothing was accepted since the first refusal."""
_CUT, _DEEP_CUT, _FULL_CUT_CALLS = 0.08, 0.2, 12
"""Part of the measured rate that is given up at a refusal; less where the one before was only a few calls ago."""
_AGREES = 0.8
"""Part of the rate that must be measured for the small cut: otherwise the limit is new, or others use it, too."""
_GROWTH, _LEAST_GROWTH = 1.1, 0.12
"""Growth per second: over the square root of the calls per second, so that slower runs catch up; at least so much."""
TOKEN_GROWTH = 0.4
"""The same for tokens: with 1.1, 3.9 % of the calls of a minute were refused at 100,000 tokens a minute; now 2.6 %."""
_BLIND_GROWTH = 0.05
"""Growth, at most, in the time that a refusal takes: until it is back, calls beyond the limit go out."""
_EPOCH = 40
"""Calls from one refusal to the next at full growth; growth is slower, while there are fewer."""
_EAGER, _EAGER_GROWTH, _LESS_EAGER = 10.0, 0.16, 0.3
"""Growth until the limit is met, and what remains of it after each refusal."""
_MEASURED_CALLS, _SURE_CALLS, _SHORTEST_MEASURE = 24, 8, 0.1
"""Accepted calls that make a measurement, calls that are enough to trust one below, and seconds that it takes."""
_ACCEPTED, _RANDOM = 0.3, 0.5
"""Refusals below the measured rate are odd. They may be random if this part is accepted, after so deep a fall."""
_ODD_REFUSALS, _TEST_CALLS = 3, 80
"""Odd refusals, at least, before it is tested whether they are random, and calls that such a test takes."""
_SLOWEST, _SLOWEST_PROBE = 0.2, 2.5
"""Calls a second at the least, and where nothing is accepted: then the rate may not be the reason."""
_LATE = 0.1
"""Seconds by which a timer may be late without calls being lost to the rate."""
_LONGEST_GAP = 60.0
"""Seconds between two calls at the most, whatever the first of them took: limits are those of a minute."""


@dataclass(slots=True)
class SentCall:
    """A call as a rate controller sees it: when it was sent, how much it takes of the limit, and what became of it."""

    began: float
    amount: float
    state: Literal['sent', 'accepted', 'refused', 'void'] = 'sent'
    paced: bool = False
    """Whether a rate was known, so that calls after it wait for what it takes."""
    held_back: bool = False
    """Whether it could have gone out sooner, had the rate been higher."""
    counted: bool = False
    """Whether it counts as accepted, or was refused."""
    exhausted: bool = False
    """Whether the server had announced that nothing was left."""
    mark: float = 0.0
    """How much was sent up to it."""


@dataclass(slots=True)
class _Span:
    """What the server accepted between two refusals: how much, in how many calls, of how many."""

    began: float
    amount: float = 0.0
    accepted: int = 0
    calls: int = 0
    seconds: float = 0.0


class RateController:
    """Holds the highest rate of one unit (requests, tokens) that a server accepts."""

    def __init__(self, *, most: float | None = None, growth: float = _GROWTH) -> None:
        self._most = most
        self._growth = growth
        self._learnt: float | None = None
        self.announced = AnnouncedLimit()
        self._learnt_while_answering: float | None = None
        self._open_since: float | None = None
        self._accepted_since_open = 0.0
        self._next = 0.0
        self._mean = 0.0
        self._refusal_seconds: float | None = None
        self._sent: deque[SentCall] = deque()
        self._random_share = 0.0
        """Share of refusals that no limit explains."""
        self._doubt = _RANDOM
        self._start_measuring(-math.inf)

    def _start_measuring(self, now: float) -> None:
        """Begin anew with what is learnt."""
        self._reacted = now
        """When the rate was last cut: calls sent before say nothing about the rate that is sent since."""
        self._testing: float | None = None
        """The rate to go back to, while it is tried whether refusals are random."""
        self._calls = self._since = self._since_before = 0
        self._storm = self._usual = 0.0
        self._ceiling, self._eager, self._grew = self._learnt or 0.0, 1.0, now
        self._refused_odd = self._calls_odd = 0
        self._odd_since: float | None = None
        """The rate at the first of the last refusals, if they all were odd."""
        self._span: _Span | None = None
        """What happened since the last refusal; None before the first, when the server may have had reserves."""
        self._spans: deque[_Span] = deque()

    @property
    def rate(self) -> float | None:
        """Units per second that may be sent; None while no limit is known."""
        if self._learnt is None or self._most is None:  # asked for several times with every call
            return self._learnt if self._most is None else self._most
        return min(self._most, self._learnt)

    @property
    def opens_at(self) -> float:
        """When the next call may be sent."""
        return max(self._next, self.announced.opens_at) if self.rate else self.announced.opens_at

    def send(self, call: SentCall) -> None:
        """A call is sent."""
        self._mean += (0.05 if self._mean else 1.0) * (call.amount - self._mean)
        if self._open_since is None:
            self._open_since = call.began
        self._sent.append(call)
        call.exhausted = self.announced.pace is not None
        call.mark = self.announced.send(call.began, call.amount)
        if rate := self.rate:
            call.paced, call.held_back = True, self._next > call.began - _LATE
            self._pace_next(max(self._next, call.began - _LATE) + call.amount / rate, call.began)

    def _pace_next(self, opens: float, now: float) -> None:
        self._next = min(opens, now + _LONGEST_GAP)

    def settle(self, call: SentCall, now: float, amount: float | None = None) -> None:
        """A call was accepted, refused, or says nothing about the limit (`void`). `amount`: what it did take."""
        if amount is not None:
            more = amount - call.amount
            if call.paced and (rate := self.rate):
                self._pace_next(self._next + more / rate, now)
            if call.counted and self._span is not None:
                self._span.amount += more
            call.amount = amount
        if call.exhausted and call.state != 'void':
            self.announced.settle(refused=call.state == 'refused')
        if call.state == 'refused':
            seconds = now - call.began
            mean = seconds if self._refusal_seconds is None else self._refusal_seconds
            self._refusal_seconds = mean + 0.1 * (seconds - mean)
        elif call.state == 'accepted':
            self._accepted_since_open += call.amount
            self._learnt_while_answering = self._learnt
        decided = now - 3 * (self._refusal_seconds or 0.0)  # refusals come sooner than answers
        while self._sent and (self._sent[0].state != 'sent' or self._sent[0].began < decided):
            if (oldest := self._sent.popleft()).state != 'void':
                self._count(oldest, now)

    def _count(self, call: SentCall, now: float) -> None:
        """Take calls into account in the order in which they were sent."""
        refused = call.state == 'refused'
        call.counted = True
        self._calls += 1
        self._storm += (refused - self._storm) / _STORM_CALLS
        self._usual += (refused - self._usual) / min(self._calls, _USUAL_CALLS)
        if self._span is not None:
            self._span.calls += 1
            if not refused:
                self._span.amount, self._span.accepted = self._span.amount + call.amount, self._span.accepted + 1
        elif refused:
            self._span = _Span(call.began)
        if call.began < self._reacted:
            return
        self._since += 1
        self._refused_odd += refused
        self._calls_odd += 1
        if refused:
            if (self._learnt is not None and not self._random_share) or self._shows_limit():
                self._meet_limit(call, now)
        elif self._learnt is not None and call.held_back:
            self._grow(now)

    def _shows_limit(self) -> bool:
        """Whether refusals are too frequent to be random."""
        if self._testing is not None:
            expected = self._random_share * self._since
            return self._refused_odd > 1 + expected + 2 * math.sqrt(expected * (1 - self._random_share))
        expected = max(_USUAL, self._random_share)
        many = self._calls >= _USUAL_CALLS and self._usual > expected + 3 * math.sqrt(expected / _USUAL_CALLS)
        return many or self._storm >= min(0.9, _STORM + 2 * self._random_share)

    def _meet_limit(self, call: SentCall, now: float) -> None:
        """A call was refused because of the limit: measure it, and send less."""
        measured, sure = self._measure(call.began)
        if self._testing is not None:  # more was refused when more was sent
            self._learnt, self._testing, self._random_share = self._testing, None, 0.0
            self._doubt *= _RANDOM
        before, weight = self._learnt, min(1.0, self._since / _FULL_CUT_CALLS)
        expected = before is not None and before >= self._ceiling and measured >= _AGREES * before
        cut = _CUT if expected else _DEEP_CUT
        if before is None:
            self._ceiling, self._eager = max(measured, _FIRST_RATE * self._mean), _EAGER
        else:
            self._note_odd_refusal(before)
            if self._eager > 1:  # what was saved up before is part of the measurement
                measured = math.sqrt(measured * before)
            self._ceiling = min(max(measured, before * (1 - sure)), before)
            self._eager = max(1.0, self._eager * _LESS_EAGER**weight)
        slowest = _SLOWEST if measured else _SLOWEST_PROBE
        self._learnt = max(slowest * self._mean, (1 - cut * weight) * self._ceiling)
        self._ceiling = max(self._ceiling, self._learnt)
        fell = self._odd_since is not None and self._learnt <= self._doubt * self._odd_since
        if fell and _ODD_REFUSALS <= self._refused_odd <= (1 - _ACCEPTED) * self._calls_odd:
            self._test_randomness()
        self._since, self._since_before = 0, self._since
        self._storm, self._reacted, self._grew = 0.0, now, now
        self._next = now + self._mean / self._learnt

    def _note_odd_refusal(self, rate: float) -> None:
        if rate >= self._ceiling or self._eager > 1:
            self._odd_since = None
        elif self._odd_since is None:
            self._odd_since, self._refused_odd, self._calls_odd = rate, 0, 0

    def _test_randomness(self) -> None:
        """Sending less has not helped: send twice as much as before, and see whether more is refused."""
        assert self._odd_since is not None
        self._testing, self._learnt, self._odd_since = self._learnt, 2 * self._odd_since, None
        share = self._refused_odd / self._calls_odd
        self._random_share = min(0.9, share + 2 * math.sqrt(share * (1 - share) / self._calls_odd))
        self._refused_odd = self._calls = 0
        self._usual = self._random_share

    def _measure(self, now: float) -> tuple[float, float]:
        """What the server accepted per second between the last refusals, and how far to trust that."""
        if self._span is not None:
            self._span.seconds = now - self._span.began
            self._spans.append(self._span)
        self._span = _Span(now)
        while sum(span.accepted for span in self._spans) - self._spans[0].accepted >= _MEASURED_CALLS:
            self._spans.popleft()
        calls = sum(span.calls for span in self._spans)
        seconds = max(sum(span.seconds for span in self._spans), _SHORTEST_MEASURE)
        return sum(span.amount for span in self._spans) / seconds, min(1.0, calls / _SURE_CALLS)

    def _grow(self, now: float) -> None:
        """Grow with every accepted call; the faster the longer a refusal is overdue."""
        assert self._learnt is not None
        if self._testing is not None:
            if self._since >= _TEST_CALLS:
                self._learnt = self._testing = None
            return
        seconds, self._grew = now - self._grew, now
        overdue = (self._learnt / self._ceiling) ** 4
        if self._eager > 1:
            growth = _EAGER_GROWTH * max(self._eager, min(_EAGER, overdue))
        else:
            calm = min(1.0, max(self._since, self._since_before) / _EPOCH) ** 2
            growth = max(_LEAST_GROWTH, self._growth * math.sqrt(self._mean / self._learnt))
            growth *= min(_EAGER, overdue) if overdue > 1 else calm
            if self._refusal_seconds:
                growth = min(growth, _BLIND_GROWTH / self._refusal_seconds)
        self._learnt *= 1 + min(0.25, growth * seconds)

    def rescale(self, factor: float) -> None:
        """What calls take turned out to be this many times what was assumed."""
        self.announced.sent *= factor
        self._mean, self._ceiling = factor * self._mean, factor * self._ceiling
        self._accepted_since_open *= factor
        for name in ('_learnt', '_learnt_while_answering', '_testing', '_odd_since'):
            rate: float | None = getattr(self, name)
            setattr(self, name, None if rate is None else factor * rate)
        for span in (*self._spans, *filter(None, [self._span])):
            span.amount *= factor
        for call in self._sent:
            if call.state != 'accepted':
                call.amount *= factor
            call.mark *= factor

    def close_until(self, until: float) -> None:
        """The server refuses everything until then. What it accepted since it last opened is its rate."""
        if self._open_since is not None and until - self._open_since > 1 and self._accepted_since_open > 0:
            learnt = self._accepted_since_open / (until - self._open_since)
            self._learnt = learnt if self._learnt is None else min(max(learnt, self._learnt / 2), 2 * self._learnt)
            self._learnt = max(self._learnt, _SLOWEST * self._mean)
        self._open_since, self._accepted_since_open = until, 0.0
        self._start_measuring(until)

    def forget_outage(self, now: float) -> None:
        """The server is down: its refusals say nothing about its limits."""
        self._learnt = self._learnt_while_answering
        self._start_measuring(now)
