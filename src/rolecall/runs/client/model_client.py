"""Clients: one per model of a run. What they all do: a call, what came of it, retries; and those that gather calls."""

from __future__ import annotations

import asyncio
import socket
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.core.render.spans import Request
from rolecall.errors import RolecallError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.quick_init import quick_init
from rolecall.runs.client.retry import Attempts, ModelUnavailableError, Retrier, RetryPolicy
from rolecall.runs.telemetry import end_model_span, end_span, note_retry, start_model_span
from rolecall.strings import count_noun

Answer = Reply | Scored
_HELD_SECONDS = 0.2
_SANE = 10**9
"""Servers have been seen to report anything as a number of tokens."""


@quick_init
@dataclass(frozen=True, slots=True)
class ModelCall:
    """One request and what is wanted of it."""

    kind: Literal['generate', 'score']
    request: Request
    sampling: Sampling
    check: Callable[[Request], None] | None = field(default=None, compare=False, repr=False)
    """Given the request when it is handed to the model; raises if it is not the one that was shown."""


@dataclass(frozen=True, slots=True)
class Activity:
    """What a client is doing just now, for people who wait."""

    in_flight: int = 0
    limit: int = 0
    tokens: int = 0
    waiting: str = ''
    """Why nothing is sent at the moment, and until when; empty while calls go out."""
    where: str = ''
    """Where it happens, if in other processes."""


class RequestPending(Exception):  # noqa: N818  # not an error: the answer comes later
    """A request waits for a batch, and with it everything that depends on its answer."""


class RequestDropped(RequestPending):
    """A request that waited to be sent never will be: the model is not asked any more."""


class ModelClient(ABC):
    """The way to one model. A failed call is retried as long as the policy allows."""

    window: int
    """How many rows should be in progress at once."""

    def __init__(self, model: Model, policy: RetryPolicy) -> None:
        self.model = model
        self._retrier = Retrier(model.name, policy, is_reachable=getattr(model, 'is_reachable', None))
        self._tokens = 0
        self.on_retry: Callable[[ModelError, float], None] | None = None
        """Called before the pause after which a call is sent again."""
        self.on_answer: Callable[[Answer], None] | None = None
        """Called with each answer that was not known before."""
        self._waiting: set[asyncio.Task[Any] | None] = set()
        """Tasks of calls of which nothing is under way."""

    @property
    @abstractmethod
    def activity(self) -> Activity:
        """What is happening now. May be read from any thread."""

    @property
    def answered(self) -> bool:
        """Whether the model has ever answered anything."""
        return self._retrier.answered

    def trust(self) -> None:
        """The model is known to answer: it has done so before."""
        self._retrier.trust()

    @property
    def group(self) -> int:
        """How many calls should be handed over together with `send_group`; 1: none, use `send`."""
        return 1

    async def send_group(self, calls: Sequence[ModelCall]) -> list[Answer | ModelError | None]:
        """What each call came to, None for those that have to be sent one by one. One that fails spoils no other."""
        return [None] * len(calls)

    @abstractmethod
    async def close(self) -> None:
        """Stop what is in flight."""

    async def send(self, call: ModelCall, *, failed: Any = None) -> Answer:
        """The answer to a call; `ModelError` if it failed for good, `ModelUnavailableError` if every call would.

        `failed` is what became of it already, if anything.
        """
        if call.check is not None:
            call.check(call.request)
        retrier, attempts = self._retrier, Attempts()
        span = start_model_span(self.model, call.request, call.sampling)
        try:
            while True:
                retrier.check()
                try:
                    if failed is not None:
                        failed, error = None, failed
                        raise error
                    answer = await self._send_once(call, retry=attempts.total > 0)
                except ModelError as error:
                    pause = await retrier.handle(error, attempts, down=self._seconds_down(), calm=self._is_calm())
                    note_retry(span, error, pause)
                    if self.on_retry is not None:
                        self.on_retry(error, pause)
                    is_stated = error.retry_after is not None
                except ModelUnavailableError:
                    raise
                except RolecallError as error:
                    raise retrier.give_up(str(error)) from error
                except BaseException:
                    retrier.settle()
                    raise
                else:
                    retrier.succeed()
                    self._count(answer)
                    end_model_span(span, answer)
                    return answer
                with self._droppable():
                    await retrier.wait(pause, told=is_stated)  # the error itself is not kept: it holds this frame
        except BaseException as error:
            end_span(span, error=error)
            raise

    def resize(self, calls: int) -> str:
        """Change how many calls may be under way; what came of it."""
        return f'its calls are computed together, {self.model.batch} at once; that does not change while it runs.'

    @abstractmethod
    def hold(self, held: bool) -> None:
        """Send nothing while held. Calls that are under way are answered."""

    def drop_waiting(self) -> None:
        """Give up the calls of which nothing is under way."""
        waiting, self._waiting = self._waiting, set()
        for task in waiting:
            if task is not None:
                task.cancel()

    @contextmanager
    def _droppable(self) -> Iterator[None]:
        """Where a call waits, until `drop_waiting` ends that."""
        task = asyncio.current_task()
        self._waiting.add(task)
        try:
            yield
        except asyncio.CancelledError:
            if task is None or task in self._waiting:
                raise
            if hasattr(task, 'uncancel'):  # from Python 3.11 on
                task.uncancel()
            raise RequestDropped from None
        finally:
            self._waiting.discard(task)

    def _count(self, answer: Answer) -> None:
        """An answer has come."""
        self._tokens += count_tokens(answer) or 0
        if self.on_answer is not None:
            self.on_answer(answer)

    def _is_calm(self) -> bool:
        """Whether most calls are answered."""
        return False

    def _seconds_down(self) -> float:
        """How long nothing has answered."""
        return 0.0

    @abstractmethod
    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        """Send the call, once. `retry`: it has failed before."""


