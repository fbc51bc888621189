"""Files of others, read only if plain (a link may lead anywhere, a FIFO or a device never ends), and our tables."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_LARGEST_TEXT = 64 << 20
_NO_WAITING = getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_CLOEXEC', 0) | getattr(os, 'O_BINARY', 0)


def open_plain(path: str | Path, *, largest: int, links: bool = False) -> BinaryIO:
    """Open a regular file of at most `largest` bytes, a link only if `links` says so; anything else is an OSError."""
    if not links and os.path.islink(path):
        raise OSError(errno.ELOOP, 'it is a link, which may lead anywhere', str(path))
    file = os.fdopen(os.open(path, os.O_RDONLY | _NO_WAITING), 'rb')
    status = os.fstat(file.fileno())
    reason = '' if stat.S_ISREG(status.st_mode) else 'it is not a regular file'
    if not reason and status.st_size > largest:
        reason = f'it has {status.st_size:,} bytes, and at most {largest:,} are read'
    if reason:
        file.close()
        raise OSError(errno.EINVAL, reason, str(path))
    return file


def read_plain(path: str | Path, *, largest: int = _LARGEST_TEXT) -> str:
    """The text of a file that a config names, where it may be a link."""
    with open_plain(path, largest=largest, links=True) as file:
        return file.read().decode('utf-8-sig')


def read_table(module: str, name: str | None = None) -> list[list[str]]:
    """The cells of a `.tsv` file of the package, without its first line: `read_table(__file__)` is beside a module."""
    path = Path(module).with_name(name) if name else Path(module).with_suffix('.tsv')
    _, *lines = path.read_text('utf-8').splitlines()
    return [line.split('\t') for line in lines]
