"""Models that answer requests (servers, local engines, functions), their tokenizers and prices."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
