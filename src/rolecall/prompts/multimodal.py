"""Prompts with pictures, sound and film: `MMPromptTemplate`'s contents, tags in data, and media by reference.

A tagged value reads `<AIS_IMAGE_START>cat.jpg<AIS_CONTENT_TAG>`. Its parts keep the order of the tags; its text stands
where the template mentions the column. Large media are never copied: a part refers to the row's own string.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rolecall.errors import RenderError
from rolecall.prompts.frozen import FrozenDict
from rolecall.prompts.pieces import Field, Origin, Piece, Pieces, Row, Text, bind, bound, fold
from rolecall.prompts.script import Content, Section, Turn, Written, content_pieces, map_content
from rolecall.prompts.values import text_of

__all__ = ['MODALITIES', 'JoinedParts', 'MediaShape', 'MediaUrl', 'MixedParts', 'RawParts', 'raw_turn', 'segments']

MODALITIES = ('text', 'image', 'audio', 'video')
_CLOSE = '<AIS_CONTENT_TAG>'
_OPEN = {f'<AIS_{kind.upper()}_START>': kind for kind in MODALITIES}
_ANY_OPEN = re.compile('|'.join(map(re.escape, _OPEN)))
_SCHEME = re.compile(r'(?:https?|file|data):', re.IGNORECASE)
_LARGE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a tagged value: which kind, and where in the value's own string it lies."""

    kind: str
    source: str
    start: int
    stop: int

    @property
    def text(self) -> str:
        """The stretch as a string (a copy, unless it is the whole value)."""
        return self.source[self.start : self.stop]


def segments(value: str) -> list[Segment]:
    """The stretches of a tagged value in order. Text outside of tags is text; a tag that is never closed is text.

    >>> [(s.kind, s.text) for s in segments('See <AIS_IMAGE_START>a.jpg<AIS_CONTENT_TAG> here')]
    [('text', 'See '), ('image', 'a.jpg'), ('text', ' here')]
    """
    found: list[Segment] = []
    at = 0
    search_from = 0
    while opened := _ANY_OPEN.search(value, search_from):
        close = value.find(_CLOSE, opened.end())
        if close < 0:
            break
        if opened.start() > at:
            found.append(Segment('text', value, at, opened.start()))
        found.append(Segment(_OPEN[opened.group()], value, opened.end(), close))
        at = search_from = close + len(_CLOSE)
    if at < len(value):
        found.append(Segment('text', value, at, len(value)))
    return found


def is_tagged(value: object) -> bool:
    """Whether a value holds at least one closed tag."""
    return isinstance(value, str) and _CLOSE in value and _ANY_OPEN.search(value) is not None


class MediaUrl:
    """A reference to large media: `prefix` followed by a stretch of the row's own string. `str(url)` writes it out."""

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


@dataclass(frozen=True, slots=True)
class MediaShape:
    """How the template wants media of one kind written: `{'type': 'image_url', 'image_url': {'url': …}}`."""

    kind: str
    type: str
    key: str
    url: Pieces
    nested: bool = True
    extra: Mapping[str, Any] = field(default_factory=FrozenDict)

    def part(self, url: str | MediaUrl) -> FrozenDict:
        """The part that shows one medium."""
        value = FrozenDict({'url': url, **self.extra}) if self.nested else url
        return FrozenDict({'type': self.type, self.key: value})

    def tagged(self, segment: Segment, row: Row) -> str | MediaUrl:
        """The url of tagged content: kept if it has a scheme, otherwise put where the template says."""
        if _SCHEME.match(segment.source, segment.start, segment.stop):
            return _url('', segment)
        before, after = self._around(row)
        if after:
            return f'{before}{segment.text}{after}'
        return _url(before, segment)

    def _around(self, row: Row) -> tuple[str, str]:
        """The template's words before and after the place of the medium."""
        at = next((i for i, piece in enumerate(self.url) if self._is_place(piece, row)), len(self.url))
        return fold(bind(self.url[:at], row)), fold(bind(self.url[at + 1 :], row))

    def _is_place(self, piece: Piece, row: Row) -> bool:
        return isinstance(piece, Field) and (piece.column == self.kind or piece.column not in row)

    def own_columns(self, row: Row) -> list[str | MediaUrl]:
        """The urls of media that stand in columns of their own: none, one, or one for each item of a list."""
        fields = [piece.column for piece in self.url if isinstance(piece, Field)]
        if not fields:
            return [fold(self.url)]
        values = [row.get(column) for column in fields]
        if any(value is None or value == '' for value in values):
            return []
        if len(fields) > 1:
            return [fold(bind(self.url, row))]
        items = values[0] if isinstance(values[0], (list, tuple)) else values
        alone = replace(self, url=tuple(replace(p, column=self.kind) if isinstance(p, Field) else p for p in self.url))
        return [alone.tagged(_whole(text_of(item)), {}) for item in items]


