"""Replies, scores and results as they lie in the store, and back."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from rolecall.models.protocol import Reply, Scored, Usage
from rolecall.prompts.multimodal import MediaUrl
from rolecall.render.spans import Request
from rolecall.runs.store.results import Result

__all__ = [
    'as_stored',
    'decode_result',
    'dumps',
    'encode_result',
    'pack_request',
    'pack_scored',
    'read_reply',
    'result_as_dict',
    'unpack_request',
    'unpack_scored',
    'write_reply',
]

_RESULT_KEYS = tuple(field.name for field in fields(Result))
_ALWAYS = object()
_BARE = Result('\0', '\0', -1, 'ok')
_RESULT_DEFAULTS = tuple((key, _ALWAYS if key == 'outcome' else getattr(_BARE, key)) for key in _RESULT_KEYS)
"""What a field holds that is not worth writing."""
_TUPLES = ('judged', 'fingerprints', 'replies', 'reasoning', 'shots')
_USAGE_KEYS = tuple(field.name for field in fields(Usage))
_COMPRESSED_FROM = 512
_LONGEST_KEPT = 4096
"""Longer urls of media are stored as their beginning and length."""


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
    written: dict[str, Any] = {'text': reply.text, 'reason': reply.reason, 'usage': usage}
    if reply.outcome != 'ok':
        written['outcome'] = reply.outcome
    if reply.reasoning:
        written['reasoning'] = reply.reasoning
    if reply.tool_calls:
        written['tool_calls'] = reply.tool_calls
    return dumps(written)


def read_reply(text: str) -> Reply:
    """A reply as it was written."""
    read = json.loads(text)
    read['usage'] = Usage(**read['usage'])
    read['tool_calls'] = tuple(read.get('tool_calls', ()))
    return Reply(**read)


def as_stored(scored: Scored) -> Scored:
    """The scores as precise as they are stored, so that a run that goes on equals one that never stopped."""
    numbers = [0.0 if value is None else value for value in scored.logprobs]
    single = struct.unpack(f'<{len(numbers)}f', struct.pack(f'<{len(numbers)}f', *numbers))
    logprobs = tuple(None if was is None else now for was, now in zip(scored.logprobs, single, strict=True))
    return Scored(scored.ids, logprobs, scored.offsets, scored.usage)


def pack_scored(scored: Scored) -> bytes:
    """Scores in few bytes: ids, single-precision logprobs (none: NaN), and places."""
    count, places = len(scored.ids), [place for offset in scored.offsets for place in offset]
    logprobs = [float('nan') if value is None else value for value in scored.logprobs]
    usage = dumps([getattr(scored.usage, key) for key in _USAGE_KEYS]).encode()
    body = struct.pack(
        f'<III{count}i{count}f{len(places)}I', count, len(places), len(usage), *scored.ids, *logprobs, *places
    )
    return zlib.compress(body + usage, 1)


def unpack_scored(packed: bytes) -> Scored:
    """The scores that were packed.

    >>> one = Scored((5, 6), (None, -0.5), ((0, 1), (1, 3)), Usage(input_tokens=2))
    >>> unpack_scored(pack_scored(one)) == one
    True
    """
    body = zlib.decompress(packed)
    count, places, usage = struct.unpack_from('<III', body)
    numbers = struct.unpack_from(f'<{count}i{count}f{places}I', body, 12)
    offsets = numbers[2 * count :]
    return Scored(
        numbers[:count],
        tuple(None if value != value else value for value in numbers[count : 2 * count]),
        tuple(zip(offsets[::2], offsets[1::2], strict=True)),
        Usage(*json.loads(body[len(body) - usage :])),
    )


def pack_request(request: Request) -> str | bytes:
    """What was sent, compressed where it is long; long media are named, not kept."""
    text = _SHORT_MEDIA.encode(request)
    return text if len(text) < _COMPRESSED_FROM else zlib.compress(text.encode(), 1)


def unpack_request(packed: str | bytes) -> Any:
    """What was sent.

    >>> unpack_request(pack_request('Hi')), unpack_request(pack_request('Hi' * 1000)) == 'Hi' * 1000
    ('Hi', True)
    """
    return json.loads(packed if isinstance(packed, str) else zlib.decompress(packed))


def _media(value: object) -> object:
    text = str(value) if isinstance(value, MediaUrl) else None
    if text is None:
        return _plain(value)
    return text if len(text) <= _LONGEST_KEPT else f'{text[:64]}… ({len(text)} characters)'


_SHORT_MEDIA = json.JSONEncoder(default=_media, separators=(',', ':'))


def result_as_dict(result: Result) -> dict[str, Any]:
    """A result by the names of its fields."""
    return {key: getattr(result, key) for key in _RESULT_KEYS}


def encode_result(result: Result) -> str:
    """A result as JSON, what is not set left out."""
    return dumps(
        {
            key: value
            for key, unset in _RESULT_DEFAULTS
            if type(value := getattr(result, key)) is not type(unset) or value != unset
        }
    )


def decode_result(text: str) -> Result:
    """A result as it was written; keys of a later version are passed over."""
    read = json.loads(text)
    known: dict[str, Any] = {
        key: tuple(read[key]) if key in _TUPLES else read[key] for key in _RESULT_KEYS if key in read
    }
    return Result(**known)
