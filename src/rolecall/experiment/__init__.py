"""What a user gave, opened: tasks × models, and judges, become pairs with fitted requests, previews, lint findings."""

from rolecall.lazy_names import attach

__getattr__, __dir__ = attach(__name__, __file__)
