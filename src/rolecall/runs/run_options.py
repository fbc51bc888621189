"""The options of a run, declared once: Python, the command line and its help read them here."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rolecall.checking import on_command_line
from rolecall.errors import ConfigError, Problem, did_you_mean

if TYPE_CHECKING:
    from rolecall.models.prices import Price

OUTCOMES = ('failed', 'too_long', 'truncated_by_server', 'filtered', 'thinking_exhausted', 'unparsed')
"""Outcomes whose rows can be asked about again."""


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one process among several that run the same config: every row whose number leaves its rank.

    >>> list(Share(1, 4).numbers(10))
    [1, 5, 9]
    """

    rank: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1 or not 0 <= self.rank < self.of:
            raise ConfigError(
                Problem('rank', f'rank {self.rank} of {self.of} does not exist.', 'Ranks count from 0 to one less.')
            )

    def numbers(self, total: int) -> range:
        """The numbers of its rows."""
        return range(self.rank, total, self.of)


@dataclass(frozen=True, slots=True)
class Workers:
    """Where models are computed. `count` limits the workers of each model; an entry's own `workers` comes first."""

    on: Literal['processes', 'ray']
    count: int | None = None
    address: str | None = None
    """Of the Ray cluster; None for one that is found or started here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How a config is run.

    >>> RunOptions(out='runs/first', rerun='failed').rerun
    ('failed',)
    """

    out: str | Path | None = field(
        default=None,
        metadata=on_command_line('run directory (default: runs/NAME_OF_CONFIG, or sweeps/…)', metavar='DIR'),
    )
    dataset: str | Sequence[str] | None = None
    """Only datasets whose abbr matches; patterns work, as for `model`."""
    model: str | Sequence[str] | None = None
    limit: int | None = field(
        default=None, metadata=on_command_line('only the first N rows of each dataset', metavar='N')
    )
    sample: int | None = field(
        default=None,
        metadata=on_command_line('N rows of each dataset, drawn at random; datasets of a group share N', metavar='N'),
    )
    sample_seed: int = field(
        default=0, metadata=on_command_line('another draw of rows for --sample and --until', metavar='N', type=int)
    )
    until: str | None = field(
        default=None,
        metadata=on_command_line(
            'ask in random order and stop as soon as the models are told apart (decided), or every score is known to '
            'so many points (±2)',
            metavar='GOAL',
        ),
    )
    max_cost: float | None = field(
        default=None, metadata=on_command_line('end between rows before this start has spent more', metavar='PRICE')
    )
    max_total_tokens: int | None = field(
        default=None, metadata=on_command_line('end between rows before this start has used more tokens', metavar='N')
    )
    max_minutes: float | None = field(
        default=None, metadata=on_command_line('end between rows after this time', metavar='M')
    )
    rerun: str | Sequence[str] = field(
        default=(),
        metadata=on_command_line(
            f'resend rows with these outcomes: {", ".join(OUTCOMES)}', metavar='OUTCOME', nargs='+', choices=OUTCOMES
        ),
    )
    keep_going: bool = field(
        default=False, metadata=on_command_line('run what can run; report at the end what could not, and exit with 1')
    )
    force: bool = field(default=False, metadata=on_command_line('run although the linter finds errors'))
    dry_run: bool = field(default=False, metadata=on_command_line('print the plan and stop'))
    prices: str | Path | Mapping[str, Price] | None = field(
        default=None,
        metadata=on_command_line('JSON with US dollars for a million tokens, by model name', metavar='FILE'),
    )
    count_remotely: bool = field(
        default=False,
        metadata=on_command_line(
            "with --dry-run: ask the vendor's counting endpoint for tokens (Anthropic), where no tokenizer is at hand"
        ),
    )
    times: bool = field(
        default=False,
        metadata=on_command_line(
            'stream replies to keep the time to first token, while that takes under a twentieth of a core'
        ),
    )
    seal: float | None = field(
        default=None,
        metadata=on_command_line(
            'write margin, rows, digests and analysis down before the first request (default margin: 2); the report '
            'says whether the run went as planned',
            metavar='POINTS',
            nargs='?',
            const=2.0,
            type=float,
        ),
    )
    batch: bool = field(
        default=False,
        metadata=on_command_line('submit as batches (OpenAI, Anthropic: cheaper, results within a day), then exit'),
    )
    probe_servers: bool | None = field(
        default=None,
        metadata=on_command_line(
            'ask servers what they do with prompts, by a few tiny requests: paid ones too, or none (default: inference '
            'engines of your own)',
            action=BooleanOptionalAction,
        ),
    )
    lint: bool = True
    rows: Sequence[int] | None = None
    """Only these rows of each dataset, by number."""
    data: Mapping[str, Any] | None = None
    """Files with the rows of datasets whose loader is not ours, by split, or for each dataset."""
    share: Share | None = None
    """Only these rows are asked, and nothing is scored: `merge_runs` puts the run directories together."""
    workers: Workers | None = None
    """In which processes models are computed."""

    def __post_init__(self) -> None:
        if isinstance(self.prices, (str, Path)):
            from rolecall.models.prices import read_prices

            object.__setattr__(self, 'prices', read_prices(self.prices))
        for name in ('limit', 'sample', 'max_cost', 'max_total_tokens', 'max_minutes'):
            value = getattr(self, name)
            if value is not None and (not value > 0 or (value < 1 and name in ('limit', 'sample'))):
                least = 'at least 1, got' if name in ('limit', 'sample') else 'more than 0, got'
                raise ConfigError(Problem(name, f'{name} must be {least} {value}.'))
        if self.seal is not None and not 0 <= self.seal < float('inf'):
            raise ConfigError(Problem('seal', f'seal must be at least 0 points, got {self.seal:g}.'))
        self._refuse_contradictions()
        rerun = (self.rerun,) if isinstance(self.rerun, str) else tuple(self.rerun)
        object.__setattr__(self, 'rerun', rerun)
        unknown = [outcome for outcome in sorted(rerun) if outcome not in OUTCOMES]
        if unknown:
            raise ConfigError(
                [Problem('rerun', f'unknown outcome {name!r}.', did_you_mean(name, OUTCOMES)) for name in unknown]
            )

    def _refuse_contradictions(self) -> None:
        """Which rows are asked about can be said in one way."""
        chosen = [name for name in ('limit', 'sample', 'until', 'rows') if getattr(self, name) is not None]
        if len(chosen) > 1:
            names = ' and '.join(chosen)
            raise ConfigError(Problem(names, 'each says which rows are asked about.', 'Leave all but one out.'))
        if self.until is not None and (self.batch or self.share is not None):
            what = 'a run that stops when it knows enough asks a few rows after the others.'
            raise ConfigError(Problem('until', what, 'Leave out --batch, and shares of rows (--workers 0/4).'))
        if self.batch and any(cap is not None for cap in (self.max_cost, self.max_total_tokens, self.max_minutes)):
            what = 'a batch is submitted as a whole: nothing can end it between rows.'
            raise ConfigError(Problem('batch', what, 'Leave the cap out; --dry-run says what it costs at most.'))
