"""Where the time of a run went, as the report shows it."""

from __future__ import annotations

from rolecall.insight.run_source import Run, StoredRun

TIME_HEADS = ('model', 'machine', 'requests', 'computing', 'waiting', 'rendering', 'writing')
TIME_TEXTS = 2
"""Columns at the left that hold no numbers."""


def list_times(run: Run) -> list[tuple[str, ...]]:
    """Seconds, by model and machine, then those of the process that ran the config; empty if none were kept."""
    found = run.times() if isinstance(run, StoredRun) else []
    return [
        (
            one.model or '(this run)',
            one.node,
            f'{one.count:,}' if one.model else '',
            *(
                '' if spent is None else f'{spent:,.1f}'
                for spent in (one.computing, one.waiting, one.rendering, one.writing)
            ),
        )
        for one in found
    ]
