"""What a prompt says: templates, meta and chat templates, programs, prompters. Pure: no files, no network, no clock."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
