"""Replies, scores and results as they lie in the store, and back. What cannot be read raises `DamagedError`."""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import wraps
from typing import Any, TypeVar

from rolecall.models.protocol import Reply, Scored, Usage
from rolecall.prompts.multimodal import MediaUrl
from rolecall.render.spans import Request
from rolecall.runs.store.results import Result
from rolecall.tokenizers.text import replace_lone_surrogates

__all__ = [
    'ROW_NUMBERS',
    'DamagedError',
    'as_stored',
    'checksum',
    'decode_result',
    'dumps',
    'encode_result',
    'pack_fields',
    'pack_request',
    'pack_scored',
    'read_reply',
    'result_as_dict',
    'row_checksum',
    'row_numbers',
    'storable',
    'unpack_request',
    'unpack_scored',
    'write_reply',
]

T = TypeVar('T')
_COLUMNS = ('dataset', 'model', 'row', 'outcome')
"""Fields of a result that are columns of their own."""
_RESULT_KEYS = tuple(field.name for field in fields(Result) if field.name != 'settled')
_BARE = Result('\0', '\0', -1, 'ok')
_RESULT_DEFAULTS = tuple((key, getattr(_BARE, key)) for key in _RESULT_KEYS if key not in _COLUMNS)
"""Values that are not written."""
ROW_NUMBERS = ('score', 'correct', 'input_tokens', 'output_tokens', 'seconds', 'settled')
"""Numbers of a row that are columns, too, so that SQLite can add them up."""
_LARGEST_INTEGER = 2**63
_TUPLES = ('judged', 'fingerprints', 'replies', 'reasoning', 'shots')
_USAGE_KEYS = tuple(field.name for field in fields(Usage))
_COMPRESSED_FROM = 512
_MOST_INFLATED = 64 << 20
_LONG_REPLY = 256
"""Characters from which a reply is stored once, with its request: looking it up costs time."""
_LONGEST_FIELD = 20_000
_LONGEST_KEPT = 4096
"""Longer urls of media are stored as their beginning and length."""


class DamagedError(Exception):
    """An entry of the store is not what was written."""


_UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
_UNREADABLE_BYTES = (*_UNREADABLE, struct.error, zlib.error)


def _reads_entries(read: Callable[[Any], T]) -> Callable[[Any], T]:
    """Whatever reading runs into is damage: entries come from a file that may be broken, or made by someone else."""

    @wraps(read)
    def guarded(entry: Any) -> T:
        try:
            return read(entry)
        except (*_UNREADABLE_BYTES, MemoryError) as error:
            raise DamagedError(f'{type(error).__name__}: {error}') from error

    return guarded


def checksum(*cells: object) -> int:
    """A checksum of the cells of one entry.

    >>> checksum('a', 1, b'c') == checksum('a', 1, b'c') != checksum('a', 1, b'd')
    True
    """
    parts: list[bytes] = []
    for cell in cells:
        data = cell if isinstance(cell, bytes) else str(cell).encode('utf-8', 'surrogatepass')
        parts += (len(data).to_bytes(8, 'little'), data)
    return zlib.crc32(b''.join(parts))


def row_numbers(result: Result) -> tuple[Any, ...]:
    """The numbers of a row for its columns. The last says whether they are all that scoring needs of the row.

    >>> row_numbers(Result('d', 'm', 0, 'ok', prediction='4', score=1.0, correct=True, input_tokens=10**30))
    (1.0, 1, None, None, None, 0)
    """
    score, correct = _column_number(result.score), _column_number(result.correct)
    used = map(_column_number, (result.input_tokens, result.output_tokens, result.seconds))
    return (score, correct, *used, int(result.settled and score is not None))


def _column_number(value: Any) -> Any:
    """A number that SQLite can hold; None for any other, which only the JSON of the row has."""
    if value is None or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, float) or -_LARGEST_INTEGER <= value < _LARGEST_INTEGER else None


def row_checksum(cells: Sequence[Any]) -> int:
    """The checksum of a row: dataset, model, row, outcome, JSON, and the numbers (none in older stores)."""
    if cells[-1] is None:
        return checksum(*cells[:5])
    return zlib.crc32(repr(tuple(cells)).encode('utf-8', 'surrogatepass'))


