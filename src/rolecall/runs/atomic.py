"""Files that are there whole or not at all: what is written takes its place when it is finished."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rolecall.errors import RunError


@contextmanager
def write_atomically(target: str | Path) -> Iterator[Path]:
    """A path to write to. It becomes the target if nothing goes wrong; otherwise the target stays as it was.

    >>> import tempfile
    >>> page = Path(tempfile.mkdtemp(), 'page.html')
    >>> with write_atomically(page) as part:
    ...     _ = part.write_text('done')
    >>> page.read_text(), len(list(page.parent.iterdir()))
    ('done', 1)
    """
    place = Path(os.path.realpath(target))
    try:
        if place.exists() and not place.is_file():  # a pipe or a device
            yield place
            return
        part = place.with_name(f'.{place.name}.{os.getpid()}')
        try:
            part.touch()
            yield part
            if place.exists():
                shutil.copymode(place, part)
            os.replace(part, place)
        finally:
            with suppress(OSError):
                part.unlink()
    except OSError as error:
        raise RunError(f'{target}: cannot be written: {error.strerror or error}.') from error
