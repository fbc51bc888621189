"""The options of a benchmark, declared once: Python, the command line and its help read them here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from rolecall.checking import on_command_line
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.runs.serving.load_levels import ArrivalTrace, Level, mean_rate, read_trace
from rolecall.sources.datasets.formats import open_file

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
        default=4, metadata=on_command_line('conversations before the first level, not measured', 'N', type=int)
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
            if value is not None and value <= 0
        ]
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
            try:
                limits[name] = float(limit)
            except ValueError:
                what = f'expected milliseconds after the colon, got {text!r}.'
                raise ConfigError(Problem('--goodput', what, 'Write ttft:200.')) from None
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
