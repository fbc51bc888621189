"""Requests handed over in batches: what was submitted, what came back, and what waits."""
