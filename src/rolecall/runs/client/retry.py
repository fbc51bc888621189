"""Trying calls again while that may help, and knowing when nothing will."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from rolecall.errors import RolecallError
from rolecall.models.protocol import ModelError

__all__ = ['ModelUnavailableError', 'Retrier', 'RetryPolicy', 'is_overload', 'is_row_failure']

_REFUSED = (401, 402, 429)
"""Final statuses of the key or the account, never of a row: every other request would get them too."""
_OF_THE_ADDRESS = (403, 404)
"""Statuses of single rows, or of the key and the address: only a model that answers shows which."""
_OF_THE_ROW = (400, 413, 422)
"""Statuses that speak of what was sent, from whomever they come."""
_UNREACHABLE = 'unreachable'
_ENOUGH = 3
"""So many equal failures, and no answer, say that none will come."""
_BUSY = (408, 429, 503, 504, 529)
T = TypeVar('T')


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a call may take, and how often one that fails for the moment is tried again."""

    seconds: float | None = 600.0
    retries: int = 8
    when_busy: int = 40
    """How often a call that the server is too busy for is tried again."""
    first_pause: float = 0.5
    longest_pause: float = 30.0

    def pause(self, attempt: int) -> float:
        """Seconds before the next attempt: doubling, with a share of chance so that calls spread."""
        return min(self.longest_pause, self.first_pause * 2.0**attempt) * random.uniform(0.5, 1.5)


class ModelUnavailableError(RolecallError):
    """Nothing more can be asked of this model in this run."""


class Retrier:
    """Retries calls while that may help, and knows when nothing will.

    A model that has ever answered is given up only when it refuses the key, or cannot be reached, again and again.
    While it has answered nothing, equal failures say that it will not; but calls under way are heard first.
    """

    def __init__(self, name: str, retry_policy: RetryPolicy) -> None:
        self._name = name
        self.retry_policy = retry_policy
        self.answered = False
        self._under_way = 0
        self._doubt: asyncio.Future[None] | None = None
        self._grounds = ''
        self.broken: ModelUnavailableError | None = None
        """Why nothing more can be asked."""
        self._failures: Counter[str] = Counter()

    def trust(self) -> None:
        """Take it that the model answers."""
        self.answered = True
        self._settle()

    async def begin(self) -> None:
        """A call goes out; while it is in doubt whether the model answers at all, it waits."""
        if self._doubt is not None:
            await asyncio.shield(self._doubt)
        if self.broken is not None:
            raise self.broken
        self._under_way += 1

    def end(self) -> None:
        """A call that went out is over."""
        self._under_way -= 1

    async def until_done(self, once: Callable[[], Awaitable[T]]) -> T:
        attempt = busy = 0
        while True:
            if self.broken is not None:
                raise self.broken
            try:
                came = await once()
            except ModelError as error:
                too_busy = is_overload(error)
                if not error.transient or (
                    busy >= self.retry_policy.when_busy if too_busy else attempt >= self.retry_policy.retries
                ):
                    attempts = attempt + busy + 1
                    await self._take_down(error, attempts=attempts)
                    if attempts == 1:
                        raise
                    raise ModelError(_tried(error, attempts), transient=error.transient, status=error.status) from error
                self._settle()
                pause = self.retry_policy.pause(attempt if not too_busy else min(busy, 6))
                attempt, busy = (attempt, busy + 1) if too_busy else (attempt + 1, busy)
                await asyncio.sleep(max(pause, min(error.retry_after or 0.0, 300.0)))
            except ModelUnavailableError:
                raise
            except RolecallError as error:
                raise self._break(str(error)) from error
            except BaseException:
                self._settle()
                raise
            else:
                self._failures.clear()
                self.trust()
                return came

    async def _take_down(self, error: ModelError, *, attempts: int) -> None:
        """A call has failed for good. That may say that all others will, too."""
        refused = _is_refused(error)
        unreachable = error.transient and error.status is None and attempts > 1
        if not unreachable:
            del self._failures[_UNREACHABLE]
        if self.answered and not (refused or unreachable):
            self._settle()
            return
        alike = _UNREACHABLE if unreachable else _alike(error)
        self._failures[alike] += 1
        enough = self._failures[alike] >= _ENOUGH
        why = _tried(error, attempts) if error.transient else str(error)
        if (refused or unreachable) and (enough or not self.answered):
            raise self._break(why) from error
        if enough:
            await self._hear_the_others(error, why)
        self._settle()

    async def _hear_the_others(self, error: ModelError, why: str) -> None:
        """Wait for the calls that are under way before the model is given up; new ones wait for that, too.

        The row that raised the doubt has still failed if the failure is its own: the next start goes on after it.
        """
        own = self._doubt is None and error.status in _OF_THE_ROW
        if self._doubt is None:
            self._doubt, self._grounds = asyncio.get_running_loop().create_future(), why
        doubt = self._doubt
        self._settle()
        await asyncio.shield(doubt)
        if self.broken is not None and not own:
            raise self.broken from error

    def _settle(self) -> None:
        """End the doubt once somebody was answered or nobody is left to be heard."""
        if self._doubt is None or not (self.answered or self.broken is not None or self._under_way == 0):
            return
        doubt, self._doubt = self._doubt, None
        if not self.answered and self.broken is None:
            self._break(self._grounds)
        doubt.set_result(None)

    def _break(self, why: str) -> ModelUnavailableError:
        self.broken = ModelUnavailableError(f'{self._name}: {why}')
        self._settle()
        return self.broken


def _tried(error: ModelError, attempts: int) -> str:
    return f'no answer after {attempts} {"attempt" if attempts == 1 else "attempts"}: {error}'


def is_row_failure(error: ModelError, *, answered: bool) -> bool:
    """Whether a failure is the row's own and will stay: not the server's just now, nor the key's or the account's.

    What may also come from a wrong key or address says nothing of a row until the model has answered something.
    """
    if error.transient or _is_refused(error):
        return False
    return answered or error.status in _OF_THE_ROW


def _is_refused(error: ModelError) -> bool:
    """Whether the key or the account is refused, for good."""
    return error.status in _REFUSED and not error.transient


def _alike(error: ModelError) -> str:
    """What equal failures have in common: the status where it says enough, for a message may name its request."""
    told = error.transient or error.status in (*_REFUSED, *_OF_THE_ADDRESS)
    return str(error.status or error) if told else str(error)


def is_overload(error: ModelError) -> bool:
    """Whether it was too much for the server just now."""
    return error.transient and (
        error.status in _BUSY or isinstance(error.__cause__, (TimeoutError, asyncio.TimeoutError))
    )
