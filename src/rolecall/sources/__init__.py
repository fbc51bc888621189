"""Where rows and settings come from: files, configs, datasets and retrievers."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
