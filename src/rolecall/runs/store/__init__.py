"""A run directory: one SQLite file, written in groups and never half."""
