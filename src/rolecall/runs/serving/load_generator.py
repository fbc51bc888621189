"""Sends one level of load and notes when everything happened; in several processes where one core is not enough."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from rolecall.models.backends import build_model
from rolecall.models.http.served_model import ServedModel, StreamTimes
from rolecall.models.protocol import ModelError, Reply
from rolecall.runs.serving.conversations import BenchConversation

_LAG_EVERY = 0.01
_HEAD_START = 0.3
"""Seconds that processes have to get ready before a level begins."""


@dataclass(slots=True)
class RequestRecord:
    """One request: its times by `time.perf_counter`, its tokens, and how it ended."""

    number: int
    turn: int
    due: float | None
    times: StreamTimes = field(default_factory=StreamTimes)
    outcome: str = 'ok'
    """`ok`, `failed`, `cut` (the reply ended early) or `stalled` (a gap between pieces longer than allowed)."""
    reason: str = ''
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None

    def conclude(self, reply: Reply, stall: float) -> None:
        """Note what the reply says about itself."""
        usage, pieces = reply.usage, self.times.pieces
        self.input_tokens, self.cached_tokens = usage.input_tokens, usage.cached_tokens
        self.output_tokens = usage.output_tokens if usage.output_tokens is not None else len(pieces) or None
        if reply.outcome not in ('ok', 'thinking_exhausted'):
            self.outcome, self.reason = 'failed', f'{reply.outcome}: {reply.reason}'
        elif not self.output_tokens:
            self.outcome, self.reason = 'failed', 'the reply is empty'
        elif any(later - earlier > stall for earlier, later in pairwise(pieces)):
            self.outcome, self.reason = 'stalled', f'more than {stall:g} s between two pieces'


OnRecord = Callable[[RequestRecord], object]


@dataclass(frozen=True, slots=True)
class LoadShare:
    """What one process sends."""

    conversations: Sequence[tuple[int, BenchConversation, float | None]]
    """Number, conversation, and when it starts; None: as soon as there is a place."""
    concurrency: int | None
    begin: float
    seconds: float
    """For how long conversations are started."""
    stream: bool
    stall: float
    beginning: str = ''
    """Begins each conversation, with its number, so that no cache knows it; empty: prompts stay as they are."""

    def split(self, count: int) -> Iterator[LoadShare]:
        """The same load in shares of nearly the same size."""
        count = min(count, self.concurrency or count)
        for rank in range(count):
            places = None if self.concurrency is None else (self.concurrency + count - 1 - rank) // count
            yield replace(self, conversations=self.conversations[rank::count], concurrency=places)


@dataclass(slots=True)
class LoadRun:
    """What came of it, and what sending cost: by how much the event loop lagged, and CPU seconds."""

    records: list[RequestRecord] = field(default_factory=list)
    lags: list[float] = field(default_factory=list)
    cpu_seconds: float = 0.0
    processes: int = 1


async def send_load(model: ServedModel[Any], share: LoadShare, on_record: OnRecord = lambda _: None) -> LoadRun:
    """Send a share of the load with one event loop, collecting no garbage meanwhile."""
    run = LoadRun()

    def add(record: RequestRecord) -> None:
        run.records.append(record)
        on_record(record)

    if share.concurrency is not None:  # connections are open before the clock starts
        await asyncio.gather(*(model.is_reachable() for _ in range(min(share.concurrency, len(share.conversations)))))
    watching = asyncio.get_running_loop().create_task(_watch_loop(run.lags))
    collects = gc.isenabled()
    gc.disable()
    await asyncio.sleep(share.begin - time.perf_counter())
    share = replace(share, begin=max(share.begin, time.perf_counter()))
    computed = time.process_time()
    try:
        await _send_all(model, share, add)
    finally:
        run.cpu_seconds = time.process_time() - computed
        watching.cancel()
        if collects:
            gc.enable()
    return run


async def _send_all(model: ServedModel[Any], share: LoadShare, add: OnRecord) -> None:
    places = asyncio.Semaphore(share.concurrency or len(share.conversations))
    tasks: set[asyncio.Task[None]] = set()
    for number, conversation, start in share.conversations:
        due = None if start is None else share.begin + start
        if due is not None:
            await asyncio.sleep(due - time.perf_counter())
        await places.acquire()
        if time.perf_counter() - share.begin > share.seconds:
            break
        task = asyncio.ensure_future(_converse(model, share, number, conversation, due, add))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(lambda _: places.release())
        await asyncio.sleep(0)  # each is sent before the next is started, so that none waits with its clock running
    await asyncio.gather(*tasks)


async def _converse(
    model: ServedModel[Any],
    share: LoadShare,
    number: int,
    conversation: BenchConversation,
    due: float | None,
    add: OnRecord,
) -> None:
    """One conversation, turn by turn, up to the first reply that does not come whole."""
    replies: list[str] = []
    beginning = f'[{share.beginning}{number}] ' if share.beginning else ''
    for turn in range(len(conversation.requests)):
        request = conversation.word(turn, replies, beginning)
        record = RequestRecord(number, turn, None if turn else due)
        try:
            reply = await model.time_reply(request, conversation.sampling, record.times, stream=share.stream)
            record.conclude(reply, share.stall)
            replies.append(reply.text)
        except ModelError as error:
            record.outcome, record.reason = 'cut' if record.times.pieces else 'failed', str(error)
        record.times.ended = record.times.ended or time.perf_counter()
        add(record)
        if record.outcome in ('failed', 'cut'):
            return


async def _watch_loop(lags: list[float]) -> None:
    """Note by how much a short sleep is overslept, again and again: the delay that every piece may meet."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(_LAG_EVERY)
        lags.append(time.perf_counter() - before - _LAG_EVERY)


class LoadProcesses(ProcessPoolExecutor):
    """Processes that send shares of a load, each with a model of its own."""

    def __init__(self, entry: Mapping[str, Any], name: str, count: int) -> None:
        context = multiprocessing.get_context('spawn')
        super().__init__(count, context, initializer=_open_model, initargs=(dict(entry), name))
        self._count = count
        list(self.map(time.sleep, [_HEAD_START] * count))  # until all have started

    def send(self, share: LoadShare) -> LoadRun:
        """Send a load, each process its share of it, at the same time."""
        shares = replace(share, begin=time.perf_counter() + _HEAD_START).split(self._count)
        total = LoadRun(processes=0)
        for run in self.map(_send_share, shares):
            total.records += run.records
            total.lags += run.lags
            total.cpu_seconds += run.cpu_seconds
            total.processes += 1
        return total


_MODEL: list[ServedModel[Any]] = []


def _open_model(entry: Mapping[str, Any], name: str) -> None:
    model = build_model(entry, name=name)
    if isinstance(model, ServedModel):
        _MODEL[:] = [model]


def _send_share(share: LoadShare) -> LoadRun:
    async def send() -> LoadRun:
        try:
            return await send_load(_MODEL[0], share)
        finally:
            await _MODEL[0].close()

    return asyncio.run(send())
