"""Models that answer requests (servers, local engines, functions), and their tokenizers."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