def start_calls(model: Model, calls: Sequence[ModelCall]) -> Awaitable[Sequence[Answer]]:
    """Hand calls of one kind to the model."""
    requests = [call.request for call in calls]
    for call in calls:
        if call.check is not None:
            call.check(call.request)
    if calls[0].kind == 'generate':
        return model.generate(requests, calls[0].sampling)
    return model.score(requests)


def check_answers(model: Model, answers: Sequence[Answer], count: int, seconds: float) -> list[Answer]:
    """The answers, one for each request, with the time they took where the model does not say."""
    if len(answers) != count:
        raise ModelError(f'{model.name} gave {count_noun(len(answers), "answer")} to {count_noun(count, "request")}.')
    each = seconds / count
    return [
        answer if answer.usage.seconds is not None else replace(answer, usage=replace(answer.usage, seconds=each))
        for answer in answers
    ]


def read_token_count(tokens: object) -> int | None:
    return tokens if isinstance(tokens, int) and 0 <= tokens < _SANE else None


def count_tokens(answer: Answer) -> int | None:
    sent, received = read_token_count(answer.usage.input_tokens), read_token_count(answer.usage.output_tokens)
    return None if sent is None and received is None else (sent or 0) + (received or 0)


@dataclass(slots=True)
class ComputingTimes:
    """Requests that one machine computed, and seconds in which it computed and in which their batches waited."""

    requests: int = 0
    computing: float = 0.0
    waiting: float = 0.0

    def add(self, requests: int, *, computing: float, waiting: float = 0.0) -> None:
        """Count a batch."""
        self.requests += requests
        self.computing += computing
        self.waiting += max(0.0, waiting)


