"""Compiled requests with unfilled fields.

A layout is compiled once. Filling looks up the row's values and joins them; tracing walks the same pieces and labels
them, so the two cannot disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

from rolecall.core.prompts.frozen import FrozenDict
from rolecall.core.prompts.pieces import Field, Origin, Piece, Pieces, Row, Text, Token, bind, text_of
from rolecall.core.prompts.script import Content
from rolecall.core.render.spans import Message, Request, Span
from rolecall.errors import RenderError

_JOINT = Text('\n', Origin('joint', 'speeches'))


class Layout(Protocol):
    """A request with unfilled fields."""

    def fill(self, row: Row) -> Request:
        """The request for one row."""

    def trace(self, row: Row) -> list[Span]:
        """The request for one row as spans."""


class TextLayout:
    """A text: constants with fields between them."""

    __slots__ = ('_fields', '_frame', '_pieces', 'fill')

    def __init__(self, pieces: Iterable[Piece]) -> None:
        self._pieces = tuple(pieces)
        self._fields = tuple(piece for piece in self._pieces if isinstance(piece, Field))
        self._frame = ['']
        """The constants, with an empty place for a field between each two."""
        for piece in self._pieces:
            if isinstance(piece, Field):
                self._frame += ['', '']
            elif isinstance(piece, Text):
                self._frame[-1] += piece.text
        columns = [field.column for field in self._fields]
        constant = self._frame[0]
        self.fill: Callable[[Row], str] = (
            _joiner(len(columns))(self._frame[::2], columns, self._fill_with_care) if columns else lambda row: constant
        )
        """The single join that one would write by hand for this text."""

    def _fill_with_care(self, row: Row) -> str:
        """Fill from a row that lacks a column or has a non-string value."""
        if not isinstance(row, Mapping):
            raise RenderError(f'expected a row (a mapping of column to value), got {row!r:.60}.')
        parts = self._frame.copy()
        for i, field_ in enumerate(self._fields):
            try:
                parts[2 * i + 1] = text_of(row[field_.column]) if field_.column in row else field_.source
            except RenderError as error:
                raise RenderError(f"column '{field_.column}': {error}") from None
        return ''.join(parts)

    def trace(self, row: Row) -> list[Span]:
        return [Span(piece.text, piece.origin) for piece in bind(self._pieces, row) if isinstance(piece, Text)]

    @property
    def is_constant(self) -> bool:
        """Whether the text is the same for every row."""
        return not self._fields


Care = Callable[[Row], str]
Joiner = Callable[[Sequence[str], Sequence[str], Care], Care]


@lru_cache(maxsize=256)
def _joiner(fields: int) -> Joiner:
    """A factory of functions that join constants with this many row values.

    It is generated code, because a loop over the fields would double the cost of the join. Only the number of fields
    enters that code, never text from a template or a row.
    """
    constants = ', '.join(f'c{i}' for i in range(fields + 1))
    columns = ', '.join(f'k{i}' for i in range(fields))
    pieces = ', '.join(f'c{i}, row[k{i}]' for i in range(fields))
    code = f"""
def make(constants, columns, fill_with_care):
    ({constants},) = constants
    ({columns},) = columns
    join = ''.join
    def fill(row):
        try:
            return join(({pieces}, c{fields}))
        except (KeyError, TypeError):
            return fill_with_care(row)
    return fill
