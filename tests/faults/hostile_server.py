"""A server on loopback that answers some requests as no server should. Raw bytes, so that nothing is out of reach."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from hostile import bomb

__all__ = ['MISBEHAVIOURS', 'HostileServer', 'serve_hostile']

DEEP = 100_000
_ROW = re.compile(r'row (\d+)')
_MEGABYTE = b' ' * (1 << 20)


def reply(text: str = 'fine', **usage: object) -> bytes:
    """A proper reply."""
    body = {'choices': [{'message': {'role': 'assistant', 'content': text}, 'finish_reason': 'stop'}]}
    return json.dumps({**body, 'usage': usage or {'prompt_tokens': 3, 'completion_tokens': 1}}).encode()


def http(body: bytes, status: int = 200, *headers: str, kind: str = 'application/json') -> bytes:
    """A response with its length."""
    lines = [f'HTTP/1.1 {status} X', f'Content-Type: {kind}', f'Content-Length: {len(body)}', *headers, '', '']
    return '\r\n'.join(lines).encode() + body


def error(message: str, status: int, *headers: str, code: object = 'bad') -> bytes:
    return http(json.dumps({'error': {'message': message, 'code': code}}).encode(), status, *headers)


def deep_json(inside: str = '%s') -> bytes:
    return (inside % ('[' * DEEP + ']' * DEEP)).encode()


async def endless(_writer_limit: int = 400) -> AsyncIterator[bytes]:
    """A body without a length that does not end (bounded here, in case it is not refused)."""
    yield b'HTTP/1.1 200 X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"choices": "'
    for _ in range(_writer_limit):
        yield _MEGABYTE


async def endless_event() -> AsyncIterator[bytes]:
    yield b'HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\ndata: '
    for _ in range(400):
        yield _MEGABYTE


async def silent() -> AsyncIterator[bytes]:
    """The connection stays open for longer than a call may take, and nothing comes."""
    await asyncio.sleep(6)
    yield b''


MISBEHAVIOURS: dict[str, Callable[[], bytes | AsyncIterator[bytes] | None]] = {
    'JSON 100,000 deep as a reply': lambda: http(deep_json()),
    'JSON 100,000 deep as an error': lambda: http(deep_json(), 400),
    'JSON 100,000 deep as the content': lambda: http(
        deep_json('{"choices": [{"message": {"role": "assistant", "content": %s}}]}')
    ),
    'an error code of 5,000 digits': lambda: http(b'{"error": {"message": "no", "code": ' + b'9' * 5000 + b'}}', 400),
    'a Retry-After date with an absurd zone': lambda: error(
        'busy', 429, 'Retry-After: Wed, 21 Oct 2026 07:28:00 +999999999999'
    ),
    'a refusal without Retry-After': lambda: error('busy', 429),
    'token counts of 400 digits': lambda: http(
        reply().replace(b'"prompt_tokens": 3', b'"prompt_tokens": ' + b'9' * 400)
    ),
    'a lone surrogate in an error': lambda: http(b'{"error": {"message": "half \\ud800 a pair"}}', 400),
    'a lone surrogate in a reply': lambda: http(reply('half \ud800 a pair')),
    'escape sequences in an error': lambda: error('\x1b[2J\x1b]0;owned\x07', 400),
    'a reply without end': endless,
    'an event stream without line breaks': endless_event,
    'a gzip bomb of 400 MB': lambda: http(bomb(400), 200, 'Content-Encoding: gzip'),
    'not HTTP': lambda: b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03' * 10,
    'a length too long': lambda: http(reply()).replace(b'Content-Length: ', b'Content-Length: 9'),
    'a length that is no number': lambda: http(reply()).replace(b'Content-Length: ', b'Content-Length: x'),
    'a server error': lambda: error('oops', 500),
    'a reply that never comes': silent,
    'a redirect to elsewhere': lambda: http(b'', 302, 'Location: file:///etc/passwd'),
    'a dropped connection': lambda: None,
    'a reply cut in the middle': lambda: http(reply())[:-20],
    'HTML': lambda: http(b'<html>gateway</html>', 200, kind='text/html'),
    'null': lambda: http(b'null'),
    'no choices': lambda: http(b'{"choices": []}'),
    'choices of the wrong type': lambda: http(b'{"choices": {"0": "x"}}'),
}


@dataclass
class HostileServer:
    """What a scenario sees of it: `bad` rows meet the misbehaviour, each at most `times` times; others get a reply."""

    misbehave: Callable[[], bytes | AsyncIterator[bytes] | None]
    is_bad: Callable[[int], bool]
    times: int | None = None
    url: str = ''
    met: Counter[int] = field(default_factory=Counter)
    answers: list[int] = field(default_factory=list)
    """Rows in the order in which they got a reply."""

    @property
    def answered(self) -> Counter[int]:
        return Counter(self.answers)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(
                ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
            ):
                while await self._answer_one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b'\r\n\r\n')
        length = re.search(rb'content-length: (\d+)', head, re.IGNORECASE)
        body = await reader.readexactly(int(length[1])) if length else b''
        found = _ROW.findall(body.decode('utf-8', 'replace'))
        row = int(found[-1]) if found else -1
        if not self.is_bad(row) or (self.times is not None and self.met[row] >= self.times):
            self.answers.append(row)
            writer.write(http(reply(f'answer {row}')))
            await writer.drain()
            return True
        self.met[row] += 1
        made = self.misbehave()
        if isinstance(made, bytes):
            writer.write(made)
        elif made is not None:
            async for piece in made:
                writer.write(piece)
                await writer.drain()
        await writer.drain()
        return False


@contextmanager
def serve_hostile(
    misbehaviour: str, *, is_bad: Callable[[int], bool], times: int | None = None
) -> Iterator[HostileServer]:
    """Serve from a thread until the block ends."""
    hostile = HostileServer(MISBEHAVIOURS[misbehaviour], is_bad, times)
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def main() -> None:
        loops.append(asyncio.get_running_loop())
        server = await asyncio.start_server(hostile.handle, '127.0.0.1', 0, limit=1 << 26)
        hostile.url = f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1'
        ready.set()
        await stop.wait()
        server.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
    thread.start()
    ready.wait(10)
    try:
        yield hostile
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(10)
