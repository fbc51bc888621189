"""Running a config: every dataset × model is planned, asked, scored and stored."""

from rolecall.runs.collect import CollectSummary, collect_run
from rolecall.runs.plan import plan_run
from rolecall.runs.run import RunSummary, run_config

__all__ = ['CollectSummary', 'RunSummary', 'collect_run', 'plan_run', 'run_config']
