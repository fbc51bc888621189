"""Lets calls through to one model: as many at once, and as many a second, as bring the most answers.

A `ConcurrencyController` finds the number of calls in flight; two `RateController`s the requests, and the tokens, per
second that the server accepts. During an outage (nothing but failures) only single calls go out, until one is answered.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from rolecall.models.http.failures import RateLimit, Unit
from rolecall.runs.client.rate import TOKEN_GROWTH, RateController, SentCall

_STEP = 2**0.5
_GAIN = 0.15
"""Share of a step in concurrency that must arrive as answers for the step to count as a gain."""
_WORSE, _CHANGED = 0.97, 0.8
_LONGEST_TRIAL = 2.0
_SMALLEST_ROUND, _FEW_ANSWERS = 8, 16
"""Calls of a round at the least, and answers that are enough where a higher level brings less than the one before."""
_MOST_AT_FIRST = 64
"""Calls in flight until the first answers are there; from there their number doubles each round while that helps."""
_LEAP, _FLAT = 3.0, 1.25
"""The first step, if calls take at most so many times as long as the first one did alone."""
_QUICK = 4
"""At first, while levels only grow, this part of a round is enough."""
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
        self.unloaded = 0.0
        """Seconds that the first answer took."""
        self._start_round(0.0)

    def resize(self, most: int) -> None:
        """Change how many calls may be in flight at most; the best number below is looked for anew."""
        self._most, self._rest, self._pause = most, 0, _FIRST_REST
        self.limit = self._home = min(self._home, most)
        self._factor = 2.0 if self.limit < most else 0.5
        self._rates.clear()
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
        enough = self.limit / (_QUICK if self._factor >= 2.0 else 1)
        if hopeless or self._calls >= max(_SMALLEST_ROUND, enough):
            if self._factor == 2.0 and not self._rates and self._time <= _FLAT * self.unloaded * self._calls:
                self._factor = _LEAP
            self._judge(rate)
            self._start_round(ended)

    def _start_round(self, now: float) -> None:
        self._round_began = now
        self._answers = self._calls = 0
        self._time = 0.0

    def _judge(self, rate: float) -> None:
        before = self._rates.get(self.limit)
        if self.limit == self._home:
            self._rates[self.limit] = rate if before is None else (before + rate) / 2
            if before is not None and rate < _CHANGED * before:
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
        if self._factor > 2.0:
            self._factor = 2.0
            self._try_neighbour()
            return
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


CallOutcome = Literal['answered', 'refused', 'trouble', 'other']
"""How a call ended: answered; too much for the server (429, 503, …); it had trouble (5xx, dropped); anything else."""

_OUTAGE_AFTER = 10
"""Calls in a row that failed before the server counts as down."""
_SILENCE = {'refused': 2.0, 'trouble': 0.2}
"""Seconds without an answer that it takes, too: a rate limit refuses many calls in a row and lets others through."""
_PROBE_SECONDS = 1.0
_UP_SECONDS = 30.0
"""Seconds for which a server that was seen to be up is sent calls as usual, though calls only fail."""
_FIRST_CALLS, _FIRST_GAP = 10, 0.006
"""Calls that go out at once before anything came back, and seconds between the next: refusals come back soon."""
_LONGEST_WAIT = 300.0
_WORTH_WAITING = 2.0
"""`Retry-After` below this only holds back the call it was sent for."""
_RECENT, _MOST = 16, 0.75
"""Calls that show what the server does at the moment, and the part of them that counts as most."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Calls in flight to start with and at most, and calls that may begin each second."""

    start: int = 8
    most: int = 128
    per_second: float | None = None


@dataclass(slots=True)
class Slot:
    """The right to make one call; given back with how it ended."""

    began: float
    full: bool
    """Whether it took the last place, so that another would have gone out, had there been one."""
    sent: dict[Unit, SentCall]


_Waiting = tuple[asyncio.Future[Slot], float]


