"""A server on loopback that sends whatever bytes a test wants, and the memory a test takes while reading them."""

from __future__ import annotations

import json
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

Send = Callable[[bytes], None]
Respond = Callable[[Send, bytes], None]
"""Called with a function that sends bytes, and the request as it arrived."""


def http(body: bytes, *, status: str = '200 OK', kind: str = 'application/json', **headers: str) -> Respond:
    """A complete response."""
    lines = {'Content-Type': kind, 'Content-Length': str(len(body)), 'Connection': 'close'}
    lines |= {name.replace('_', '-'): value for name, value in headers.items()}
    head = f'HTTP/1.1 {status}\r\n' + ''.join(f'{name}: {value}\r\n' for name, value in lines.items())
    return lambda send, _request: send(head.encode('latin-1') + b'\r\n' + body)


def as_json(value: Any, **options: Any) -> Respond:
    return http(json.dumps(value).encode(), **options)


def endless(piece: bytes, *, kind: str = 'application/json') -> Respond:
    """A response without an end."""

    def respond(send: Send, _request: bytes) -> None:
        send(f'HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n'.encode())
        while True:
            send(piece)

    return respond


@contextmanager
def raw_server(respond: Respond) -> Iterator[str]:
    """Serves every connection with `respond`; the base URL."""
    listener = socket.create_server(('127.0.0.1', 0))
    open_ones: list[socket.socket] = []

    def serve_one(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            respond(connection.sendall, read_request(connection))

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                open_ones.append(connection)
                threading.Thread(target=serve_one, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f'http://127.0.0.1:{listener.getsockname()[1]}/v1'
    finally:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in open_ones:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)


def read_request(connection: socket.socket) -> bytes:
    data = b''
    while b'\r\n\r\n' not in data:
        more = connection.recv(65536)
        if not more:
            return data
        data += more
    head, _, body = data.partition(b'\r\n\r\n')
    lengths = [int(line.split(b':')[1]) for line in head.split(b'\r\n') if line.lower().startswith(b'content-length:')]
    while lengths and len(body) < lengths[0]:
        more = connection.recv(65536)
        if not more:
            break
        body += more
    return head + b'\r\n\r\n' + body


@contextmanager
def peak_memory() -> Iterator[Callable[[], int]]:
    """The most bytes Python held inside the block, beyond those at its start."""
    tracemalloc.start()
    try:
        yield lambda: tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def bomb(megabytes: int, wbits: int = 31, text: bytes = b' ') -> bytes:
    """Few bytes that unpack to many, cut before their checksum (`wbits` as zlib has them: 31 gzip, 15 deflate, -15 raw)."""
    packer = zlib.compressobj(9, wbits=wbits)
    first, again = (packer.compress(text * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH) for _ in range(2))
    return first + again * (megabytes - 1)
