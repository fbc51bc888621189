"""AISBench content tags: which slices of a row's value are text, images, audio or video.

A tagged value looks like `<AIS_IMAGE_START>cat.jpg<AIS_CONTENT_TAG>`. Segments refer to the value's own string, so
parsing copies nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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
    """The segments of a tagged value in order. Text outside tags is text.

    AISBench's own loaders leave the last tag unclosed, so a tag at the start of a value, or right after a closing tag,
    may run to the end. Any other tag that is never closed is text.

    >>> [(s.kind, s.text) for s in segments('See <AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG> here')]
    [('text', 'See '), ('image', 'a.jpg'), ('text', ' here')]
    >>> [(s.kind, s.text) for s in segments('<AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG><AIS_TEXT_START>What is it?')]
    [('image', 'a.jpg'), ('text', 'What is it?')]
    """
    result: list[Segment] = []
    at = 0
    while opened := _ANY_OPEN.search(value, at):
        close = value.find(_CLOSE, opened.end())
        if close < 0 and opened.start() > at:
            break
        if close < 0:
            close = len(value)
        if opened.start() > at:
            result.append(Segment('text', value, at, opened.start()))
        result.append(Segment(_OPEN[opened.group()], value, opened.end(), close))
        at = close + len(_CLOSE)
    if at < len(value):
        result.append(Segment('text', value, at, len(value)))
    return result


def is_tagged(value: object) -> bool:
    """Whether a value begins with a tag, or holds a closed one."""
    opened = _ANY_OPEN.search(value) if isinstance(value, str) else None
    return opened is not None and (not opened.start() or opened.string.find(_CLOSE, opened.end()) >= 0)
