"""One process at a time in a run directory. The lock goes with the process, however it ends."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from rolecall.errors import RunError

__all__ = ['Lock']


class Lock:
    """A lock on a directory, held until it is released or the process ends."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / 'lock'
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise RunError(f'{directory}: cannot be written: {error.strerror or error}.') from error
        if not _lock(self._file):
            holder = os.read(self._file, 200).decode('utf-8', 'replace').strip()
            os.close(self._file)
            raise RunError(
                f'{directory}: another process is running here{f" ({holder})" if holder else ""}.\n'
                'Wait for it, stop it, or choose another directory with --out.'
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f'process {os.getpid()} on {socket.gethostname()}\n'.encode(), 0)

    def release(self) -> None:
        """Let the next one in."""
        os.close(self._file)


if sys.platform == 'win32':
    import msvcrt

    _FAR = 1 << 30  # beyond what is written, so that the holder's name can be read

    def _lock(file: int) -> bool:
        os.lseek(file, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(file, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
