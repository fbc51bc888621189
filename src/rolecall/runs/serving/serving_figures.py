"""The figures of a level, under the names that vLLM's and AISBench's benchmarks give them, with intervals.

Only whole replies are measured; failed, cut and stalled ones are counted. Times are milliseconds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, pvariance
from typing import Any

from rolecall.runs.serving.load_generator import ClientLoad, RequestRecord
from rolecall.scoring.statistics import quantile

MEASURES = {
    'ttft': 'Time to First Token',
    'tpot': 'Time per Output Token (excl. 1st token)',
    'itl': 'Inter-token Latency',
    'e2el': 'End-to-end Latency',
}
PERCENTILES = (50, 75, 90, 95, 99)
_Z = 1.96
_BATCHES = 20
_IN_A_BATCH = 5
"""Of the MSER-5 rule."""
_SAME = 0.05
_FEWEST = 20
"""Requests from which on a steady state is looked for."""


def request_times(record: RequestRecord) -> dict[str, float | None]:
    """The times of one request in milliseconds, by measure; gaps between pieces are not among them."""
    times, tokens = record.times, record.output_tokens or 0
    first = times.first_token
    spread = times.pieces[-1] - times.pieces[0] if len(times.pieces) > 1 and tokens > 1 else None
    return {
        'ttft': None if first is None else 1e3 * first,
        'tpot': None if spread is None else 1e3 * spread / (tokens - 1),
        'e2el': 1e3 * (times.ended - times.sent),
    }


def gaps_of(record: RequestRecord) -> list[float]:
    """The milliseconds between the pieces of one reply."""
    return [1e3 * (later - earlier) for earlier, later in pairwise(record.times.pieces)]


def describe_level(
    records: Sequence[RequestRecord], *, goodput: Mapping[str, float], window: tuple[float, float] | None = None
) -> dict[str, Any]:
    """The figures of the requests that were sent within a window; of all of them without one."""
    begin, end = window or (
        min(record.times.sent for record in records),
        max(record.times.ended for record in records),
    )
    inside = [record for record in records if begin <= record.times.sent <= end]
    whole = [record for record in inside if record.outcome == 'ok']
    outcomes = Counter(record.outcome for record in inside)
    duration = max(end - begin, 1e-9)
    sent = sum(_input_within(record, begin, end) for record in records)
    received = sum(_output_within(record, begin, end) for record in records)
    ended = sum(begin <= record.times.ended <= end for record in records if record.outcome == 'ok')
    by_measure = _collect_times(whole)
    good = sum(_is_good(record, goodput) for record in whole) if goodput else None
    return {
        'duration': duration,
        'completed': len(whole),
        'failed': len(inside) - len(whole),
        'errors_by_kind': {kind: outcomes[kind] for kind in ('failed', 'cut', 'stalled')},
        'total_input_tokens': sum(record.input_tokens or 0 for record in whole),
        'total_output_tokens': sum(record.output_tokens or 0 for record in whole),
        'cached_input_tokens': sum(record.cached_tokens or 0 for record in whole),
        'request_throughput': ended / duration,
        'request_goodput': None if good is None else good * ended / max(len(whole), 1) / duration,
        'goodput_share': None if good is None else good / max(len(inside), 1),
        'input_throughput': sent / duration,
        'output_throughput': received / duration,
        'total_token_throughput': (sent + received) / duration,
        **{key: value for name, values in by_measure.items() for key, value in _summarise(name, values, len(whole))},
    }


def _collect_times(whole: Sequence[RequestRecord]) -> dict[str, list[float]]:
    collected: dict[str, list[float]] = {'itl': [gap for record in whole for gap in gaps_of(record)]}
    for record in whole:
        for name, value in request_times(record).items():
            if value is not None:
                collected.setdefault(name, []).append(value)
    return collected


def _input_within(record: RequestRecord, begin: float, end: float) -> int:
    """Input tokens of a whole reply, if it was sent within a window."""
    return (record.input_tokens or 0) if record.outcome == 'ok' and begin <= record.times.sent <= end else 0


def _output_within(record: RequestRecord, begin: float, end: float) -> float:
    """Output tokens of a whole reply that arrived within a window."""
    if record.outcome != 'ok':
        return 0.0
    pieces = record.times.pieces or [record.times.ended]
    return (record.output_tokens or 0) * sum(begin <= piece <= end for piece in pieces) / len(pieces)


def _is_good(record: RequestRecord, limits: Mapping[str, float]) -> bool:
    times = request_times(record)
    return all((value := times.get(name)) is not None and value <= limit for name, limit in limits.items())


def _summarise(name: str, values: Sequence[float], requests: int) -> list[tuple[str, Any]]:
    """Mean, deviation and percentiles of a measure under vLLM's names, with 95 % intervals under `…_interval`."""
    if not values:
        return []
    ordered = sorted(values)
    figures: list[tuple[str, Any]] = [
        (f'mean_{name}_ms', fmean(values)),
        (f'mean_{name}_ms_interval', mean_by_batches(values)),
        (f'std_{name}_ms', math.sqrt(pvariance(values))),
        (f'min_{name}_ms', ordered[0]),
        (f'max_{name}_ms', ordered[-1]),
        (f'median_{name}_ms', quantile(ordered, 0.5)),
    ]
    for percent in PERCENTILES:
        figures.append((f'p{percent}_{name}_ms', quantile(ordered, percent / 100)))
        figures.append((f'p{percent}_{name}_ms_interval', quantile_interval(ordered, percent / 100, requests)))
    return figures


