"""AISBench content tags: which slices of a row's value are text, images, audio or video.

A tagged value looks like `<AIS_IMAGE_START>cat.jpg<AIS_CONTENT_TAG>`. Segments refer to the value's own string, so
parsing copies nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ['MODALITIES', 'Segment', 'is_tagged', 'segments', 'whole']

MODALITIES = ('text', 'image', 'audio', 'video')
_CLOSE = '<AIS_CONTENT_TAG>'
_OPEN = {f'<AIS_{kind.upper()}_START>': kind for kind in MODALITIES}
_ANY_OPEN = re.compile('|'.join(map(re.escape, _OPEN)))


@dataclass(frozen=True, slots=True)
class Segment:
    """A slice of a value: its kind, and its bounds in the value's own string."""

    kind: str
    source: str
    start: int
    stop: int

    @property
    def text(self) -> str:
        """The slice as a string (a copy, unless it is the whole value)."""
        return self.source[self.start : self.stop]


def whole(kind: str, value: str) -> Segment:
    """A whole value as one segment."""
    return Segment(kind, value, 0, len(value))


def segments(value: str) -> list[Segment]:
    """The stretches of a tagged value in order. Text outside of tags is text; a tag that is never closed is text.

    >>> [(s.kind, s.text) for s in segments('See <AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG> here')]
    [('text', 'See '), ('image', 'a.jpg'), ('text', ' here')]
    """
    found: list[Segment] = []
    at = 0
    while opened := _ANY_OPEN.search(value, at):
        close = value.find(_CLOSE, opened.end())
        if close < 0:
            break
        if opened.start() > at:
            found.append(Segment('text', value, at, opened.start()))
        found.append(Segment(_OPEN[opened.group()], value, opened.end(), close))
        at = close + len(_CLOSE)
    if at < len(value):
        found.append(Segment('text', value, at, len(value)))
    return found


def is_tagged(value: object) -> bool:
    """Whether a value holds at least one closed tag."""
    opened = _ANY_OPEN.search(value) if isinstance(value, str) else None
    return opened is not None and opened.string.find(_CLOSE, opened.end()) >= 0
