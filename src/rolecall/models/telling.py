"""Listening to an answer while it is made: the pieces of a stream, passed on as they go by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rolecall.models.http.client import Collector

__all__ = ['Listened', 'Tell']

Tell = Callable[[str], None]
"""Is told each piece of an answer's text."""


class Listened:
    """A collector of events that also tells the text in them. `read` takes the text out of an event."""

    def __init__(self, collector: Collector, tell: Tell, read: Callable[[Any], str]) -> None:
        self._collector = collector
        self._tell = tell
        self._read = read

    @property
    def finished(self) -> bool:
        """Whether the answer is complete."""
        return self._collector.finished

    def take(self, event: Any) -> None:
        """One event, decoded."""
        self._collector.take(event)
        piece = self._read(event)
        if piece:
            self._tell(piece)