def _whole(value: str) -> Segment:
    return Segment('media', value, 0, len(value))


def _url(prefix: str, segment: Segment) -> str | MediaUrl:
    if segment.stop - segment.start < _LARGE:
        return prefix + segment.text
    if not prefix and segment.stop - segment.start == len(segment.source):
        return segment.source
    return MediaUrl(prefix, segment)


@dataclass(frozen=True, slots=True)
class MixedParts:
    """The content of a `prompt_mm` speech: a text template and the shapes of its media, in the order written."""

    text: Pieces
    shapes: tuple[MediaShape, ...]
    bound_to: Row | None = None
    shot: int | None = None

    def map(self, change: Callable[[Piece], Piece]) -> MixedParts:
        shapes = tuple(replace(shape, url=tuple(map(change, shape.url))) for shape in self.shapes)
        return replace(self, text=tuple(map(change, self.text)), shapes=shapes)

    def bind(self, row: Row, *, shot: int | None = None) -> MixedParts:
        return replace(self, bound_to=row, shot=shot)

    def pieces(self) -> Iterator[Piece]:
        yield from self.text
        for shape in self.shapes:
            yield from shape.url

    def write(self, row: Row) -> list[Written]:
        """The parts of one row. The template's words stay with the first and the last text of a tagged value."""
        row = row if self.bound_to is None else self.bound_to
        writer = _PartWriter(self.shot)
        carrier = self._carrier(row)
        tagged = False
        for piece in self.text:
            column = carrier[1] if carrier and isinstance(piece, Field) and piece.column == carrier[0] else None
            value = row.get(column or piece.column) if isinstance(piece, Field) else None
            if isinstance(piece, Field) and is_tagged(value):
                tagged = True
                self._write_tagged(writer, piece, str(value), row)
            else:
                writer.say(bound(piece, row, shot=self.shot))
        if not tagged:
            for shape in self.shapes:
                for url in shape.own_columns(row):
                    writer.hold(shape, url, shape.kind)
        return writer.finish()

    def _write_tagged(self, writer: _PartWriter, piece: Field, value: str, row: Row) -> None:
        stretches = segments(value)
        texts = [i for i, stretch in enumerate(stretches) if stretch.kind == 'text']
        first, last = (texts[0], texts[-1]) if texts else (0, -1)
        for i, stretch in enumerate(stretches):
            if stretch.kind == 'text':
                writer.say(Text(stretch.text, replace(piece.origin, shot=self.shot)))
                continue
            shape = self._shape(stretch.kind, piece.column)
            url = shape.tagged(stretch, row)
            if i < first:
                writer.put_ahead(shape, url, piece.column)
            elif i > last:
                writer.hold(shape, url, piece.column)
            else:
                writer.put(shape, url, piece.column)

    def _shape(self, kind: str, column: str) -> MediaShape:
        for shape in self.shapes:
            if shape.kind == kind:
                return shape
        raise RenderError(
            f"column '{column}' holds {kind} content, but the template's prompt_mm has no '{kind}' entry to carry it."
        )

    def _carrier(self, row: Row) -> tuple[str, str] | None:
        """A tagged column that the template does not mention stands for its `{question}` (or its first field)."""
        mentioned = {piece.column for piece in self.pieces() if isinstance(piece, Field)}
        if any(is_tagged(row.get(column)) for column in mentioned):
            return None
        fields = [piece.column for piece in self.text if isinstance(piece, Field)]
        carriers = [column for column, value in row.items() if column not in mentioned and is_tagged(value)]
        if not fields or not carriers:
            return None
        return ('question' if 'question' in fields else fields[0]), carriers[0]


class _PartWriter:
    """Collects text and media into parts; text that follows text is one part."""

    def __init__(self, shot: int | None) -> None:
        self._shot = shot
        self._parts: list[Written] = []
        self._text: list[Text] = []
        self._held: list[Written] = []

    def say(self, piece: Piece) -> None:
        if isinstance(piece, Text) and piece.text:
            self._text.append(piece)

    def put(self, shape: MediaShape, url: str | MediaUrl, column: str) -> None:
        self._flush()
        self._parts.append(self._medium(shape, url, column))

    def put_ahead(self, shape: MediaShape, url: str | MediaUrl, column: str) -> None:
        """Media that come before a value's first text come before the words that lead up to it, too."""
        self._parts.append(self._medium(shape, url, column))

    def hold(self, shape: MediaShape, url: str | MediaUrl, column: str) -> None:
        """Media that follow a value's last text come after the words that follow it, too."""
        self._held.append(self._medium(shape, url, column))

    def finish(self) -> list[Written]:
        self._flush()
        return self._parts + self._held

    def _medium(self, shape: MediaShape, url: str | MediaUrl, column: str) -> Written:
        # A large url keeps its reference in the span as well: Text accepts what `str` turns into text.
        piece = Text(url, Origin('media', column, shot=self._shot))  # type: ignore[arg-type]
        return Written(shape.part(url), (piece,))

    def _flush(self) -> None:
        if self._text:
            self._parts.append(_text_part(self._text))
            self._text = []


