"""What clients share that gather calls before they hand them on: the queue, and what becomes of it when work ends."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections import defaultdict
from dataclasses import dataclass, replace

from rolecall.models.protocol import Model
from rolecall.runs.client.model_client import Answer, ModelCall, RetryingClient
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


class GatheringClient(RetryingClient):
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
            for one in self._pending:
                one.fail(error)
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
        seen = -1
        while seen < len(self._pending) < self._enough:
            seen = len(self._pending)
            for _ in range(3):
                await asyncio.sleep(0)
