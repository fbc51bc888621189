"""Which failures are retried, after what pause, and when a model is given up."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rolecall.errors import RolecallError
from rolecall.models.http.body import UnreadableReplyError
from rolecall.models.protocol import ModelError

_REFUSED = (401, 402, 429)
"""Final statuses of the key or the account, never of a row: every other request would get them too."""
_OF_THE_ADDRESS = (403, 404)
"""Statuses of single rows, or of the key and the address: only a model that answers shows which."""
_OF_THE_ROW = (400, 413, 422)
"""Statuses that concern the content of a request, whoever sends them."""
_UNREACHABLE = 'unreachable'
_ENOUGH = 3
"""Equal failures, without any answer, after which none is expected."""
_ENOUGH_BROKEN = 32
"""Rows in a row whose connections broke, where the server seems to be up: fewer may be the rows' own fault."""
_UNREADABLE = 4
"""Retries after replies that cannot be read: most come from a wrong address or a proxy, and do not change."""
_DOUBTFUL_SECONDS = 5.0
"""Seconds without an answer after which a broken connection makes us check whether the server is up, and how often."""
_CLOSED_SECONDS = 1.0
"""Seconds for which a local port that is closed from the start is retried."""
_OVERLOAD = (408, 429, 503, 504, 529)
_LONGEST_RETRY_AFTER = 300.0
_CALM = 0.2
"""Part of a pause that is enough where the server answers most calls: then failures are scattered."""
_SILENT_SECONDS = 2.0
"""Seconds without an answer after which the next one ends the pauses of calls that failed meanwhile."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a call may take, and how often one that failed for the moment is retried."""

    seconds: float | None = 600.0
    retries: int = 8
    when_busy: int = 40
    """Retries of a call that the server is too busy for."""
    first_pause: float = 0.5
    longest_pause: float = 30.0
    longest_outage: float = 600.0
    """Seconds without any answer, from a server that answered before, after which the model is given up."""

    def pause(self, attempt: int, *, calm: bool = False) -> float:
        """Seconds before the next attempt: exponential backoff with jitter. `calm`: the server answers other calls."""
        first = self.first_pause * (_CALM if calm else 1.0)
        return min(self.longest_pause, first * 2.0**attempt) * random.uniform(0.5, 1.5)


class ModelUnavailableError(RolecallError):
    """The model cannot be asked any more in this run."""


@dataclass(slots=True)
class Attempts:
    """How often one call has failed so far."""

    failed: int = 0
    overloaded: int = 0
    unreadable: int = 0
    """Of the failed ones, those with a reply that could not be read."""

    @property
    def total(self) -> int:
        return self.failed + self.overloaded


