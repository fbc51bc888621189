"""One benchmark of a server, from the prompts to the figures: write prompts, warm up, run each level, describe it."""

from __future__ import annotations

import asyncio
import math
import os
import random
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.models.http.served_model import ServedModel, StreamTimes
from rolecall.models.protocol import ModelError, Sampling
from rolecall.runs.engine import run_blocking
from rolecall.runs.serving.bench_options import BenchOptions
from rolecall.runs.serving.conversations import (
    BenchConversation,
    PromptWriter,
    fix_output,
    fixed_sampling,
    read_conversations,
)
from rolecall.runs.serving.load_generator import (
    LoadProcesses,
    LoadRun,
    LoadShare,
    RequestRecord,
    send_load,
    split_share,
)
from rolecall.runs.serving.load_levels import Level
from rolecall.runs.serving.serving_figures import describe_client, describe_level, find_steady

OnProgress = Callable[[str, int, int], object]
"""Told the name of the level, how many replies have come, and how many are awaited."""
_GET_READY = 0.3
_SYNTHETIC_OUTPUT = 128


@dataclass(frozen=True, slots=True)
class LevelRun:
    """What a level came to: its figures, and every request."""

    figures: dict[str, Any]
    records: list[RequestRecord]


@dataclass(frozen=True, slots=True)
class BenchResult:
    """A finished benchmark."""

    settings: dict[str, Any]
    levels: list[LevelRun]


def run_benchmark(
    experiment: Experiment, options: BenchOptions, *, on_progress: OnProgress = lambda *_: None
) -> BenchResult:
    """Load the server of the experiment's model, level by level."""
    if len(experiment.models) != 1:
        names = ', '.join(model.abbr for model in experiment.models) or 'none'
        raise ConfigError(Problem('--model', f'a benchmark loads one model at a time, got {names}.', 'Name one.'))
    model = experiment.models[0].model
    if not isinstance(model, ServedModel):
        what = f'{model.name} runs in this process; a benchmark loads a server.'
        raise ConfigError(Problem('--model', what, 'Give the URL of a server: --model http://127.0.0.1:8000/v1.'))
    return run_blocking(_Benchmark(experiment, model, options, on_progress).execute())


