"""The engine of a run: pairs in, finished rows out, as many at once as the model takes and no more in memory.

A row is asked about by its inferencer, through a `RowClient` that knows every request that was finished before. So
resuming a run is running it again: what is known is not sent, and what changed is.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter, deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeVar

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.errors import RenderError, RunError
from rolecall.experiment.inferencers.inferencer import Asker, Prediction, TooLong, only_step, wait_for_all
from rolecall.experiment.opening.fitting import Step
from rolecall.models.protocol import ModelError
from rolecall.runs.brake import Brake
from rolecall.runs.client.cache import CachedClient, RowClient
from rolecall.runs.client.model_client import ModelCall, RequestDropped, RequestPending
from rolecall.runs.client.retry import ModelUnavailableError
from rolecall.runs.pair_rows import FinishedRow
from rolecall.runs.pair_run import PairRun
from rolecall.runs.store.writer import Store
from rolecall.runs.telemetry import traced
from rolecall.sources.retrievers import Picked

T = TypeVar('T')
NumberedRow = tuple[int, Row, Picked]
_ALL_AGAIN = ('filtered', 'thinking_exhausted', 'unparsed', 'too_long', 'truncated_by_server')
_GROUPS_AT_ONCE = 3


class Engine:
    """Asks one model about the rows of its pairs, one pair after the other without a pause between them.

    A pair whose model was given up, or whose run was stopped, does not become `is_asked`.
    """

    def __init__(
        self,
        cache: CachedClient,
        pairs: Iterable[PairRun],
        *,
        store: Store,
        choose_rows: Callable[[PairRun], Iterable[NumberedRow]],
        rerun: Collection[str] = (),
        brake: Brake | None = None,
    ) -> None:
        self._brake = brake
        self._cache = cache
        self.client = cache.client
        self._pairs = pairs
        self._store = store
        self._choose_rows = choose_rows
        self._rerun = tuple(rerun)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open: Counter[PairRun] = Counter()
        """Tasks under way for each pair, and one for a pair whose rows are still being started."""
        self._finished: deque[tuple[PairRun, list[FinishedRow] | None]] = deque()
        """Rows to give out; None after the last ones of a pair."""
        self._wake_up: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._stopping = False
        self.broken = ''
        """Why the model could not be asked to the end."""

    def stop(self) -> None:
        """Start nothing more and drop what is under way."""
        self._stopping = True
        for task in tuple(self._tasks):
            task.cancel()

    async def rows(self) -> AsyncGenerator[tuple[PairRun, list[FinishedRow]], None]:
        """Finished rows by pair, in the order in which they finish. The last ones of a pair come with `is_asked`."""
        loop = asyncio.get_running_loop()
        starting = loop.create_task(self._start_rows())
        starting.add_done_callback(self._signal)
        try:
            while True:
                while self._finished:
                    pair, rows = self._finished.popleft()
                    pair.is_asked = rows is None
                    yield pair, rows or []
                if starting.done() and not self._tasks:
                    break
                self._wake_up = loop.create_future()
                await self._wake_up
        finally:
            self.stop()
            starting.cancel()
            await asyncio.wait({starting, *self._tasks})
        if not starting.cancelled() and (error := starting.exception()) is not None:
            self._error = self._error or error
        if self._error is not None:
            raise self._error

    def _signal(self, _task: object = None) -> None:
        if self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(None)

    @property
    def _is_over(self) -> bool:
        return self._stopping or bool(self.broken)

    async def _start_rows(self) -> None:
        """Start a task for every row, or group of rows, as places become free."""
        places, groups = asyncio.Semaphore(self.client.window), asyncio.Semaphore(_GROUPS_AT_ONCE)
        for pair in self._pairs:
            if self._is_over:
                return
            self._open[pair] += 1
            names = (pair.dataset, pair.model.name)
            again = self._store.rows_by_outcome(*names, self._rerun) if self._rerun else {}
            cache = self._cache.for_dataset(pair.dataset)
            rows = iter(self._choose_rows(pair))
            while group := list(islice(rows, self._group_size(pair))):
                await self._store.wait_for_room()
                room = places if len(group) == 1 else groups
                await room.acquire()
                allowed = self._brake is None or await self._brake.allows(pair.model.name, self._tasks)
                if self._is_over or not allowed:
                    return
                if len(group) > 1:
                    work, about = self._ask_group(pair, cache, group), f'rows from {group[0][0]}'
                else:
                    [row] = group
                    number = row[0]
                    ask = RowClient(
                        cache,
                        retry_failed=number in again,
                        retry_all=again.get(number) in _ALL_AGAIN,
                        check=_find_check(pair, *row),
                    )
                    work, about = self._ask_row(pair, ask, *row), f'row {number}'
                task = asyncio.get_running_loop().create_task(work)
                self._open[pair] += 1
                self._tasks.add(task)
                task.add_done_callback(partial(self._end_task, pair, room, about))
                if (group[-1][0] + 1) % 64 == 0 or len(group) > 1:
                    await asyncio.sleep(0)
            self._close(pair)

    def _group_size(self, pair: PairRun) -> int:
        """How many rows are asked about together. Rows that are asked again go one by one."""
        return 1 if self._rerun or pair.single is None else self.client.group

    def _end_task(self, pair: PairRun, room: asyncio.Semaphore, about: str, task: asyncio.Task[None]) -> None:
        room.release()
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled() and not self._stopping:  # nothing may get lost
            error = RunError(f'{pair.name}: {about} was cancelled, and not by the run.')
        if error is not None:
            self._error = self._error or error
            self.stop()
        self._close(pair)

    def _close(self, pair: PairRun) -> None:
        self._open[pair] -= 1
        if not self._open[pair]:
            del self._open[pair]
            if not self._is_over:
                self._finished.append((pair, None))
        self._signal()

    async def _ask_row(self, pair: PairRun, ask: RowClient, number: int, row: Row, picked: Picked) -> None:
        with traced(f'row {pair.name}', {'rolecall.pair': pair.name, 'rolecall.row': number}) as noted:
            try:
                pair.compiled.check_row(row)
                prediction = await pair.inferencer.infer(pair.compiled, row, picked, ask)
            except ModelUnavailableError as error:
                noted['error'] = error
                self.broken = self.broken or str(error)
                return
            except RequestDropped:
                return
            except RequestPending:
                noted['rolecall.outcome'] = 'deferred'
                pair.pending += 1
                return
            except UNANSWERED as error:
                prediction = conclude_error(error, ask)
            noted['rolecall.outcome'] = prediction.outcome
        self._finished.append((pair, [FinishedRow(ask, number, row, picked, prediction)]))

    async def _ask_group(self, pair: PairRun, cache: CachedClient, rows: Sequence[NumberedRow]) -> None:
        """Ask about rows together: known replies are looked up at once, and new requests go out in one call."""
        inferencer = pair.single
        if inferencer is None:
            raise TypeError('these rows are not asked about once')
        concluded: dict[int, Prediction] = {}
        steps: dict[int, Step] = {}
        asks = [RowClient(cache, check=_find_check(pair, *row)) for row in rows]
        keys: list[str] = []
        calls: list[ModelCall] = []
        for place, (_, row, picked) in enumerate(rows):
            try:
                pair.compiled.check_row(row)
                step = steps[place] = only_step(pair.compiled, row, picked)
            except (TooLong, RenderError) as error:
                concluded[place] = conclude_error(error)
            else:
                key, call = asks[place].start_call(step.requests[0][1], inferencer.sampling)
                keys.append(key)
                calls.append(call)
        try:
            answers = await cache.answer_group(keys, calls)
        except ModelUnavailableError as error:
            self.broken = self.broken or str(error)
            return
        except RequestDropped:
            return
        for (place, step), call, answer in zip(steps.items(), calls, answers, strict=True):
            if answer is None:
                continue
            try:
                concluded[place] = inferencer.conclude(step, asks[place].end_call(call, *answer))
            except ModelError as error:
                concluded[place] = conclude_error(error)
        finished = [FinishedRow(asks[place], *rows[place], concluded[place]) for place in sorted(concluded)]
        self._finished.append((pair, finished))
        self._signal()
        left = [row for place, row in enumerate(rows) if place not in concluded]
        await wait_for_all(self._ask_row(pair, RowClient(cache, check=_find_check(pair, *row)), *row) for row in left)


UNANSWERED = (TooLong, ModelError, RenderError)
"""Why a row has no answer, where that is the row's own."""


