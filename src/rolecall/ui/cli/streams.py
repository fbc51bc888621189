"""The standard streams of a command. Whatever they are connected to, they never stop a run."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from typing import IO, Any

_HELD, _LAST_SECONDS = 10_000, 2.0
"""Messages queued for a slow reader of stderr, and how long a command waits for it at exit."""


def prepare_streams() -> None:
    """Closed streams lead nowhere, characters a stream cannot encode are escaped, pipes get UTF-8 in any locale.

    A descriptor that the parent process has closed is opened: otherwise the next file, which may be a store, would get
    its number, and messages would be written into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    for name in ('stdout', 'stderr'):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, 'w', encoding='utf-8'))  # noqa: SIM115  # open until the process ends
        elif hasattr(stream, 'reconfigure'):
            stream.reconfigure(errors='backslashreplace', encoding=None if stream.isatty() else 'utf-8')
    if sys.stderr is sys.__stderr__ and sys.stderr is not None:
        sys.stderr = _Messages(sys.stderr)


def discard(stream: IO[str]) -> None:
    """Redirect a broken stream, with its buffered output, to the null device, so that the interpreter exits quietly."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Messages:
    """Stderr whose failures stop nothing: a full disk loses messages, and so does a pipe that is not read."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._process = os.getpid()
        self._writer = _Writer(stream) if _may_block(stream) else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if self._writer is not None and os.getpid() == self._process:
            self._writer.put(text)
            return len(text)
        try:
            return self._stream.write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        if self._writer is None or os.getpid() != self._process:
            try:
                self._stream.flush()
            except OSError:
                discard(self._stream)


class _Writer:
    """Writes messages from a thread of its own, so that only it waits for a reader that does not read.

    It writes to the descriptor: Python could not end while a thread waits inside a buffered stream.
    """

    def __init__(self, stream: IO[str]) -> None:
        import atexit
        from queue import Queue
        from threading import Thread

        self._descriptor = stream.fileno()
        self._queue: Queue[str | None] = Queue(_HELD)
        self._thread = Thread(target=self._write, name='rolecall-stderr', daemon=True)
        self._thread.start()
        atexit.register(self._finish)

    def put(self, text: str | None) -> None:
        """Queue a message; messages beyond the limit are lost."""
        from queue import Full

        with suppress(Full):
            self._queue.put_nowait(text)

    def _write(self) -> None:
        while (text := self._queue.get()) is not None:
            data = text.encode('utf-8', 'backslashreplace')
            with suppress(OSError):
                while data:
                    data = data[os.write(self._descriptor, data) :]

    def _finish(self) -> None:
        self.put(None)
        self._thread.join(_LAST_SECONDS)


def _may_block(stream: IO[str]) -> bool:
    """Whether stderr is a pipe of its own; one that it shares with stdout keeps the order of both."""
    try:
        err, out = os.fstat(stream.fileno()), os.fstat(1)
    except (OSError, ValueError):
        return False
    return (stat.S_ISFIFO(err.st_mode) or stat.S_ISSOCK(err.st_mode)) and (err.st_dev, err.st_ino) != (
        out.st_dev,
        out.st_ino,
    )
