"""Reply bodies from servers that are not trusted: read in pieces and parsed within bounds.

aiohttp unpacks no more of a body than is read, and `check_size` bounds that. `EventReader` assembles server-sent
events; `parse_json` and `check_depth` turn input made to break a parser into a `ValueError`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from rolecall.models.protocol import ModelError

if TYPE_CHECKING:
    import aiohttp


ACCEPTED_ENCODINGS = 'gzip, deflate'
UNPACKED_ENCODINGS = ('identity', 'gzip', 'deflate', 'br', 'zstd')
"""Those that aiohttp unpacks, the last two if a package for them is installed."""
MAX_REPLY_BYTES = 16 * 2**20
"""The largest reply, unpacked, that is read unless the entry says otherwise (`max_reply_bytes`)."""
EVENT_END = b'\n\n'
_DEEPEST = 100
_read_value = json.JSONDecoder().raw_decode


class ReplyFieldError(ValueError):
    """A field of a reply is missing, or is not what it should be. The message names it."""


class ReplyTooLargeError(ModelError):
    """A reply was larger than allowed. The same request would meet the same reply, so it is not retried."""


class UnreadableReplyError(ModelError):
    """A reply cannot be unpacked, or is not what the protocol says. The next may be, so it is retried a few times."""


def check_size(size: int, limit: int) -> None:
    """Refuse a body of more bytes than allowed."""
    if size > limit:
        raise ReplyTooLargeError(f'reply larger than {limit:,} bytes (max_reply_bytes)')


async def read_whole(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The whole body, unpacked."""
    body = await read_start(response, limit=limit + 1)
    check_size(len(body), limit)
    return body


async def read_start(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The first `limit` bytes of a body, unpacked, or a little more."""
    body = bytearray()
    while len(body) < limit and (piece := await response.content.readany()):
        body += piece
    return bytes(body)


async def iterate_lines(response: aiohttp.ClientResponse, *, longest: int) -> AsyncIterator[bytes]:
    """The lines of a body of any size, unpacked; the last one too, if no line feed ends it."""
    rest = b''
    while piece := await response.content.readany():
        *lines, rest = (rest + piece).split(b'\n') if b'\n' in piece else (rest + piece,)
        for line in lines:
            yield line
        if len(rest) > longest:
            raise ReplyTooLargeError(f'a line larger than {longest:,} bytes (max_reply_bytes)')
    if rest:
        yield rest


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON. Raises ValueError for anything unreadable or nested too deeply.

    >>> parse_json(b'[' * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    """
    try:
        try:
            text = raw if isinstance(raw, str) else str(raw, 'utf-8')
            value, end = _read_value(text)
            return value if end == len(text) else json.loads(raw)
        except ValueError:  # another encoding, white space, or not JSON
            return json.loads(raw)
    except RecursionError:
        raise ValueError('nested too deeply') from None


def check_depth(value: Any) -> Any:
    """The value itself, unless lists and dicts in it are nested too deeply: then a ValueError."""
    level = [value]
    for _ in range(_DEEPEST):
        level = [
            inner
            for container in level
            if isinstance(container, (dict, list, tuple))
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return value
    raise ValueError(f'nested more than {_DEEPEST} deep')


class EventReader:
    """Takes bytes as they arrive and yields the data of each complete event.

    >>> reader = EventReader()
    >>> reader.feed(b'data: {"a"'), reader.feed(b': 1}\\r\\n\\r\\ndata: [DONE]\\n\\n')
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ('_data', '_rest')

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that a chunk completes; `EVENT_END` completes the last one where the stream ends."""
        is_event = chunk[:6] == b'data: ' and chunk[-2:] == EVENT_END and not self._rest and not self._data
        if is_event and b'\n' not in (event := chunk[6:-2]):  # as servers usually send them
            return [event]
        if b'\n' not in chunk:  # joined only once a line is complete, so that long lines cost no copies
            self._rest.append(chunk)
            return []
        *lines, rest = b''.join((*self._rest, chunk)).split(b'\n')
        self._rest = [rest] if rest else []
        events = []
        for line in lines:
            line = line.removesuffix(b'\r')
            if line.startswith(b'data:'):
                self._data.append(line[5:].removeprefix(b' '))
            elif not line and self._data:
                events.append(b'\n'.join(self._data))
                self._data = []
        return events
