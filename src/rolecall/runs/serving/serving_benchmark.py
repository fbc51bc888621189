"""One benchmark of a server, from the prompts to the figures: write prompts, warm up, run each level, describe it.

Figures have the names that vLLM's and AISBench's benchmarks give them, with intervals. Only whole replies are measured;
failed, cut and stalled ones are counted. Times are milliseconds.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, count, pairwise, repeat
from statistics import fmean, pstdev, pvariance
from typing import Any

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.models.http.served_model import ServedModel, StreamTimes
from rolecall.models.protocol import ModelError, Sampling
from rolecall.runs.engine import run_blocking
from rolecall.runs.serving.bench_options import BenchOptions, Level
from rolecall.runs.serving.load_generator import (
    BenchConversation,
    LoadProcesses,
    LoadRun,
    LoadShare,
    PromptWriter,
    RequestRecord,
    fix_output,
    read_conversations,
    send_load,
)
from rolecall.scoring.statistics import quantile

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
    """Load the server of the experiment's model, level by level. If interrupted, the finished levels are the result."""
    if len(experiment.models) != 1:
        names = ', '.join(model.abbr for model in experiment.models) or 'none'
        raise ConfigError(Problem('--model', f'a benchmark loads one model at a time, got {names}.', 'Name one.'))
    model = experiment.models[0].model
    if not isinstance(model, ServedModel):
        what = f'{model.name} runs in this process; a benchmark loads a server.'
        raise ConfigError(Problem('--model', what, 'Give the URL of a server: --model http://127.0.0.1:8000/v1.'))
    benchmark = _Benchmark(experiment, model, options, on_progress)
    try:
        run_blocking(benchmark.execute())
    except KeyboardInterrupt:
        if not benchmark.levels:
            raise
    return benchmark.result()


class _Benchmark:
    """One benchmark under way."""

    def __init__(
        self, experiment: Experiment, model: ServedModel[Any], options: BenchOptions, on_progress: OnProgress
    ) -> None:
        self._entry = experiment.models[0]
        self._model = model
        self._options = options
        self._on_progress = on_progress
        self._trace, self._limits = options.trace, options.limits
        self._planned = options.levels(self._trace)
        self._began = time.strftime('%Y-%m-%dT%H:%M:%S%z'), os.getloadavg()[0]
        self._lengths = self._trace.lengths if self._trace is not None else ()
        self._dataset, self._writer, self._sent = 'synthetic', None, 0
        self._rows: list[BenchConversation] = []
        self.levels: list[LevelRun] = []
        if options.input_len is not None or self._lengths:
            shared = (options.input_len or 0) // 2 if options.prefix_cache == 'on' else 0
            self._writer = PromptWriter(self._count, chat=model.capabilities.chat, shared=shared)
        else:
            self._dataset = ', '.join(task.abbr for task in experiment.tasks)
            needed = options.warmup + sum(map(self._count_conversations, self._planned))
            self._rows = fix_output(read_conversations(experiment, limit=needed), options.output_len)

    async def execute(self) -> None:
        options = self._options
        is_split = options.processes > 1
        processes = LoadProcesses(self._entry.entry, self._model.name, options.processes) if is_split else None
        try:
            if options.warmup:
                await self._warm_up()
            for level in self._planned:
                self.levels.append(await self._run_level(level, processes))
        finally:
            await self._model.close()
            if processes is not None:
                processes.shutdown()

    def result(self) -> BenchResult:
        options, identity = self._options, self._model.identity
        kept = ('input_len', 'no_stream', 'warmup', 'stall', 'seconds', 'requests', 'processes')
        settings = {
            'rolecall': __version__,
            'model_id': identity.get('model') or self._model.name,
            'endpoint': f'{identity.get("server")}/{identity.get("endpoint")}',
            'dataset': self._dataset,
            'arrivals': options.arrivals if options.rate or self._trace else None,
            'output_len': options.output_len or (_SYNTHETIC_OUTPUT if self._writer else None),
            'prefix_cache': options.prefix_cache or ('off' if self._writer else 'on'),
            'goodput': dict(self._limits),
            **{name: value for name, value in asdict(options).items() if name in kept},
            'planned_levels': len(self._planned),
            'date': self._began[0],
            'load_average': [self._began[1], os.getloadavg()[0]],
        }
        return BenchResult(settings, self.levels)

    async def _warm_up(self) -> None:
        share = await self._share(Level(min(self._options.warmup, 8)), self._options.warmup)
        records = (await send_load(self._model, replace(share, seconds=math.inf))).records
        if all(record.outcome in ('failed', 'cut') for record in records):
            raise ModelError(f'no warm-up request was answered: {records[0].reason}')

    async def _run_level(self, level: Level, processes: LoadProcesses | None) -> LevelRun:
        share = await self._share(level, self._count_conversations(level))
        total, done = sum(len(conversation.requests) for _, conversation, _ in share.conversations), count(1)
        self._on_progress(str(level), 0, total)
        if processes is None:
            run = await send_load(self._model, share, lambda _: self._on_progress(str(level), next(done), total))
        else:
            run = await asyncio.to_thread(processes.send, share)
        run.records.sort(key=lambda record: record.times.sent)
        self._on_progress(str(level), len(run.records), len(run.records))
        load = {'level': str(level), 'max_concurrency': level.concurrency, 'request_rate': level.rate}
        return LevelRun({**load, **describe_run(run, goodput=self._limits)}, run.records)

    def _count_conversations(self, level: Level) -> int:
        if self._options.requests is not None or self._trace is not None:
            return self._options.requests or len(self._trace.times if self._trace else ())
        by_rate = None if level.rate is None else max(2, math.ceil(level.rate * self._options.seconds))
        return by_rate or max(100, 10 * (level.concurrency or 1))

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
            seconds=options.seconds if self._trace is None else math.inf,
            stream=not options.no_stream,
            stall=options.stall,
            beginning=f'{secrets.token_hex(3)}-' if options.prefix_cache == 'off' and self._writer is None else '',
        )

    async def _next_conversation(self, number: int, place: int) -> BenchConversation:
        if self._writer is None:
            return self._rows[number % len(self._rows)]
        sent, received = self._options.input_len, self._options.output_len
        if self._lengths:
            sent, received = self._lengths[place % len(self._lengths)]
        return await self._writer.write(sent or 1, received or _SYNTHETIC_OUTPUT)

    async def _count(self, request: Request) -> int | None:
        """The tokens of a request: by the tokenizer on this machine, otherwise as the server reports them."""
        count = self._entry.count(request)
        if count is not None:
            return count
        stream = not self._options.no_stream
        reply = await self._model.time_reply(request, Sampling(max_out_len=1), StreamTimes(), stream=stream)
        return reply.usage.input_tokens


