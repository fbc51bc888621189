"""Logs of other harnesses as runs: what a log holds becomes a run directory; what it lacks is "not recorded"."""
