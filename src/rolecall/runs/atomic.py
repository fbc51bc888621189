"""Files that are there whole or not at all, and the JSON files of run directories, which may come from strangers."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.plain_files import open_plain

_LARGEST_JSON = 16 << 20


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


def read_run_json(file: Path) -> Any:
    """What a JSON file of a run directory holds; None if there is none that is plain, small and readable."""
    with suppress(OSError, ValueError, RecursionError), open_plain(file, largest=_LARGEST_JSON) as opened:
        return json.loads(opened.read())
    return None


def write_run_json(file: Path, value: Any) -> None:
    """Write a JSON file of a run directory. A link there would lead out of it, and a FIFO never ends."""
    if file.is_symlink() or (file.exists() and not file.is_file()):
        raise RunError(f'{file}: a link, or not a regular file. Run directories hold neither; remove it.')
    with write_atomically(file) as part:
        part.write_text(json.dumps(value), 'utf-8')