def quantile_interval(ordered: Sequence[float], share: float, units: int) -> tuple[float | None, float | None]:
    """The 95 % interval of a quantile by order statistics, if `units` of the values are independent.

    An end that the values do not reach is None: 100 values say nothing about how far the 99th percentile may lie.

    >>> quantile_interval(range(1, 101), 0.5, 100), quantile_interval(range(1, 101), 0.99, 100)
    ((40, 61), (97, None))
    """
    spread = _Z * math.sqrt(units * share * (1 - share))
    low, high = math.floor(units * share - spread), math.ceil(units * share + spread) + 1
    scale = len(ordered) / max(units, 1)
    places = [round(rank * scale) - 1 for rank in (low, high)]
    return tuple(ordered[place] if 0 <= place < len(ordered) else None for place in places)  # type: ignore[return-value]


def batch_means(values: Sequence[float]) -> list[float]:
    """The means of up to 20 batches of neighbours, which are less alike than the values themselves."""
    size = max(1, len(values) // _BATCHES)
    return [fmean(values[start : start + size]) for start in range(0, len(values) - size + 1, size)]


def error_by_batches(values: Sequence[float]) -> float:
    """The standard error of a mean, by batches."""
    means = batch_means(values)
    return math.sqrt(pvariance(means) / (len(means) - 1)) if len(means) > 1 else math.inf


def mean_by_batches(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of a mean, by batches.

    >>> mean_by_batches([1.0]) is None, tuple(round(end, 3) for end in mean_by_batches([1.0, 2.0] * 50))
    (True, (1.452, 1.548))
    """
    if len(values) < 2:
        return None
    batches = len(batch_means(values))
    error = _T[min(batches, len(_T)) - 1] * error_by_batches(values)
    return fmean(values) - error, fmean(values) + error


_T = (
    *(math.inf, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23),
    *(2.20, 2.18, 2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09),
)
"""Student's t at 97.5 % by the number of batches."""


def find_steady(records: Sequence[RequestRecord]) -> tuple[tuple[float, float] | None, str]:
    """When latencies stopped changing (the MSER-5 rule) until the last request was sent; None and why, if never."""
    whole = sorted((record for record in records if record.outcome == 'ok'), key=lambda record: record.times.sent)
    if len(whole) < _FEWEST:
        return None, f'{len(whole)} whole replies are too few to find a steady state'
    latencies = [record.times.ended - record.times.sent for record in whole]
    cut = _IN_A_BATCH * truncate_transient(latencies)
    if _has_trend(latencies[cut:]):
        return None, 'latencies still change at the end: the level is too short, or more than the server can hold'
    return (whole[cut].times.sent, max(record.times.sent for record in records)), ''


def truncate_transient(values: Sequence[float]) -> int:
    """How many batches of five at the beginning to leave out, so that the mean of the rest is known best.

    >>> truncate_transient([9.0] * 10 + [1.0, 1.1] * 40)
    2
    """
    means = [
        fmean(values[start : start + _IN_A_BATCH]) for start in range(0, len(values) - _IN_A_BATCH + 1, _IN_A_BATCH)
    ]
    return min(range(len(means) // 2), key=lambda cut: (pvariance(means[cut:]) / (len(means) - cut), cut))


def _has_trend(values: Sequence[float]) -> bool:
    """Whether the second half differs from the first by more than chance and by more than a twentieth."""
    halves = values[: len(values) // 2], values[len(values) // 2 :]
    (before, after), error = map(fmean, halves), math.hypot(*map(error_by_batches, halves))
    return abs(after - before) > max(3 * error, _SAME * before)


def describe_client(client: ClientLoad, records: Sequence[RequestRecord], duration: float) -> dict[str, Any]:
    """What the client itself added: lag of its event loop, late sending, and its share of a core."""
    lags = sorted(client.lags) or [0.0]
    late = sorted(record.times.sent - record.due for record in records if record.due is not None) or [0.0]
    return {
        'processes': client.processes,
        'cpu_share': client.cpu_seconds / max(duration, 1e-9) / client.processes,
        'median_lag_ms': 1e3 * quantile(lags, 0.5),
        'p99_lag_ms': 1e3 * quantile(lags, 0.99),
        'max_lag_ms': 1e3 * lags[-1],
        'p99_late_ms': 1e3 * quantile(late, 0.99),
    }
