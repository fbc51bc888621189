"""What a prompt says: templates, model formats, programs and prompters. Pure: no files, no network, no clock."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
