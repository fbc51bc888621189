"""A benchmark as a table: the lines of vLLM's and AISBench's, a column for each level."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from rolecall.runs.serving.bench_files import StoredBench
from rolecall.runs.serving.serving_figures import MEASURES
from rolecall.strings import printable

Figures = Mapping[str, Any]
_SHOWN = (('mean', 'Mean'), ('median', 'Median'), ('p90', 'P90'), ('p99', 'P99'))
_WITH_INTERVALS = 28
"""Characters that a figure takes with its interval."""
BRACKETS = 'Brackets are 95 % intervals; "–" is an end that this many requests cannot tell.'
_NO_ROOM = 'Intervals are in the files, on the page, and in a wider terminal.'
_BUSY = 0.7
_SLOW = 0.02
"""Lag of the event loop, as a share of the time between tokens, that would show in the figures."""


def steady_or_all(level: Figures) -> Figures:
    """The figures of the steady state; of the whole level where there is none."""
    return {**level, **(level['steady'] or {})}


def bench_rows(levels: Sequence[Figures], *, intervals: bool = True) -> Iterator[tuple[str, list[str]]]:
    """The lines of the table: a name, and a cell for each level."""
    figures = [steady_or_all(level) for level in levels]

    def line(name: str, cell: Callable[[Figures], str]) -> tuple[str, list[str]]:
        return name, [cell(level) for level in figures]

    yield line('Steady state (s)', _word_window)
    yield line('Successful requests', lambda level: f'{level["completed"]:,}')
    yield line('Failed, cut off, stalled', lambda level: ', '.join(map(str, level['errors_by_kind'].values())))
    yield line('Peak concurrent requests', lambda level: f'{level["max_concurrent_requests"]:,}')
    yield line('Request throughput (req/s)', lambda level: _number(level['request_throughput']))
    if any(level['request_goodput'] is not None for level in figures):
        yield line('Request goodput (req/s)', lambda level: _number(level['request_goodput']))
    yield line('Input token throughput (tok/s)', lambda level: _number(level['input_throughput']))
    yield line('Output token throughput (tok/s)', lambda level: _number(level['output_throughput']))
    if any(level['cached_input_tokens'] for level in figures):
        yield line('Cached input tokens', lambda level: f'{level["cached_input_tokens"]:,}')
    for measure in MEASURES:
        if any(f'mean_{measure}_ms' in level for level in figures):
            for statistic, title in _SHOWN:
                key = f'{statistic}_{measure}_ms'
                yield f'{title} {measure.upper()} (ms)', [_word_figure(level, key, intervals) for level in figures]
    yield line('Client: share of a core', lambda level: f'{level["client"]["cpu_share"]:.0%}')
    yield line('Client: loop lag, P99 (ms)', lambda level: _number(level['client']['p99_lag_ms']))


def _word_window(level: Figures) -> str:
    return f'{level["from_seconds"]:.1f}–{level["to_seconds"]:.1f}' if level['steady'] else 'not found'


def _number(value: float | None) -> str:
    return '–' if value is None else f'{value:,.0f}' if value >= 1000 else f'{value:,.2f}'


def _word_figure(level: Figures, key: str, interval: bool) -> str:
    if key not in level:
        return '–'
    bounds = level.get(f'{key.replace("median", "p50")}_interval') if interval else None
    ends = f' [{_number(bounds[0])}, {_number(bounds[1])}]' if bounds else ''
    return f'{_number(level[key])}{ends}'


def bench_notes(stored: StoredBench) -> Iterator[str]:
    """How the figures were made, and which levels had no steady state or a client that was too slow."""
    settings = stored.settings
    facts = [f'{settings["dataset"]} on {settings["model_id"]} at {settings["endpoint"]}']
    facts += [
        f'{name} {settings[key]}' for key, name in (('input_len', 'input'), ('output_len', 'output')) if settings[key]
    ]
    facts.append('streamed' if settings['stream'] else 'not streamed')
    facts.append(f'prefix cache {settings["prefix_cache"]}')
    if settings['goodput']:
        facts.append('goodput ' + ' '.join(f'{name} ≤ {limit:g} ms' for name, limit in settings['goodput'].items()))
    yield f'{", ".join(facts)}; load average {" → ".join(f"{load:.1f}" for load in settings["load_average"])}.'
    for level in stored.levels:
        if level['not_steady']:
            yield f'{level["level"]}: {level["not_steady"]}; figures are over the whole level.'
        client = level['client']
        gap = level.get('median_itl_ms') or level['median_e2el_ms'] if level['completed'] else 0.0
        if client['cpu_share'] > _BUSY:
            yield f'{level["level"]}: the client took {client["cpu_share"]:.0%} of a core; use more --processes.'
        elif (lag := client['median_lag_ms']) > max(_SLOW * gap, 1.0):
            yield f'{level["level"]}: this machine is busy; times may be {lag:.1f} ms too long (lag of the event loop).'


def bench_terminal(stored: StoredBench, to: Console) -> None:
    """Print the table and the notes."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('')
    for level in stored.levels:
        table.add_column(str(level['level']), justify='right')
    intervals = to.width >= _WITH_INTERVALS * (1 + len(stored.levels))
    for name, cells in bench_rows(stored.levels, intervals=intervals):
        table.add_row(name, *cells)
    to.print(table)
    for note in (*bench_notes(stored), BRACKETS if intervals else _NO_ROOM):
        to.print(printable(note), style='dim', highlight=False)
