"""The tools of an MCP server (Model Context Protocol), for `with_tools`: a program that is started, or a URL.

The connection lives in one task on the modules' event loop, from `start` to `stop`.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rolecall.apps.chat.background import Startable, submit
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.tools import Tool
from rolecall.checking import explain_arguments
from rolecall.errors import describe_error, did_you_mean, import_extra

S = TypeVar('S', bound='McpTools')
_MOST_PAGES = 100


@explain_arguments(ModuleError, '__init__')
class McpTools(Startable):
    """The tools of an MCP server.

    with McpTools('python weather_server.py') as server:
        module.with_tools(server.tools)('Do I need a coat in Rome?')

    `server` is a command (a string, or a list of words), or the URL of a server (Streamable HTTP). `headers` go with
    every request to a URL; `env` and `cwd` are those of a command. `only` names the tools to offer.
    """

    def __init__(
        self,
        server: str | Sequence[str],
        *,
        headers: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        only: Sequence[str] | None = None,
        timeout: float = 30.0,
    ) -> None:
        words = shlex.split(server) if isinstance(server, str) else list(server) if isinstance(server, Sequence) else []
        if not words or not all(isinstance(word, str) for word in words):
            raise ModuleError(f'an MCP server is a command or a URL, got {server!r:.60}.')
        self._url = words[0] if len(words) == 1 and words[0].startswith(('http://', 'https://')) else None
        if headers and self._url is None:
            raise ModuleError('headers are for an MCP server behind a URL; give a command env={…}.')
        self._words = words
        self._headers = dict(headers or {})
        self._env = None if env is None else {**os.environ, **env}
        self._cwd = cwd
        self._only = only
        self._timeout = timeout
        self._tools: tuple[Tool, ...] | None = None
        self._holder: Future[None] | None = None
        self._over: asyncio.Event | None = None

    @property
    def tools(self) -> list[Tool]:
        """The tools, for `with_tools`."""
        if self._tools is None:
            raise ModuleError(f'{self!r} is not started: call start(), or use `with`.')
        return list(self._tools)

    def start(self: S) -> S:
        """Connect, and read which tools there are. Does nothing if that is done."""
        if self._holder is not None and not self._holder.done():
            return self
        ready: Future[Sequence[Tool]] = Future()
        self._holder = submit(self._hold(ready))
        try:
            self._tools = self._choose(ready.result(self._timeout))
        except BaseException as error:
            self.stop()
            if isinstance(error, ModuleError) or not isinstance(error, Exception):
                raise
            why = 'no answer in time' if isinstance(error, TimeoutError) else describe_error(_find_cause(error))
            raise ModuleError(f'{self!r} cannot be used: {why}.') from error
        return self

    def stop(self) -> None:
        """Close the connection; a program that was started ends."""
        holder, self._holder, self._tools = self._holder, None, None
        if holder is None:
            return
        if self._over is None:  # still connecting
            holder.cancel()
        else:
            submit(_set(self._over)).result(self._timeout)
            self._over = None
        try:
            holder.result(self._timeout)
        except BaseException as error:  # it has been reported by start, or the server is gone
            if isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise

    def __repr__(self) -> str:
        return f'McpTools({self._url or self._words[0]!r})'

    async def _hold(self, ready: Future[Sequence[Tool]]) -> None:
        try:
            async with self._connect() as client:
                tools = [
                    Tool(
                        partial(_call, client, tool.name),
                        schema={
                            'name': tool.name,
                            'description': tool.description or '',
                            'parameters': dict(tool.input_schema),
                        },
                    )
                    for tool in await _list_tools(client)
                ]
                over = self._over = asyncio.Event()
                ready.set_result(tools)
                await over.wait()
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    def _connect(self) -> Any:
        mcp = import_extra('mcp', extra='mcp', purpose='for the tools of MCP servers')
        if self._url is None:
            command, *arguments = self._words
            return mcp.Client(mcp.StdioServerParameters(command=command, args=arguments, env=self._env, cwd=self._cwd))
        if not self._headers:
            return mcp.Client(self._url)
        http = import_extra('mcp.client.streamable_http', extra='mcp', purpose='for the tools of MCP servers')
        sender = http.create_mcp_http_client(headers=self._headers)
        return mcp.Client(http.streamable_http_client(self._url, http_client=sender))

    def _choose(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        names = [tool.name for tool in tools]
        for wanted in self._only or ():
            if wanted not in names:
                raise ModuleError(f'{self!r} has no tool {wanted!r:.60}. {did_you_mean(wanted, names)}')
        return tuple(tool for tool in tools if self._only is None or tool.name in self._only)


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _list_tools(client: Any) -> list[Any]:
    tools: list[Any] = []
    cursor: str | None = None
    for _ in range(_MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


async def _call(client: Any, name: str, /, **arguments: Any) -> str:
    """Call a tool on the connection's own loop, wherever the caller's is."""
    return await asyncio.wrap_future(submit(_request(client, name, arguments)))


async def _request(client: Any, name: str, arguments: dict[str, Any]) -> str:
    result = await client.call_tool(name, arguments)
    text = '\n'.join(_describe_block(block) for block in result.content)
    if result.is_error:
        raise RuntimeError(text or f'the tool {name} failed')
    return text


def _describe_block(block: Any) -> str:
    kind = str(getattr(block, 'type', 'content'))
    inner = getattr(block, 'resource', None)
    text = getattr(block, 'text', None) or getattr(inner, 'text', None)
    return str(text) if isinstance(text, str) else f'[{kind}, which cannot be shown as text]'


def _find_cause(error: BaseException) -> BaseException:
    """The first error inside the groups that task groups raise."""
    while isinstance(inner := getattr(error, 'exceptions', None), tuple) and inner:
        error = inner[0]
    return error
