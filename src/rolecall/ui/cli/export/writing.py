"""Writing many records to one file: complete or not at all, with progress on a terminal."""

from __future__ import annotations

import gzip
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

from rolecall.experiment.previews.blocks import json_line
from rolecall.runs.atomic import write_atomically
from rolecall.strings import count_noun, printable


def write_with_progress(entries: Iterable[Mapping[str, Any]], output: str, noun: str) -> int:
    """Write entries to a file (`-` is stdout), one per line; the result is their number."""
    to = sys.stdout if output == '-' else Path(output)
    watch = _make_watch(noun) if sys.stderr.isatty() and output != '-' else None
    try:
        count = _write_lines(entries, to, on_entry=watch)
    finally:
        if watch is not None:
            print('\r\x1b[K', end='', file=sys.stderr)
    where = '' if output == '-' else f' in {printable(output)}'
    print(f'{count_noun(count, noun)}{where}', file=sys.stderr)
    return count


def _write_lines(
    entries: Iterable[Mapping[str, Any]], to: Path | IO[str], *, on_entry: Callable[[int], None] | None
) -> int:
    with _open(to) if isinstance(to, Path) else nullcontext(to) as stream:
        count = 0
        for count, entry in enumerate(entries, 1):
            stream.write(json_line(entry) + '\n')
            if on_entry is not None:
                on_entry(count)
    return count


@contextmanager
def _open(path: Path) -> Iterator[IO[str]]:
    """A file to write, compressed if its name ends in .gz."""
    opens = gzip.open if path.suffix == '.gz' else open
    with (
        write_atomically(path) as part,
        opens(part, 'wt', encoding='utf-8', errors='backslashreplace', newline='\n') as stream,
    ):
        yield stream


def _make_watch(noun: str) -> Callable[[int], None]:
    """Prints the count so far, a few times a second."""
    last = time.monotonic()

    def watch(count: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last > 0.2:
            last = now
            print(f'\r{count_noun(count, noun)}', end='', file=sys.stderr, flush=True)

    return watch
