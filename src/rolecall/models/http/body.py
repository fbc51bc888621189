"""Reply bodies from servers that are not trusted: read in pieces, unpacked and parsed within bounds.

`iterate_body` never holds more than one piece; `EventReader` assembles server-sent events; `parse_json` and
`check_depth` turn input made to break a parser into a `ValueError`.
"""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

from rolecall.models.protocol import ModelError

if TYPE_CHECKING:
    import aiohttp


ACCEPTED_ENCODINGS = 'gzip, deflate'
MAX_REPLY_BYTES = 16 * 2**20
"""The largest reply, unpacked, that is read unless the entry says otherwise (`max_reply_bytes`)."""
_PIECE = 1 << 16
_DEEPEST = 100


class ReplyFieldError(ValueError):
    """A field of a reply is missing, or is not what it should be. The message names it."""


class ReplyTooLargeError(ModelError):
    """A reply was larger than allowed. The same request would meet the same reply, so it is not retried."""


async def iterate_body(response: aiohttp.ClientResponse, *, limit: int) -> AsyncIterator[bytes]:
    """The body in pieces, unpacked; ReplyTooLargeError once it is larger than `limit` bytes."""
    unpack = _choose_decoder(response.headers.get('Content-Encoding', ''))
    size = 0
    async for chunk in response.content.iter_any():
        for piece in unpack.feed(chunk):
            size += len(piece)
            _check_size(size, limit, response)
            yield piece
    unpack.check_end()


async def pass_pieces(response: aiohttp.ClientResponse, take: Callable[[bytes], object], *, limit: int) -> None:
    """Hand over the pieces of `iterate_body` as they arrive; plain ones at a third less cost."""
    if not _is_plain(response):
        async for piece in iterate_body(response, limit=limit):
            take(piece)
        return
    size = 0
    while piece := await response.content.readany():
        size += len(piece)
        _check_size(size, limit, response)
        take(piece)


def _check_size(size: int, limit: int, response: aiohttp.ClientResponse) -> None:
    if size > limit:
        raise ReplyTooLargeError(f'reply larger than {limit:,} bytes (max_reply_bytes)', status=response.status)


def _is_plain(response: aiohttp.ClientResponse) -> bool:
    return not response.headers.get('Content-Encoding')


async def iterate_lines(response: aiohttp.ClientResponse, *, longest: int) -> AsyncIterator[bytes]:
    """The lines of a body of any size, unpacked; the last one too, if no line feed ends it."""
    rest = b''
    async for piece in iterate_body(response, limit=sys.maxsize):
        *lines, rest = (rest + piece).split(b'\n') if b'\n' in piece else (rest + piece,)
        for line in lines:
            yield line
        if len(rest) > longest:
            raise ReplyTooLargeError(f'a line larger than {longest:,} bytes (max_reply_bytes)', status=response.status)
    if rest:
        yield rest


async def read_whole(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The whole body, unpacked."""
    if response.content_length is not None and response.content_length <= limit and _is_plain(response):
        return await response.read()
    return b''.join([piece async for piece in iterate_body(response, limit=limit)])


async def read_start(response: aiohttp.ClientResponse, *, limit: int) -> bytes:
    """The first `limit` bytes of a body, or what can be unpacked of them: enough to explain an error."""
    pieces: list[bytes] = []
    try:
        async for piece in iterate_body(response, limit=limit):
            pieces.append(piece)
    except (ReplyTooLargeError, ValueError):
        pass
    return b''.join(pieces)


def parse_json(raw: bytes | str) -> Any:
    """Parse JSON. Raises ValueError for anything unreadable or nested too deeply.

    >>> parse_json(b'[' * 100_000)
    Traceback (most recent call last):
    ValueError: nested too deeply
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise ValueError('nested too deeply') from None


def check_depth(value: Any, *, deepest: int = _DEEPEST) -> Any:
    """The value itself, unless lists and dicts in it are nested more than `deepest` deep: then a ValueError."""
    level = [value]
    for _ in range(deepest):
        level = [
            inner
            for container in level
            if isinstance(container, (dict, list, tuple))
            for inner in (container.values() if isinstance(container, dict) else container)
        ]
        if not level:
            return value
    raise ValueError(f'nested more than {deepest} deep')


class EventReader:
    """Takes bytes as they arrive and yields the data of each complete event.

    >>> reader = EventReader()
    >>> list(reader.feed(b'data: {"a"')), list(reader.feed(b': 1}\\r\\n\\r\\ndata: [DONE]\\n\\n'))
    ([], [b'{"a": 1}', b'[DONE]'])
    """

    __slots__ = ('_data', '_rest')

    def __init__(self) -> None:
        self._rest: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        is_event = chunk[:6] == b'data: ' and chunk[-2:] == b'\n\n' and not self._data and not any(self._rest)
        if is_event and b'\n' not in (event := chunk[6:-2]):  # as servers usually send them
            yield event
            return
        if b'\n' not in chunk:  # joined only once a line is complete, so that long lines cost no copies
            self._rest.append(chunk)
            return
        *lines, rest = b''.join((*self._rest, chunk)).split(b'\n')
        self._rest = [rest]
        for line in lines:
            line = line.removesuffix(b'\r')
            if line.startswith(b'data:'):
                self._data.append(line[5:].removeprefix(b' '))
            elif not line:
                yield from self._event()

    def finish(self) -> Iterator[bytes]:
        """The event that the end of the stream completes, if there is one."""
        yield from self.feed(b'\n\n')

    def _event(self) -> Iterator[bytes]:
        if self._data:
            yield b'\n'.join(self._data)
            self._data = []


class _Plain:
    """A body that is not compressed."""

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        yield chunk

    def check_end(self) -> None:
        """HTTP itself detects a truncated plain body."""


class _Inflater:
    """Unpacks gzip or deflate a piece at a time, so that a small body cannot become a large one in memory."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        while chunk or self._begun:
            try:
                piece = self._zlib.decompress(chunk, _PIECE)
            except zlib.error as error:
                if self._begun:
                    raise ValueError(f'the reply cannot be unpacked: {error}') from None
                self._zlib = zlib.decompressobj(-zlib.MAX_WBITS)  # deflate without its header, as some servers send it
                self._begun = True
                continue
            self._begun = True
            chunk = self._zlib.unconsumed_tail
            if piece:
                yield piece
            if self._zlib.eof or (not chunk and len(piece) < _PIECE):
                return

    def check_end(self) -> None:
        if self._begun and not self._zlib.eof:
            raise ValueError('the compressed reply was cut off')


def _choose_decoder(encoding: str) -> _Plain | _Inflater:
    match encoding.strip().lower():
        case '' | 'identity':
            return _Plain()
        case 'gzip' | 'x-gzip' | 'deflate':
            return _Inflater()
    raise ValueError(f'the reply is packed as {encoding[:40]!r}, which was not asked for')
