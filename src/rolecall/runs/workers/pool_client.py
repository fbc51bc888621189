"""The way to a model in several worker processes: batches go to whichever has a place, results come back to the run.

A worker that dies costs what it was computing: that is asked again elsewhere. A request on which workers die again and
again is found by dividing its batch, and fails alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rolecall.core.render.spans import Request
from rolecall.errors import RunError
from rolecall.models.protocol import Model, ModelError, Reply, Sampling, Scored
from rolecall.runs.client.model_client import Activity, ComputingTimes, GatheringClient, PendingCall
from rolecall.runs.client.retry import RetryPolicy
from rolecall.runs.workers.worker_pool import Kind, ReadyWorkers, Tell, WorkerLostError, WorkerPool
from rolecall.strings import count_noun

_BATCH = 64
"""Requests in a batch, at least: a call to a worker costs about a millisecond."""
_WINDOW = 2
"""Batches that a worker has at a time: one that it computes, and the next."""
_MOST_DEATHS = 4
"""Workers that end on a request before it fails: with its batch, with a part of it, and twice alone."""
_PARTS = 8
_SMALLEST = 8
"""Requests below which what is left at the end is not divided among workers: they share prefixes."""
_PREFIX = 200


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

    def __init__(self, model: Model, pool: WorkerPool, *, tell: Tell) -> None:
        super().__init__(model, batch=1)
        self._pool = pool
        self._ready = ReadyWorkers(model.name, pool, tell)
        self._in_flight: Counter[int] = Counter()
        self.rate_limits: Mapping[Any, Any] = {}
        self.times: defaultdict[str, ComputingTimes] = defaultdict(ComputingTimes)

    async def generate(self, requests: Sequence[Request], sampling: Sampling) -> list[Reply]:
        """One reply per request."""
        return [answer for answer in await self._ask('generate', requests, sampling) if isinstance(answer, Reply)]

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """Log-probabilities of each request's tokens."""
        return [answer for answer in await self._ask('score', requests, Sampling()) if isinstance(answer, Scored)]

    async def close(self) -> None:
        """End the workers."""
        await self._ready.close()
        await self._pool.close()
        await self._model.close()

    async def _ask(self, kind: Kind, requests: Sequence[Request], sampling: Sampling) -> list[Reply | Scored]:
        await self._ready.start()
        while not self._ready.workers:
            if why := await self._ready.wait():
                raise RunError(why)
        worker = min(self._ready.workers, key=self._in_flight.__getitem__)
        self._in_flight[worker] += 1
        began = time.monotonic()
        try:
            reply = await self._pool.answer(worker, kind, requests, sampling)
        except WorkerLostError as error:
            self._ready.lose(worker)
            raise ModelError(f'{self.name}: a worker was lost: {error}', transient=True) from error
        finally:
            self._in_flight[worker] -= 1
        waiting = time.monotonic() - began - reply.computing
        self.times[reply.node].add(len(requests), computing=reply.computing, waiting=waiting)
        self.rate_limits = reply.rate_limits
        for answer in reply.answers:
            if isinstance(answer, ModelError):
                raise answer
        return [answer for answer in reply.answers if not isinstance(answer, ModelError)]


