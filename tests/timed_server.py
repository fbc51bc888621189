"""A server on loopback with known delays, in a process of its own: it notes when it received and sent everything.

python tests/timed_server.py --first 0.05 --gap 0.01 --tokens 20 --capacity 8

Prints its address. A token is a word; `GET /v1/times` gives the times of finished requests and forgets them. Written on
bare asyncio, so that little of the machine is used here.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

_HEAD = b'HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n'


class Server:
    """What all connections share: the delays, the places, and the times."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.free = options.capacity or sys.maxsize
        self.waiting: deque[Connection] = deque()
        self.finished: list[dict[str, Any]] = []
        self.count = 0

    def enter(self, connection: Connection) -> None:
        if self.free:
            self.free -= 1
            connection.begin()
        else:
            self.waiting.append(connection)

    def leave(self) -> None:
        if self.waiting:
            self.waiting.popleft().begin()
        else:
            self.free += 1


class Connection(asyncio.Protocol):
    """One connection: a request after the other."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.buffer = b''
        self.serving = False

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self.serving:
            self.serving = False
            self.server.leave()

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        head, found, body = self.buffer.partition(b'\r\n\r\n')
        if not found:
            return
        length = next(
            (int(line[15:]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length:')), 0
        )
        if len(body) < length:
            return
        self.buffer = body[length:]
        if head.startswith(b'POST'):
            self.receive(json.loads(body[:length]))
        elif head.startswith(b'GET /v1/times'):
            times, self.server.finished = self.server.finished, []
            self.send_whole(times)
        else:
            self.send_whole({'data': [{'id': 'timed', 'owned_by': 'tests'}]})

    def send_whole(self, value: Any, status: bytes = b'200 OK') -> None:
        text = json.dumps(value).encode()
        head = b'HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n' % (status, len(text))
        self.transport.write(head + text)

    def receive(self, body: dict[str, Any]) -> None:
        self.received, self.body, self.sent = time.perf_counter(), body, []
        options = self.server.options
        self.server.count += 1
        self.number = self.server.count
        texts = [message['content'] for message in body['messages']] if 'messages' in body else [body['prompt']]
        self.prompt_tokens = sum(len(str(text).split()) + 4 for text in texts)
        most = body.get('max_tokens') or body.get('max_completion_tokens') or options.tokens
        self.tokens = min(most, options.longest)
        if options.fail_every and self.number % options.fail_every == 0:
            self.send_whole({'error': {'message': 'out of memory'}}, b'500 Internal Server Error')
            return
        self.serving = True
        self.server.enter(self)

    def begin(self) -> None:
        self.due = asyncio.get_running_loop().time() + self.server.options.first
        asyncio.get_running_loop().call_at(self.due, self.step)

    def step(self) -> None:
        options = self.server.options
        if not self.serving or self.transport.is_closing():
            return
        now = time.perf_counter()
        place = len(self.sent)
        if self.body.get('stream'):
            silent = options.silent_every and place % options.silent_every == 1
            choice = {'index': 0, 'delta': {'content': '' if silent else f' {self.word(place)}'}, 'finish_reason': None}
            self.write_event({'id': 'timed', 'model': 'timed', 'choices': [choice]}, first=place == 0)
        self.sent.append(now)
        if options.cut_every and self.number % options.cut_every == 0 and place == self.tokens // 2:
            self.transport.abort()
        elif place + 1 >= self.tokens:
            self.end()
        else:
            stalls = options.stall_every and self.number % options.stall_every == 0 and place == 1
            self.due += options.stall if stalls else options.gap
            asyncio.get_running_loop().call_at(self.due, self.step)

    def word(self, place: int) -> str:
        return f'word{place}'

    def write_event(self, event: dict[str, Any], *, first: bool) -> None:
        text = b'data: %s\n\n' % json.dumps(event).encode()
        head = _HEAD % (b'text/event-stream', b'Transfer-Encoding: chunked') if first else b''
        self.transport.write(head + b'%x\r\n%s\r\n' % (len(text), text))

    def end(self) -> None:
        usage = {'prompt_tokens': self.prompt_tokens, 'completion_tokens': self.tokens * self.server.options.together}
        if self.body.get('stream'):
            self.write_event({'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'length'}]}, first=False)
            self.write_event({'choices': [], 'usage': usage}, first=False)
            self.transport.write(b'e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n')
        else:
            text = ' '.join(map(self.word, range(self.tokens)))
            choice = {'message': {'role': 'assistant', 'content': text}, 'text': text, 'finish_reason': 'length'}
            self.send_whole({'choices': [choice], 'usage': usage})
        ended = time.perf_counter()
        self.server.finished.append({'received': self.received, 'sent': self.sent, 'ended': ended})
        self.serving = False
        self.server.leave()


async def serve(options: argparse.Namespace) -> None:
    shared = Server(options)
    server = await asyncio.get_running_loop().create_server(lambda: Connection(shared), '127.0.0.1', 0, backlog=2048)
    print(f'http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1', flush=True)
    await asyncio.Event().wait()


def read_arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (('first', 0.05), ('gap', 0.01), ('stall', 1.0)):
        parser.add_argument(f'--{name}', type=float, default=default)
    for name in ('tokens', 'longest', 'capacity', 'stall-every', 'cut-every', 'fail-every', 'silent-every', 'together'):
        usual = {'tokens': 20, 'longest': 10**6, 'together': 1}
        parser.add_argument(f'--{name}', type=int, default=usual.get(name, 0))
    return parser.parse_args(words)


@contextlib.contextmanager
def timed_server(**delays: float) -> Iterator[str]:
    """The address of such a server, which ends with the block."""
    words = [word for name, value in delays.items() for word in (f'--{name.replace("_", "-")}', str(value))]
    server = subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)
    try:
        yield server.stdout.readline().strip() if server.stdout is not None else ''
    finally:
        server.kill()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()


def fetch_times(url: str) -> list[dict[str, Any]]:
    """The times of the requests that have finished since the last call."""
    with urlopen(f'{url}/times') as answer:
        times: list[dict[str, Any]] = json.load(answer)
    return times


if __name__ == '__main__':
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(read_arguments(sys.argv[1:])))
