"""Running a config: every dataset × model is planned, asked, scored and kept.

What is sent comes from the very `Pair` that previews show; this room ties it to models, inferencers, engine and store.
"""

from rolecall.running.planning import plan_run
from rolecall.running.run import RunSummary, run_config

__all__ = ['RunSummary', 'plan_run', 'run_config']
