"""Running a config: every dataset × model is planned, asked, scored and stored."""

from rolecall.runs.plan import plan_run
from rolecall.runs.run import RunSummary, run_config

__all__ = ['RunSummary', 'plan_run', 'run_config']
