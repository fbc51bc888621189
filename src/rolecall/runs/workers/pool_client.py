"""The way to a model in several worker processes: batches go to whichever has a place, results come back to the run.

A worker that dies costs what it was computing: that is asked again elsewhere. A request on which workers die again and
again is found by dividing its batch, and fails alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.render.spans import Request
from rolecall.runs.client.model_client import Activity, Answer, ModelCall, RetryingClient, RetryPolicy
from rolecall.runs.workers.model_worker import Kind, WorkerReply
from rolecall.strings import count_noun

__all__ = ['PoolClient', 'SpreadModel', 'WorkerLostError', 'WorkerPool', 'WorkerTimes', 'describe_times', 'find_times']

_BATCH = 64
"""Requests in a batch, at least: a call to a worker costs about a millisecond."""
_WINDOW = 2
"""Batches that a worker has at a time: one that it computes, and the next."""
_MOST_DEATHS = 4
"""Workers that end on a request before it fails: with its batch, with a part of it, and twice alone."""
_PARTS = 8
_SILENT_SECONDS = 300.0
"""Seconds without any worker after which the model is given up."""
_PREFIX = 200


class WorkerLostError(Exception):
    """A worker ended before it answered."""


class WorkerPool(Protocol):
    """Several workers with the same model. They are started again when they die."""

    @property
    def size(self) -> int:
        """How many workers there are."""

    async def start(self) -> None:
        """Start the workers; raises `RolecallError` if the model cannot be built there."""

    async def wait_until_ready(self, worker: int) -> None:
        """Wait until a worker can be given work."""

    async def answer(self, worker: int, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> WorkerReply:
        """What each request came to; `WorkerLostError` if the worker ended before that."""

    async def close(self) -> None:
        """End the workers."""


@dataclass(slots=True)
class WorkerTimes:
    """Where time went on one machine: seconds in which workers computed, and in which their batches waited."""

    rows: int = 0
    computing: float = 0.0
    waiting: float = 0.0


class RemoteModel:
    """A model whose requests are answered elsewhere. What is asked about it here needs no weights."""

    def __init__(self, model: Model, *, batch: int) -> None:
        self._model = model
        self.name = model.name
        self.batch = batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)


class SpreadModel(RemoteModel):
    """A model behind a server, called from the machines of a cluster in turn. Limits and retries stay here."""

    def __init__(self, model: Model, pool: WorkerPool) -> None:
        super().__init__(model, batch=1)
        self._pool = pool
        self._started: asyncio.Task[None] | None = None
        self._turn = 0
        self.rate_limits: Mapping[Any, Any] = {}
        self.times: dict[str, WorkerTimes] = {}

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """One reply per request."""
        return [answer for answer in await self._ask('generate', requests, sampling) if isinstance(answer, Reply)]

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Log-probabilities of each request's tokens."""
        return [answer for answer in await self._ask('score', requests, Sampling()) if isinstance(answer, Scored)]

    async def close(self) -> None:
        """End the workers."""
        await self._pool.close()
        await self._model.close()

    async def _ask(self, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> list[Reply | Scored]:
        if self._started is None:
            self._started = asyncio.get_running_loop().create_task(self._pool.start())
        await asyncio.shield(self._started)
        self._turn = (self._turn + 1) % self._pool.size
        began = time.monotonic()
        try:
            reply = await self._pool.answer(self._turn, kind, requests, sampling)
        except WorkerLostError as error:
            raise ModelError(f'{self.name}: a worker was lost: {error}', transient=True) from error
        add_times(self.times, reply, len(requests), time.monotonic() - began)
        self.rate_limits = reply.rate_limits
        for answer in reply.answers:
            if isinstance(answer, ModelError):
                raise answer
        return [answer for answer in reply.answers if not isinstance(answer, ModelError)]


class PoolClient(RetryingClient):
    """Gathers calls into batches of one kind, those with most in common together, and keeps every worker busy."""

    def __init__(self, model: Model, retry_policy: RetryPolicy, pool: WorkerPool) -> None:
        batch = max(_BATCH, model.batch)
        super().__init__(RemoteModel(model, batch=batch), replace(retry_policy, seconds=None))
        self._batch = batch
        self._pool = pool
        self._pending: list[_Pending] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._dispatcher: asyncio.Task[None] | None = None
        self._started: asyncio.Task[None] | None = None
        self._places: list[int] = []
        self._changed = asyncio.Event()
        self._last_ready = time.monotonic()
        self.times: dict[str, WorkerTimes] = {}
        self.deaths: Counter[str] = Counter()
        """Why workers ended, and how often."""

    @property
    def window(self) -> int:
        return 2 * _WINDOW * self._batch * max(1, self._pool.size)

    @property
    def activity(self) -> Activity:
        ready = sum(place >= 0 for place in self._places)
        rows = ', '.join(f'{node} {count_noun(times.rows, "row")}' for node, times in sorted(self.times.items()))
        lost = f', {count_noun(self.deaths.total(), "worker")} lost' if self.deaths else ''
        where = f'{count_noun(ready, "worker")} ({rows}){lost}' if rows else count_noun(ready, 'worker')
        waiting = '' if ready or not self._places else 'waiting for workers'
        return Activity(len(self._tasks) * self._batch, self._pool.size, self._tokens, waiting, where)

    async def close(self) -> None:
        """End the workers, whose batches are dropped. A further call starts them again."""
        tasks = [task for task in (self._dispatcher, self._started, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        self._started, self._places = None, []
        await self._pool.close()

    async def _send_once(self, call: ModelCall, *, retry: bool) -> Answer:
        await self._retrier.begin()
        pending = _Pending(call, asyncio.get_running_loop().create_future())
        self._pending.append(pending)
        if self._dispatcher is None:
            self._dispatcher = asyncio.get_running_loop().create_task(self._dispatch())
        try:
            return await pending.answer
        finally:
            self._retrier.end()

    async def _dispatch(self) -> None:
        """Hand out batches while there are calls. What goes wrong here ends every call that waits."""
        try:
            await self._start()
            while self._pending:
                await self._gather_calls()
                worker = await self._take_place(alone=False)
                self._retrier.check()
                batch = self._next_batch()
                if not batch:
                    self._give_place(worker)
                    continue
                self._run(self._compute(worker, batch, deaths=0))
        except BaseException as error:
            for one in self._pending:
                one.fail(error)
            self._pending = []
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._dispatcher = None

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self) -> None:
        if self._started is None:
            self._started = asyncio.get_running_loop().create_task(self._pool.start())
        await asyncio.shield(self._started)
        if not self._places:
            self._places = [-1] * self._pool.size
            for worker in range(self._pool.size):
                self._run(self._welcome(worker))

    async def _welcome(self, worker: int) -> None:
        """Give a worker work once it is ready."""
        await self._pool.wait_until_ready(worker)
        self._places[worker] = _WINDOW
        self._last_ready = time.monotonic()
        self._changed.set()

    async def _take_place(self, *, alone: bool) -> int:
        """A worker with a free place; with `alone`, one that computes nothing else, for as long as it is held."""
        needed = _WINDOW if alone else 1
        while True:
            free = max(range(len(self._places)), key=self._places.__getitem__)
            if self._places[free] >= needed:
                self._places[free] -= needed
                return free
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), 1.0)
            except asyncio.TimeoutError:
                gone = all(place < 0 for place in self._places)
                if gone and time.monotonic() - self._last_ready > _SILENT_SECONDS:
                    why = next(iter(self.deaths), 'none has started')
                    raise self._retrier.give_up(f'no worker for {_SILENT_SECONDS:.0f} s: {why}') from None

    def _give_place(self, worker: int, *, alone: bool = False) -> None:
        if self._places[worker] >= 0:
            self._places[worker] += _WINDOW if alone else 1
        self._changed.set()

    async def _gather_calls(self) -> None:
        """Let rows that are prepared put in their requests."""
        seen = -1
        while seen < len(self._pending) < self._batch * _WINDOW:
            seen = len(self._pending)
            for _ in range(3):
                await asyncio.sleep(0)

    def _next_batch(self) -> list[_Pending]:
        self._pending = [one for one in self._pending if not one.answer.done()]
        self._pending.sort(key=lambda one: one.key)
        same = [one for one in self._pending if one.key[0] == self._pending[0].key[0]]
        batch = same[: self._batch]
        taken = set(map(id, batch))
        self._pending = [one for one in self._pending if id(one) not in taken]
        return batch

    async def _compute(self, worker: int, batch: Sequence[_Pending], *, deaths: int) -> None:
        """Have a batch answered; `deaths`: how many workers have ended on these very requests."""
        try:
            await self._answer(worker, batch, alone=deaths > 0)
        except WorkerLostError as error:
            self.deaths[str(error)] += 1
            await self._compute_again(batch, deaths + 1, error)
        except BaseException as error:
            for one in batch:
                one.fail(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _compute_again(self, batch: Sequence[_Pending], deaths: int, error: WorkerLostError) -> None:
        """Ask again elsewhere in smaller parts, each on a worker of its own, until one request is left."""
        if len(batch) == 1 and deaths >= _MOST_DEATHS:
            told = f'{self.model.name}: {count_noun(deaths, "worker")} died while computing this request: {error}'
            batch[0].fail(ModelError(told))
            return
        size = -(-len(batch) // _PARTS)
        for start in range(0, len(batch), size):
            part = batch[start : start + size]
            try:
                worker = await self._take_place(alone=True)
            except BaseException as gone:
                for one in batch:
                    one.fail(gone)
                raise
            await self._compute(worker, part, deaths=deaths)

    async def _answer(self, worker: int, batch: Sequence[_Pending], *, alone: bool) -> None:
        call = batch[0].call
        for one in batch:
            if one.call.check is not None:
                one.call.check(one.call.request)
        began = time.monotonic()
        lost = False
        try:
            reply = await self._pool.answer(worker, call.kind, [one.call.request for one in batch], call.sampling)
        except WorkerLostError:
            lost = True
            if self._places[worker] >= 0:
                self._places[worker] = -1
                self._run(self._welcome(worker))
            raise
        finally:
            if not lost:
                self._give_place(worker, alone=alone)
        add_times(self.times, reply, len(batch), time.monotonic() - began)
        each = reply.computing / len(batch)
        for one, answer in zip(batch, reply.answers, strict=True):
            one.settle(answer, each)


class _Pending:
    """A call that waits for its batch."""

    __slots__ = ('answer', 'call', 'key')

    def __init__(self, call: ModelCall, answer: asyncio.Future[Answer]) -> None:
        self.call = call
        self.answer = answer
        text = call.request if isinstance(call.request, str) else repr(call.request)
        self.key = ((call.kind, repr(call.sampling)), text[:_PREFIX], len(text), text)

    def settle(self, answer: Reply | Scored | ModelError, seconds: float) -> None:
        if self.answer.done():
            return
        if isinstance(answer, ModelError):
            self.answer.set_exception(answer)
        elif answer.usage.seconds is None:
            self.answer.set_result(replace(answer, usage=replace(answer.usage, seconds=seconds)))
        else:
            self.answer.set_result(answer)

    def fail(self, error: BaseException) -> None:
        if self.answer.done():
            return
        if isinstance(error, asyncio.CancelledError):
            self.answer.cancel()
        else:
            self.answer.set_exception(error)


def add_times(times: dict[str, WorkerTimes], reply: WorkerReply, rows: int, seconds: float) -> None:
    """Note where a batch spent its time."""
    one = times.setdefault(reply.node, WorkerTimes())
    one.rows += rows
    one.computing += reply.computing
    one.waiting += max(0.0, seconds - reply.computing)


def find_times(client: object) -> dict[str, WorkerTimes]:
    """Where the batches of a client were computed; empty if here."""
    found: dict[str, WorkerTimes] = getattr(client, 'times', None) or getattr(
        getattr(client, 'model', None), 'times', {}
    )
    return found


def describe_times(times: Mapping[str, WorkerTimes]) -> list[str]:
    """A line for each machine.

    >>> describe_times({'a': WorkerTimes(1200, 30.0, 2.5)})
    ['a: 1,200 rows, 30.0 s computing, 2.5 s waiting']
    """
    return [
        f'{node}: {count_noun(one.rows, "row")}, {one.computing:.1f} s computing, {one.waiting:.1f} s waiting'
        for node, one in sorted(times.items())
    ]
