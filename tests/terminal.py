"""Commands on a real terminal of a given width: a pseudo-terminal, what is typed into it, and what it shows."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.cells import cell_len

_CONTROL = re.compile(r'\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])')


@dataclass(frozen=True)
class Shown:
    """What a command showed, and its exit code."""

    code: int
    raw: str

    @property
    def text(self) -> str:
        """The text without control sequences."""
        return _CONTROL.sub('', self.raw).replace('\r\n', '\n')

    def lines_wider_than(self, columns: int) -> list[str]:
        """The lines that a terminal of this width would wrap."""
        return [line for line in re.split(r'[\r\n]', self.text) if cell_len(line.rstrip()) > columns]


def run_in_terminal(
    command: Sequence[str],
    *,
    columns: int,
    folder: Path,
    answers: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    timeout: float = 300,
) -> Shown:
    """Run a command on a terminal; each answer is typed when the command has been silent for a moment."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack('HHHH', 40, columns, 0, 0))
    inherited = {name: value for name, value in os.environ.items() if name not in ('COLUMNS', 'LINES', 'NO_COLOR')}
    child = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=folder,
        env={**inherited, 'TERM': 'xterm-256color', 'LANG': 'C.UTF-8', **(environment or {})},
        start_new_session=True,
    )
    os.close(theirs)
    seen, waiting, ends = b'', list(answers), time.monotonic() + timeout
    try:
        while time.monotonic() < ends:
            ready, _, _ = select.select([ours], [], [], 1.0)
            if ready:
                try:
                    piece = os.read(ours, 65536)
                except OSError:  # the terminal is closed once the command has ended
                    break
                if not piece:
                    break
                seen += piece
            elif child.poll() is not None:
                break
            elif waiting and seen and not seen.endswith(b'\n'):
                os.write(ours, waiting.pop(0).encode() + b'\n')
        code = child.wait(timeout=max(1.0, ends - time.monotonic()))
    finally:
        if child.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        os.close(ours)
    return Shown(code, seen.decode('utf-8', 'replace'))
