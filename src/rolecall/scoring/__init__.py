"""What a reply is worth: readers, metrics, code in a sandbox, and the statistics of scores."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
