"""Rows of results as they lie in the store, their checksums, and back. What cannot be read raises `DamagedError`."""

from __future__ import annotations

import binascii
import json
import math
import sqlite3
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from rolecall.models.protocol import NOT_STATED
from rolecall.runs.store.codec import UNREADABLE, checksum, dumps, encode_key, read_served, reads_entries
from rolecall.runs.store.results import Result

_COLUMNS = ('dataset', 'model', 'row', 'outcome')
"""Fields of a result that are columns of their own."""
_RESULT_KEYS = tuple(field.name for field in fields(Result) if field.name != 'settled')
_BARE = Result('\0', '\0', -1, 'ok')
_RESULT_DEFAULTS = tuple((key, getattr(_BARE, key)) for key in _RESULT_KEYS if key not in _COLUMNS)
"""Values that are not written."""
ROW_NUMBERS = (
    *('score', 'correct', 'input_tokens', 'output_tokens', 'seconds', 'microseconds', 'settled'),
    'expected_tokens',
)
"""Numbers of a row that are columns, so that they can be read without the rest.

Whole microseconds stand in a column of their own: SQLite holds whole numbers in few bytes, and writes them out exactly.
"""
ROW_COLUMNS = f'dataset, model, row, outcome, result, {", ".join(ROW_NUMBERS)}, checksum'
_CELLS = ROW_COLUMNS.removesuffix(', checksum').split(', ')
_CELLS_AS_TEXT = '\x1f'.join(['%s'] * len(_CELLS))
ROW_IS_WHOLE = "checksum IS ~crc32(CAST(printf('{}', {}) AS BLOB))".format(
    _CELLS_AS_TEXT, ', '.join(f"ifnull({cell}, 'None')" for cell in _CELLS)
)
"""Whether the checksum of a row is right, computed inside SQLite (`add_checksum_function`).

Where it is not, `is_whole_row` decides: SQLite writes some fractions in fewer digits, its printf ends a text at a NUL,
and older rows differ.
"""
_LARGEST_INTEGER = 2**63
_LARGEST_WHOLE = 2**40
"""Scores and seconds up to this are written as whole numbers where they are."""
_TUPLES = ('judged', 'fingerprints', 'replies', 'reasoning', 'shots', 'read_from', 'beside')
LONG_REPLY = 256
"""Characters from which a reply is stored once, with its request: looking it up costs time."""
_SAME_AS_REPLY = {'reply': 0}
_KEY_LENGTH = 22
"""Characters of a key in base 64, its padding left out."""
_ONE_CALL = 'call'
"""Stands for a row of one request, whose reply is the prediction: the fingerprint and the reply."""
_KINDS: dict[str, Any] = dict.fromkeys((*_TUPLES, 'served'), list) | dict.fromkeys(('reason', 'fingerprint'), str)
_UNCOLUMNED = ('cached_tokens', 'reasoning_tokens', 'cache_written_tokens', 'first_token_seconds')
"""Numbers that few rows have, and that only the JSON of a row holds."""
_NUMBERS = ('input_tokens', 'output_tokens', 'expected_tokens', *_UNCOLUMNED, 'seconds', 'score')
_KINDS |= dict.fromkeys(_NUMBERS, (int, float, type(None)))
_KINDS |= {'details': dict, 'shots_dropped': int, 'correct': (bool, type(None)), 'cluster': (str, type(None))}


def add_checksum_function(db: sqlite3.Connection) -> None:
    """Let queries of this connection use `ROW_IS_WHOLE`."""
    db.create_function('crc32', 1, zlib.crc32, deterministic=True)


def row_numbers(result: Result) -> tuple[Any, ...]:
    """The numbers of a row for its columns. The last says whether they are all that scoring needs of the row.

    >>> row_numbers(Result('d', 'm', 0, 'ok', score=1.0, correct=True, input_tokens=10**30, seconds=2.5))
    (1, 1, None, None, None, 2500000, 0, None)
    """
    score, seconds, microseconds = _column_number(result.score), _column_number(result.seconds), None
    if score is not None and -_LARGEST_WHOLE < score < _LARGEST_WHOLE and score == (whole := int(score)):
        score = whole
    if type(seconds) is float and seconds < _LARGEST_WHOLE and (whole := round(seconds * 1e6)) / 1e6 == seconds:
        seconds, microseconds = None, whole
    return (
        score,
        _column_number(result.correct),
        _column_number(result.input_tokens),
        _column_number(result.output_tokens),
        seconds,
        microseconds,
        int(result.settled and score is not None),
        _column_number(result.expected_tokens),
    )