"""
    namespace: dict[str, Joiner] = {}
    exec(code, namespace)
    return namespace['make']


Encode = Callable[[str], Sequence[int]]


def _token_request(pieces: Pieces, encode: Encode | None) -> list[int | str]:
    """Filled pieces as a request: each run of text as one string, or encoded as a whole."""
    request: list[int | str] = []
    text = ''
    for piece in (*pieces, None):
        if isinstance(piece, Text):
            text += piece.text
            continue
        if text:
            request += encode(text) if encode else [text]
            text = ''
        if isinstance(piece, Token):
            request.append(piece.id)
    return request


def _token_spans(pieces: Pieces) -> list[Span]:
    return [
        Span('', piece.origin, token=piece.id) if isinstance(piece, Token) else Span(piece.text, piece.origin)
        for piece in pieces
        if isinstance(piece, (Text, Token))
    ]


def text_layout(pieces: Sequence[Piece], encode: Encode | None = None) -> Layout:
    """The layout for a text model: text, or token ids if the meta template has any."""
    has_ids = any(isinstance(piece, Token) for piece in pieces)
    return TokensLayout((tuple(pieces),), (), (), encode) if has_ids else TextLayout(pieces)


class LinesLayout:
    """Speeches joined with line breaks, skipping empty ones."""

    __slots__ = ('_begin', '_end', '_lines')

    def __init__(self, lines: Iterable[Pieces], begin: Pieces = (), end: Pieces = ()) -> None:
        self._lines = tuple(TextLayout(line) for line in lines)
        self._begin = TextLayout(begin)
        self._end = TextLayout(end)

    def fill(self, row: Row) -> str:
        body = '\n'.join([text for line in self._lines if (text := line.fill(row))])
        return f'{self._begin.fill(row)}{body}{self._end.fill(row)}'

    def trace(self, row: Row) -> list[Span]:
        spans = self._begin.trace(row)
        first = True
        for line in self._lines:
            words = line.trace(row)
            if any(span.text for span in words):
                spans += words if first else [Span(_JOINT.text, _JOINT.origin), *words]
                first = False
        return spans + self._end.trace(row)


@dataclass(frozen=True, slots=True, eq=False)
class TokensLayout:
    """Text mixed with token ids from the meta template: strings and ids in order, or ids only with a tokenizer.

    Speeches are lines; empty ones are skipped. The spans join to the strings and ids before the strings are encoded.
    """

    lines: tuple[Pieces, ...]
    begin: Pieces
    end: Pieces
    encode: Encode | None

    def fill(self, row: Row) -> list[int | str]:
        return _token_request(self._join_lines(row), self.encode)

    def trace(self, row: Row) -> list[Span]:
        return _token_spans(self._join_lines(row))

    def _join_lines(self, row: Row) -> Pieces:
        lines = [line for line in (bind(line, row) for line in self.lines) if _never_empty(line)]
        body = (piece for i, line in enumerate(lines) for piece in ((_JOINT, *line) if i else line))
        return (*self.begin, *body, *self.end)


def lines_layout(lines: Iterable[Pieces], begin: Pieces = (), end: Pieces = (), encode: Encode | None = None) -> Layout:
    """Speeches joined with line breaks; those that can never be empty are joined at compile time."""
    merged: list[Pieces] = []
    for line in lines:
        if not line or all(isinstance(piece, Text) and not piece.text for piece in line):
            continue
        if merged and _never_empty(line) and _never_empty(merged[-1]):
            merged[-1] = (*merged[-1], _JOINT, *line)
        else:
            merged.append(line)
    if len(merged) == 1:
        return text_layout((*begin, *merged[0], *end), encode)
    if any(isinstance(piece, Token) for line in (begin, *merged, end) for piece in line):
        return TokensLayout(tuple(merged), begin, end, encode)
    return LinesLayout(merged, begin, end)


def _never_empty(line: Pieces) -> bool:
    return any(isinstance(piece, Token) or (isinstance(piece, Text) and piece.text) for piece in line)


@dataclass(frozen=True, slots=True)
class MessageDraft:
    """One message with unfilled fields. `extra` holds other keys of a raw message."""

    role: str
    content: Content
    extra: Mapping[str, Any] = field(default_factory=FrozenDict)
    wordless: bool = False
    """A raw message with no content (tool calls only)."""


class MessagesLayout:
    """Messages for an API. Leading messages that are the same for every row are built once, frozen and shared."""

    __slots__ = ('_drafts', 'fill')

    def __init__(self, drafts: Iterable[MessageDraft]) -> None:
        self._drafts = tuple(drafts)
        steps = [_writer(draft) for draft in self._drafts]
        constant = 0
        while constant < len(steps) and steps[constant][1]:
            constant += 1
        shared: list[Message] = [FrozenDict(write({})) for write, _ in steps[:constant]]
        writers = [write for write, _ in steps[constant:]]
        self.fill: Callable[[Row], list[Message]] = lambda row: [*shared, *[write(row) for write in writers]]
        if len(writers) == 1:  # nearly always, and a list less
            [writer] = writers
            self.fill = lambda row: [*shared, writer(row)]

    def trace(self, row: Row) -> list[Span]:
        return [span for i, draft in enumerate(self._drafts) for span in _draft_spans(draft, i, row)]


def _writer(draft: MessageDraft) -> tuple[Callable[[Row], dict[str, Any]], bool]:
    """A function that writes one message, and whether it is the same for every row."""
    role, extra = draft.role, draft.extra
    if draft.wordless:
        return (lambda row: {'role': role, 'content': None, **extra}), True
    if isinstance(draft.content, tuple):
        text = TextLayout(draft.content)
        words = text.fill
        if extra:
            return (lambda row: {'role': role, 'content': words(row), **extra}), text.is_constant
        return (lambda row: {'role': role, 'content': words(row)}), text.is_constant
    parts = draft.content
    return (lambda row: {'role': role, 'content': [part.part for part in parts.write(row)], **extra}), False


def _draft_spans(draft: MessageDraft, number: int, row: Row) -> Iterator[Span]:
    if draft.wordless:
        return
    if isinstance(draft.content, tuple):
        for piece in bind(draft.content, row):
            if isinstance(piece, Text):
                yield Span(piece.text, piece.origin, number)
        return
    for part, content in enumerate(draft.content.write(row)):
        for piece in content.pieces:
            yield Span(piece.text, piece.origin, number, part)