class PendingCall:
    """A call that waits for its batch. Calls of one `kind` may share a batch."""

    __slots__ = ('answer', 'call', 'kind', 'text')

    def __init__(self, call: ModelCall, answer: asyncio.Future[Answer]) -> None:
        self.call = call
        self.answer = answer
        self.kind = (call.kind, repr(call.sampling))
        self.text = call.request if isinstance(call.request, str) else repr(call.request)

    def fail(self, error: BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.answer.cancel()
        else:
            self.answer.set_exception(error)


class GatheringClient(ModelClient):
    """Calls gather until there are `enough`, or no further ones come; a task hands them out while there are any.

    A call is in flight from when it is put in, so that all that wait are answered before the model is given up.
    """

    def __init__(self, model: Model, retry_policy: RetryPolicy, *, enough: int) -> None:
        super().__init__(model, replace(retry_policy, seconds=None))
        self._enough = enough
        self._pending: list[PendingCall] = []
        self._computing = 0
        self._dispatcher: asyncio.Task[None] | None = None
        self._paused = False
        self.times: defaultdict[str, ComputingTimes] = defaultdict(ComputingTimes)
        """Where time went, by machine."""

    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        await self._retrier.begin()
        loop = asyncio.get_running_loop()
        pending = PendingCall(call, loop.create_future())
        self._pending.append(pending)
        if self._dispatcher is None:
            self._dispatcher = loop.create_task(self._dispatch())
        try:
            return await pending.answer
        finally:
            self._retrier.end()

    def hold(self, held: bool) -> None:
        self._paused = held

    def drop_waiting(self) -> None:
        super().drop_waiting()
        for pending in self._pending:
            pending.fail(RequestDropped())

    async def _dispatch(self) -> None:
        """Hand out calls. What goes wrong here ends every call that waits: none may wait for a task that is gone."""
        try:
            await self._hand_out()
        except BaseException as error:
            for pending in self._pending:
                pending.fail(error)
            self._pending = []
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._dispatcher = None

    @abstractmethod
    async def _hand_out(self) -> None:
        """Have what is pending answered, until nothing is."""

    async def _gather_calls(self) -> None:
        """Let rows that are prepared put in their requests."""
        while self._paused:
            await asyncio.sleep(_HELD_SECONDS)
        before = -1
        while before < len(self._pending) < self._enough:
            before = len(self._pending)
            for _ in range(3):
                await asyncio.sleep(0)


class BatchClient(GatheringClient):
    """Calls gather while the model computes; those with most in common go together, in the order of their texts."""

    def __init__(self, model: Model, retry_policy: RetryPolicy) -> None:
        self.window = max(32, 4 * model.batch)
        super().__init__(model, retry_policy, enough=self.window)

    @property
    def activity(self) -> Activity:
        computed = getattr(self.model, 'computed', 0)  # counted while a batch is under way
        return Activity(self._computing, self.model.batch, max(self._tokens, computed))

    async def close(self) -> None:
        """Stop computing."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.wait([self._dispatcher])

    async def _hand_out(self) -> None:
        batch: list[PendingCall] = []
        try:
            while self._pending:
                await self._gather_calls()
                self._retrier.check()
                batch = self._next_batch()
                await self._compute(batch)
        except BaseException as error:
            for pending in batch:
                pending.fail(error)
            raise

    def _next_batch(self) -> list[PendingCall]:
        self._pending = [pending for pending in self._pending if not pending.answer.done()]
        self._pending.sort(key=lambda pending: (pending.kind, pending.text))
        if not self._pending:
            return []
        first = self._pending[0].kind
        size = next((i for i, pending in enumerate(self._pending) if pending.kind != first), len(self._pending))
        size = min(size, self._batch_size(self._pending[0].call))
        batch, self._pending = self._pending[:size], self._pending[size:]
        return batch

    def _batch_size(self, call: ModelCall) -> int:
        """How many requests one call may carry; a model may take more at once to score than to answer."""
        size: int = (
            getattr(self.model, 'score_batch_size', self.model.batch) if call.kind == 'score' else self.model.batch
        )
        return size

    async def _compute(self, batch: list[PendingCall]) -> None:
        """Answer a batch. If it fails as a whole, its requests are sent one by one, so that one spoils no other."""
        if not batch:
            return
        began = time.monotonic()
        self._computing = len(batch)
        try:
            answers = await start_calls(self.model, [pending.call for pending in batch])
            seconds = time.monotonic() - began
            self.times[socket.gethostname()].add(len(batch), computing=seconds)
            answers = check_answers(self.model, answers, len(batch), seconds)
        except ModelError as error:
            if len(batch) == 1:
                batch[0].fail(error)
                return
            for pending in batch:
                await self._compute([pending])
            return
        except RolecallError as error:
            for pending in batch:
                pending.fail(error)
            return
        finally:
            self._computing = 0
        for pending, answer in zip(batch, answers, strict=True):
            if not pending.answer.done():
                pending.answer.set_result(answer)
