"""Content in parts, as APIs take it: text, images, audio and video, with media by reference.

A part is sent as written, except for the one string that is filled: its text or its media url. Large media are never
copied; a part refers to the row's own string. AISBench marks content in that string with tags:
`<AIS_IMAGE_START>cat.jpg<AIS_CONTENT_TAG>`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import (
    Origin,
    Piece,
    Pieces,
    Row,
    Text,
    bind,
    bind_piece,
    describe_value,
    fold,
    relabel,
)
from rolecall.core.prompts.script import (
    Change,
    Content,
    FilledPart,
    Parts,
    Turn,
    content_pieces,
    spread_content,
)

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


_LARGE = 64 * 1024
_PLACES = ('text', 'url', 'data', 'source')
_NOT_SHOWN = ('unfilled', 'masked')


class MediaUrl:
    """A reference to large media: `prefix` followed by a slice of the row's own string. `str(url)` writes it out."""

    __slots__ = ('prefix', 'segment')

    def __init__(self, prefix: str, segment: Segment) -> None:
        self.prefix = prefix
        self.segment = segment

    def __str__(self) -> str:
        return self.prefix + self.segment.text

    def __len__(self) -> int:
        return len(self.prefix) + self.segment.stop - self.segment.start

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other) if isinstance(other, (str, MediaUrl)) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f'<media {self.prefix}… {len(self):,} characters>'


def url_of(prefix: str, segment: Segment) -> str | MediaUrl:
    """A prefix and a slice of a value: a string, or a reference if the slice is large."""
    if segment.stop - segment.start < _LARGE:
        return prefix + segment.text
    if not prefix and segment.stop - segment.start == len(segment.source):
        return segment.source
    return MediaUrl(prefix, segment)


def _place(part: Mapping[str, Any]) -> tuple[str, ...]:
    """The path to a part's text or media url; empty if it has neither.

    >>> _place({'type': 'image_url', 'image_url': {'url': 'a.jpg', 'detail': 'low'}})
    ('image_url', 'url')
    >>> _place({'type': 'file', 'file': {'file_id': '7'}})
    ()
    """
    kind = part.get('type')
    others = [name for name in part if name in _PLACES or name.endswith('_url')]
    for name in [kind, *others] if isinstance(kind, str) else others:
        value: Any = part.get(name)
        if isinstance(value, (str, MediaUrl)):
            return (name,)
        for inner in ('url', 'data') if isinstance(value, Mapping) else ():
            if isinstance(value.get(inner), (str, MediaUrl)):
                return name, inner
    return ()


def part_text(part: Mapping[str, Any]) -> str | None:
    """The text or media url of a part; None if it has neither.

    >>> part_text({'type': 'input_audio', 'input_audio': {'data': 'UklGRg==', 'format': 'wav'}})
    'UklGRg=='
    """
    value: Any = part
    for name in _place(part):
        value = value[name]
    return None if value is part else value if isinstance(value, str) else str(value)


@dataclass(frozen=True, slots=True)
class PartShape:
    """The shape of a part: the string at `place` inside `frame` is filled with `words`."""

    kind: str
    frame: FrozenDict
    place: tuple[str, ...] = ()
    words: Pieces = ()

    @classmethod
    def read(cls, part: Mapping[str, Any], parse_text: Callable[[str], Pieces], kind: str = '') -> PartShape:
        """Read a part as an API takes it."""
        place = _place(part)
        words = parse_text(part_text(part) or '') if place else ()
        return cls(kind or str(part.get('type')), FrozenDict(part), place, words)

    @property
    def is_text(self) -> bool:
        """Whether the part is text, not media."""
        return self.place == ('text',)

    def part(self, value: str | MediaUrl) -> FrozenDict:
        """The part with its text or media url filled in."""
        if not self.place:
            return self.frame
        name, *inner = self.place
        filled = FrozenDict({**self.frame[name], inner[0]: value}) if inner else value
        return FrozenDict({**self.frame, name: filled})

    def spread(self, change: Change) -> PartShape:
        """Replace each piece."""
        return replace(self, words=tuple(new for piece in self.words for new in change(piece)))

    def write(self, row: Row) -> FilledPart:
        """The part for one row. Unfilled and hidden fields keep their labels, even inside a url."""
        words = tuple(piece for piece in bind(self.words, row) if isinstance(piece, Text))
        if self.is_text:
            return FilledPart(self.part(fold(words)), words)
        url = url_of(fold(words[:-1]), whole('url', words[-1].text)) if words else ''
        if any(piece.origin.kind in _NOT_SHOWN for piece in words):
            return FilledPart(self.part(url), words)
        return FilledPart(
            self.part(url),
            (medium(url, _source(words) or self.kind, words[0].origin.shot if words else None),) if self.place else (),
        )