class Retrier:
    """Decides about every failed call of one model: retry it, fail its row, or give the model up.

    A model that has ever answered is given up only when it refuses the key, or cannot be reached, again and again.
    While it has answered nothing, equal failures are enough; but calls in flight are waited for first.

    A connection that breaks may be the row's own fault. `is_reachable` asks the server for something that costs
    nothing: if it is up, only the rows fail whose connections keep breaking.
    """

    def __init__(
        self, name: str, policy: RetryPolicy, *, is_reachable: Callable[[], Awaitable[bool]] | None = None
    ) -> None:
        self._name = name
        self.policy = policy
        self._is_reachable = is_reachable
        self._probe: asyncio.Future[bool] | None = None
        self._checked_at = -math.inf
        self.on_give_up: Callable[[], None] = lambda: None
        self.on_reachable: Callable[[], None] = lambda: None
        self.answered = False
        self._answered_now = False
        self._in_flight = 0
        self._doubt: asyncio.Future[None] | None = None
        self._grounds = ''
        self.unavailable: ModelUnavailableError | None = None
        """Why nothing more can be asked."""
        self._failures: Counter[str] = Counter()
        self._closed_since: float | None = None
        self._last_answer = -math.inf
        self._pauses: set[asyncio.Future[None]] = set()
        self._retry_times: list[float] = []

    def trust(self) -> None:
        """The model is known to answer: it did so in an earlier run, or just now."""
        self.answered = True
        self.settle()

    def succeed(self) -> None:
        """A call was answered. After an outage, calls that failed in it need not wait any longer."""
        if self._failures:
            self._failures.clear()
        now = time.monotonic()
        if now - self._last_answer > _SILENT_SECONDS:
            for pause in self._pauses:
                _end_pause(pause)
        self._last_answer = now
        self._answered_now = self.answered = True
        if self._doubt is not None:
            self.settle()

    async def wait(self, seconds: float, *, told: bool) -> None:
        """Wait before the next attempt; until the server answers again, unless it told how long."""
        until = time.monotonic() + seconds
        self._retry_times.append(until)
        try:
            await (asyncio.sleep(seconds) if told else self._pause(seconds))
        finally:
            self._retry_times.remove(until)

    async def _pause(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        pause: asyncio.Future[None] = loop.create_future()
        alarm = loop.call_later(seconds, _end_pause, pause)
        self._pauses.add(pause)
        try:
            await pause
        finally:
            alarm.cancel()
            self._pauses.discard(pause)

    @property
    def retries_at(self) -> float:
        """When the first of the calls that wait for their next attempt goes out; 0 if none waits."""
        return min(self._retry_times, default=0.0)

    def check(self) -> None:
        """Raise if the model was given up."""
        if self.unavailable is not None:
            raise self.unavailable

    async def begin(self) -> None:
        """A call starts; while it is in doubt whether the model answers at all, it waits."""
        if self._doubt is not None:
            await asyncio.shield(self._doubt)
        self.check()
        self._in_flight += 1

    def end(self) -> None:
        """A call that started has ended."""
        self._in_flight -= 1

    async def handle(self, error: ModelError, attempts: Attempts, *, down: float = 0.0, calm: bool = False) -> float:
        """Seconds to wait before the next attempt; raises if there is none.

        `down`: how long nothing has answered; `calm`: the server answers most calls.
        """
        overload = is_overload(error) and not _is_timeout(error)
        unreadable = isinstance(error, UnreadableReplyError)
        left = attempts.overloaded < self.policy.when_busy if overload else attempts.failed < self.policy.retries
        left = left and not (unreadable and attempts.unreadable >= _UNREADABLE)
        hopeless = self._is_hopeless(error, attempts, down)
        if not error.transient or not left or hopeless:
            total = attempts.total + 1
            await self._record_failure(error, attempts=total, hopeless=hopeless, down=down)
            if total == 1:
                raise error
            raise ModelError(_after_attempts(error, total), transient=error.transient, status=error.status) from error
        self.settle()
        if error.status is None and down > _DOUBTFUL_SECONDS < time.monotonic() - self._checked_at:
            await self._check_reachable()
        pause = self.policy.pause(min(attempts.overloaded, 6) if overload else attempts.failed, calm=calm)
        if overload:
            attempts.overloaded += 1
        else:
            attempts.failed += 1
            attempts.unreadable += unreadable
        return max(pause, min(error.retry_after or 0.0, _LONGEST_RETRY_AFTER))

    def give_up(self, why: str) -> ModelUnavailableError:
        """Ask nothing more of this model."""
        self.unavailable = ModelUnavailableError(f'{self._name}: {why.removeprefix(f"{self._name}: ")}')
        self.settle()
        self.on_give_up()
        return self.unavailable

    def settle(self) -> None:
        """End the doubt once a call was answered or none is left in flight."""
        if self._doubt is None or not (self.answered or self.unavailable is not None or self._in_flight == 0):
            return
        doubt, self._doubt = self._doubt, None
        if not self.answered and self.unavailable is None:
            self.give_up(self._grounds)
        doubt.set_result(None)

    def _is_hopeless(self, error: ModelError, attempts: Attempts, down: float) -> bool:
        """Whether retries are pointless: a closed port on this machine from the start, or an outage without end."""
        if not self._answered_now and _is_closed_local_port(error):
            self._closed_since = self._closed_since or time.monotonic()
            return attempts.total > 0 and time.monotonic() - self._closed_since >= _CLOSED_SECONDS
        return error.transient and down > self.policy.longest_outage

    async def _record_failure(self, error: ModelError, *, attempts: int, hopeless: bool, down: float) -> None:
        """A call has failed for good. That may mean that all others will, too."""
        why = _after_attempts(error, attempts) if error.transient else str(error)
        if hopeless and down:
            minutes = f'{down / 60:.0f} min' if down >= 90 else f'{down:.0f} s'
            raise self.give_up(f'no answer for {minutes}, the last request tried {attempts} times: {error}') from error
        if hopeless:
            raise self.give_up(why) from error
        if error.transient and error.status is None and attempts > 1:
            await self._record_broken_connection(error, why)
            return
        del self._failures[_UNREACHABLE]
        refused = _is_refused(error)
        if self.answered and not refused:
            self.settle()
            return
        kind = _failure_kind(error)
        self._failures[kind] += 1
        enough = self._failures[kind] >= _ENOUGH
        if refused and (enough or not self.answered):
            raise self.give_up(why) from error
        if enough:
            await self._wait_for_others(error, why)
        self.settle()

    async def _record_broken_connection(self, error: ModelError, why: str) -> None:
        """Every attempt of a call ended without an HTTP reply: its row has failed, unless the server is down."""
        self._failures[_UNREACHABLE] += 1
        count = self._failures[_UNREACHABLE]
        if not self.answered or count >= _ENOUGH:
            up = await self._check_reachable()
            if up is False or (up is None and not self.answered):
                raise self.give_up(why) from error
            if count >= _ENOUGH_BROKEN and not (up and self.answered):
                await self._wait_for_others(error, why)
        self.settle()

    async def _check_reachable(self) -> bool | None:
        """Whether the server is up; None if the model cannot tell. Calls that ask at once share one request."""
        if self._is_reachable is None:
            return None
        self._checked_at = time.monotonic()
        if self._probe is None:
            self._probe = asyncio.ensure_future(self._is_reachable())
        probe = self._probe
        try:
            up = await asyncio.shield(probe)
        finally:
            if self._probe is probe and probe.done():
                self._probe = None
        if up:
            self.on_reachable()
            if self.answered:
                self._failures[_UNREACHABLE] = 0
        return up

    async def _wait_for_others(self, error: ModelError, why: str) -> None:
        """Wait for the calls in flight before the model is given up; new calls wait for that, too.

        The row that raised the doubt has still failed if the failure is its own: the next start continues after it.
        """
        own = self._doubt is None and error.status in _OF_THE_ROW
        if self._doubt is None:
            self._doubt, self._grounds = asyncio.get_running_loop().create_future(), why
        doubt = self._doubt
        self.settle()
        await asyncio.shield(doubt)
        if self.unavailable is not None and not own:
            raise self.unavailable from error


def _end_pause(pause: asyncio.Future[None]) -> None:
    if not pause.done():
        pause.set_result(None)


def _after_attempts(error: ModelError, attempts: int) -> str:
    return f'no answer after {attempts} {"attempt" if attempts == 1 else "attempts"}: {error}'


def is_row_failure(error: ModelError, *, answered: bool) -> bool:
    """Whether a failure belongs to the row and will stay: not the server's at the moment, nor the key's or account's.

    Statuses that a wrong key or address causes, too, count as the row's only once the model has answered something.
    """
    if error.transient or _is_refused(error):
        return False
    return answered or error.status in _OF_THE_ROW


def is_overload(error: ModelError) -> bool:
    """Whether the server was too busy, or too slow."""
    return error.transient and (error.status in _OVERLOAD or _is_timeout(error))


def _is_timeout(error: ModelError) -> bool:
    return isinstance(error.__cause__, (TimeoutError, asyncio.TimeoutError))


def _is_refused(error: ModelError) -> bool:
    """Whether the key or the account is refused, for good."""
    return error.status in _REFUSED and not error.transient


def _failure_kind(error: ModelError) -> str:
    """What equal failures have in common: the status where it says enough, for a message may name its request."""
    by_status = error.transient or error.status in (*_REFUSED, *_OF_THE_ADDRESS)
    return str(error.status or error) if by_status else str(error)


def _is_closed_local_port(error: ModelError) -> bool:
    cause = error.__cause__
    if not isinstance(getattr(cause, 'os_error', cause), ConnectionRefusedError):
        return False
    host = str(getattr(cause, 'host', ''))
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == 'localhost' or host.endswith('.localhost')
