"""A real llama.cpp server on loopback, in a process of its own, for tests of API models and modules."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiohttp
from aiohttp import web

from rolecall.models.pull import model_path
from servers import running

SERVER = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path, params.port = sys.argv[1], int(sys.argv[2])
params.n_ctx, params.n_parallel, params.use_jinja, params.warmup = 4096, 2, True, False
params.flash_attn_type = 0  # fused attention depends on the shape of a batch; without it answers are those of the engine
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two wait for each other on busy cores
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(('127.0.0.1', 0))
        port: int = taken.getsockname()[1]
        return port


@contextmanager
def llama_server(port: int) -> Iterator[str]:
    """A llama.cpp server with SmolLM2, in a process of its own until the block ends."""
    arguments = [sys.executable, '-c', SERVER, str(model_path('smollm2')), str(port)]
    pipes: dict[str, Any] = {'stdin': subprocess.PIPE, 'stdout': subprocess.PIPE, 'stderr': subprocess.DEVNULL}
    with subprocess.Popen(arguments, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


class Gate:
    """Lets one request at a time through to a server, as a proxy before it would; the others are told to wait."""

    def __init__(self, behind: str) -> None:
        self._behind = behind
        self._taken = False
        self.statuses: list[int] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if self._taken:
            self.statuses.append(429)
            return web.json_response({'error': {'message': 'busy'}}, status=429, headers={'Retry-After': '0.2'})
        self._taken = True
        try:
            return await self._passed_on(request)
        finally:
            self._taken = False

    async def _passed_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        headers = {'Content-Type': request.content_type}
        async with (
            aiohttp.ClientSession() as session,
            session.request(request.method, self._behind + request.path_qs, data=body, headers=headers) as answer,
        ):
            self.statuses.append(answer.status)
            response = web.StreamResponse(status=answer.status, headers={'Content-Type': answer.content_type})
            await response.prepare(request)
            async for piece in answer.content.iter_any():
                await response.write(piece)
            await response.write_eof()
            return response


@contextmanager
def gate(url: str) -> Iterator[tuple[str, Gate]]:
    """The address of a gate before the server at `url`, and the gate."""
    keeper = Gate(url)
    with running(keeper.handle) as address:
        yield address, keeper