def conclude_error(error: TooLong | ModelError | RenderError, ask: Asker | None = None) -> Prediction:
    """The conclusion for a row without an answer; its outcome says why."""
    if isinstance(error, TooLong):
        return Prediction(None, 'too_long', error.step.too_long, shots_dropped=error.step.shots_dropped)
    return Prediction(None, 'failed', str(error), replies=tuple(ask.said) if ask is not None else ())


def _find_check(
    pair: PairRun, number: int, row: Row, picked: Picked
) -> Callable[[Request, Sequence[str]], None] | None:
    """Rows 0, 1, 2, 4, 8, … are compared with their previews as they are handed to the model.

    An inferencer of the user's own may send what it likes.
    """
    if number & (number - 1) or pair.compiled.task.inferencer.own is not None:
        return None

    def check(request: Request, replies: Sequence[str]) -> None:
        previews = pair.compiled.previews(number, row, picked, replies=replies)
        if not any(preview.sent and preview.request == request for preview in previews):
            raise RunError(
                f'{pair.name}, row {number}: the request about to be sent differs from its preview.\n'
                'This is a bug in rolecall, so the run stops here. Please report it with the config.'
            )

    return check


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end; in a thread of its own where a loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(asyncio.run(work))
        except BaseException as error:  # handed on to the caller below
            errors.append(error)

    thread = threading.Thread(target=run, name='rolecall-run')
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
