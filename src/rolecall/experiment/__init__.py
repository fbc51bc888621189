"""What a user gave, opened: tasks × models become pairs with fitted requests, previews and lint findings."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
