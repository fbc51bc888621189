"""Runs from Python and notebooks: `rolecall.run(…)`, its scores and rows as tables, a progress bar that works there."""
