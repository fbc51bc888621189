"""A digest of rows that costs no more than reading their files: two sources with one digest have the same rows."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from rolecall.errors import DataError
from rolecall.sources.datasets.arrow import ParquetRows
from rolecall.sources.datasets.lines import FileRows
from rolecall.sources.datasets.rows import JoinedRows, LabelledRows, ListRows, Rows, SelectedRows

_MOST_IN_MEMORY = 10_000
_MOST_READ = 50_000
_BLOCK = 1 << 20


def digest_rows(rows: Rows) -> str | None:
    """A digest of the rows' content; None if it would require reading and converting every row.

    >>> digest_rows(ListRows([{'q': 1}])) == digest_rows(ListRows([{'q': 1}])) != digest_rows(ListRows([{'q': 2}]))
    True
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for part in _parts(rows):
            digest.update(len(part).to_bytes(8, 'little') + part)
    except (_UnknownError, OSError):
        return None
    return digest.hexdigest()


def checksum_rows(rows: Rows) -> str | None:
    """A digest of the rows, row by row if necessary; None for very many rows, or if one cannot be read."""
    stored = digest_rows(rows)
    if stored is not None or len(rows) > _MOST_READ:
        return stored
    digest = hashlib.blake2b(digest_size=16)
    try:
        for row in rows:
            digest.update(repr(sorted(row.items())).encode('utf-8', 'surrogatepass') + b'\0')
    except (DataError, TypeError):
        return None
    return digest.hexdigest()


class _UnknownError(Exception):
    """Rows whose content is unknown without reading each of them."""


def _parts(rows: Any) -> Iterator[bytes]:
    yield type(rows).__name__.encode()
    match rows:
        case FileRows():
            yield repr((rows.record_format, 'skip' if rows.skipped else 'stop')).encode()
            yield _digest_file(rows.path)
        case ParquetRows():
            yield _digest_file(rows.path)
        case ListRows() if len(rows) <= _MOST_IN_MEMORY:
            yield from (_plain(row) for row in rows)
        case SelectedRows(rows=base, indexes=indexes):
            yield indexes.tobytes() if isinstance(indexes, array) else repr(indexes).encode()
            yield from _parts(base)
        case JoinedRows():
            for part in rows.parts:
                yield from _parts(part)
        case LabelledRows(rows=base, labels=labels):
            yield from _parts(base)
            yield from _parts(labels)
        case _:
            raise _UnknownError


def _plain(row: Any) -> bytes:
    """A row as bytes, if the repr of every value is its content."""
    if not all(isinstance(value, (str, int, float, bool, type(None), list, tuple, dict)) for value in row.values()):
        raise _UnknownError
    return repr(sorted(row.items())).encode('utf-8', 'surrogatepass')


def _digest_file(path: Any) -> bytes:
    status = os.stat(path)
    return _digest_unchanged(str(path), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=64)
def _digest_unchanged(path: str, size: int, changed: int) -> bytes:
    """The digest of a file, computed once while its size and its time stay: several parts of a run ask for it."""
    digest = hashlib.blake2b(digest_size=16)
    with open(path, 'rb') as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.digest()
