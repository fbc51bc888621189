"""Two benchmarks of a server, level by level: how much slower or faster, and whether that is more than is accepted.

Requests of one benchmark are alike, so intervals are over batches of neighbours. How much a server differs from one
start to the next is not in them: several benchmarks tell.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from rolecall.insight.gate import GatedPair, GateResult, Verdict
from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_figures import error_by_batches

_PARTS = 20
_T_SIDE = 1.73
"""Student's t for a one-sided bound of 95 % over so many batches."""
_MEASURES = (('TTFT', 'ttft'), ('TPOT', 'tpot'), ('E2EL', 'latency'))
_MOST_LOST = 0.1


def gate_benches(base: StoredBench, new: StoredBench, *, margin: float) -> GateResult:
    """Whether a server became slower, by more than `margin` percent, at any level that both benchmarks have."""
    levels = {str(level['level']): number for number, level in enumerate(new.levels)}
    pairs: list[GatedPair] = []
    for number, level in enumerate(base.levels):
        name = str(level['level'])
        if name in levels:
            pairs += _compare_level(name, _MeasuredLevel(base, number), _MeasuredLevel(new, levels[name]), margin)
        else:
            pairs.append(GatedPair(name, 'all', 'not measured', why='the new benchmark has no such level'))
    return GateResult(tuple(pairs), margin, str(base.directory), str(new.directory))


class _MeasuredLevel:
    """The requests of a level in its steady state; all of them where it has none."""

    def __init__(self, bench: StoredBench, number: int) -> None:
        requests = bench.requests[number]
        steady = bench.levels[number]['steady']
        self._begin: float = steady['from_seconds'] if steady else 0.0
        self._end: float = steady['to_seconds'] if steady else requests[-1]['start_time']
        inside = [request for request in requests if self._begin <= request['start_time'] <= self._end]
        self._whole = [request for request in requests if request['outcome'] == 'ok']
        self.requests = [request for request in inside if request['outcome'] == 'ok']
        self.lost = len(inside) - len(self.requests)

    def milliseconds(self, key: str) -> list[float]:
        return [1e3 * request[key] for request in self.requests if request[key] is not None]

    def throughputs(self) -> list[float]:
        """The output tokens per second in parts of the time; a reply's tokens are spread from its first to its end."""
        size = max((self._end - self._begin) / _PARTS, 1e-9)
        parts = [0.0] * _PARTS
        for request in self._whole:
            end = request['start_time'] + request['latency']
            first = request['start_time'] + (request['ttft'] or 0.0)
            for part in range(_PARTS):
                left = self._begin + part * size
                overlap = max(0.0, min(end, left + size) - max(first, left))
                parts[part] += (request['output_tokens'] or 0) * overlap / max(end - first, 1e-9) / size
        return parts


def _compare_level(name: str, base: _MeasuredLevel, new: _MeasuredLevel, margin: float) -> Iterator[GatedPair]:
    sides, lost = (base, new), max(base.lost, new.lost)
    for title, key in _MEASURES:
        values = [side.milliseconds(key) for side in sides]
        if all(values):
            yield _judge(name, f'{title} (ms)', values, lost, margin, sign=-1.0)
    parts = [side.throughputs() for side in sides]
    pair = _judge(name, 'output (tok/s)', parts, lost, margin, sign=1.0)
    yield replace(pair, rows=min(len(side.requests) for side in sides))


def _judge(
    level: str, measure: str, sides: Sequence[Sequence[float]], lost: int, margin: float, *, sign: float
) -> GatedPair:
    """The ratio of two means with one-sided bounds, in percent."""
    count = min(map(len, sides))
    judged = GatedPair(level, measure, 'not measured', count, not_measured=lost, unit='request')
    before, after = (fmean(side or [0.0]) for side in sides)
    if not before or not after:
        return judged
    errors = [error_by_batches(side) / mean for side, mean in zip(sides, (before, after), strict=True)]
    ratio, error = math.log(after / before), _T_SIDE * math.hypot(*errors)
    judged = replace(judged, base=before, new=after, difference=100 * math.expm1(ratio))
    if not math.isfinite(error):
        return replace(judged, verdict='too few rows to tell')
    difference, low, high = (100 * math.expm1(value) for value in (ratio, ratio - error, ratio + error))
    worst, best = sorted((sign * low, sign * high))
    verdict: Verdict = 'too few rows to tell'
    if best < 0 and sign * difference < -margin:
        verdict = 'worse'
    elif lost > _MOST_LOST * (count + lost):
        verdict = 'not measured'
    elif worst >= -margin:
        verdict = 'not worse'
    return replace(judged, verdict=verdict, low=low, high=high)
