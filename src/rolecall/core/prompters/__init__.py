"""Prompters for applications: an instruction, compiled once, that formats every input for every model."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
