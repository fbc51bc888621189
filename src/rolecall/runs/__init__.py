"""Running a config: every dataset × model is planned, asked, scored and stored."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rolecall.runs.collect import CollectSummary, collect_run
    from rolecall.runs.plan import plan_run
    from rolecall.runs.run import run_config
    from rolecall.runs.run_options import RunOptions
    from rolecall.runs.run_summary import RunSummary

__all__ = ['CollectSummary', 'RunOptions', 'RunSummary', 'collect_run', 'plan_run', 'run_config']

_HOMES = {
    'CollectSummary': 'collect',
    'RunOptions': 'run_options',
    'RunSummary': 'run_summary',
    'collect_run': 'collect',
    'plan_run': 'plan',
    'run_config': 'run',
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: the options of a run are read by every command, its engine by few."""
    if name not in _HOMES:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    return getattr(import_module(f'{__name__}.{_HOMES[name]}'), name)
