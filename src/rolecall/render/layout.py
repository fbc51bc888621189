"""What a request looks like with its fields open, and how it is filled.

A layout is compiled once. Filling it for a row looks up the row's values and joins; tracing it for a row walks the very
same pieces and labels them, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, Protocol

from rolecall.errors import RenderError
from rolecall.prompts.frozen import FrozenDict
from rolecall.prompts.pieces import Field, Origin, Piece, Pieces, Row, Text, Token, bind, bound
from rolecall.prompts.script import Content, content_pieces, map_content
from rolecall.prompts.values import text_of
from rolecall.render.spans import Message, Request, Span

__all__ = ['Layout', 'LinesLayout', 'MessageDraft', 'MessagesLayout', 'TextLayout', 'TokensLayout', 'text_layout']

_JOINT = Text('\n', Origin('joint', 'speeches'))


class Layout(Protocol):
    """A request with its fields open."""

    def fill(self, row: Row) -> Request:
        """The request for one row."""

    def trace(self, row: Row) -> list[Span]:
        """The request for one row as spans."""

    def map(self, change: Callable[[Piece], Piece]) -> Layout:
        """The same layout with every piece changed."""

    def pieces(self) -> Iterator[Piece]:
        """Every piece, in order."""

    @property
    def prefix(self) -> Request:
        """The leading part that is the same for every row."""


class TextLayout:
    """A text: constant stretches with fields between them."""

    __slots__ = ('_columns', '_frame', '_pieces', '_values', '_written')

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._pieces = tuple(pieces)
        self._frame: list[str] = ['']
        fields: list[Field] = []
        for piece in self._pieces:
            if isinstance(piece, Field):
                fields.append(piece)
                self._frame += ['', '']
            elif isinstance(piece, Text):
                self._frame[-1] += piece.text
        self._columns = tuple(field.column for field in fields)
        self._written = tuple(field.written for field in fields)
        self._values = _values_of(self._columns)

    def fill(self, row: Row) -> str:
        try:
            values = self._values(row)
        except KeyError:
            values = self._values_or_written(row)
        except TypeError as error:
            raise RenderError(f'a row is a mapping of column to value, got {row!r:.60}.') from error
        for value in values:
            if value.__class__ is not str:
                values = self._texts(row)
                break
        frame = self._frame.copy()
        frame[1::2] = values
        return ''.join(frame)

    def _values_or_written(self, row: Row) -> Sequence[Any]:
        return [row.get(column, written) for column, written in zip(self._columns, self._written, strict=True)]

    def _texts(self, row: Row) -> list[str]:
        texts = []
        for column, value in zip(self._columns, self._values_or_written(row), strict=True):
            try:
                texts.append(text_of(value))
            except RenderError as error:
                raise RenderError(f"column '{column}': {error}") from None
        return texts

    def trace(self, row: Row) -> list[Span]:
        return [Span(piece.text, piece.origin) for piece in bind(self._pieces, row) if isinstance(piece, Text)]

    def map(self, change: Callable[[Piece], Piece]) -> TextLayout:
        return TextLayout(map(change, self._pieces))

    def pieces(self) -> Iterator[Piece]:
        return iter(self._pieces)

    @property
    def is_constant(self) -> bool:
        """Whether no row can change the text."""
        return not self._columns

    @property
    def prefix(self) -> str:
        return self._frame[0]


def _values_of(columns: tuple[str, ...]) -> Callable[[Row], Sequence[Any]]:
    """A function that takes the values of some columns from a row as quickly as can be."""
    if not columns:
        return lambda row: ()
    if len(columns) == 1:
        only = columns[0]
        return lambda row: (row[only],)
    return itemgetter(*columns)


class TokensLayout:
    """A text in which the model side has put token ids: strings and ids in order."""

    __slots__ = ('_encode', '_pieces')

    def __init__(self, pieces: Iterable[Piece], encode: Callable[[str], Sequence[int]] | None = None) -> None:
        self._pieces = tuple(pieces)
        self._encode = encode

    def fill(self, row: Row) -> list[int | str]:
        request: list[int | str] = []
        text = ''
        for piece in (*bind(self._pieces, row), None):
            if isinstance(piece, Text):
                text += piece.text
                continue
            if text:
                request += self._encode(text) if self._encode else [text]
                text = ''
            if isinstance(piece, Token):
                request.append(piece.id)
        return request

    def trace(self, row: Row) -> list[Span]:
        return [
            Span('', piece.origin, token=piece.id) if isinstance(piece, Token) else Span(piece.text, piece.origin)
            for piece in bind(self._pieces, row)
            if isinstance(piece, (Text, Token))
        ]

    def map(self, change: Callable[[Piece], Piece]) -> TokensLayout:
        return TokensLayout(map(change, self._pieces), self._encode)

    def pieces(self) -> Iterator[Piece]:
        return iter(self._pieces)

    @property
    def prefix(self) -> list[int | str]:
        known: list[Piece] = []
        for piece in self._pieces:
            if isinstance(piece, Field):
                break
            known.append(piece)
        return TokensLayout(known, self._encode).fill({})


def text_layout(pieces: Sequence[Piece], encode: Callable[[str], Sequence[int]] | None = None) -> Layout:
    """The layout for a text model: a text, or token ids where the model side gives any."""
    return TokensLayout(pieces, encode) if any(isinstance(piece, Token) for piece in pieces) else TextLayout(pieces)


class LinesLayout:
    """Speeches joined with line breaks, those that turn out empty left out."""

    __slots__ = ('_begin', '_end', '_lines')

    def __init__(self, lines: Iterable[Pieces], begin: Pieces = (), end: Pieces = ()) -> None:
        self._lines = tuple(TextLayout(line) for line in lines)
        self._begin = TextLayout(begin)
        self._end = TextLayout(end)

    def fill(self, row: Row) -> str:
        said = '\n'.join([text for line in self._lines if (text := line.fill(row))])
        return f'{self._begin.fill(row)}{said}{self._end.fill(row)}'

    def trace(self, row: Row) -> list[Span]:
        spans = self._begin.trace(row)
        first = True
        for line in self._lines:
            words = line.trace(row)
            if any(span.text for span in words):
                spans += words if first else [Span(_JOINT.text, _JOINT.origin), *words]
                first = False
        return spans + self._end.trace(row)

    def map(self, change: Callable[[Piece], Piece]) -> Layout:
        begin, end = (tuple(map(change, part.pieces())) for part in (self._begin, self._end))
        return lines_layout([tuple(map(change, line.pieces())) for line in self._lines], begin, end)

    def pieces(self) -> Iterator[Piece]:
        for line in (self._begin, *self._lines, self._end):
            yield from line.pieces()

    @property
    def prefix(self) -> str:
        return self._begin.prefix


def lines_layout(lines: Iterable[Pieces], begin: Pieces = (), end: Pieces = ()) -> Layout:
    """Speeches joined with line breaks. Those that can never be empty are joined now."""
    merged: list[Pieces] = []
    for line in lines:
        if not line or all(isinstance(piece, Text) and not piece.text for piece in line):
            continue
        if merged and _never_empty(line) and _never_empty(merged[-1]):
            merged[-1] = (*merged[-1], _JOINT, *line)
        else:
            merged.append(line)
    if any(isinstance(piece, Token) for line in (begin, *merged, end) for piece in line):
        return TokensLayout(
            (*begin, *[p for i, line in enumerate(merged) for p in ((_JOINT, *line) if i else line)], *end)
        )
    if len(merged) == 1:
        return TextLayout((*begin, *merged[0], *end))
    return LinesLayout(merged, begin, end)


def _never_empty(line: Pieces) -> bool:
    return any(isinstance(piece, Text) and piece.text for piece in line)


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """One message with its fields open. `extra` are further keys of a raw message."""

    role: str
    content: Content
    extra: Mapping[str, Any] = field(default_factory=FrozenDict)
    wordless: bool = False
    """A raw message without content (tool calls only)."""


class MessagesLayout:
    """Messages for an API. Those that no row can change are made once and shared."""

    __slots__ = ('_drafts', '_open', '_shared')

    def __init__(self, drafts: Iterable[MessageDraft]) -> None:
        self._drafts = tuple(drafts)
        steps = [_writer(draft) for draft in self._drafts]
        known = 0
        while known < len(steps) and steps[known][1]:
            known += 1
        self._shared: list[Message] = [write({}) for write, _ in steps[:known]]
        self._open = [write for write, _ in steps[known:]]

    def fill(self, row: Row) -> list[Message]:
        return [*self._shared, *[write(row) for write in self._open]]

    def trace(self, row: Row) -> list[Span]:
        return [span for i, draft in enumerate(self._drafts) for span in _draft_spans(draft, i, row)]

    def map(self, change: Callable[[Piece], Piece]) -> MessagesLayout:
        return MessagesLayout(_map_draft(draft, change) for draft in self._drafts)

    def pieces(self) -> Iterator[Piece]:
        for draft in self._drafts:
            yield from content_pieces(draft.content)

    @property
    def drafts(self) -> tuple[MessageDraft, ...]:
        """The messages with their fields open."""
        return self._drafts

    @property
    def prefix(self) -> list[Message]:
        return list(self._shared)


def _writer(draft: MessageDraft) -> tuple[Callable[[Row], FrozenDict], bool]:
    """A function that writes one message, and whether the message is the same for every row."""
    role, extra = draft.role, draft.extra
    if draft.wordless:
        made = FrozenDict(role=role, content=None, **extra)
        return (lambda row: made), True
    if isinstance(draft.content, tuple):
        text = TextLayout(draft.content)
        if extra:
            return (lambda row: FrozenDict({'role': role, 'content': text.fill(row), **extra})), text.is_constant
        return (lambda row: FrozenDict(role=role, content=text.fill(row))), text.is_constant
    parts = draft.content
    return (
        lambda row: FrozenDict({'role': role, 'content': [written.part for written in parts.write(row)], **extra})
    ), False


def _draft_spans(draft: MessageDraft, number: int, row: Row) -> Iterator[Span]:
    if draft.wordless:
        return
    if isinstance(draft.content, tuple):
        words = [piece for piece in (bound(piece, row) for piece in draft.content) if isinstance(piece, Text)]
        for piece in words or [Text('', Origin('text'))]:
            yield Span(piece.text, piece.origin, number)
        return
    for part, written in enumerate(draft.content.write(row)):
        for piece in written.pieces:
            yield Span(piece.text, piece.origin, number, part)


def _map_draft(draft: MessageDraft, change: Callable[[Piece], Piece]) -> MessageDraft:
    return replace(draft, content=map_content(draft.content, change))
