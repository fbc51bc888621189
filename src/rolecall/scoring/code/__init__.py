"""Score code that a model wrote, by running it in a sandbox. Needs the extra `[code]`, or bubblewrap."""

from collections.abc import Callable
from contextvars import ContextVar

report_progress: ContextVar[Callable[[int, int], None] | None] = ContextVar('report_progress', default=None)
"""Called with the number of programs that have run, and of all programs."""
