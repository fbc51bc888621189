"""Tools of MCP servers, real ones made with the official package: a program, and one behind HTTP."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rolecall import OnlineChatModule
from rolecall.apps.chat import McpTools, ModuleError, ToolFailure
from servers import serve

pytest.importorskip('mcp')

SERVER = '''
import os, sys
from mcp.server import MCPServer

server = MCPServer('weather')

@server.tool()
def weather(city: str, days: int = 1) -> str:
    """The weather of some days."""
    return f'{city}: mild for {days} days, {os.environ.get("MOOD", "calm")}'

@server.tool()
def broken() -> str:
    """Fails."""
    raise ValueError('no satellite')

if len(sys.argv) > 1:
    server.run('streamable-http', host='127.0.0.1', port=int(sys.argv[1]))
else:
    server.run('stdio')
'''


@pytest.fixture(scope='module')
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp('mcp') / 'server.py'
    path.write_text(SERVER, encoding='utf-8')
    return path


@pytest.fixture
def url(script: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(('127.0.0.1', 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([sys.executable, str(script), str(port)], stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(('127.0.0.1', port)) == 0:
                    break
            time.sleep(0.1)
        yield f'http://127.0.0.1:{port}/mcp'
    finally:
        process.kill()
        process.wait()


def ask_for(name: str, **arguments: Any) -> Any:
    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return f'It says: {body["messages"][-1]["content"]}'
        call = {'id': 'c', 'type': 'function', 'function': {'name': name, 'arguments': json.dumps(arguments)}}
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}

    return answer


def test_a_program_s_tools_are_called_from_plain_and_from_async_code(script: Path) -> None:
    def today() -> str:
        """The date."""
        return 'Monday'

    with (
        serve(ask_for('weather', city='Rome', days=3)) as server,
        McpTools([sys.executable, str(script)], env={'MOOD': 'windy'}) as tools,
    ):
        module = OnlineChatModule(base_url=server.url, model='toy').with_tools([*tools.tools, today])
        assert module('Coat?') == 'It says: Rome: mild for 3 days, windy'
        assert asyncio.run(module.acall('Coat?')) == 'It says: Rome: mild for 3 days, windy'
    offered = [tool['function'] for tool in server.bodies[0]['tools']]
    assert [tool['name'] for tool in offered] == ['weather', 'broken', 'today']
    assert offered[0]['description'] == 'The weather of some days.'
    assert offered[0]['parameters']['required'] == ['city']
    with pytest.raises(ModuleError, match='is not started'):
        _ = tools.tools


@pytest.mark.heavy
def test_a_server_behind_a_url(url: str) -> None:
    with serve(ask_for('weather', city='Oslo')) as server, McpTools(url, only=['weather']) as tools:
        module = OnlineChatModule(base_url=server.url, model='toy').with_tools(tools.tools)
        assert module('Coat?') == 'It says: Oslo: mild for 1 days, calm'
    assert [tool['function']['name'] for tool in server.bodies[0]['tools']] == ['weather']


@pytest.mark.heavy
def test_failing_tools_and_unsuitable_arguments_are_told(script: Path) -> None:
    seen: list[Any] = []
    with McpTools([sys.executable, str(script)]) as tools:
        for name, arguments, said in (
            ('broken', {}, 'Error executing tool broken'),
            ('weather', {'town': 'Rome'}, "the input lacks 'city'"),
            ('weather', {'city': 5}, 'the input.city must be string, got 5'),
        ):
            with serve(ask_for(name, **arguments)) as server:
                module = OnlineChatModule(base_url=server.url, model='toy').with_tools(tools.tools).watch(seen.append)
                assert said in module('Coat?')
    failures = [event.data for event in seen if event.kind == 'tool_failure']
    assert [type(failure) for failure in failures] == [ToolFailure] * 3


@pytest.mark.parametrize(
    ('server', 'options', 'sentence'),
    [
        ('no-such-program-here', {}, "McpTools('no-such-program-here') cannot be used: FileNotFoundError"),
        ('http://127.0.0.1:9/mcp', {}, "McpTools('http://127.0.0.1:9/mcp') cannot be used: "),
        pytest.param([sys.executable, '-c', 'pass'], {}, 'cannot be used: ', marks=pytest.mark.heavy),
        ([sys.executable, '-c', 'import time; time.sleep(60)'], {'timeout': 0.5}, 'no answer in time'),
        ('', {}, 'an MCP server is a command or a URL'),
        ('python x.py', {'headers': {'a': 'b'}}, 'headers are for an MCP server behind a URL'),
    ],
    ids=['program', 'url', 'ends', 'silent', 'empty', 'headers'],
)
def test_a_server_that_cannot_be_used(server: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ModuleError) as caught:
        McpTools(server, **options).start()
    assert sentence in str(caught.value)


@pytest.mark.heavy
def test_a_tool_that_the_server_does_not_have(script: Path) -> None:
    with pytest.raises(ModuleError, match="has no tool 'wether'. Did you mean 'weather'"):
        McpTools([sys.executable, str(script)], only=['wether']).start()
