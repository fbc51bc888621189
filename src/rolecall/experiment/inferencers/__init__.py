"""How models are asked: generation, perplexity, likelihood, several turns, several samples."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
