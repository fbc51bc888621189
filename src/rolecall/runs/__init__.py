"""Every dataset × model is planned, asked, stored and scored; also logs of other harnesses, and load tests."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