MEASURES = {
    'ttft': 'Time to First Token',
    'tpot': 'Time per Output Token (excl. 1st token)',
    'itl': 'Inter-token Latency',
    'e2el': 'End-to-end Latency',
}
_PERCENTILES = (50, 75, 90, 95, 99)
_Z = 1.96
_BATCHES = 20
_T = 2.09
"""Student's t at 97.5 % for as many batches."""
_IN_A_BATCH = 5
"""Of the MSER-5 rule."""
_FEWEST = 20
"""Requests from which on a steady state is looked for, and a mean has an interval."""
_SAME = 0.05
_REASONS = 3


def request_times(record: RequestRecord) -> dict[str, list[float]]:
    """The times of one request in milliseconds, by measure: none or one, and each gap between pieces."""
    times, pieces, tokens = record.times, record.times.pieces, record.output_tokens or 0
    spread = [pieces[-1] - pieces[0]] if len(pieces) > 1 and tokens > 1 else []
    return {
        'ttft': [1e3 * (piece - times.sent) for piece in pieces[:1]],
        'tpot': [1e3 * seconds / (tokens - 1) for seconds in spread],
        'itl': [1e3 * (later - earlier) for earlier, later in pairwise(pieces)],
        'e2el': [1e3 * (times.ended - times.sent)],
    }


def describe_run(run: LoadRun, *, goodput: Mapping[str, float]) -> dict[str, Any]:
    """The figures of a level, those of its steady state, and what the client itself added."""
    records = run.records
    first, last = records[0].times.sent, max(record.times.ended for record in records)
    window, why = find_steady(records)
    steady = None
    if window is not None:
        steady = _describe_window(records, goodput, *window)
        steady |= {'from_seconds': window[0] - first, 'to_seconds': window[1] - first}
    lags = sorted(run.lags) or [0.0]
    late = sorted(record.times.sent - record.due for record in records if record.due is not None) or [0.0]
    changes = [(record.times.sent, 1) for record in records] + [(record.times.ended, -1) for record in records]
    return {
        'num_prompts': len(records),
        **_describe_window(records, goodput, first, last),
        'steady': steady,
        'not_steady': why,
        'errors': Counter(record.reason for record in records if record.reason).most_common(_REASONS),
        'max_concurrent_requests': max(accumulate(change for _, change in sorted(changes))),
        'client': {
            'processes': run.processes,
            'cpu_share': run.cpu_seconds / max(last - first, 1e-9) / run.processes,
            'median_lag_ms': 1e3 * quantile(lags, 0.5),
            'p99_lag_ms': 1e3 * quantile(lags, 0.99),
            'p99_late_ms': 1e3 * quantile(late, 0.99),
        },
    }


