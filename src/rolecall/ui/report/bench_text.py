"""A benchmark as a table: the lines of vLLM's and AISBench's, a column for each level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_benchmark import MEASURES
from rolecall.strings import printable

Figures = Mapping[str, Any]
_STATISTICS = {'Mean': 'mean', 'Median': 'p50', 'P90': 'p90', 'P99': 'p99'}
_WITH_INTERVALS = 28
"""Characters that a figure takes with its interval."""
BRACKETS = 'Brackets are 95 % intervals; "–" is an end that this many requests cannot tell.'
_NO_ROOM = 'Intervals are in the files, on the page, and in a wider terminal.'
_BUSY = 0.7
_SLOW = 0.02
"""Lag of the event loop, as a share of the time between tokens, that would show in the figures."""
_LATE, _LEAST_LATE = 0.05, 10.0
"""How late requests may be sent, as a share of the end-to-end latency, and in milliseconds."""


def steady_or_all(level: Figures) -> Figures:
    """The figures of the steady state; of the whole level where there is none."""
    return {**level, **(level['steady'] or {})}


def _number(value: float | None) -> str:
    return '–' if value is None else f'{value:,.0f}' if value >= 1000 else f'{value:,.2f}'


_LINES: dict[str, Callable[[Figures], str]] = {
    'Steady state (s)': lambda level: (
        '–'.join(f'{level[end]:.{int(level[end] < 10)}f}' for end in ('from_seconds', 'to_seconds'))
        if level['steady']
        else 'not found'
    ),
    'Successful requests': lambda level: f'{level["completed"]:,}',
    'Failed, cut off, stalled': lambda level: ', '.join(map(str, level['errors_by_kind'].values())),
    'Peak concurrent requests': lambda level: f'{level["max_concurrent_requests"]:,}',
    'Request throughput (req/s)': lambda level: _number(level['request_throughput']),
    'Request goodput (req/s)': lambda level: _number(level['request_goodput']),
    'Input token throughput (tok/s)': lambda level: _number(level['input_throughput']),
    'Output token throughput (tok/s)': lambda level: _number(level['output_throughput']),
    'Cached input tokens': lambda level: _number(level['cached_input_tokens'] or None),
}
_CLIENT: dict[str, Callable[[Figures], str]] = {
    'Client: share of a core': lambda level: f'{level["client"]["cpu_share"]:.0%}',
    'Client: loop lag, P99 (ms)': lambda level: _number(level['client']['p99_lag_ms']),
}


def bench_rows(levels: Sequence[Figures], *, intervals: bool = True) -> Iterator[tuple[str, list[str]]]:
    """The lines of the table with a cell for each level; those that say nothing are left out."""

    def word(level: Figures, key: str) -> str:
        bounds = level.get(f'{key}_interval') if intervals else None
        return _number(level.get(key)) + (f' [{", ".join(map(_number, bounds))}]' if bounds else '')

    times = {
        f'{title} {measure.upper()} (ms)': partial(word, key=f'{statistic}_{measure}_ms')
        for measure in MEASURES
        for title, statistic in _STATISTICS.items()
    }
    for name, cell in (_LINES | times | _CLIENT).items():
        cells = [cell(steady_or_all(level)) for level in levels]
        if set(cells) != {'–'}:
            yield name, cells


def bench_notes(stored: StoredBench) -> Iterator[str]:
    """How the figures were made, and which levels had no steady state or a client that was too slow."""
    settings = stored.settings
    facts = [f'{settings["dataset"]} on {settings["model_id"]} at {settings["endpoint"]}']
    facts += [f'{key} {settings[key]}' for key in ('input_len', 'output_len', 'prefix_cache') if settings[key]]
    facts += ['not streamed' if settings['no_stream'] else 'streamed']
    facts += [f'{name} ≤ {limit:g} ms' for name, limit in settings['goodput'].items()]
    yield f'{", ".join(facts)}; load average {" → ".join(f"{load:.1f}" for load in settings["load_average"])}.'
    if not stored.is_whole:
        yield f'Interrupted after {len(stored.levels)} of {settings["planned_levels"]} levels.'
    for level in stored.levels:
        name, client = level['level'], level['client']
        if level['not_steady']:
            yield f'{name}: {level["not_steady"]}; figures are over the whole level.'
        yield from (f'{name}: {count:,} × {" ".join(reason.split())[:200]}' for reason, count in level['errors'])
        if level['completed'] and level['input_throughput'] is None:
            yield f'{name}: the server reports no prompt tokens; without `usage`, pieces of a reply count as tokens.'
        gap = level.get('median_itl_ms') or level.get('median_e2el_ms') or 0.0
        if client['cpu_share'] > _BUSY:
            yield f'{name}: the client took {client["cpu_share"]:.0%} of a core; use more --processes.'
        elif (lag := client['median_lag_ms']) > max(_SLOW * gap, 1.0):
            yield f'{name}: this machine is busy; times may be {lag:.1f} ms too long (lag of the event loop).'
        if (late := client.get('p99_late_ms', 0.0)) > max(_LATE * (level.get('mean_e2el_ms') or 0.0), _LEAST_LATE):
            yield f'{name}: requests were sent up to {late:,.0f} ms late (P99), which no latency here includes.'


def bench_terminal(stored: StoredBench, to: Console) -> None:
    """Print the table and the notes."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    names = [str(level['level']).rpartition(' ') for level in stored.levels]
    table.add_column(names[0][0], no_wrap=True)
    for _, _, number in names:
        table.add_column(number, justify='right')
    intervals = to.width >= _WITH_INTERVALS * (1 + len(stored.levels))
    for name, cells in bench_rows(stored.levels, intervals=intervals):
        table.add_row(name, *cells)
    to.print(table)
    for note in (*bench_notes(stored), BRACKETS if intervals else _NO_ROOM):
        to.print(printable(note), style='dim', highlight=False)