def _column_number(value: Any) -> Any:
    """A number that SQLite can hold; None for any other, which only the JSON of the row has."""
    if value is None:
        return None
    if type(value) is bool:
        return int(value)
    if not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value if isinstance(value, float) or -_LARGEST_INTEGER <= value < _LARGEST_INTEGER else None


def row_checksum(cells: Sequence[Any]) -> int:
    """The checksum of a row's cells. It is negative, unlike those of rows in older stores."""
    text = _CELLS_AS_TEXT % tuple(cells) if len(cells) == len(_CELLS) else '\x1f'.join(map(str, cells))
    return ~zlib.crc32(text.encode('utf-8', 'surrogatepass'))


def is_whole_row(entry: Sequence[Any]) -> bool:
    """Whether the cells of a row are those that its checksum, the last cell, was made of. The first stores had none."""
    *cells, expected, stored = entry
    if not isinstance(stored, int):
        return stored is None
    if stored < 0:  # older rows have no expected tokens
        return stored == row_checksum((*cells, expected)) or (expected is None and stored == row_checksum(cells))
    if cells[-1] is None:
        return stored == checksum(*cells[:5])
    del cells[-2]  # older rows have no microseconds
    return stored == zlib.crc32(repr(tuple(cells)).encode('utf-8', 'surrogatepass'))


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result by the names of its fields."""
    return {key: getattr(result, key) for key in _RESULT_KEYS}


def encode_result(
    result: Result,
    is_stored: Callable[[str, str], bool] = lambda fingerprint, text: False,
    *,
    numbers: Sequence[Any] = (),
) -> str:
    """A result as JSON, without what is not set and without what has a column of its own, such as these `numbers`.

    A long reply that is stored with its request is written as null. A value that JSON cannot hold (too deep, too large,
    circular) is replaced by a note, and the rest is kept.
    """
    if (plain := _encode_plain(result, is_stored, numbers)) is not None:
        return plain
    values = {
        key: value
        for key, unset in _RESULT_DEFAULTS
        if (value := getattr(result, key)) is not unset and (type(value) is not type(unset) or value != unset)
    }
    for name, number in zip(ROW_NUMBERS, numbers, strict=False):
        if number is not None:
            values.pop('seconds' if name == 'microseconds' else name, None)
    if len(result.replies) == 1 and values.get('prediction') == result.replies[0]:
        values['prediction'] = _SAME_AS_REPLY
    if len(result.replies) == len(result.fingerprints):
        values['replies'] = [
            None if len(text) >= LONG_REPLY and is_stored(fingerprint, text) else text
            for fingerprint, text in zip(result.fingerprints, result.replies, strict=True)
        ]
    if result.fingerprints == (result.fingerprint,):
        values.pop('fingerprint', None)
    if values.get('prediction') is _SAME_AS_REPLY and len(result.fingerprints) == 1 and 'fingerprint' not in values:
        del values['prediction'], values['fingerprints']
        values[_ONE_CALL] = [result.fingerprints[0], *values.pop('replies')]
    try:
        return dumps(values)
    except UNREADABLE:
        return dumps({key: _encodable_or_note(value) for key, value in values.items()})


def _encode_plain(result: Result, is_stored: Callable[[str, str], bool], numbers: Sequence[Any]) -> str | None:
    """A row of one request whose reply is the prediction, and of which no more is to say: a list.

    It has what was extracted, the gold answer, the key of the request, the reply, and where the answer was read.
    """
    if len(result.replies) != 1 or result.fingerprints != (result.fingerprint,) or len(numbers) != len(ROW_NUMBERS):
        return None
    [reply] = result.replies
    if result.prediction != reply or any(_read_further(result)) or result.cluster is not None:
        return None
    if _read_uncolumned(result) != _NONE_UNCOLUMNED:
        return None
    key = encode_key(result.fingerprint)
    if isinstance(key, str) or _lacks_column(result, numbers):
        return None
    short = binascii.b2a_base64(key, newline=False)[:_KEY_LENGTH].decode()
    is_kept = len(reply) < LONG_REPLY or not is_stored(result.fingerprint, reply)
    try:
        values = f'{dumps(result.extracted)},{dumps(result.gold)}'
    except UNREADABLE:
        return None
    place = f',{dumps(result.read_from[0])}' if result.read_from else ''
    if result.served != NOT_STATED:
        place = f'{place or ",0"},{_encode_served(result.served)}'
    return f'[{values},"{short}",{dumps(reply if is_kept else None)}{place}]'


_encode_served = lru_cache(dumps)


_read_uncolumned = attrgetter(*_UNCOLUMNED)
_NONE_UNCOLUMNED = (None,) * len(_UNCOLUMNED)
_read_further = attrgetter('reason', 'reasoning', 'judged', 'details', 'shots', 'shots_dropped', 'beside')


def _lacks_column(result: Result, numbers: Sequence[Any]) -> bool:
    """Whether a number of the row is in none of its columns."""
    score, _, sent, received, seconds, microseconds, _, expected = numbers
    return (
        (score is None and result.score is not None)
        or (sent is None and result.input_tokens is not None)
        or (received is None and result.output_tokens is not None)
        or (expected is None and result.expected_tokens is not None)
        or (seconds is None and microseconds is None and result.seconds is not None)
    )


def _read_plain(record: Sequence[Any]) -> dict[str, Any]:
    extracted, gold, key, reply, *rest = record
    call = [binascii.a2b_base64(f'{key}==').hex(), reply]
    places = rest[:1] if rest[:1] != [0] else None
    values = {'extracted': extracted, 'gold': gold, _ONE_CALL: call, 'read_from': places or None}
    values['served'] = rest[1] if len(rest) > 1 else None
    return {name: value for name, value in values.items() if value is not None}


def _encodable_or_note(value: Any) -> Any:
    try:
        dumps(value)
    except UNREADABLE as error:
        if isinstance(value, Mapping):
            return {str(key): _encodable_or_note(inner) for key, inner in value.items()}
        if isinstance(value, tuple):
            return [_encodable_or_note(inner) for inner in value]
        return f'<not storable: {type(value).__name__}, {type(error).__name__}>'
    return value


def decode_result(entry: tuple[Any, ...], find_reply: Callable[[str], str | None]) -> Result:
    """A result from its columns: dataset, model, row, outcome, JSON, and its numbers, if it has any.

    Keys of a later version are ignored. `find_reply` gives the text of a reply that is stored with its request.
    """
    return _decode_result((entry, find_reply))


@reads_entries
def _decode_result(parts: tuple[tuple[Any, ...], Callable[[str], str | None]]) -> Result:
    (dataset, model, row, outcome, text, *numbers), find_reply = parts
    record = json.loads(text)
    if isinstance(record, list):
        record = _read_plain(record)
    if _ONE_CALL in record:
        fingerprint, reply = record.pop(_ONE_CALL)
        record |= {'fingerprints': [fingerprint], 'replies': [reply], 'prediction': _SAME_AS_REPLY}
    for key, kind in _KINDS.items():
        if key in record and not isinstance(record[key], kind):
            raise TypeError(f'{key} is a {type(record[key]).__name__}')
    if not isinstance(row, int) or not all(isinstance(cell, str) for cell in (dataset, model, outcome)):
        raise TypeError('a column has the wrong type')
    values: dict[str, Any] = {
        key: tuple(record[key]) if key in _TUPLES else record[key] for key, _ in _RESULT_DEFAULTS if key in record
    }
    if 'served' in values:
        values['served'] = read_served(values['served'])
    if None in values.get('replies', ()):
        values['replies'] = tuple(
            find_reply(fingerprint) if reply is None else reply
            for fingerprint, reply in zip(values['fingerprints'], values['replies'], strict=True)
        )
        if None in values['replies']:
            raise ValueError('a reply is missing')
    if values.get('prediction') == _SAME_AS_REPLY:
        [values['prediction']] = values['replies']
    if len(values.get('fingerprints', ())) == 1:
        values.setdefault('fingerprint', values['fingerprints'][0])
    for name, number in zip(ROW_NUMBERS, numbers, strict=False):
        if number is not None:
            values |= _read_number(name, number)
    return Result(dataset, model, row, outcome, **values)  # outcomes of later versions stay


def _read_number(name: str, number: Any) -> dict[str, Any]:
    if name == 'microseconds':
        return {'seconds': number / 1e6}
    if name == 'score':
        return {name: float(number)}
    return {name: bool(number) if name in ('correct', 'settled') else number}