def _describe_window(
    records: Sequence[RequestRecord], goodput: Mapping[str, float], begin: float, end: float
) -> dict[str, Any]:
    """Latencies of the requests that were sent within a window, and what arrived within it."""
    inside = [record for record in records if begin <= record.times.sent <= end]
    whole = [record for record in inside if record.outcome == 'ok']
    outcomes = Counter(record.outcome for record in inside)
    seconds = max(end - begin, 1e-9)
    ended = sum(begin <= record.times.ended <= end for record in records if record.outcome == 'ok') / seconds
    reported = [record.input_tokens for record in whole if record.input_tokens is not None]
    sent = sum(reported) / seconds if reported else None
    received = sum(_count_arrived(record, begin, end) for record in records if record.outcome == 'ok') / seconds
    good = sum(_is_good(record, goodput) for record in whole) / max(len(whole), 1) if goodput else None
    figures: dict[str, Any] = {
        'duration': seconds,
        'completed': len(whole),
        'failed': len(inside) - len(whole),
        'errors_by_kind': {kind: outcomes[kind] for kind in ('failed', 'cut', 'stalled')},
        'total_input_tokens': sum(reported) if reported else None,
        'total_output_tokens': sum(record.output_tokens or 0 for record in whole),
        'cached_input_tokens': sum(record.cached_tokens or 0 for record in whole),
        'request_throughput': ended,
        'request_goodput': None if good is None else good * ended,
        'input_throughput': sent,
        'output_throughput': received,
        'total_token_throughput': None if sent is None else sent + received,
    }
    times = [request_times(record) for record in whole]
    for name in MEASURES:
        if values := [value for by_measure in times for value in by_measure[name]]:
            figures |= _summarise(name, values, len(whole))
    return figures


def _count_arrived(record: RequestRecord, begin: float, end: float) -> float:
    pieces = record.times.pieces or [record.times.ended]
    return (record.output_tokens or 0) * sum(begin <= piece <= end for piece in pieces) / len(pieces)


def _is_good(record: RequestRecord, limits: Mapping[str, float]) -> bool:
    times = request_times(record)
    return all(times[name] and times[name][0] <= limit for name, limit in limits.items())


def _summarise(name: str, values: Sequence[float], requests: int) -> dict[str, Any]:
    """Mean, deviation and percentiles of a measure under vLLM's names, with 95 % intervals under `…_interval`."""
    ordered, mean = sorted(values), fmean(values)
    error = _T * error_by_batches(values)
    figures: dict[str, Any] = {
        f'mean_{name}_ms': mean,
        f'mean_{name}_ms_interval': (mean - error, mean + error) if math.isfinite(error) else None,
        f'std_{name}_ms': pstdev(values),
        f'min_{name}_ms': ordered[0],
        f'max_{name}_ms': ordered[-1],
        f'median_{name}_ms': quantile(ordered, 0.5),
    }
    for percent in _PERCENTILES:
        figures[f'p{percent}_{name}_ms'] = quantile(ordered, percent / 100)
        figures[f'p{percent}_{name}_ms_interval'] = quantile_interval(ordered, percent / 100, requests)
    return figures


def quantile_interval(ordered: Sequence[float], share: float, units: int) -> list[float | None]:
    """The 95 % interval of a quantile by order statistics, if `units` of the values are independent.

    An end that the values do not reach is None: 100 values say nothing about how far the 99th percentile may lie.

    >>> quantile_interval(range(1, 101), 0.5, 100), quantile_interval(range(1, 101), 0.99, 100)
    ([40, 61], [97, None])
    """
    spread = _Z * math.sqrt(units * share * (1 - share))
    ranks = math.floor(units * share - spread), math.ceil(units * share + spread) + 1
    places = [round(rank * len(ordered) / units) - 1 for rank in ranks]
    return [ordered[place] if 0 <= place < len(ordered) else None for place in places]


def error_by_batches(values: Sequence[float]) -> float:
    """The standard error of a mean over 20 batches of neighbours, which are less alike than the values themselves."""
    size = len(values) // _BATCHES
    if not size:
        return math.inf
    means = [fmean(values[start : start + size]) for start in range(0, size * _BATCHES, size)]
    return math.sqrt(pvariance(means) / (_BATCHES - 1))


def find_steady(records: Sequence[RequestRecord]) -> tuple[tuple[float, float] | None, str]:
    """When latencies stopped changing (the MSER-5 rule) until the last request was sent; None and why, if never."""
    whole = [record for record in records if record.outcome == 'ok']
    if len(whole) < _FEWEST:
        return None, f'too few whole replies ({len(whole)}) to find a steady state'
    latencies = [record.times.ended - record.times.sent for record in whole]
    cut = truncate_transient(latencies)
    if _has_trend(latencies[cut:]):
        return None, 'latencies still change at the end: the level is too short, or more than the server can hold'
    return (whole[cut].times.sent, records[-1].times.sent), ''


def truncate_transient(values: Sequence[float]) -> int:
    """How many values at the beginning to leave out, so that the mean of the rest is known best.

    >>> truncate_transient([9.0] * 10 + [1.0, 1.1] * 40)
    10
    """
    size = _IN_A_BATCH
    means = [fmean(values[start : start + size]) for start in range(0, len(values) - size + 1, size)]
    return size * min(range(len(means) // 2), key=lambda cut: (pvariance(means[cut:]) / (len(means) - cut), cut))


def _has_trend(values: Sequence[float]) -> bool:
    """Whether the second half differs from the first by more than chance and by more than a twentieth."""
    before, after = values[: len(values) // 2], values[len(values) // 2 :]
    errors = [pstdev(half) / math.sqrt(max(len(half) // _IN_A_BATCH, 1)) for half in (before, after)]
    return abs(fmean(after) - fmean(before)) > max(3 * math.hypot(*errors), _SAME * fmean(before))