def storable(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates are replaced.

    >>> ascii(storable('a' + chr(0xD800) + 'b'))
    "'a\\\\ufffdb'"
    """
    return text if text.isascii() else replace_lone_surrogates(text)


def dumps(value: Any) -> str:
    """JSON, whatever stands in it; lone surrogates stay readable because everything is written in ASCII."""
    return _PLAIN.encode(value)


def _plain(value: object) -> object:
    if isinstance(value, MediaUrl):
        return str(value)
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    if isinstance(value, Sequence):
        return list(value)
    item = getattr(value, 'item', None)
    return item() if callable(item) else str(value)


_PLAIN = json.JSONEncoder(default=_plain, separators=(',', ':'))


def write_reply(reply: Reply) -> str:
    """A reply as JSON, what is not set left out."""
    usage = {key: value for key in _USAGE_KEYS if (value := getattr(reply.usage, key)) is not None}
    written: dict[str, Any] = {'text': reply.text}
    if reply.reason:
        written['reason'] = reply.reason
    if usage:
        written['usage'] = usage
    if reply.outcome != 'ok':
        written['outcome'] = reply.outcome
    if reply.reasoning:
        written['reasoning'] = reply.reasoning
    if reply.tool_calls:
        written['tool_calls'] = reply.tool_calls
    return dumps(written)


@_reads_entries
def read_reply(text: str) -> Reply:
    """A reply as it was written."""
    read = json.loads(text)
    read['usage'] = Usage(**read.get('usage', {}))
    read['tool_calls'] = tuple(read.get('tool_calls', ()))
    if not isinstance(read['text'], str):
        raise TypeError('the text of a reply is not text')
    return Reply(**read)


def as_stored(scored: Scored) -> Scored:
    """The scores as precise as they are stored, so that a resumed run equals one that never stopped."""
    numbers = [0.0 if value is None else value for value in scored.logprobs]
    single = struct.unpack(f'<{len(numbers)}f', struct.pack(f'<{len(numbers)}f', *numbers))
    logprobs = tuple(None if was is None else now for was, now in zip(scored.logprobs, single, strict=True))
    return replace(scored, logprobs=logprobs)


def pack_scored(scored: Scored) -> bytes:
    """Scores in few bytes: ids, single-precision logprobs (none: NaN), places, usage and which tokens were greedy."""
    count, places = len(scored.ids), [place for offset in scored.offsets for place in offset]
    logprobs = [float('nan') if value is None else value for value in scored.logprobs]
    greedy = [{'greedy': ''.join('1' if one else '0' for one in scored.greedy)}] if scored.greedy else []
    usage = dumps([*(getattr(scored.usage, key) for key in _USAGE_KEYS), *greedy]).encode()
    body = struct.pack(
        f'<III{count}i{count}f{len(places)}I', count, len(places), len(usage), *scored.ids, *logprobs, *places
    )
    return zlib.compress(body + usage, 1)


@_reads_entries
def unpack_scored(packed: bytes) -> Scored:
    """The scores that were packed.

    >>> one = Scored((5, 6), (None, -0.5), ((0, 1), (1, 3)), Usage(input_tokens=2))
    >>> unpack_scored(pack_scored(one)) == one
    True
    >>> unpack_scored(pack_scored(replace(one, greedy=(False, True)))).greedy
    (False, True)
    """
    body = _inflate(packed)
    count, places, usage = struct.unpack_from('<III', body)
    numbers = struct.unpack_from(f'<{count}i{count}f{places}I', body, 12)
    offsets = numbers[2 * count :]
    told = json.loads(body[len(body) - usage :])
    greedy = told.pop()['greedy'] if isinstance(told[-1], dict) else ''
    return Scored(
        numbers[:count],
        tuple(None if value != value else value for value in numbers[count : 2 * count]),
        tuple(zip(offsets[::2], offsets[1::2], strict=True)),
        Usage(*told),
        tuple(one == '1' for one in greedy),
    )


def pack_request(request: Request) -> str | bytes:
    """What was sent, compressed where it is long; long media are named, not kept."""
    text = _SHORT_MEDIA.encode(request)
    return text if len(text) < _COMPRESSED_FROM else zlib.compress(text.encode(), 1)


@_reads_entries
def unpack_request(packed: str | bytes) -> Any:
    """What was sent.

    >>> unpack_request(pack_request('Hi')), unpack_request(pack_request('Hi' * 1000)) == 'Hi' * 1000
    ('Hi', True)
    """
    return json.loads(packed if isinstance(packed, str) else _inflate(packed))


def pack_fields(fields: Mapping[str, Any]) -> str | bytes:
    """The columns of a dataset's row, compressed where they are long; very long texts are cut, and say so.

    >>> unpack_request(pack_fields({'question': 'Why?', 'image': b'PNG'}))
    {'question': 'Why?', 'image': '(3 bytes)'}
    """
    try:
        text = _SHORT_MEDIA.encode({str(name): _shorten(value) for name, value in fields.items()})
    except _UNREADABLE as error:  # circular, or too deep
        text = dumps({'unreadable': str(error)})
    return text if len(text) < _COMPRESSED_FROM else zlib.compress(text.encode(), 1)


def _shorten(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray)):
        return f'({len(value)} bytes)'
    if isinstance(value, str) and len(value) > _LONGEST_FIELD:
        return f'{value[:_LONGEST_FIELD]}… ({len(value)} characters)'
    return value


def _inflate(packed: bytes) -> bytes:
    """Decompress, up to a bound: a few kilobytes of an untrusted file can stand for gigabytes."""
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, _MOST_INFLATED)
    if not decompressor.eof:
        raise ValueError(f'incomplete, or larger than {_MOST_INFLATED >> 20} MiB')
    return data


def _media(value: object) -> object:
    text = str(value) if isinstance(value, MediaUrl) else None
    if text is None:
        return _plain(value)
    return text if len(text) <= _LONGEST_KEPT else f'{text[:64]}… ({len(text)} characters)'


_SHORT_MEDIA = json.JSONEncoder(default=_media, separators=(',', ':'))


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
    values = {
        key: value
        for key, unset in _RESULT_DEFAULTS
        if (value := getattr(result, key)) is not unset and (type(value) is not type(unset) or value != unset)
    }
    for name, number in zip(ROW_NUMBERS, numbers, strict=False):
        if number is not None:
            values.pop(name, None)
    if len(result.replies) == 1 and values.get('prediction') == result.replies[0]:
        values['prediction'] = _SAME_AS_REPLY
    if len(result.replies) == len(result.fingerprints):
        values['replies'] = [
            None if len(text) >= _LONG_REPLY and is_stored(fingerprint, text) else text
            for fingerprint, text in zip(result.fingerprints, result.replies, strict=True)
        ]
    if result.fingerprints == (result.fingerprint,):
        values.pop('fingerprint', None)
    if values.get('prediction') is _SAME_AS_REPLY and len(result.fingerprints) == 1 and 'fingerprint' not in values:
        del values['prediction'], values['fingerprints']
        values[_ONE_CALL] = [result.fingerprints[0], *values.pop('replies')]
    try:
        return dumps(values)
    except _UNREADABLE:
        return dumps({key: _encodable_or_note(value) for key, value in values.items()})


def _encodable_or_note(value: Any) -> Any:
    try:
        dumps(value)
    except _UNREADABLE as error:
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


@_reads_entries
def _decode_result(given: tuple[tuple[Any, ...], Callable[[str], str | None]]) -> Result:
    (dataset, model, row, outcome, text, *numbers), find_reply = given
    read = json.loads(text)
    if _ONE_CALL in read:
        fingerprint, reply = read.pop(_ONE_CALL)
        read |= {'fingerprints': [fingerprint], 'replies': [reply], 'prediction': _SAME_AS_REPLY}
    for key, kind in _KINDS.items():
        if key in read and not isinstance(read[key], kind):
            raise TypeError(f'{key} is a {type(read[key]).__name__}')
    if not isinstance(row, int) or not all(isinstance(one, str) for one in (dataset, model, outcome)):
        raise TypeError('a column has the wrong type')
    known: dict[str, Any] = {
        key: tuple(read[key]) if key in _TUPLES else read[key] for key, _ in _RESULT_DEFAULTS if key in read
    }
    if None in known.get('replies', ()):
        known['replies'] = tuple(
            find_reply(fingerprint) if reply is None else reply
            for fingerprint, reply in zip(known['fingerprints'], known['replies'], strict=True)
        )
        if None in known['replies']:
            raise ValueError('a reply is missing')
    if known.get('prediction') == _SAME_AS_REPLY:
        [known['prediction']] = known['replies']
    if len(known.get('fingerprints', ())) == 1:
        known.setdefault('fingerprint', known['fingerprints'][0])
    for name, number in zip(ROW_NUMBERS, numbers, strict=False):
        if number is not None:
            known[name] = bool(number) if name in ('correct', 'settled') else number
    return Result(dataset, model, row, outcome, **known)  # outcomes of later versions stay


_SAME_AS_REPLY = {'reply': 0}
_ONE_CALL = 'call'
"""Stands for a row of one request, whose reply is the prediction: the fingerprint and the reply."""
_KINDS: dict[str, Any] = dict.fromkeys(_TUPLES, list) | dict.fromkeys(('reason', 'fingerprint'), str)
_NUMBERS = ('input_tokens', 'output_tokens', 'cached_tokens', 'reasoning_tokens', 'seconds', 'score')
_KINDS |= dict.fromkeys(_NUMBERS, (int, float, type(None)))
_KINDS |= {'details': dict, 'shots_dropped': int, 'correct': (bool, type(None)), 'cluster': (str, type(None))}
