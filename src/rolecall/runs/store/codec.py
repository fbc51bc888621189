"""Requests, replies and scores as they lie in the store, and back. What cannot be read raises `DamagedError`."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache, wraps
from json.encoder import encode_basestring_ascii as _quote
from operator import attrgetter
from typing import Any, TypeVar

from rolecall.core.prompts.multimodal import MediaUrl
from rolecall.core.render.spans import Request
from rolecall.models.protocol import NOT_STATED, Reply, Scored, Served, Usage
from rolecall.models.tokenizers.text import replace_lone_surrogates

T = TypeVar('T')
_SIZES = [size.to_bytes(8, 'little') for size in range(1024)]
_USAGE_KEYS = tuple(field.name for field in fields(Usage))
_read_tokens = attrgetter(*(key for key in _USAGE_KEYS if key != 'seconds'))
_NO_TOKENS = _read_tokens(Usage())
_COMPRESSED_FROM = 512
_MOST_INFLATED = 64 << 20
_LONGEST_FIELD = 20_000
_LONGEST_KEPT = 4096
"""Longer urls of media are stored as their beginning and length."""


class DamagedError(Exception):
    """An entry of the store is not what was written."""


UNREADABLE = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)
_UNREADABLE_BYTES = (*UNREADABLE, struct.error, zlib.error)


def reads_entries(decode: Callable[[Any], T]) -> Callable[[Any], T]:
    """Whatever reading runs into is damage: entries come from a file that may be broken, or made by someone else."""

    @wraps(decode)
    def guarded(entry: Any) -> T:
        try:
            return decode(entry)
        except (*_UNREADABLE_BYTES, MemoryError) as error:
            raise DamagedError(f'{type(error).__name__}: {error}') from error

    return guarded


def checksum(*cells: object) -> int:
    """A checksum of the cells of one entry.

    >>> checksum('a', 1, b'c') == checksum('a', 1, b'c') != checksum('a', 1, b'd')
    True
    """
    return zlib.crc32(b''.join(map(_frame, cells)))


def request_checksum(fingerprint: str, kind: str, outcome: str, request: str | bytes, reply: str | bytes) -> int:
    """The checksum of a stored request; the same as `checksum`, in half the time.

    >>> request_checksum('f', 'generate', 'ok', 'Hi', b'x') == checksum('f', 'generate', 'ok', 'Hi', b'x')
    True
    """
    return zlib.crc32(b''.join((_frame(fingerprint), _frame_names(kind, outcome), _frame(request), _frame(reply))))


def _frame(cell: object) -> bytes:
    """A cell as bytes, its length first."""
    data = cell if type(cell) is bytes else str(cell).encode('utf-8', 'surrogatepass')
    size = len(data)
    return (_SIZES[size] if size < 1024 else size.to_bytes(8, 'little')) + data


@lru_cache
def _frame_names(*names: str) -> bytes:
    return b''.join(map(_frame, names))


def encode_key(fingerprint: str) -> str | bytes:
    """A fingerprint as the key of its request: 16 bytes instead of 32 digits.

    >>> encode_key('00ff' * 8), encode_key('odd')
    (b'\\x00\\xff\\x00\\xff\\x00\\xff\\x00\\xff\\x00\\xff\\x00\\xff\\x00\\xff\\x00\\xff', 'odd')
    """
    try:
        packed = bytes.fromhex(fingerprint)
    except ValueError:
        return fingerprint
    return packed if len(fingerprint) == 32 and packed.hex() == fingerprint else fingerprint


def read_key(key: Any) -> Any:
    """The fingerprint that is a request's key.

    >>> read_key(encode_key('00ff' * 8)) == '00ff' * 8
    True
    """
    return key.hex() if isinstance(key, bytes) else key


def storable(text: str) -> str:
    """Text that can be written as UTF-8: lone surrogates are replaced.

    >>> ascii(storable('a' + chr(0xD800) + 'b'))
    "'a\\\\ufffdb'"
    """
    return text if text.isascii() else replace_lone_surrogates(text)


def dumps(value: Any) -> str:
    """JSON, whatever stands in it; lone surrogates stay readable because everything is written in ASCII."""
    if type(value) is str:
        return _quote(value)
    if type(value) is float and value - value == 0.0:  # finite: JSON writes it as Python does
        return repr(value)
    return _PLAIN.encode(value)


def as_plain(value: object) -> object:
    """A value that JSON has no form for as one that it has."""
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


_PLAIN = json.JSONEncoder(default=as_plain, separators=(',', ':'))


def write_reply(reply: Reply) -> str:
    """A reply as JSON, what is not set left out; one that is only a text, as a list with the seconds it took."""
    is_stated = reply.served != NOT_STATED
    says_more = reply.outcome != 'ok' or reply.reason or reply.reasoning or reply.tool_calls or is_stated
    if not says_more and _read_tokens(reply.usage) == _NO_TOKENS:
        seconds = reply.usage.seconds
        return f'[{dumps(reply.text)}]' if seconds is None else f'[{dumps(reply.text)},{dumps(seconds)}]'
    usage = {key: value for key in _USAGE_KEYS if (value := getattr(reply.usage, key)) is not None}
    record: dict[str, Any] = {'text': reply.text}
    if reply.reason:
        record['reason'] = reply.reason
    if usage:
        record['usage'] = usage
    if reply.outcome != 'ok':
        record['outcome'] = reply.outcome
    if reply.reasoning:
        record['reasoning'] = reply.reasoning
    if reply.tool_calls:
        record['tool_calls'] = reply.tool_calls
    if is_stated:
        record['served'] = reply.served
    return dumps(record)


@reads_entries
def read_reply(text: str) -> Reply:
    """A reply as it was written."""
    record = json.loads(text)
    if isinstance(record, list):
        record = {'text': record[0], 'usage': {'seconds': record[1]} if len(record) > 1 else {}}
    record['usage'] = Usage(**record.get('usage', {}))
    record['tool_calls'] = tuple(record.get('tool_calls', ()))
    record['served'] = read_served(record.get('served', ()))
    if not isinstance(record['text'], str):
        raise TypeError('the text of a reply is not text')
    return Reply(**record)


def read_served(stored: Sequence[Any]) -> Served:
    """Who answered, as it was written."""
    if not all(isinstance(name, str) for name in stored):
        raise TypeError('who answered is not text')
    return Served(*stored)


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
    greedy = [{'greedy': ''.join('1' if is_greedy else '0' for is_greedy in scored.greedy)}] if scored.greedy else []
    usage = dumps([*(getattr(scored.usage, key) for key in _USAGE_KEYS), *greedy]).encode()
    body = struct.pack(
        f'<III{count}i{count}f{len(places)}I', count, len(places), len(usage), *scored.ids, *logprobs, *places
    )
    return zlib.compress(body + usage, 1)


@reads_entries
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
    record = json.loads(body[len(body) - usage :])
    greedy = record.pop()['greedy'] if isinstance(record[-1], dict) else ''
    return Scored(
        numbers[:count],
        tuple(None if value != value else value for value in numbers[count : 2 * count]),
        tuple(zip(offsets[::2], offsets[1::2], strict=True)),
        Usage(*record),
        tuple(mark == '1' for mark in greedy),
    )


def pack_request(request: Request) -> str | bytes:
    """What was sent, compressed where it is long; long media are named, not kept."""
    text = _quote(request) if type(request) is str else _SHORT_MEDIA.encode(request)
    return text if len(text) < _COMPRESSED_FROM else zlib.compress(text.encode(), 1)


@reads_entries
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
        values = fields.values()
        if set(map(type, values)) == {str} and max(map(len, values)) <= _LONGEST_FIELD:  # quicker than for any value
            text = f'{{{",".join([f"{_quote(str(name))}:{_quote(value)}" for name, value in fields.items()])}}}'
        else:
            text = _SHORT_MEDIA.encode({str(name): _shorten(value) for name, value in fields.items()})
    except UNREADABLE as error:  # circular, or too deep
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
        return as_plain(value)
    return text if len(text) <= _LONGEST_KEPT else f'{text[:64]}… ({len(text)} characters)'


_SHORT_MEDIA = json.JSONEncoder(default=_media, separators=(',', ':'))
