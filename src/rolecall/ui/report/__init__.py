"""Reports of a run: a table for the terminal, Markdown, CSV, and one self-contained HTML page."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
