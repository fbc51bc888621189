"""Standard streams that are closed, full or never read: commands end as they should, and nothing is written elsewhere."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest

from rolecall.strings import wrap_for

_SET_PIPE_SIZE = 1031
_COMMAND = f'{sys.executable} -m rolecall'


def run(command: str, **options: int) -> subprocess.CompletedProcess[str]:
    given = {'stdout': subprocess.PIPE, 'stderr': subprocess.PIPE} | options
    return subprocess.run(['bash', '-c', command], text=True, timeout=300, **given)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize('closed', ['2>&-', '2>/dev/full', '2>&- <&-'])
def test_an_error_that_cannot_be_shown_keeps_its_exit_code_and_off_stdout(closed: str) -> None:
    ended = run(f'{_COMMAND} config show nothere.py {closed}')
    assert (ended.returncode, ended.stdout) == (2, '')


def test_a_file_opened_later_never_becomes_standard_error(tmp_path: Path) -> None:
    config = tmp_path / 'config.py'
    config.write_text(f'import os\nkept = open({str(tmp_path / "kept")!r}, "w")\nos.write(2, b"a message")\n')
    ended = run(f'{_COMMAND} config show {config} 2>&-')
    assert ended.returncode in (0, 2)
    assert (tmp_path / 'kept').read_bytes() == b''


def test_a_pipe_that_is_never_read_stops_no_command(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        fcntl.fcntl(writer, _SET_PIPE_SIZE, 4096)
        os.set_blocking(writer, False)
        with suppress(BlockingIOError):
            while True:
                os.write(writer, b'x' * 512)
        os.set_blocking(writer, True)
        assert run(f'{_COMMAND} config show nothere.py', stderr=writer).returncode == 2
    finally:
        os.close(reader)
        os.close(writer)


def test_messages_reach_a_pipe_that_is_read_whole_and_in_order(tmp_path: Path) -> None:
    config = tmp_path / 'config.py'
    config.write_text('import sys\nfor n in range(500): print("message", n, file=sys.stderr)\nmodels = []\n')
    shown = run(f'{_COMMAND} config show {config}').stderr.splitlines()
    assert [line for line in shown if line.startswith('message')] == [f'message {n}' for n in range(500)]


@pytest.mark.parametrize(
    ('text', 'hang', 'expected'),
    [
        ('short', 2, 'short'),
        ('one two three four five six seven', 2, 'one two three four five six\n  seven'),
        ('  key    one two three four five six', 9, '  key    one two three four\n           five six'),
        ('again: rolecall run config.py --out runs/a', 2, 'again: rolecall run config.py --out runs/a'),
        ('at /a/very/long/path/that/cannot/be/broken', 20, 'at\n  /a/very/long/path/that/cannot/be/broken'),
    ],
)
def test_lines_are_broken_between_words_on_a_narrow_terminal_only(text: str, hang: int, expected: str) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 24, 30, 0, 0))
    with open(theirs, 'w', encoding='utf-8') as terminal:
        assert wrap_for(terminal, text, hang=hang) == expected
    os.close(ours)
    assert wrap_for(io.StringIO(), text, hang=hang) == text