def medium(url: str | MediaUrl, column: str, shot: int | None) -> Text:
    """The labelled piece for one medium."""
    # Spans also keep large urls by reference: Text accepts anything `str` can convert.
    return Text(url, Origin('media', column, shot=shot))  # type: ignore[arg-type]


def _source(words: Sequence[Text]) -> str:
    return next((piece.origin.name for piece in words if piece.origin.name), '')


@dataclass(frozen=True, slots=True)
class RawParts:
    """The content list of a raw message: texts and urls are filled, everything else is passed through."""

    entries: tuple[PartShape, ...]

    @classmethod
    def read(cls, parts: Sequence[Mapping[str, Any]], parse_text: Callable[[str], Pieces]) -> RawParts:
        """Read a list of parts as an API takes them."""
        return cls(tuple(PartShape.read(part, parse_text) for part in parts))

    def spread(self, change: Change) -> RawParts:
        return RawParts(tuple(entry.spread(change) for entry in self.entries))

    def bind(self, row: Row, *, shot: int | None = None) -> RawParts:
        return self.spread(lambda piece: (bind_piece(piece, row, shot=shot),))

    def pieces(self) -> Iterator[Piece]:
        for entry in self.entries:
            yield from entry.words

    def write(self, row: Row) -> list[FilledPart]:
        return [entry.write(row) for entry in self.entries]


@dataclass(frozen=True, slots=True)
class JoinedParts:
    """Several contents in one message; adjacent texts are joined with a line break."""

    contents: tuple[Content, ...]

    def spread(self, change: Change) -> JoinedParts:
        return JoinedParts(tuple(spread_content(content, change) for content in self.contents))

    def bind(self, row: Row, *, shot: int | None = None) -> JoinedParts:
        return JoinedParts(
            tuple(
                bind(content, row, shot=shot) if isinstance(content, tuple) else content.bind(row, shot=shot)
                for content in self.contents
            )
        )

    def pieces(self) -> Iterator[Piece]:
        for content in self.contents:
            yield from content_pieces(content)

    def write(self, row: Row) -> list[FilledPart]:
        parts: list[FilledPart] = []
        for content in self.contents:
            added = [_text_part(bind(content, row))] if isinstance(content, tuple) else content.write(row)
            if parts and added and _is_bare_text(parts[-1]) and _is_bare_text(added[0]):
                joint = Text('\n', Origin('joint', 'speeches'))
                parts[-1] = _text_part((*parts[-1].pieces, joint, *added[0].pieces))
                added = added[1:]
            parts += added
        return parts


