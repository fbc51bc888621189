"""What a benchmark sends, and its sending: one level of load, with notes of when everything happened.

Conversations are plain data, rendered before the clock starts: rows of an experiment, or made of words so that each
request has an exact number of tokens. Several processes send where one core is not enough.
"""

from __future__ import annotations

import asyncio
import gc
import math
import multiprocessing
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import chain, cycle, islice, pairwise
from typing import Any

from rolecall.core.render.spans import Message, Request
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.judges import replace_text
from rolecall.experiment.opening.sampling import sampling_of
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.backends import build_model
from rolecall.models.http.served_model import ServedModel, StreamTimes
from rolecall.models.protocol import ModelError, Reply, Sampling, is_messages
from rolecall.strings import count_noun

_MARK = '\ue0f0reply{}\ue0f1'
"""Stands for the reply to a turn until it is there."""
_MOST_TURNS = 100
_ATTEMPTS = 3
_PROBES = (8, 16)
_TOKENIZER = '--set models.*.tokenizer_path=FOLDER'
_WORDS = """
time people way water words house world school state family student group country problem hand part place case week
company system program question work government number night point home room mother area money story fact month lot
right study book eye job word business issue side kind head far black little line car city name team minute idea
"""
Count = Callable[[Request], Awaitable[int | None]]


_UNITS = ((' ', _WORDS.split()), ('', list('etaoinshrdlu')))
"""What made-up prompts are made of, with what stands between: common words are one token each in most vocabularies,
letters in those of bytes."""


@dataclass(frozen=True, slots=True)
class BenchConversation:
    """The requests for one row, one for each turn. In later turns, marks stand for the replies to earlier ones."""

    requests: tuple[Request, ...]
    sampling: Sampling

    def word(self, turn: int, replies: Sequence[str], beginning: str = '') -> Request:
        """The request of a turn after these replies, with `beginning` before its first text."""
        request = self.requests[turn]
        for number, reply in enumerate(replies):
            request = replace_text(request, _MARK.format(number), reply)
        return _begin_with(request, beginning) if beginning else request


def _begin_with(request: Any, beginning: str) -> Any:
    if isinstance(request, str):
        return beginning + request
    if not is_messages(request):
        return [beginning, *request]
    first, *rest = request
    content = first.get('content')
    parts = [{'type': 'text', 'text': beginning}, *content] if isinstance(content, list) else f'{beginning}{content}'
    return [{**first, 'content': parts}, *rest]


def read_conversations(experiment: Experiment, *, limit: int) -> list[BenchConversation]:
    """The rows of every dataset, at most `limit` of each, as the model of the experiment receives them."""
    conversations: list[BenchConversation] = []
    for pair in experiment.pairs():
        if pair.weighs:
            what = f'{pair.task.abbr} compares log-probabilities; a benchmark times generated replies.'
            raise ConfigError(Problem('bench', what, 'Use --ask generate, or leave it out with --dataset.'))
        conversations += _read_pair(pair, limit)
    if not conversations:
        raise ConfigError(Problem('bench', 'no row fits the context of the model.'))
    return conversations


def _read_pair(pair: Pair, limit: int) -> Iterator[BenchConversation]:
    marks = [_MARK.format(turn) for turn in range(_MOST_TURNS)]
    sampling = sampling_of(pair.task.inferencer.options, pair.model_entry.entry if pair.model_entry else {})
    for _, row, picked in pair.rows(limit):
        steps = [step for step, _ in pair.steps(row, picked, replies=marks) if not step.too_long]
        if steps:
            yield BenchConversation(tuple(step.requests[0][1] for step in steps), sampling)


def fix_output(conversations: list[BenchConversation], tokens: int | None) -> list[BenchConversation]:
    """The same conversations with replies of exactly this many tokens, where the server takes `ignore_eos`."""
    return conversations if tokens is None else [_fix_length(talk, tokens) for talk in conversations]


def _fix_length(talk: BenchConversation, tokens: int) -> BenchConversation:
    extra = {**talk.sampling.extra, 'ignore_eos': True}
    return replace(talk, sampling=replace(talk.sampling, max_out_len=tokens, stop=(), extra=extra))


class PromptWriter:
    """Writes prompts of an exact number of tokens, of which the first `shared` are the same in all prompts.

    Words are shuffled, never changed, so that one count holds for every prompt of a length.
    """

    def __init__(self, count: Count, *, chat: bool, shared: int = 0) -> None:
        self._count = count
        self._chat = chat
        self._shared = shared
        self._lengths: dict[int, tuple[str, list[str]]] = {}

    async def write(self, tokens: int, reply_tokens: int) -> BenchConversation:
        """One more prompt of this length, and the length of its reply."""
        if tokens not in self._lengths:
            self._lengths[tokens] = await self._find_length(tokens)
        between, pieces = self._lengths[tokens]
        rest = pieces[self._shared + 1 :]
        random.shuffle(rest)
        request = self._request(between.join([*pieces[: self._shared + 1], *rest]))
        return _fix_length(BenchConversation((request,), Sampling(temperature=0.0)), reply_tokens)

    def _request(self, text: str) -> Request:
        message: Message = {'role': 'user', 'content': text}
        return [message] if self._chat else text

    async def _find_length(self, tokens: int) -> tuple[str, list[str]]:
        """The words of a request of so many tokens: two short requests tell how many, and a third confirms it."""
        closest = math.inf
        for between, words in _UNITS:
            few, more = [await self._count_tokens(between.join(islice(cycle(words), count))) for count in _PROBES]
            count = _PROBES[0] + round((tokens - few) * (_PROBES[1] - _PROBES[0]) / max(more - few, 1))
            for _ in range(_ATTEMPTS):
                pieces = list(islice(cycle(words), max(count, 1)))
                length = await self._count_tokens(between.join(pieces))
                if length == tokens:
                    return between, pieces
                closest = min(closest, length, key=lambda other: abs(other - tokens))
                count = len(pieces) + tokens - length
        what = f'no prompt of {count_noun(tokens, "token")} was found; the closest has {closest}.'
        raise ConfigError(Problem('--input-len', what, f'Choose another length, or name a tokenizer: {_TOKENIZER}.'))

    async def _count_tokens(self, text: str) -> int:
        tokens = await self._count(self._request(text))
        if tokens is None:
            what = 'no tokenizer is on this machine, and the server does not report the tokens of a prompt.'
            raise ConfigError(Problem('--input-len', what, f'Name a tokenizer: {_TOKENIZER}.'))
        return tokens


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
    seconds: float
    """For how long conversations are started."""
    stream: bool
    stall: float
    begin: float = 0.0
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
    for place, (number, conversation, start) in enumerate(share.conversations):
        due = None if start is None else share.begin + start
        if due is not None:
            await asyncio.sleep(due - time.perf_counter())
        await places.acquire()
        if place and time.perf_counter() - share.begin > share.seconds:
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
        runs = list(self.map(_send_share, shares))
        records, lags = ([*chain.from_iterable(getattr(run, name) for run in runs)] for name in ('records', 'lags'))
        return LoadRun(records, lags, sum(run.cpu_seconds for run in runs), len(runs))


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
