"""The options of a benchmark, declared once: Python, the command line and its help read them here."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

from rolecall.checking import on_command_line
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.sources.datasets.formats import open_file

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
    with suppress(ValueError):
        return float(value)
    return datetime.fromisoformat(value).timestamp()


_LIMITED = ('ttft', 'tpot', 'e2el')
_ARRIVALS = ('poisson', 'constant')
_CONCURRENCY = (1, 2, 4, 8, 16)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """How a server is loaded and what is measured.

    >>> BenchOptions(goodput=['ttft:200', 'tpot:50']).limits
    {'ttft': 200.0, 'tpot': 50.0}
    """

    concurrency: Sequence[int] = field(
        default=(),
        metadata=on_command_line(
            'conversations at once, a level each (default: 1 2 4 8 16); with --rate, the most of them', 'N', nargs='+'
        ),
    )
    rate: Sequence[float] = field(
        default=(), metadata=on_command_line('conversations started per second, a level each', 'R', nargs='+')
    )
    arrivals: str = field(
        default='poisson',
        metadata=on_command_line(
            'poisson, constant, or a FILE with a column `timestamp` (seconds or dates), and lengths if it has them; '
            '--rate rescales it',
            'HOW',
        ),
    )
    requests: int | None = field(
        default=None,
        metadata=on_command_line('conversations per level (default: 10 per place, at least 100)', 'N'),
    )
    seconds: float = field(default=60.0, metadata=on_command_line('start nothing after this long in a level', 'S'))
    warmup: int = field(
        default=4, metadata=on_command_line('conversations before the first level, not measured', 'N', least=0)
    )
    input_len: int | None = field(
        default=None, metadata=on_command_line('made-up prompts of exactly N tokens instead of rows', 'N')
    )
    output_len: int | None = field(
        default=None, metadata=on_command_line('replies of exactly N tokens (vLLM, SGLang: ignore_eos)', 'N')
    )
    prefix_cache: Literal['on', 'off'] | None = field(
        default=None,
        metadata=on_command_line(
            'off: every prompt begins differently; on: made-up prompts share their first half, rows stay as they are',
            choices=('on', 'off'),
        ),
    )
    no_stream: bool = field(default=False, metadata=on_command_line('whole replies: end-to-end times only'))
    goodput: Sequence[str] = field(
        default=(),
        metadata=on_command_line(
            'count requests within these limits, in ms: ttft:200 tpot:50 e2el:5000', 'MEASURE:MS', nargs='+'
        ),
    )
    stall: float = field(
        default=10.0, metadata=on_command_line('a reply with a longer gap is counted as stalled, not measured', 'S')
    )
    processes: int = field(default=1, metadata=on_command_line('processes that send, if one core is too few', 'N'))
    out: str | Path | None = field(
        default=None, metadata=on_command_line('directory of the result (default: bench/NAME)', 'DIR')
    )

    def __post_init__(self) -> None:
        problems = [
            Problem(f'--{name}', f'expected numbers above 0, got {value!r}.')
            for name in ('concurrency', 'rate', 'seconds', 'processes', 'requests', 'input_len', 'output_len', 'stall')
            for value in _listed(getattr(self, name))
            if value is not None and not value > 0
        ]
        if self.warmup < 0:
            problems.append(Problem('--warmup', f'expected a number of at least 0, got {self.warmup}.'))
        if problems:
            raise ConfigError(problems)

    @property
    def limits(self) -> Mapping[str, float]:
        """The limits of goodput in milliseconds, by measure."""
        limits: dict[str, float] = {}
        for text in self.goodput:
            name, _, limit = text.partition(':')
            if name not in _LIMITED:
                raise ConfigError(Problem('--goodput', f'unknown measure {name!r}.', did_you_mean(name, _LIMITED)))
            limits[name] = float(limit) if limit.replace('.', '', 1).isdecimal() else 0.0
            if not limits[name]:
                what = f'expected milliseconds after the colon, got {text!r}.'
                raise ConfigError(Problem('--goodput', what, 'Write ttft:200.'))
        return limits

    @property
    def trace(self) -> ArrivalTrace | None:
        """The recorded arrivals, if a file was named."""
        if self.arrivals in _ARRIVALS:
            return None
        if not Path(self.arrivals).exists():
            what = f'expected poisson, constant or a file, got {self.arrivals!r}.'
            raise ConfigError(Problem('--arrivals', what, did_you_mean(self.arrivals, _ARRIVALS)))
        return read_trace(list(open_file(self.arrivals)), self.arrivals)

    def levels(self, trace: ArrivalTrace | None) -> list[Level]:
        """The levels in the order in which they are run."""
        rates = self.rate or ([mean_rate(trace.times)] if trace is not None else [])
        if not rates:
            return [Level(count) for count in self.concurrency or _CONCURRENCY]
        return [Level(max(self.concurrency, default=None), rate) for rate in rates]


def _listed(value: object) -> Sequence[float | None]:
    return value if isinstance(value, (list, tuple)) else [value]  # type: ignore[list-item]