@dataclass(frozen=True, slots=True)
class SpokenParts:
    """The parts of one speech. `begin` and `end` join adjacent text, or become text parts."""

    parts: Parts
    role: str = ''
    fallback: str = ''
    begin: Pieces = ()
    end: Pieces = ()

    def spread(self, change: Change) -> SpokenParts:
        begin, end = (tuple(new for piece in affix for new in change(piece)) for affix in (self.begin, self.end))
        return replace(self, parts=self.parts.spread(change), begin=begin, end=end)

    def bind(self, row: Row, *, shot: int | None = None) -> SpokenParts:
        begin, end = (bind(pieces, row, shot=shot) for pieces in (self.begin, self.end))
        return replace(self, parts=self.parts.bind(row, shot=shot), begin=begin, end=end)

    def pieces(self) -> Iterator[Piece]:
        yield from self.begin
        yield from self.parts.pieces()
        yield from self.end

    def write(self, row: Row) -> list[FilledPart]:
        """The parts for one row, each piece labelled with its role."""
        parts = [
            replace(part, pieces=tuple(replace(piece, origin=self._label(piece.origin)) for piece in part.pieces))
            for part in self.parts.write(row)
        ]
        begin, end = (_words(bind(pieces, row)) for pieces in (self.begin, self.end))
        if begin and parts and _is_text(parts[0]):
            parts[0] = _with_words(parts[0], (*begin, *parts[0].pieces))
        elif begin:
            parts.insert(0, _text_part(begin))
        if end and parts and _is_text(parts[-1]):
            parts[-1] = _with_words(parts[-1], (*parts[-1].pieces, *end))
        elif end:
            parts.append(_text_part(end))
        return parts

    def _label(self, origin: Origin) -> Origin:
        return replace(origin, role=self.role or origin.role, fallback=self.fallback or origin.fallback)


def label_speaker(content: Content, role: str, fallback: str = '') -> Content:
    """Label content with its role and its fallback role."""
    if isinstance(content, tuple):
        return relabel(content, lambda origin: replace(origin, role=role, fallback=fallback))
    return SpokenParts(content, role, fallback)


def _words(pieces: Pieces) -> tuple[Text, ...]:
    return tuple(piece for piece in pieces if isinstance(piece, Text) and piece.text)


def _is_text(part: FilledPart) -> bool:
    return part.part.get('type') == 'text' and bool(part.pieces)


def _with_words(part: FilledPart, pieces: tuple[Text, ...]) -> FilledPart:
    return FilledPart(FrozenDict({**part.part, 'text': fold(pieces)}), pieces)


def _text_part(pieces: Sequence[Piece]) -> FilledPart:
    words = tuple(piece for piece in pieces if isinstance(piece, Text))
    return FilledPart(FrozenDict(type='text', text=fold(words)), words)


def _is_bare_text(part: FilledPart) -> bool:
    """Whether a part is text with no further keys; keys such as `cache_control` apply to one part only."""
    return set(part.part) == {'type', 'text'} and part.part['type'] == 'text'


def find_content_problems(content: object) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a raw message's content, as (place, sentence)."""
    if isinstance(content, str):
        return
    if not isinstance(content, (list, tuple)):
        yield '', f'expected a string or a list of parts, got {describe_value(content)}.'
        return
    for i, part in enumerate(content):
        if not isinstance(part, Mapping) or not all(isinstance(name, str) for name in part):
            yield f'[{i}]', f"expected a part such as {{'type': 'text', 'text': …}}, got {describe_value(part)}."
        elif part.get('type') == 'text' and not isinstance(part.get('text'), str):
            yield f'[{i}].text', f'expected a string, got {describe_value(part.get("text"))}.'
        else:
            yield from ((f'[{i}].{where}', what) for where, what in _url_troubles(part))


def _url_troubles(part: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    kind = part.get('type')
    media: Any = part.get(kind) if isinstance(kind, str) else None
    for name in ('url', 'data') if isinstance(media, Mapping) else ():
        if name in media and not isinstance(media[name], str):
            yield f'{kind}.{name}', f'expected a string, got {describe_value(media[name])}.'


def raw_turn(message: Mapping[str, Any], parse_text: Callable[[str], Pieces]) -> Turn:
    """Read an API message as a speech. `parse_text` turns text into pieces."""
    content = message.get('content')
    extra = FrozenDict({key: value for key, value in message.items() if key not in ('role', 'content')})
    if content is None:
        return Turn(message['role'], (), silent=True, extra=extra)
    if isinstance(content, str):
        return Turn(message['role'], parse_text(content), extra=extra)
    return Turn(message['role'], RawParts.read(content, parse_text), extra=extra)