@dataclass(frozen=True, slots=True)
class RawParts:
    """The content list of a raw message: texts and urls are filled, everything else is passed on."""

    entries: tuple[Pieces | MediaShape | FrozenDict, ...]
    bound_to: Row | None = None
    shot: int | None = None

    @classmethod
    def read(cls, parts: Sequence[Mapping[str, Any]], read: Callable[[str], Pieces]) -> RawParts:
        """Read a list of parts as an API takes them."""
        return cls(tuple(_read_part(part, read) for part in parts))

    def map(self, change: Callable[[Piece], Piece]) -> RawParts:
        return replace(self, entries=tuple(_map_entry(entry, change) for entry in self.entries))

    def bind(self, row: Row, *, shot: int | None = None) -> RawParts:
        return replace(self, bound_to=row, shot=shot)

    def pieces(self) -> Iterator[Piece]:
        for entry in self.entries:
            if isinstance(entry, MediaShape):
                yield from entry.url
            elif isinstance(entry, tuple):
                yield from entry

    def write(self, row: Row) -> list[Written]:
        values = row if self.bound_to is None else self.bound_to
        return [self._written(entry, values) for entry in self.entries]

    def _written(self, entry: Pieces | MediaShape | FrozenDict, row: Row) -> Written:
        if isinstance(entry, tuple):
            return _text_part(bind(entry, row, shot=self.shot))
        if isinstance(entry, MediaShape):
            url = fold(bind(entry.url, row))
            return Written(entry.part(url), (Text(url, Origin('media', entry.kind, shot=self.shot)),))
        return Written(entry, ())


def _read_part(part: Mapping[str, Any], read: Callable[[str], Pieces]) -> Pieces | MediaShape | FrozenDict:
    kind = part.get('type')
    if kind == 'text' and set(part) == {'type', 'text'}:
        return read(part['text'])
    value = part.get(kind) if isinstance(kind, str) else None
    if isinstance(kind, str) and isinstance(value, str):
        return MediaShape(kind, kind, kind, read(value), nested=False)
    if isinstance(kind, str) and isinstance(value, Mapping) and isinstance(value.get('url'), str):
        extra = FrozenDict({key: item for key, item in value.items() if key != 'url'})
        return MediaShape(kind, kind, kind, read(value['url']), extra=extra)
    return FrozenDict(part)


def _map_entry(
    entry: Pieces | MediaShape | FrozenDict, change: Callable[[Piece], Piece]
) -> Pieces | MediaShape | FrozenDict:
    if isinstance(entry, MediaShape):
        return replace(entry, url=tuple(map(change, entry.url)))
    return tuple(map(change, entry)) if isinstance(entry, tuple) else entry


@dataclass(frozen=True, slots=True)
class JoinedParts:
    """Several contents said in one breath; text that meets text is joined with a line break."""

    contents: tuple[Content, ...]

    def map(self, change: Callable[[Piece], Piece]) -> JoinedParts:
        return JoinedParts(tuple(map_content(content, change) for content in self.contents))

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

    def write(self, row: Row) -> list[Written]:
        parts: list[Written] = []
        for content in self.contents:
            written = [_text_part(bind(content, row))] if isinstance(content, tuple) else content.write(row)
            if parts and written and parts[-1].part['type'] == written[0].part['type'] == 'text':
                joint = Text('\n', Origin('joint', 'speeches'))
                parts[-1] = _text_part((*parts[-1].pieces, joint, *written[0].pieces))
                written = written[1:]
            parts += written
        return parts


def _text_part(pieces: Sequence[Piece]) -> Written:
    words = tuple(piece for piece in pieces if isinstance(piece, Text))
    return Written(FrozenDict(type='text', text=fold(words)), words)


def raw_turn(message: Mapping[str, Any], read: Callable[[str], Pieces], section: Section = 'round') -> Turn:
    """One message of an API as a speech. `read` turns its text into pieces."""
    content = message.get('content')
    extra = FrozenDict({key: value for key, value in message.items() if key not in ('role', 'content')})
    if content is None:
        return Turn(message['role'], (), section=section, silent=True, extra=extra)
    if isinstance(content, str):
        return Turn(message['role'], read(content), section=section, extra=extra)
    return Turn(message['role'], RawParts.read(content, read), section=section, extra=extra)
