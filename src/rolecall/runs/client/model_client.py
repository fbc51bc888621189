"""The way to one model: single calls to a server, or batches to a model in this process; failures tried again."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, Protocol, TypeVar

from rolecall.errors import RolecallError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.render.spans import Request
from rolecall.runs.client.limiter import Limiter, Limits, Signal
from rolecall.runs.client.retry import ModelUnavailableError, Retrier, RetryPolicy, is_overload

__all__ = [
    'BatchClient',
    'ConcurrentClient',
    'ModelCall',
    'ModelClient',
    'ModelUnavailableError',
    'RetryPolicy',
    'build_client',
]

T = TypeVar('T')


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request and what is wanted of it."""

    kind: Literal['generate', 'score']
    request: Request
    sampling: Sampling
    check: Callable[[Request], None] | None = field(default=None, compare=False, repr=False)
    """Given the request when it is handed to the model; raises if it is not the one that was shown."""


class ModelClient(Protocol):
    """The way to one model."""

    @property
    def model(self) -> Model:
        """Who is asked."""

    @property
    def window(self) -> int:
        """How many rows should be on their way at once."""

    @property
    def concurrency(self) -> int:
        """How many calls may be on their way just now."""

    @property
    def answered(self) -> bool:
        """Whether the model has ever answered anything."""

    def trust(self) -> None:
        """Take it that the model answers: it has done so before."""

    async def send(self, call: ModelCall) -> Reply | Scored:
        """What a call comes to; `ModelError` if it failed for good, `ModelUnavailableError` if every call would."""

    async def close(self) -> None:
        """Stop what is under way."""


def build_client(model: Model, *, limits: Limits, retry_policy: RetryPolicy) -> ModelClient:
    """A client with single calls for an API, with batches for a model that takes several requests at once."""
    if model.batch > 1:
        return BatchClient(model, retry_policy)
    return ConcurrentClient(model, limits, retry_policy)


class _RetryingClient(ABC):
    """What clients have in common: a call is tried again while that may help."""

    _retrier: Retrier

    @property
    def answered(self) -> bool:
        return self._retrier.answered

    def trust(self) -> None:
        self._retrier.trust()

    async def send(self, call: ModelCall) -> Reply | Scored:
        return await self._retrier.until_done(lambda: self._once(call))

    @abstractmethod
    async def _once(self, call: ModelCall) -> Reply | Scored:
        """Send the call, once."""


class ConcurrentClient(_RetryingClient):
    """Calls go out one by one, as many at once as the limiter allows."""

    def __init__(self, model: Model, limits: Limits, retry_policy: RetryPolicy) -> None:
        self.model = model
        self.window = 2 * limits.most
        self._limiter = Limiter(limits)
        self._retrier = Retrier(model.name, retry_policy)

    @property
    def concurrency(self) -> int:
        return int(self._limiter.limit)

    async def _once(self, call: ModelCall) -> Reply | Scored:
        ticket = await self._limiter.acquire()
        signal: Signal = 'other'
        retry_after = None
        try:
            await self._retrier.begin()
            try:
                answers = await with_timeout(
                    self._retrier.retry_policy.seconds, _asked(self.model, call.kind, [call.request], call.sampling)
                )
            finally:
                self._retrier.end()
            signal = 'ok'
            return answers[0]
        except ModelError as error:
            signal = 'other' if not error.transient else 'busy' if is_overload(error) else 'trouble'
            retry_after = error.retry_after
            raise
        finally:
            self._limiter.release(ticket, signal, retry_after=retry_after)

    async def close(self) -> None:
        """Nothing is under way outside the calls themselves."""


