"""Where the time of a run went, as the report shows it."""

from __future__ import annotations

from rolecall.insight.run_source import RunSource, StoredRun

TIME_HEADS = ('model', 'machine', 'requests', 'computing', 'waiting', 'rendering', 'writing')
TIME_TEXTS = 2
"""Columns at the left that hold no numbers."""


def list_times(run: RunSource) -> list[tuple[str, ...]]:
    """Seconds, by model and machine, then those of the process that ran the config; empty if none were kept."""
    times = run.times() if isinstance(run, StoredRun) else []
    return [
        (
            time.model or '(this run)',
            time.node,
            f'{time.count:,}' if time.model else '',
            *(
                '' if spent is None else f'{spent:,.1f}'
                for spent in (time.computing, time.waiting, time.rendering, time.writing)
            ),
        )
        for time in times
    ]
