"""Running a config: every dataset × model is planned, asked, scored and stored."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
