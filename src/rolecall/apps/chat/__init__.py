"""Chat modules: a prompter and a model behind one call, the same for services, servers and models on this machine."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