class Limiter:
    """Lets calls through. `acquire` before a call, `release` after it."""

    def __init__(self, limits: Limits, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._concurrency = ConcurrencyController(start=limits.start, most=limits.most)
        self._rates: dict[Unit, RateController]
        self._rates = {
            'requests': RateController(most=limits.per_second),
            'tokens': RateController(growth=TOKEN_GROWTH),
        }
        self._retries: deque[_Waiting] = deque()
        self._fresh: deque[_Waiting] = deque()
        self._recent: deque[CallOutcome] = deque(maxlen=_RECENT)
        self._failures_in_a_row = 0
        self._heard = False
        self._closed_at_first = 0.0
        self._last_answer = clock()
        self.down_since: float | None = None
        """Since when calls have only failed; None while the server answers."""
        self._probe_at = 0.0
        self._up_until = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_at = 0.0
        self._unlimited = False
        self.active = 0
        self._held = False
        self.closed_until = 0.0
        """The server asked to be left alone until then, by the limiter's clock."""

    @property
    def limit(self) -> int:
        """Calls that may be in flight."""
        return self._concurrency.limit

    def resize(self, most: int) -> None:
        """Change how many calls may be in flight at most."""
        self._concurrency.resize(most)
        self._admit_waiting()

    def hold(self, held: bool) -> None:
        """Let no call through while held."""
        self._held = held
        self._admit_waiting()

    @property
    def waits_until(self) -> float:
        """When the next waiting call may begin, by the limiter's clock; 0 if none waits for time to pass."""
        return self._opens_at() if (self._retries or self._fresh) and self.active < self.limit else self.closed_until

    @property
    def answers_most(self) -> bool:
        """Whether most of the last calls were answered, so that failures are scattered."""
        return len(self._recent) == _RECENT and self._recent.count('answered') >= _MOST * _RECENT

    def rate(self, unit: Unit = 'requests') -> float | None:
        """Units a second that the server accepts, where that is known."""
        return self._rates[unit].rate

    async def acquire(self, tokens: float = 0.0, *, retry: bool = False) -> Slot:
        """Wait for a place. `tokens`: what the call will probably cost.

        Retries go first: rows that have begun are finished before others begin, and a server that refuses each row
        once is not taken for one that refuses everything.
        """
        if not self._retries and (retry or not self._fresh) and (slot := self._admit(tokens)) is not None:
            return slot
        place: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        (self._retries if retry else self._fresh).append((place, tokens))
        self._admit_waiting()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self.active -= 1
                self._admit_waiting()
            raise

    def release(
        self,
        slot: Slot,
        outcome: CallOutcome,
        *,
        tokens: float | None = None,
        retry_after: float | None = None,
        refused: Unit = 'requests',
        announced: Mapping[Unit, RateLimit] | None = None,
    ) -> None:
        """A call has ended. `tokens`: what it did cost; `refused`: what there was too much of, where it was refused.

        `announced`: the limits that came with the answer, or with the refusal.
        """
        self.active -= 1
        self._heard = self._heard or outcome in ('answered', 'other')
        now = self._clock()
        if outcome == 'answered' and not self._concurrency.unloaded:
            self._concurrency.unloaded = now - slot.began
        for unit, limit in announced.items() if announced else ():
            call = slot.sent[unit]
            amount = tokens if unit == 'tokens' and tokens is not None else call.amount
            announced_limit = self._rates[unit].announced
            announced_limit.hear(limit, began=call.began, amount=amount, mark=call.mark, now=now)
        self._record(slot, outcome, now, tokens, refused)
        if outcome == 'refused' and retry_after is not None:
            self._hold_back(now, min(retry_after, _LONGEST_WAIT))
        self._admit_waiting()

    def open_for_all(self) -> None:
        """Let everything through at once: the calls will find out that the model was given up."""
        self._unlimited = True
        self._admit_waiting()

    def note_reachable(self) -> None:
        """The server is up, whatever becomes of calls: for a while they are not held back as in an outage."""
        self._up_until = self._clock() + _UP_SECONDS
        self._admit_waiting()

    def rescale_tokens(self, factor: float) -> None:
        """The first answers say what calls cost: this many times what was assumed."""
        self._rates['tokens'].rescale(factor)
        for queue in (self._retries, self._fresh):
            waiting = [(place, factor * tokens) for place, tokens in queue]
            queue.clear()
            queue.extend(waiting)

    def _record(self, slot: Slot, outcome: CallOutcome, now: float, tokens: float | None, refused: Unit) -> None:
        for unit, sent in slot.sent.items():
            if outcome == 'answered':
                sent.state = 'accepted'
            elif outcome != 'refused' or unit != refused:
                sent.state = 'void'
            else:  # the end of a window explains a refusal: it says nothing about a rate
                announced = self._rates[unit].announced
                sent.state = 'void' if announced.is_window and announced.opens_at > now else 'refused'
            self._rates[unit].settle(sent, now, tokens if unit == 'tokens' else None)
        if slot.full and outcome in ('answered', 'trouble'):  # refusals show the limit of a rate
            self._concurrency.record(began=slot.began, ended=now, answered=outcome == 'answered')
        if outcome != 'other':
            self._recent.append(outcome)
            self._note_outage(outcome, now)

    def _note_outage(self, outcome: CallOutcome, now: float) -> None:
        if outcome == 'answered':
            self._failures_in_a_row, self.down_since, self._last_answer = 0, None, now
            return
        self._failures_in_a_row += 1
        silent = now - self._last_answer
        if self.down_since is None and self._failures_in_a_row >= _OUTAGE_AFTER and silent >= _SILENCE[outcome]:
            self.down_since, self._probe_at = now, now + _PROBE_SECONDS / 2
            for controller in self._rates.values():
                controller.forget_outage(now)

    def _hold_back(self, now: float, seconds: float) -> None:
        """Close for everyone only where most calls are refused: a refusal among answers concerns its own call."""
        until = now + seconds
        many = self._recent.count('refused') * 2 >= max(4, len(self._recent))
        if self.closed_until > now:  # what the server stated last is what counts
            self.closed_until = until
        if seconds < _WORTH_WAITING or until <= self.closed_until or not many:
            return
        self.closed_until = until
        for controller in self._rates.values():
            controller.close_until(until)

    def _admit(self, tokens: float) -> Slot | None:
        now = self._clock()
        if self._held or (not self._unlimited and (self.active >= self.limit or self._opens_at() > now)):
            return None
        if self.down_since is not None:
            self._probe_at = now + _PROBE_SECONDS
        self.active += 1
        slot = Slot(now, self.active >= self.limit, {})
        for unit, controller in self._rates.items():
            sent = slot.sent[unit] = SentCall(now, max(1.0, tokens) if unit == 'tokens' else 1.0)
            controller.send(sent)
        if not self._heard and self.active >= _FIRST_CALLS:
            self._closed_at_first = now + _FIRST_GAP
        return slot

    def _opens_at(self) -> float:
        """When the next call may begin, as far as time decides."""
        opens = self.closed_until if self._heard else max(self.closed_until, self._closed_at_first)
        for controller in self._rates.values():
            opens = max(opens, controller.opens_at)
        down = self.down_since is not None and self._clock() >= self._up_until
        return max(opens, self._probe_at) if down else opens

    def _admit_waiting(self) -> None:
        while queue := self._retries or self._fresh:
            place, tokens = queue[0]
            if place.done():
                queue.popleft()
            elif (slot := self._admit(tokens)) is not None:
                queue.popleft()
                place.set_result(slot)
            else:
                break
        if queue and (opens := self._opens_at()) > self._clock():
            self._set_alarm(opens)

    def _set_alarm(self, opens: float) -> None:
        if self._alarm is not None and (self._alarm_at <= opens or self._alarm.cancelled()):
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_at = opens
        self._alarm = asyncio.get_running_loop().call_later(max(0.0, opens - self._clock()), self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        self._admit_waiting()
