"""From predictions to numbers: postprocessors, metrics, intervals and comparisons."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
