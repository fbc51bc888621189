"""The smallest parts of a prompt: text with an origin, fields filled from a row, and how their values are written.

A template is parsed into pieces once. Filling is a single pass over the pieces and never rescans filled values, so
data that looks like a field, a token or a tag stays data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date, time
from decimal import Decimal
from typing import Any, Literal

from rolecall.errors import RenderError

_REMEDY = 'Convert it to a string in the dataset.'


def text_of(value: object) -> str:
    """The text form of a row's value.

    | value                        | text                                   |
    |------------------------------|----------------------------------------|
    | string                       | itself                                 |
    | None                         | the empty string                       |
    | True, False                  | True, False                            |
    | whole number, float, Decimal | its shortest exact form: 3, 0.1, 1e+16 |
    | list, tuple, dict            | JSON, order kept, not ASCII-escaped    |
    | date, time                   | ISO 8601                               |
    | numpy scalar or array        | as the Python value it holds           |

    Any other type is an error, rather than a Python repr in the prompt.

    >>> text_of(['a', 'ü', None]), text_of(None), text_of(0.10)
    ('["a", "ü", null]', '', '0.1')
    """
    if isinstance(value, str):
        return str.__str__(value)  # str subclasses (enums) may define another __str__
    if value is None:
        return ''
    if isinstance(value, (bool, int, float, Decimal)):
        return _number(value)
    if isinstance(value, (list, tuple, Mapping)):
        return _json(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if hasattr(value, 'tolist'):
        return text_of(value.tolist())
    raise RenderError(
        f'a value of type {type(value).__name__} has no text form: {value!r:.80}. '
        'Convert it to a string, number, list or dict first.'
    )


def _number(value: float | Decimal) -> str:
    try:
        return str(value)
    except ValueError:
        raise RenderError(f'an integer has too many digits to write out. {_REMEDY}') from None


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_inside_json)
    except RecursionError:
        raise RenderError(f'a {type(value).__name__} is nested too deeply to write as JSON. {_REMEDY}') from None
    except (ValueError, TypeError) as error:  # a cycle, an integer with too many digits, a key that is not a string
        raise RenderError(f'a {type(value).__name__} cannot be written as JSON: {error}. {_REMEDY}') from None


def _inside_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, 'tolist'):
        return value.tolist()
    return text_of(value)


def describe_value(value: object) -> str:
    """A value's type and the beginning of its repr, for error messages."""
    return 'None' if value is None else f'{type(value).__name__} {value!r:.60}'


Row = Mapping[str, Any]

Kind = Literal[
    'text',  # the dataset's template text
    'field',  # a value of the row
    'masked',  # the hidden output column
    'unfilled',  # a field missing from the row, left as written
    'label',  # a candidate answer in place of the output column
    'sep',  # end of context, start of answer (the sep_token; empty text)
    'joint',  # separator between shots or speeches
    'marker',  # the model's text around a speech
    'default',  # a role's default prompt, where the dataset gives none
    'message',  # a message added by the meta template
    'reply',  # the model's reply in an earlier turn
    'media',  # an image, audio or video, by reference
    'chat_template',  # the chat template's own text
]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a piece of the final prompt comes from."""

    kind: Kind
    name: str = ''
    """The column of a field, the role of a marker or default."""
    shot: int | None = None
    """Which in-context example it belongs to, counted from 0."""
    role: str = ''
    """The role, as written in the dataset."""
    fallback: str = ''
    """The role used instead, where the model has no such role."""
    source: str = ''
    """Where it is written, as `file:line`, if the template came from a file that keeps track."""


GROUPS = {'masked': 'hidden', 'chat_template': 'chat template', 'sep': 'joint'}
"""Kinds of origin whose name for readers is another."""


def label_of(origin: Origin) -> str:
    """The origin in a few words.

    >>> label_of(Origin('field', 'question', shot=0))
    'shot 1 field question'
    >>> label_of(Origin('text', role='SYSTEM', fallback='HUMAN'))
    'text SYSTEM as HUMAN'
    """
    words = [f'shot {origin.shot + 1}'] if origin.shot is not None else []
    words.append(GROUPS.get(origin.kind, origin.kind))
    if origin.name and origin.name not in ('shots', 'speeches'):
        words.append(origin.name)
    if origin.fallback:
        words.append(f'{origin.role} as {origin.fallback}')
    return ' '.join(words)


@dataclass(frozen=True, slots=True)
class Text:
    """Text that is the same for every row."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Field:
    """A value of the row, or its `source` text if the row has no such column."""

    column: str
    source: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class Token:
    """A token id from the meta template, in place of text."""

    id: int
    origin: Origin


@dataclass(frozen=True, slots=True)
class Shots:
    """The place where in-context examples go."""


Piece = Text | Field | Token | Shots
Pieces = tuple[Piece, ...]
SHOTS = Shots()

_FIELD = r'\{([^{}]+)\}'


def parse(
    text: str,
    *,
    ice_token: str | None = None,
    sep_token: str | None = None,
    column_tokens: Mapping[str, str] | None = None,
) -> Pieces:
    """Parse template text into pieces. `column_tokens` maps a token such as '</input>' to its column.

    >>> [type(piece).__name__ for piece in parse('</E>Q: {question}', ice_token='</E>')]
    ['Shots', 'Text', 'Field']
    """
    columns = dict(column_tokens or {})
    marks = [mark for mark in (ice_token, sep_token, *columns) if mark]
    pattern = '|'.join([*map(re.escape, sorted(marks, key=len, reverse=True)), _FIELD])
    pieces: list[Piece] = []
    at = 0
    for match in re.finditer(pattern, text):
        if match.start() > at:
            pieces.append(Text(text[at : match.start()], Origin('text')))
        at = match.end()
        token = match.group()
        if token == ice_token:
            pieces.append(SHOTS)
        elif token == sep_token:
            pieces.append(Text('', Origin('sep')))
        else:
            column = columns.get(token) or match.group(1)
            pieces.append(Field(column, token, Origin('field', column)))
    if at < len(text):
        pieces.append(Text(text[at:], Origin('text')))
    return tuple(pieces)


def bind(pieces: Iterable[Piece], row: Row, *, shot: int | None = None) -> Pieces:
    """The same pieces with the row's values in place of the fields."""
    return tuple(bind_piece(piece, row, shot=shot) for piece in pieces)


def bind_piece(piece: Piece, row: Row, *, shot: int | None = None) -> Piece:
    """The piece, filled from the row if it is a field."""
    if isinstance(piece, Field):
        if piece.column in row:
            return Text(text_of(row[piece.column]), replace(piece.origin, shot=shot))
        return Text(piece.source, replace(piece.origin, kind='unfilled', shot=shot))
    if shot is not None and isinstance(piece, Text):
        return replace(piece, origin=replace(piece.origin, shot=shot))
    return piece


def fold(pieces: Iterable[Piece]) -> str:
    """The text of pieces that hold no fields."""
    return ''.join(piece.text for piece in pieces if isinstance(piece, Text))


def is_hidden(piece: Piece) -> bool:
    """Whether this is where the hidden output column stands."""
    return isinstance(piece, Text) and piece.origin.kind == 'masked'


def relabel(pieces: Iterable[Piece], change: Callable[[Origin], Origin]) -> Pieces:
    """The same pieces with changed origins."""
    return tuple(piece if isinstance(piece, Shots) else replace(piece, origin=change(piece.origin)) for piece in pieces)
