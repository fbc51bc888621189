"""Two benchmarks of a server, level by level: how much slower or faster, and whether that is more than is accepted.

Requests of one benchmark are alike, so intervals are over batches of neighbours. How much a server differs from one
start to the next is not in them: several benchmarks tell. At a given load, throughput follows from the latencies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

from rolecall.insight.gate import GatedPair, GateResult
from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_figures import error_by_batches

_T_SIDE = 1.73
"""Student's t for a one-sided bound of 95 % over 20 batches."""
_MEASURES = {'TTFT (ms)': 'ttft', 'TPOT (ms)': 'tpot', 'E2EL (ms)': 'latency'}
_MOST_LOST = 0.1
Requests = Sequence[Mapping[str, Any]]


def gate_benches(base: StoredBench, new: StoredBench, *, margin: float) -> GateResult:
    """Whether a server became slower, by more than `margin` percent, at any level that both benchmarks have."""
    levels = {str(level['level']): number for number, level in enumerate(new.levels)}
    pairs: list[GatedPair] = []
    for number, level in enumerate(base.levels):
        name = str(level['level'])
        if name in levels:
            pairs += _compare_level(name, _list_measured(base, number), _list_measured(new, levels[name]), margin)
        else:
            pairs.append(GatedPair(name, 'all', 'not measured', why='the new benchmark has no such level'))
    return GateResult(tuple(pairs), margin, str(base.directory), str(new.directory))


def _list_measured(bench: StoredBench, number: int) -> Requests:
    """The requests of a level in its steady state; all of them where it has none."""
    steady = bench.levels[number]['steady'] or {'from_seconds': 0.0, 'to_seconds': math.inf}
    begin, end = steady['from_seconds'], steady['to_seconds']
    return [request for request in bench.requests[number] if begin <= request['start_time'] <= end]


def _compare_level(name: str, base: Requests, new: Requests, margin: float) -> Iterator[GatedPair]:
    lost = max(sum(request['outcome'] != 'ok' for request in side) for side in (base, new))
    for measure, key in _MEASURES.items():
        sides = [
            [1e3 * request[key] for request in side if request['outcome'] == 'ok' and request[key] is not None]
            for side in (base, new)
        ]
        judged = GatedPair(name, measure, 'not measured', min(map(len, sides)), not_measured=lost, unit='request')
        yield _judge(judged, sides, margin) if all(sides) else judged


def _judge(pair: GatedPair, sides: Sequence[Sequence[float]], margin: float) -> GatedPair:
    """The ratio of two means with one-sided bounds, in percent."""
    base, new = map(fmean, sides)
    ratio = math.log(new / base)
    error = _T_SIDE * math.hypot(error_by_batches(sides[0]) / base, error_by_batches(sides[1]) / new)
    pair = replace(pair, base=base, new=new, difference=100 * math.expm1(ratio))
    if not math.isfinite(error):
        return replace(pair, verdict='too few rows to tell')
    low, high = (100 * math.expm1(bound) for bound in (ratio - error, ratio + error))
    pair = replace(pair, low=low, high=high)
    if low > 0 and math.expm1(ratio) > margin / 100:
        return replace(pair, verdict='worse')
    if pair.not_measured > _MOST_LOST * (pair.rows + pair.not_measured):
        return replace(pair, why='too many requests failed')
    return replace(pair, verdict='not worse' if high <= margin else 'too few rows to tell')
