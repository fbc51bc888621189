"""The engine of a run: rows in, results into the store, as many at once as the model takes and no more in memory.

A row is asked about by its inferencer, through an `Ask` that knows every request that was finished before. So going on
with a run is running it again: what is known is not sent, and what changed is.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError, RunError
from rolecall.experiment.inferencers.inferencer import Asker, Inferencer, Prediction, TooLong, only_step, wait_for_all
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import ModelError
from rolecall.runs.client.cache import CachedClient, RequestDeferred, RowClient
from rolecall.runs.client.model_client import ModelCall, ModelClient
from rolecall.runs.client.retry import ModelUnavailableError
from rolecall.runs.job import FinishedRow, Job, NumberedRow, make_result, make_scorable, says_the_same
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Verdict
from rolecall.sources.retrievers import Picked

T = TypeVar('T')
_ALL_AGAIN = ('filtered', 'thinking_exhausted', 'unparsed', 'too_long')
_GROUPS_AT_ONCE = 3


class Engine:
    """Runs jobs. Models behind servers are asked side by side, models in this process one after the other."""

    def __init__(
        self,
        store: Store,
        *,
        rerun: Collection[str] = (),
        listener: RunListener | None = None,
        done: Callable[[Job], Awaitable[None]] | None = None,
        done_later: Callable[[Job], Awaitable[None]] | None = None,
        open_cache: Callable[[ModelClient, str], CachedClient] | None = None,
    ) -> None:
        self._store = store
        self._open_cache = open_cache or (lambda client, dataset: CachedClient(client, store))
        self._rerun = tuple(rerun)
        self._listener = listener or NullListener()
        self._done = done
        self._done_later = done_later
        self._rows: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._error: BaseException | None = None
        self.broken: dict[str, str] = {}
        """Models that could not be asked to the end, with why."""
        self.deferred: Counter[str] = Counter()
        """Rows of each model that wait for a batch."""
        store.when_broken = self.stop
        store.when_unsaved = self._listener.on_message

    @property
    def stopped(self) -> bool:
        """Whether the run was stopped before its end."""
        return self._stopping

    def stop(self) -> None:
        """Start nothing more and drop what is under way. What is finished is kept."""
        self._stopping = True
        for task in tuple(self._rows):
            task.cancel()

    async def run(self, jobs: Sequence[Job]) -> None:
        """Run every job; a job is reported to `done` when all its rows are safe."""
        clients = {id(job.client): job.client for job in jobs}
        ours = [client for client in clients.values() if client.model.batch > 1]
        queues = [[client] for client in clients.values() if client.model.batch <= 1] + ([ours] if ours else [])
        ends = await asyncio.gather(*(self._run_clients(queue, jobs) for queue in queues), return_exceptions=True)
        for client in clients.values():
            await client.close()
        await self._store.wait_until_saved()
        for error in (self._error, *ends):
            if error is not None:
                raise error

    async def _run_clients(self, clients: Sequence[ModelClient], jobs: Sequence[Job]) -> None:
        """Every job of these models, one after the other. What goes wrong here stops the other models, too."""
        try:
            for client in clients:
                for job in jobs:
                    if job.client is client and client.model.name not in self.broken and not self._stopping:
                        await self._run_job(job, self._open_cache(client, job.dataset))
                await client.close()  # what it holds, the next model may need
        except BaseException:
            self.stop()
            raise

    async def _run_job(self, job: Job, cached: CachedClient) -> None:
        self._listener.on_pair_start(job.dataset, job.model, job.total, lambda: job.client.activity)
        again = self._store.rows_by_outcome(job.dataset, job.model, self._rerun) if self._rerun else {}
        places = asyncio.Semaphore(job.client.window)
        groups = asyncio.Semaphore(_GROUPS_AT_ONCE)
        own: set[asyncio.Task[None]] = set()
        count, waiting = 0, self.deferred[job.model]
        rows = iter(job.rows())
        try:
            while group := list(islice(rows, self._group_size(job))):
                await self._store.wait_for_room()
                room = places if len(group) == 1 else groups
                await room.acquire()
                if self._stopping or job.model in self.broken:
                    break
                if len(group) > 1:
                    work, what = self._ask_group(job, cached, group), f'rows from {group[0][0]}'
                else:
                    [(number, row, picked)] = group
                    ask = RowClient(
                        cached,
                        retry_failed=number in again,
                        retry_all=again.get(number) in _ALL_AGAIN,
                        check=_find_check(job, number, row, picked),
                    )
                    work, what = self._row(job, ask, number, row, picked), f'row {number}'
                task = asyncio.get_running_loop().create_task(work)
                for tasks in (own, self._rows):
                    tasks.add(task)
                task.add_done_callback(partial(self._row_ended, own, room, f'{job.dataset} × {job.model}: {what}'))
                count = group[-1][0] + 1
                if count % 64 == 0 or len(group) > 1:
                    await asyncio.sleep(0)
        finally:
            if own:
                await asyncio.wait(own)
        await self._store.wait_until_saved()
        if not self._stopping and job.model not in self.broken:
            if job.is_whole:
                self._store.drop_rows_from(job.dataset, job.model, count if job.total is None else job.total)
            if self.deferred[job.model] == waiting:
                await self._conclude(job, self._done)

    def _group_size(self, job: Job) -> int:
        """How many rows are asked about together. Rows that are asked again go one by one."""
        return 1 if self._rerun or job.single is None else job.client.group

    async def conclude_later(self, jobs: Sequence[Job]) -> None:
        """Report jobs that had to wait for others to `done_later`, after all have run."""
        for job in jobs:
            if not self._stopping:
                await self._conclude(job, self._done_later)

    async def _conclude(self, job: Job, done: Callable[[Job], Awaitable[None]] | None) -> None:
        """Report a finished job. That may take calls of its own (a judge), which a stopped run drops, too."""
        if done is None:
            return
        task = asyncio.ensure_future(done(job))
        self._rows.add(task)
        await asyncio.wait([task])
        self._rows.discard(task)
        if (error := self._error_of(f'{job.dataset} × {job.model}: its scoring', task)) is not None:
            raise error

    def _row_ended(
        self, own: set[asyncio.Task[None]], places: asyncio.Semaphore, what: str, task: asyncio.Task[None]
    ) -> None:
        places.release()
        own.discard(task)
        self._rows.discard(task)
        if (error := self._error_of(what, task)) is not None:
            self._error = self._error or error
            self.stop()

    def _error_of(self, what: str, task: asyncio.Future[None]) -> BaseException | None:
        """What went wrong in a task. That one is cancelled is right only when everything is: nothing may get lost."""
        if not task.cancelled():
            return task.exception()
        return None if self._stopping else RunError(f'{what} was cancelled, and not by the run.')

    async def _row(self, job: Job, ask: RowClient, number: int, row: Row, picked: Picked) -> None:
        try:
            prediction = await infer_row(job.inferencer, job.pair, row, picked, ask)
        except ModelUnavailableError as error:
            self._give_up(job, error)
            return
        except RequestDeferred:
            self.deferred[job.model] += 1
            return
        self._keep(job, [FinishedRow(ask, number, row, picked, prediction)])

    async def _ask_group(self, job: Job, cached: CachedClient, rows: Sequence[NumberedRow]) -> None:
        """Ask about rows together: known replies are looked up at once, and new requests go out in one call."""
        inferencer = job.single
        if inferencer is None:
            raise TypeError('these rows are not asked about once')
        concluded: dict[int, Prediction] = {}
        steps: dict[int, Step] = {}
        asks = [RowClient(cached, check=_find_check(job, *one)) for one in rows]
        keys: list[str] = []
        calls: list[ModelCall] = []
        for place, (_, row, picked) in enumerate(rows):
            try:
                job.pair.check_row(row)
                step = steps[place] = only_step(job.pair, row, picked)
            except TooLong as found:
                concluded[place] = _too_long(found)
            except RenderError as error:
                concluded[place] = Prediction(None, 'failed', str(error))
            else:
                key, call = asks[place].start_call(step.requests[0][1], inferencer.sampling)
                keys.append(key)
                calls.append(call)
        try:
            answers = await cached.answer_group(keys, calls)
        except ModelUnavailableError as error:
            self._give_up(job, error)
            return
        for (place, step), answer in zip(steps.items(), answers, strict=True):
            if answer is None:
                continue
            try:
                concluded[place] = inferencer.conclude(step, asks[place].end_call(*answer))
            except ModelError as error:
                concluded[place] = Prediction(None, 'failed', str(error))
        self._keep(job, [FinishedRow(asks[place], *rows[place], concluded[place]) for place in sorted(concluded)])
        left = [one for place, one in enumerate(rows) if place not in concluded]
        await wait_for_all(self._row(job, RowClient(cached, check=_find_check(job, *one)), *one) for one in left)

    def _give_up(self, job: Job, error: ModelUnavailableError) -> None:
        if job.model not in self.broken:
            self.broken[job.model] = str(error)
            self._listener.on_message(str(error))

    def _keep(self, job: Job, finished: Sequence[FinishedRow]) -> None:
        """Store rows with their verdicts, unless they are stored and say the same; tell of each once it is on disk."""
        new: list[FinishedRow] = []
        for one in finished:
            known = None if one.ask.sent else self._store.result(job.dataset, job.model, one.number)
            if known is not None and says_the_same(known, make_result(job, one, make_scorable(job, one))):
                self._listener.on_row(known, asked=False)
            else:
                new.append(one)
        if not new:
            return
        self._store.add_fields(job.dataset, job.model, [(one.number, one.row) for one in new])
        scorable = [make_scorable(job, one) for one in new]
        verdicts: Sequence[Verdict | None] = job.mark(scorable) or [None] * len(new)
        results = [make_result(job, *one) for one in zip(new, scorable, verdicts, strict=True)]
        sent = [one.ask.sent > 0 for one in new]

        def tell() -> None:
            for result, asked in zip(results, sent, strict=True):
                self._listener.on_row(result, asked=asked)

        self._store.add_results(results, then=tell)


async def infer_row(inferencer: Inferencer, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
    """The conclusion for a row; where it cannot be asked about, the outcome says why."""
    try:
        if pair is not None:  # a job may have no pair
            pair.check_row(row)
        return await inferencer.infer(pair, row, picked, ask)
    except TooLong as found:
        return _too_long(found)
    except ModelUnavailableError:
        raise
    except (ModelError, RenderError) as error:
        return Prediction(None, 'failed', str(error), replies=tuple(ask.said))


def _too_long(found: TooLong) -> Prediction:
    return Prediction(None, 'too_long', found.step.too_long, shots_dropped=found.step.shots_dropped)


def _find_check(job: Job, number: int, row: Row, picked: Picked) -> Callable[[Request, Sequence[str]], None] | None:
    """Rows 0, 1, 2, 4, 8, … are compared with their previews as they are handed to the model.

    An inferencer of the user's own may send what it likes.
    """
    if number & (number - 1) or job.pair is None or job.pair.task.inferencer.own is not None:
        return None
    return partial(_check_shown, job, number, row, picked)


def _check_shown(job: Job, number: int, row: Row, picked: Picked, request: Request, replies: Sequence[str]) -> None:
    previews = job.pair.previews(number, row, picked, replies=replies)
    if not any(preview.sent and preview.request == request for preview in previews):
        raise RunError(
            f'{job.dataset} × {job.model}, row {number}: the request to send is not the one that a preview shows.\n'
            'This is a bug in rolecall, so the run stops here. Please report it with the config.'
        )


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end; in a thread of its own where a loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    came: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(asyncio.run(work))
        except BaseException as error:  # handed on to the caller below
            failed.append(error)

    thread = threading.Thread(target=run, name='rolecall-run')
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return came[0]
