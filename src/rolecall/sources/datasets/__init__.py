"""Rows from files, folders, hubs and memory; splits, ranges and columns. Imports nothing heavy."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
