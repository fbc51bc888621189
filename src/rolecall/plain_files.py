"""Files of others, read only if they are plain: a link may lead anywhere, and a FIFO or a device never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

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
