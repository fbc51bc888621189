"""How hard a server is loaded: so many conversations at once, or so many started each second, evenly or by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate, pairwise
from typing import Any

from rolecall.errors import ConfigError, Problem

_TIME_KEYS = ('timestamp', 'time', 'arrival_time')
_INPUT_KEYS = ('input_length', 'input_tokens', 'contexttokens', 'request tokens', 'prompt_len')
_OUTPUT_KEYS = ('output_length', 'output_tokens', 'generatedtokens', 'response tokens', 'output_len')


@dataclass(frozen=True, slots=True)
class Level:
    """One load: `concurrency` conversations at once; with a `rate`, that is only their greatest number.

    >>> str(Level(8)), str(Level(None, 2.5)), Level(None, 4).starts(3, 'constant')
    ('concurrency 8', 'rate 2.5/s', [0.0, 0.25, 0.5])
    """

    concurrency: int | None = None
    rate: float | None = None

    def __str__(self) -> str:
        return f'concurrency {self.concurrency}' if self.rate is None else f'rate {self.rate:g}/s'

    def starts(self, count: int, arrivals: str | Sequence[float]) -> list[float] | None:
        """When each conversation starts, in seconds from the beginning; None: when one before it ends."""
        if self.rate is None:
            return None
        if not isinstance(arrivals, str):
            return [(time - arrivals[0]) * mean_rate(arrivals) / self.rate for time in arrivals[:count]]
        by_chance = arrivals == 'poisson'
        gaps = (random.expovariate(self.rate) if by_chance else 1 / self.rate for _ in range(count - 1))
        return [0.0, *accumulate(gaps)]


def mean_rate(times: Sequence[float]) -> float:
    """The rate of a trace as it was recorded."""
    return (len(times) - 1) / max(times[-1] - times[0], 1e-9)


@dataclass(frozen=True, slots=True)
class ArrivalTrace:
    """Recorded arrivals in seconds, and the lengths in tokens where the trace has them."""

    times: tuple[float, ...]
    lengths: tuple[tuple[int, int], ...] = ()


def read_trace(rows: Sequence[Mapping[str, Any]], where: str) -> ArrivalTrace:
    """The arrivals in a file with a column of times: seconds, or dates.

    >>> read_trace([{'timestamp': 3, 'input_length': 9, 'output_length': 4}, {'timestamp': 5}], 'trace.jsonl')
    ArrivalTrace(times=(3.0, 5.0), lengths=())
    """
    lowered = [{str(key).lower(): value for key, value in row.items()} for row in rows]
    try:
        times = [_read_time(_pick(row, _TIME_KEYS)) for row in lowered]
    except (TypeError, ValueError):
        times = []
    if len(times) < 2 or any(later < earlier for earlier, later in pairwise(times)):
        what = f'expected two rows or more, sorted by time, in a column called {" or ".join(_TIME_KEYS)}.'
        raise ConfigError(Problem(where, what, 'Times are seconds or dates.'))
    lengths = [(_pick(row, _INPUT_KEYS), _pick(row, _OUTPUT_KEYS)) for row in lowered]
    try:
        return ArrivalTrace(tuple(times), tuple((int(sent), int(received)) for sent, received in lengths))
    except (TypeError, ValueError):
        return ArrivalTrace(tuple(times))


def _pick(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    return next((row[key] for key in keys if row.get(key) not in (None, '')), None)


def _read_time(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        return datetime.fromisoformat(value).timestamp()
