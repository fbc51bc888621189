"""Reading files that may be compressed, as streams of bytes or as a plain file that can be sought in."""

from __future__ import annotations

import io
import weakref
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from rolecall.errors import DataError, import_extra

COMPRESSED = ('.gz', '.bz2', '.xz', '.zip', '.zst')
_ALWAYS_FINE = 64 << 20
_LARGEST_RATIO = 200
"""Above this ratio a file is treated as a decompression bomb: repeated rows reach about 1:100."""


def plain_suffix(path: Path) -> str:
    """The suffix that tells the format, looking through a compression suffix.

    >>> plain_suffix(Path('train.JSONL.gz')), plain_suffix(Path('rows.csv'))
    ('.jsonl', '.csv')
    """
    suffix = path.suffix.lower()
    if suffix in COMPRESSED:
        inner = Path(_zip_member(path) if suffix == '.zip' and path.is_file() else path.stem)
        suffix = inner.suffix.lower()
    return suffix


@contextmanager
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """The file's bytes as a stream, decompressed on the way; errors name the file."""
    try:
        with _open_stream(path) as stream:
            yield _bound(stream, path) if path.suffix.lower() in COMPRESSED else stream
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, 'strerror', None) or error
        raise DataError(f'{path}: cannot read: {reason}.') from error


def plain_path(path: Path, owner: object) -> Path:
    """A file with the same bytes that can be sought in: the file itself, or a temporary copy if compressed.

    The copy lives as long as `owner`.
    """
    if path.suffix.lower() not in COMPRESSED:
        return path
    import shutil
    import tempfile

    with tempfile.NamedTemporaryFile(prefix='rolecall-', suffix=plain_suffix(path), delete=False) as copy:
        weakref.finalize(owner, Path(copy.name).unlink, missing_ok=True)
        with open_plain(path) as stream:
            shutil.copyfileobj(stream, copy)
    return Path(copy.name)


class _Unpacked(io.RawIOBase):
    """A decompressed stream that raises when it grows far beyond the size of its file."""

    def __init__(self, stream: IO[bytes], packed: int) -> None:
        self._stream = stream
        self._packed = packed
        self._unpacked = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._stream.read(len(buffer))
        buffer[: len(block)] = block
        self._unpacked += len(block)
        if self._unpacked > max(_ALWAYS_FINE, _LARGEST_RATIO * self._packed):
            raise OSError(
                f'it unpacks to more than {self._unpacked >> 20:,} MB from {max(self._packed >> 20, 1):,} MB, like a '
                'decompression bomb. If the data is right, unpack the file first'
            )
        return len(block)


def _bound(stream: IO[bytes], path: Path) -> IO[bytes]:
    return io.BufferedReader(_Unpacked(stream, path.stat().st_size), 1 << 16)


@contextmanager
def _open_stream(path: Path) -> Iterator[IO[bytes]]:
    match path.suffix.lower():
        case '.gz':
            import gzip

            with gzip.open(path) as stream:
                yield cast('IO[bytes]', stream)
        case '.bz2':
            import bz2

            with bz2.open(path) as stream:
                yield stream
        case '.xz':
            import lzma

            with _foreign_errors(lzma.LZMAError), lzma.open(path) as stream:
                yield stream
        case '.zip':
            import zipfile

            with (
                _foreign_errors(zipfile.BadZipFile),
                zipfile.ZipFile(path) as archive,
                archive.open(_zip_member(path)) as stream,
            ):
                yield stream
        case '.zst':
            with _zstandard(path) as stream:
                yield stream
        case _:
            with path.open('rb') as stream:
                yield stream


@contextmanager
def _foreign_errors(*kinds: type[Exception]) -> Iterator[None]:
    """Convert a decompressor's own errors to OSError."""
    try:
        yield
    except kinds as error:
        raise OSError(str(error)) from error


def _zip_member(path: Path) -> str:
    import zipfile

    try:
        with zipfile.ZipFile(path) as archive:
            members = [name for name in archive.namelist() if not name.endswith('/')]
    except (OSError, zipfile.BadZipFile) as error:
        raise DataError(f'{path}: cannot read: {error}.') from error
    if len(members) != 1:
        raise DataError(f'{path}: a zip file must contain exactly one file; this one contains {len(members)}.')
    return members[0]


@contextmanager
def _zstandard(path: Path) -> Iterator[IO[bytes]]:
    pyarrow = import_extra('pyarrow', extra='data', purpose='to read .zst files')
    with pyarrow.input_stream(str(path), compression='zstd') as stream:
        yield io.BufferedReader(stream)