class _Benchmark:
    """One benchmark under way."""

    def __init__(
        self, experiment: Experiment, model: ServedModel[Any], options: BenchOptions, on_progress: OnProgress
    ) -> None:
        self._entry = experiment.models[0]
        self._experiment = experiment
        self._model = model
        self._options = options
        self._on_progress = on_progress
        self._trace = options.trace
        self._limits = options.limits
        self._sent = 0
        self._tag = secrets.token_hex(3)
        self._rows: list[BenchConversation] = []
        self._writer: PromptWriter | None = None
        if self._is_synthetic:
            shared = (options.input_len or 0) // 2 if options.prefix_cache == 'on' else 0
            chat = model.capabilities.chat
            self._writer = PromptWriter(self._count, chat=chat, shared=shared, seed=secrets.randbits(32))

    @property
    def _is_synthetic(self) -> bool:
        return self._options.input_len is not None or bool(self._trace and self._trace.lengths)

    async def execute(self) -> BenchResult:
        options = self._options
        if not self._is_synthetic:
            self._rows = read_conversations(self._experiment, limit=None)
            if options.output_len is not None:
                self._rows = fix_output(self._rows, options.output_len)
        processes = None
        if options.processes > 1:
            processes = LoadProcesses(self._entry.entry, self._model.name, options.processes)
        started, load = time.strftime('%Y-%m-%dT%H:%M:%S%z'), os.getloadavg()[0]
        try:
            if options.warmup:
                await self._warm_up()
            levels = [await self._run_level(level, processes) for level in options.levels(self._trace)]
        finally:
            await self._model.close()
            if processes is not None:
                processes.close()
        return BenchResult({**self._describe(), 'date': started, 'load_average': [load, os.getloadavg()[0]]}, levels)

    def _describe(self) -> dict[str, Any]:
        options, identity = self._options, self._model.identity
        return {
            'rolecall': __version__,
            'model_id': identity.get('model') or self._model.name,
            'endpoint': f'{identity.get("server")}/{identity.get("endpoint")}',
            'dataset': 'synthetic' if self._is_synthetic else ', '.join(task.abbr for task in self._experiment.tasks),
            'arrivals': options.arrivals if options.rate or self._trace else None,
            'input_len': options.input_len,
            'output_len': options.output_len or (_SYNTHETIC_OUTPUT if self._is_synthetic else None),
            'prefix_cache': options.prefix_cache or ('off' if self._is_synthetic else 'on'),
            'stream': not options.no_stream,
            'warmup': options.warmup,
            'stall_seconds': options.stall,
            'goodput': dict(self._limits),
        }

    async def _warm_up(self) -> None:
        share = await self._share(Level(min(self._options.warmup, 8)), self._options.warmup)
        run = await send_load(self._model, share)
        failures = [record for record in run.records if record.outcome in ('failed', 'cut')]
        if failures and len(failures) == len(run.records):
            raise ModelError(f'no warm-up request was answered: {failures[0].reason}')

    async def _run_level(self, level: Level, processes: LoadProcesses | None) -> LevelRun:
        share = await self._share(level, self._count_requests(level))
        total = sum(len(conversation.requests) for _, conversation, _ in share.conversations)
        self._on_progress(str(level), 0, total)
        if processes is None:
            run = await self._send_here(str(level), share, total)
        else:
            shares = [*split_share(replace(share, begin=time.perf_counter() + _GET_READY), processes.count)]
            run = await asyncio.to_thread(processes.send, shares)
        self._on_progress(str(level), len(run.records), len(run.records))
        return self._describe_run(level, run)

    async def _send_here(self, name: str, share: LoadShare, total: int) -> LoadRun:
        done = 0

        def count(_record: RequestRecord) -> None:
            nonlocal done
            done += 1
            self._on_progress(name, done, total)

        return await send_load(self._model, replace(share, begin=time.perf_counter()), count)

    def _describe_run(self, level: Level, run: LoadRun) -> LevelRun:
        records = sorted(run.records, key=lambda record: record.times.sent)
        window, why = find_steady(records)
        figures = describe_level(records, goodput=self._limits)
        begin = records[0].times.sent
        steady = None
        if window is not None:
            steady = describe_level(records, goodput=self._limits, window=window)
            steady |= {'from_seconds': window[0] - begin, 'to_seconds': window[1] - begin}
        return LevelRun(
            {
                'level': str(level),
                'max_concurrency': level.concurrency,
                'request_rate': level.rate,
                'num_prompts': len(records),
                **figures,
                'steady': steady,
                'not_steady': why,
                'max_concurrent_requests': _count_most(records),
                'client': describe_client(run.client, records, figures['duration']),
            },
            records,
        )

    def _count_requests(self, level: Level) -> int:
        if self._options.requests is not None:
            return self._options.requests
        if self._trace is not None:
            return len(self._trace.times)
        if level.rate is not None:
            return max(2, math.ceil(level.rate * self._options.seconds))
        return max(100, 10 * (level.concurrency or 1))

    async def _share(self, level: Level, count: int) -> LoadShare:
        options = self._options
        arrivals: str | Sequence[float] = options.arrivals if self._trace is None else self._trace.times
        starts = level.starts(count, arrivals, seed=random.getrandbits(32))
        count = count if starts is None else len(starts)
        conversations = [await self._next_conversation(number) for number in range(count)]
        numbers = range(self._sent, self._sent + count)
        self._sent += count
        return LoadShare(
            list(zip(numbers, conversations, starts or repeat(None), strict=False)),
            level.concurrency,
            begin=time.perf_counter(),
            seconds=options.seconds if self._trace is None else math.inf,
            stream=not options.no_stream,
            stall=options.stall,
            beginning=f'{self._tag}-' if options.prefix_cache == 'off' and not self._is_synthetic else '',
        )

    async def _next_conversation(self, number: int) -> BenchConversation:
        if self._writer is None:
            return self._rows[(self._sent + number) % len(self._rows)]
        sent, received = self._options.input_len, self._options.output_len
        if self._trace is not None and self._trace.lengths:
            sent, received = self._trace.lengths[number % len(self._trace.lengths)]
        return BenchConversation((await self._writer.write(sent or 1),), fixed_sampling(received or _SYNTHETIC_OUTPUT))

    async def _count(self, request: Request) -> int | None:
        """The tokens of a request: by the tokenizer on this machine, otherwise as the server reports them."""
        count = self._entry.count(request)
        if count is not None:
            return count
        stream = not self._options.no_stream
        reply = await self._model.time_reply(request, Sampling(max_out_len=1), StreamTimes(), stream=stream)
        return reply.usage.input_tokens


def _count_most(records: Sequence[RequestRecord]) -> int:
    """The most requests that were under way at once."""
    changes = sorted([(record.times.sent, 1) for record in records] + [(record.times.ended, -1) for record in records])
    most = now = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return most
