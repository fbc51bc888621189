"""The way of one row of a generation run: what it passes from the engine to the socket.

    python benchmarks/row_path.py [--stack]
    python benchmarks/row_path.py view lint       what these commands pass through for a config of four rows

A server on loopback answers. Counted are the functions of rolecall that are called for the row, the files and
rooms (top-level packages) they stand in, the frames on the stack when the HTTP library is entered, and how often
neighbouring frames are in different rooms. The script knows no module of rolecall but `run_config`, so that it also runs
on older trees: `PYTHONPATH=/path/to/other/src python benchmarks/row_path.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp

import rolecall

ROOT = str(Path(rolecall.__file__).parent)
ROW = 3
"""The row that is followed: one that the run does not compare with its preview."""
REPLY = b'{"choices": [{"message": {"role": "assistant", "content": "2"}, "finish_reason": "stop"}]}'


class Server(BaseHTTPRequestHandler):
    """Answers every request alike."""

    def do_POST(self) -> None:  # the library's name
        self.rfile.read(int(self.headers['Content-Length']))
        self.send_response(200)
        self.send_header('Content-Type', 'application/json')
        self.send_header('Content-Length', str(len(REPLY)))
        self.end_headers()
        self.wfile.write(REPLY)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def frames_of(frame: FrameType | None) -> list[FrameType]:
    """The frames of rolecall on a stack, outermost first, from the row's own coroutine on."""
    found: list[FrameType] = []
    while frame is not None:
        if frame.f_code.co_filename.startswith(ROOT):
            found.append(frame)
            if is_row(frame):
                return found[::-1]
        frame = frame.f_back
    return []


def is_row(frame: FrameType) -> bool:
    """Whether this is the coroutine in which the engine asks about the row that is followed."""
    asks = frame.f_code.co_filename.endswith('engine.py') and frame.f_code.co_name in (
        '_row',
        '_ask_about_row',
        '_ask_row',
    )
    return asks and frame.f_locals.get('number') == ROW


def file_of(frame: FrameType) -> str:
    return frame.f_code.co_filename[len(ROOT) + 1 :]


class RowPath:
    """What one row passed."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.stack: list[tuple[str, str]] = []

    def on_call(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == 'call' and frame.f_code.co_filename.startswith(ROOT) and frames_of(frame):
            self.functions.add((file_of(frame), frame.f_code.co_qualname))

    def at_socket(self) -> None:
        frames = frames_of(sys._getframe(1))
        self.stack = self.stack or [(file_of(frame), frame.f_code.co_qualname) for frame in frames]


def room_of(file: str) -> str:
    return file.split('/')[0]


def follow_row() -> RowPath:
    """Run one row and follow it."""
    path = RowPath()
    sends = aiohttp.ClientSession._request

    async def send(self: Any, *args: Any, **options: Any) -> Any:
        path.at_socket()
        return await sends(self, *args, **options)

    server = HTTPServer(('127.0.0.1', 0), Server)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'key': 'k', 'max_out_len': 8}
    entry['base_url'] = f'http://127.0.0.1:{server.server_port}'
    dataset = {
        'abbr': 'demo',
        'type': 'Rows',
        'test': [{'q': f'{number}+1=?', 'a': '2'} for number in range(ROW + 1)],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }
    aiohttp.ClientSession._request = send  # type: ignore[method-assign]
    try:
        with tempfile.TemporaryDirectory() as folder:
            sys.setprofile(path.on_call)
            summary = rolecall.run_config({'models': [entry], 'datasets': [dataset]}, out=folder, lint=False)
            sys.setprofile(None)
    finally:
        aiohttp.ClientSession._request = sends  # type: ignore[method-assign]
        server.shutdown()
        thread.join()
        server.server_close()
    assert summary.outcomes == {'ok': ROW + 1}, summary.outcomes
    return path


CONFIG = """
def echo(prompt):
    return '2'

models = [dict(abbr='m', type=echo)]
datasets = [dict(abbr='demo', type='Rows', test=[dict(q=f'{n}+1=?', a='2') for n in range(4)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}')),
    eval_cfg=dict(evaluator='AccEvaluator'))]
"""
COMMANDS = {'view': ['view', 'config.py', '-n', '4', '--plain'], 'lint': ['lint', 'config.py']}


def follow_command(words: list[str]) -> set[tuple[str, str]]:
    """The functions of rolecall that a command calls, its imports and its special methods aside."""
    from rolecall.ui.cli.main import main as command_line

    functions: set[tuple[str, str]] = set()

    def on_call(frame: FrameType, event: str, _argument: Any) -> None:
        name = frame.f_code.co_qualname
        if event == 'call' and frame.f_code.co_filename.startswith(ROOT) and not name.endswith(('>', '__')):
            functions.add((file_of(frame), name))

    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(io.StringIO()):
        Path('config.py').write_text(CONFIG)
        command_line(words)  # whatever is imported is imported now
        sys.setprofile(on_call)
        command_line(words)
        sys.setprofile(None)
    return functions


def main() -> None:
    """Follow a row, or commands, and print what was passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('commands', nargs='*', choices=[[], *COMMANDS], help='follow these commands instead of a row')
    parser.add_argument('--stack', action='store_true', help='also print the frames at the socket')
    arguments = parser.parse_args()
    for name in arguments.commands:
        functions = follow_command(COMMANDS[name])
        files = {file for file, _ in functions}
        print(f'{name}: functions {len(functions)}, files {len(files)}, rooms {len(set(map(room_of, files)))}')
    if arguments.commands:
        return
    path = follow_row()
    files = {file for file, _ in path.functions}
    rooms = [room_of(file) for file, _ in path.stack]
    changes = sum(one != other for one, other in pairwise(rooms))
    print(f'functions {len(path.functions)}, files {len(files)}, rooms {len(set(map(room_of, files)))}')
    print(f'at the socket: {len(path.stack)} frames, {changes} room changes')
    if arguments.stack:
        for file, function in path.stack:
            print(f'  {file}: {function}')


if __name__ == '__main__':
    main()
