"""One benchmark of a server, from the prompts to the figures: write prompts, warm up, run each level, describe it."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
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
from rolecall.runs.serving.conversations import BenchConversation, PromptWriter, fix_output, read_conversations
from rolecall.runs.serving.load_generator import LoadProcesses, LoadRun, LoadShare, RequestRecord, send_load
from rolecall.runs.serving.load_levels import Level
from rolecall.runs.serving.serving_figures import describe_run

OnProgress = Callable[[str, int, int], object]
"""Told the name of the level, how many replies have come, and how many are awaited."""
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
        self._model = model
        self._options = options
        self._on_progress = on_progress
        self._trace = options.trace
        self._limits = options.limits
        self._sent = 0
        self._writer: PromptWriter | None = None
        self._rows: list[BenchConversation] = []
        self._dataset = 'synthetic'
        if options.input_len is not None or (self._trace is not None and self._trace.lengths):
            shared = (options.input_len or 0) // 2 if options.prefix_cache == 'on' else 0
            self._writer = PromptWriter(self._count, chat=model.capabilities.chat, shared=shared)
        else:
            self._dataset = ', '.join(task.abbr for task in experiment.tasks)
            needed = options.warmup + sum(map(self._count_conversations, options.levels(self._trace)))
            self._rows = fix_output(read_conversations(experiment, limit=needed), options.output_len)

    async def execute(self) -> BenchResult:
        options = self._options
        is_split = options.processes > 1
        processes = LoadProcesses(self._entry.entry, self._model.name, options.processes) if is_split else None
        started, load = time.strftime('%Y-%m-%dT%H:%M:%S%z'), os.getloadavg()[0]
        try:
            if options.warmup:
                await self._warm_up()
            levels = [await self._run_level(level, processes) for level in options.levels(self._trace)]
        finally:
            await self._model.close()
            if processes is not None:
                processes.shutdown()
        return BenchResult({**self._describe(), 'date': started, 'load_average': [load, os.getloadavg()[0]]}, levels)

    def _describe(self) -> dict[str, Any]:
        options, identity = self._options, self._model.identity
        kept = ('input_len', 'no_stream', 'warmup', 'stall', 'seconds', 'requests', 'processes')
        return {
            'rolecall': __version__,
            'model_id': identity.get('model') or self._model.name,
            'endpoint': f'{identity.get("server")}/{identity.get("endpoint")}',
            'dataset': self._dataset,
            'arrivals': options.arrivals if options.rate or self._trace else None,
            'output_len': options.output_len or (_SYNTHETIC_OUTPUT if self._writer else None),
            'prefix_cache': options.prefix_cache or ('off' if self._writer else 'on'),
            'goodput': dict(self._limits),
            **{name: value for name, value in asdict(options).items() if name in kept},
        }

    async def _warm_up(self) -> None:
        share = await self._share(Level(min(self._options.warmup, 8)), self._options.warmup)
        records = (await send_load(self._model, share)).records
        if all(record.outcome in ('failed', 'cut') for record in records):
            raise ModelError(f'no warm-up request was answered: {records[0].reason}')

    async def _run_level(self, level: Level, processes: LoadProcesses | None) -> LevelRun:
        share = await self._share(level, self._count_conversations(level))
        total, done = sum(len(conversation.requests) for _, conversation, _ in share.conversations), 0

        def count(_record: RequestRecord) -> None:
            nonlocal done
            done += 1
            self._on_progress(str(level), done, total)

        self._on_progress(str(level), 0, total)
        run: LoadRun
        if processes is None:
            run = await send_load(self._model, replace(share, begin=time.perf_counter()), count)
        else:
            run = await asyncio.to_thread(processes.send, share)
        run.records.sort(key=lambda record: record.times.sent)
        self._on_progress(str(level), len(run.records), len(run.records))
        load = {'level': str(level), 'max_concurrency': level.concurrency, 'request_rate': level.rate}
        return LevelRun({**load, **describe_run(run, goodput=self._limits)}, run.records)

    def _count_conversations(self, level: Level) -> int:
        if self._options.requests is not None:
            return self._options.requests
        if self._trace is not None:
            return len(self._trace.times)
        if level.rate is not None:
            return max(2, math.ceil(level.rate * self._options.seconds))
        return max(100, 10 * (level.concurrency or 1))

    async def _share(self, level: Level, count: int) -> LoadShare:
        options = self._options
        starts = level.starts(count, options.arrivals if self._trace is None else self._trace.times)
        count = count if starts is None else len(starts)
        numbers = range(self._sent, self._sent + count)
        conversations = [await self._next_conversation(number, place) for place, number in enumerate(numbers)]
        self._sent += count
        return LoadShare(
            list(zip(numbers, conversations, starts or repeat(None), strict=False)),
            level.concurrency,
            begin=time.perf_counter(),
            seconds=options.seconds if self._trace is None else math.inf,
            stream=not options.no_stream,
            stall=options.stall,
            beginning=f'{secrets.token_hex(3)}-' if options.prefix_cache == 'off' and self._writer is None else '',
        )

    async def _next_conversation(self, number: int, place: int) -> BenchConversation:
        if self._writer is None:
            return self._rows[number % len(self._rows)]
        sent, received = self._options.input_len, self._options.output_len
        if self._trace is not None and self._trace.lengths:
            sent, received = self._trace.lengths[place % len(self._trace.lengths)]
        return await self._writer.write(sent or 1, received or _SYNTHETIC_OUTPUT)

    async def _count(self, request: Request) -> int | None:
        """The tokens of a request: by the tokenizer on this machine, otherwise as the server reports them."""
        count = self._entry.count(request)
        if count is not None:
            return count
        stream = not self._options.no_stream
        reply = await self._model.time_reply(request, Sampling(max_out_len=1), StreamTimes(), stream=stream)
        return reply.usage.input_tokens
