"""Metrics and postprocessors that belong to one benchmark: a module for each family, functions of one shape."""
