"""Clients that gather calls before they hand them on, and the one of a model that takes several requests at once."""

from __future__ import annotations

import asyncio
import socket
import time
from abc import abstractmethod
from collections import defaultdict
from dataclasses import dataclass, replace

from rolecall.errors import RolecallError
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.client.model_client import Activity, Answer, ModelCall, ModelClient, check_answers, start_calls
from rolecall.runs.client.retry import RetryPolicy


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