class PoolClient(GatheringClient):
    """Gathers calls into batches of one kind, those with most in common together, and keeps every worker busy."""

    def __init__(self, model: Model, retry_policy: RetryPolicy, pool: WorkerPool, *, tell: Tell) -> None:
        batch = max(_BATCH, model.batch)
        super().__init__(RemoteModel(model, batch=batch), retry_policy, enough=_WINDOW * batch)
        self._batch = batch
        self._pool = pool
        self._tell = tell
        self._ready = ReadyWorkers(model.name, pool, tell)
        self._held: Counter[int] = Counter()
        """Places of each worker's window that are taken."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._lost = 0
        """Workers that ended."""

    @property
    def window(self) -> int:  # type: ignore[override]  # grows with the workers
        return 2 * _WINDOW * self._batch * max(1, self._pool.size)

    @property
    def activity(self) -> Activity:
        lost = f', {count_noun(self._lost, "worker")} lost' if self._lost else ''
        where = f'{count_noun(len(self._ready.workers), "worker")}{lost}'
        return Activity(self._computing, self._pool.size, self._tokens, self._ready.describe(), where)

    async def close(self) -> None:
        """End the workers, whose batches are dropped. A further call starts them again."""
        tasks = [task for task in (self._dispatcher, *self._tasks) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._ready.close()
        await self._pool.close()

    async def _hand_out(self) -> None:
        await self._ready.start()
        while self._pending:
            await self._gather_calls()
            worker = await self._take_place(alone=False)
            self._retrier.check()
            batch = self._next_batch()
            if not batch:
                self._give_place(worker)
                continue
            self._run(self._compute(batch, worker))

    def _run(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _take_place(self, *, alone: bool) -> int:
        """A worker with a free place; with `alone`, one that computes nothing else, for as long as it is held.

        A second batch is given out while there is enough for every worker, those that still load the model included.
        """
        needed = _WINDOW if alone else 1
        while True:
            free = min(self._ready.workers, key=self._held.__getitem__, default=None)
            most = _WINDOW if alone or len(self._pending) >= self._batch * self._ready.expected else 1
            if free is not None and self._held[free] + needed <= most:
                self._held[free] += needed
                return free
            if why := await self._ready.wait():
                raise self._retrier.give_up(why)

    def _give_place(self, worker: int, *, alone: bool = False) -> None:
        self._held[worker] -= _WINDOW if alone else 1
        self._ready.signal()

    def _next_batch(self) -> list[PendingCall]:
        self._pending = [pending for pending in self._pending if not pending.answer.done()]
        self._pending.sort(key=lambda pending: (pending.kind, pending.text[:_PREFIX], len(pending.text), pending.text))
        same = [pending for pending in self._pending if pending.kind == self._pending[0].kind]
        batch = same[: _size_batch(len(same), self._ready.expected, self._batch)]
        taken = set(map(id, batch))
        self._pending = [pending for pending in self._pending if id(pending) not in taken]
        return batch

    async def _compute(self, batch: Sequence[PendingCall], worker: int | None = None, *, deaths: int = 0) -> None:
        """Have a batch answered, without a `worker` by one that computes nothing else.

        `deaths`: how many workers have ended on these very requests.
        """
        try:
            place = await self._take_place(alone=True) if worker is None else worker
            await self._answer(place, batch, alone=worker is None)
        except WorkerLostError as error:
            rows = count_noun(len(batch), 'request')
            self._tell(f'{self.model.name}: a worker was lost ({error}); {rows} to be computed again')
            self._compute_again(batch, deaths + 1, error)
        except BaseException as error:
            for pending in batch:
                pending.fail(error)
            if isinstance(error, asyncio.CancelledError):
                raise

    def _compute_again(self, batch: Sequence[PendingCall], deaths: int, error: WorkerLostError) -> None:
        """Ask again elsewhere in smaller parts, until one request is left."""
        if len(batch) == 1 and deaths >= _MOST_DEATHS:
            message = f'{self.model.name}: {count_noun(deaths, "worker")} died while computing this request: {error}'
            batch[0].fail(ModelError(message))
            return
        size = -(-len(batch) // _PARTS)
        for start in range(0, len(batch), size):
            self._run(self._compute(batch[start : start + size], deaths=deaths))

    async def _answer(self, worker: int, batch: Sequence[PendingCall], *, alone: bool) -> None:
        call = batch[0].call
        for pending in batch:
            if pending.call.check is not None:
                pending.call.check(pending.call.request)
        began = time.monotonic()
        self._computing += len(batch)
        try:
            reply = await self._pool.answer(
                worker, call.kind, [pending.call.request for pending in batch], call.sampling
            )
        except WorkerLostError:
            self._lost += worker in self._ready.workers  # once for all its batches
            self._ready.lose(worker)
            raise
        finally:
            self._computing -= len(batch)
            self._give_place(worker, alone=alone)
        waiting = time.monotonic() - began - reply.computing
        self.times[reply.node].add(len(batch), computing=reply.computing, waiting=waiting)
        each = reply.computing / len(batch)
        for pending, answer in zip(batch, reply.answers, strict=True):
            _settle(pending, answer, each)


def _size_batch(pending: int, workers: int, usual: int) -> int:
    """How many requests the next batch takes: the usual number, and at the end an equal share for every worker.

    >>> [_size_batch(pending, 2, 64) for pending in (1000, 300, 200, 128, 100, 10)]
    [64, 75, 100, 64, 50, 8]
    """
    share = usual * max(1, workers)
    if pending >= 2 * _WINDOW * share:
        return usual
    rounds = max(1, pending // share)
    return max(_SMALLEST, -(-pending // (rounds * max(1, workers))))


def _settle(pending: PendingCall, answer: Reply | Scored | ModelError, seconds: float) -> None:
    if pending.answer.done():
        return
    if isinstance(answer, ModelError):
        pending.answer.set_exception(answer)
    elif answer.usage.seconds is None:
        pending.answer.set_result(replace(answer, usage=replace(answer.usage, seconds=seconds)))
    else:
        pending.answer.set_result(answer)
