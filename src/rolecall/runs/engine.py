"""The engine of a run: rows in, results into the store, as many at once as the model takes and no more in memory.

A row is asked about by its inferencer, through an `Ask` that knows every request that was finished before. So going on
with a run is running it again: what is known is not sent, and what changed is.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from rolecall.errors import RenderError, RunError
from rolecall.inferencers.inferencer import Asker, Inferencer, Prediction, TooLong
from rolecall.models.protocol import ModelError
from rolecall.pairs.pair import Pair
from rolecall.prompts.pieces import Row
from rolecall.render.spans import Request
from rolecall.retrievers import Picked
from rolecall.runs.client.cache import CachedClient, RowClient
from rolecall.runs.client.model_client import ModelClient, ModelUnavailableError
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store

__all__ = ['Engine', 'Job', 'infer_row', 'run_blocking']

T = TypeVar('T')
_ALL_AGAIN = ('filtered', 'thinking_exhausted', 'unparsed', 'too_long')


@dataclass(frozen=True, slots=True)
class Job:
    """One dataset × model: its rows, how they are worded and asked, and who answers."""

    dataset: str
    client: ModelClient
    pair: Pair
    inferencer: Inferencer
    rows: Callable[[], Iterable[tuple[int, Row, Picked]]]
    gold: Callable[[Row], Any]
    total: int | None = None
    cluster: Callable[[Row], str | None] = field(default=lambda row: None)
    is_whole: bool = True
    """Whether `rows` gives every row that the run should have; otherwise the stored ones stay."""

    @property
    def model(self) -> str:
        return self.client.model.name


class Engine:
    """Runs jobs. Models behind servers are asked side by side, models in this process one after the other."""

    def __init__(
        self,
        store: Store,
        *,
        rerun: Collection[str] = (),
        listener: RunListener | None = None,
        done: Callable[[Job], Awaitable[None]] | None = None,
    ) -> None:
        self._store = store
        self._rerun = tuple(rerun)
        self._listener = listener or NullListener()
        self._done = done
        self._rows: set[asyncio.Future[None]] = set()
        self._stopping = False
        self._error: BaseException | None = None
        self.broken: dict[str, str] = {}
        """Models that could not be asked to the end, with why."""
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
                cached = CachedClient(client, self._store)
                for job in jobs:
                    if job.client is client and client.model.name not in self.broken and not self._stopping:
                        await self._run_job(job, cached)
        except BaseException:
            self.stop()
            raise

    async def _run_job(self, job: Job, cached: CachedClient) -> None:
        self._listener.on_pair_start(job.dataset, job.model, job.total, lambda: job.client.activity)
        again = self._store.rows_by_outcome(job.dataset, job.model, self._rerun) if self._rerun else {}
        places = asyncio.Semaphore(job.client.window)
        own: set[asyncio.Task[None]] = set()
        count = 0
        try:
            for number, row, picked in job.rows():
                await places.acquire()
                if self._stopping or job.model in self.broken:
                    break
                ask = RowClient(
                    cached,
                    retry_failed=number in again,
                    retry_all=again.get(number) in _ALL_AGAIN,
                    check=_find_check(job, number, row, picked),
                )
                task = asyncio.get_running_loop().create_task(self._row(job, ask, number, row, picked))
                for tasks in (own, self._rows):
                    tasks.add(task)
                task.add_done_callback(
                    partial(self._row_ended, own, places, f'{job.dataset} × {job.model}: row {number}')
                )
                count = number + 1
                if count % 64 == 0:
                    await asyncio.sleep(0)
        finally:
            if own:
                await asyncio.wait(own)
        await self._store.wait_until_saved()
        if not self._stopping and job.model not in self.broken:
            if job.is_whole:
                self._store.drop_rows_from(job.dataset, job.model, count)
            await self._conclude(job)

    async def _conclude(self, job: Job) -> None:
        """Report a finished job. That may take calls of its own (a judge), which a stopped run drops, too."""
        if self._done is None:
            return
        task = asyncio.ensure_future(self._done(job))
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
            if job.model not in self.broken:
                self.broken[job.model] = str(error)
                self._listener.on_message(str(error))
            return
        result = _result(job, ask, number, row, picked, prediction)
        known = None if ask.sent else self._store.result(job.dataset, job.model, number)
        if known is not None and _says_the_same(known, result):
            self._listener.on_row(known, asked=False)
            return
        self._store.add_fields(job.dataset, job.model, number, row)
        told = partial(self._listener.on_row, result, asked=ask.sent > 0)
        self._store.add_result(result, then=told)


async def infer_row(inferencer: Inferencer, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
    """The conclusion for a row; where it cannot be asked about, the outcome says why."""
    try:
        if pair is not None:  # a job may have no pair
            pair.check_row(row)
        return await inferencer.infer(pair, row, picked, ask)
    except TooLong as found:
        return Prediction(None, 'too_long', found.step.too_long, shots_dropped=found.step.shots_dropped)
    except ModelUnavailableError:
        raise
    except (ModelError, RenderError) as error:
        return Prediction(None, 'failed', str(error), replies=tuple(ask.said))


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


def _says_the_same(known: Result, result: Result) -> bool:
    """Whether a row that was kept, and perhaps scored since, rests on the same requests and says the same."""
    ended = known.outcome in (result.outcome, 'unparsed')
    return (
        ended
        and known.fingerprints == result.fingerprints
        and dumps(_list_replies(known)) == dumps(_list_replies(result))
    )


def _list_replies(result: Result) -> list[Any]:
    return [result.prediction, result.gold, result.cluster, result.details, result.shots]


def _result(job: Job, ask: RowClient, number: int, row: Row, picked: Picked, prediction: Prediction) -> Result:
    kept = len(picked.ids) - prediction.shots_dropped
    return Result(
        dataset=job.dataset,
        model=job.model,
        row=number,
        outcome=prediction.outcome,
        reason=prediction.reason,
        prediction=prediction.value,
        gold=job.gold(row),
        fingerprint=ask.fingerprints[0] if ask.fingerprints else '',
        fingerprints=tuple(ask.fingerprints),
        replies=prediction.replies,
        reasoning=prediction.reasoning,
        details=prediction.details,
        shots=picked.ids[:kept],
        shots_dropped=prediction.shots_dropped,
        cluster=job.cluster(row),
        input_tokens=ask.input_tokens,
        output_tokens=ask.output_tokens,
        seconds=ask.seconds,
        cached_tokens=ask.cached_tokens,
        reasoning_tokens=ask.reasoning_tokens,
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