class BatchClient(_RetryingClient):
    """Calls gather while the model computes; those with most in common go together, in the order of their texts.

    A call is under way from when it is put in, so that all that wait are heard before the model is given up.
    """

    def __init__(self, model: Model, retry_policy: RetryPolicy) -> None:
        self.model = model
        self.window = max(32, 4 * model.batch)
        self.concurrency = model.batch
        self._retrier = Retrier(model.name, replace(retry_policy, seconds=None))
        self._pending: list[_Pending[Reply | Scored]] = []
        self._worker: asyncio.Task[None] | None = None

    async def _once(self, call: ModelCall) -> Reply | Scored:
        await self._retrier.begin()
        pending = _Pending[Reply | Scored](call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
        try:
            return await pending.answer
        finally:
            self._retrier.end()

    async def _work(self) -> None:
        batch: list[_Pending[Reply | Scored]] = []
        try:
            while self._pending:
                await self._gathered()
                if self._retrier.broken is not None:
                    raise self._retrier.broken
                batch = self._next_batch()
                await self._compute(batch)
        except BaseException as error:
            for one in (*batch, *self._pending):  # nobody may wait for a worker that is gone
                _set(one, error=error)
            self._pending = []
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._worker = None

    async def _gathered(self) -> None:
        """Let rows that are ready put in their requests."""
        seen = -1
        while seen < len(self._pending) < self.window:
            seen = len(self._pending)
            for _ in range(3):
                await asyncio.sleep(0)

    def _next_batch(self) -> list[_Pending[Reply | Scored]]:
        self._pending = [one for one in self._pending if not one.answer.done()]
        self._pending.sort(key=lambda one: one.key)
        if not self._pending:
            return []
        first = self._pending[0].key[0]
        size = next((i for i, one in enumerate(self._pending) if one.key[0] != first), len(self._pending))
        size = min(size, self._most(self._pending[0].call))
        batch, self._pending = self._pending[:size], self._pending[size:]
        return batch

    def _most(self, call: ModelCall) -> int:
        """How many requests one call may carry; a model may take more at once to weigh than to answer."""
        most: int = getattr(self.model, 'score_batch', self.model.batch) if call.kind == 'score' else self.model.batch
        return most

    async def _compute(self, batch: list[_Pending[Reply | Scored]]) -> None:
        """Answer a batch. If it fails as a whole, its requests are tried one by one, so that one spoils no other."""
        if not batch:
            return
        try:
            answers = await self._asked(batch)
        except ModelError as error:
            if len(batch) > 1:
                for one in batch:
                    await self._compute([one])
            else:
                _set(batch[0], error=error)
            return
        except RolecallError as error:
            for one in batch:
                _set(one, error=error)
            return
        for one, answer in zip(batch, answers, strict=True):
            _set(one, answer=answer)

    async def _asked(self, batch: list[_Pending[Reply | Scored]]) -> Sequence[Reply | Scored]:
        call = batch[0].call
        return await _asked(self.model, call.kind, [one.call.request for one in batch], call.sampling)

    async def close(self) -> None:
        """Stop the worker."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait([self._worker])


class _Pending(Generic[T]):
    """A call that waits for its batch."""

    __slots__ = ('answer', 'call', 'key')

    def __init__(self, call: ModelCall, answer: asyncio.Future[T]) -> None:
        self.call = call
        self.answer = answer
        text = call.request if isinstance(call.request, str) else repr(call.request)
        self.key = ((call.kind, repr(call.sampling)), text)


def _set(one: _Pending[T], *, answer: T | None = None, error: BaseException | None = None) -> None:
    if one.answer.done():
        return
    if isinstance(error, asyncio.CancelledError):
        one.answer.cancel()
    elif error is not None:
        one.answer.set_exception(error)
    elif answer is not None:
        one.answer.set_result(answer)


async def _asked(model: Model, kind: str, requests: Sequence[Request], sampling: Sampling) -> Sequence[Reply | Scored]:
    """One call to the model, with its time noted where the model does not tell."""
    began = time.monotonic()
    answers: Sequence[Reply | Scored]
    answers = await (model.generate(requests, sampling) if kind == 'generate' else model.score(requests))
    if len(answers) != len(requests):
        raise ModelError(f'{model.name} gave {len(answers)} answers to {len(requests)} requests.')
    took = (time.monotonic() - began) / len(requests)
    return [
        one if one.usage.seconds is not None else replace(one, usage=replace(one.usage, seconds=took))
        for one in answers
    ]


async def with_timeout(seconds: float | None, work: Awaitable[T]) -> T:
    """The work's result, or a transient `ModelError` if it takes longer than that."""
    task = asyncio.current_task()
    if seconds is None or task is None:
        return await work
    late = False

    def stop() -> None:
        nonlocal late
        late = True
        task.cancel()

    alarm = asyncio.get_running_loop().call_later(seconds, stop)
    try:
        return await work
    except asyncio.CancelledError:
        if not late:
            raise
        if hasattr(task, 'uncancel'):
            task.uncancel()
        raise ModelError(f'no answer within {seconds:g} s.', transient=True, status=408) from None
    finally:
        alarm.cancel()
