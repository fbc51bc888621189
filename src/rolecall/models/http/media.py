"""Media in requests: local files become data URLs; other URLs are unchanged."""

from __future__ import annotations

import base64
import mimetypes
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from rolecall.models.protocol import ModelError

MAX_MEDIA_BYTES = 64 * 2**20
_NO_WAITING = getattr(os, 'O_NONBLOCK', 0) | getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_CLOEXEC', 0)
_REMOTE = re.compile(r'(?:https?|data):', re.IGNORECASE)
_FILE = re.compile(r'file:(?://)?(?:localhost(?=/))?', re.IGNORECASE)
_SIGNATURES = (
    (re.compile(rb'\x89PNG\r\n\x1a\n'), 'image/png'),
    (re.compile(rb'\xff\xd8\xff'), 'image/jpeg'),
    (re.compile(rb'GIF8[79]a'), 'image/gif'),
    (re.compile(rb'RIFF....WEBP', re.DOTALL), 'image/webp'),
    (re.compile(rb'RIFF....WAVE', re.DOTALL), 'audio/wav'),
    (re.compile(rb'RIFF....AVI ', re.DOTALL), 'video/x-msvideo'),
    (re.compile(rb'ID3|\xff[\xfb\xf3\xf2]'), 'audio/mpeg'),
    (re.compile(rb'fLaC'), 'audio/flac'),
    (re.compile(rb'\x1aE\xdf\xa3'), 'video/webm'),
    (re.compile(rb'%PDF-'), 'application/pdf'),
)
_BY_NAME = {
    '.m4a': 'audio/mp4',
    '.mp4': 'video/mp4',
    '.mov': 'video/quicktime',
    '.ogg': 'audio/ogg',
    '.opus': 'audio/ogg',
}


def has_media(message: Mapping[str, Any]) -> bool:
    """Whether a message has parts other than text."""
    content = message.get('content')
    return isinstance(content, (list, tuple)) and any(part.get('type') != 'text' for part in content)


def media_key(part: Mapping[str, Any]) -> str | None:
    """The key under which a message part holds a media URL, or None.

    >>> media_key({'type': 'image_url', 'image_url': {'url': 'cat.png'}}), media_key({'type': 'text', 'text': 'Hi'})
    ('image_url', None)
    """
    kind = part.get('type')
    return kind if isinstance(kind, str) and kind.endswith('_url') and kind in part else None


def part_url(part: Mapping[str, Any]) -> str | None:
    """The media URL of a part."""
    key = media_key(part)
    if key is None:
        return None
    value = part[key]
    value = value.get('url') if isinstance(value, Mapping) else value
    return None if value is None else str(value)


def with_url(part: Mapping[str, Any], url: str) -> dict[str, Any]:
    """The same part with another URL."""
    key = media_key(part) or ''
    value = part[key]
    return {**part, key: {**value, 'url': url} if isinstance(value, Mapping) else url}


@dataclass(frozen=True, slots=True)
class MediaReader:
    """Reads the local files that requests name. Paths in a dataset are not trusted.

    Only regular files are read, of at most `limit` bytes and, where `folders` are given, only inside those: links that
    lead out, devices, pipes and files of the kernel are refused.
    """

    folders: tuple[Path, ...] | None = None
    limit: int = MAX_MEDIA_BYTES

    def data_url(self, url: str) -> str:
        """The URL as a data URL if it names a local file, which is read.

        >>> MediaReader().data_url('https://example.com/cat.png')
        'https://example.com/cat.png'
        """
        if _REMOTE.match(url):
            return url
        kind, content = self.read(url)
        return f'data:{kind};base64,{base64.b64encode(content).decode("ascii")}'

    def read(self, url: str) -> tuple[str, bytes]:
        """Media type and bytes of a local file, named by `file:` URL or path."""
        try:
            path = self._locate(url)
            with _open_regular(path) as file:
                self._check_folder(_opened_path(file, path))
                content = file.read(self.limit + 1)
        except (OSError, ValueError) as error:
            why = getattr(error, 'strerror', None) or str(error)
            raise ModelError(f'{url[:200]}: this file of the request cannot be read ({why}).') from error
        if len(content) > self.limit:
            raise ModelError(
                f'{url[:200]}: this file of the request is larger than {self.limit:,} bytes (max_media_bytes).'
            )
        return media_type(path.name, content), content

    def _locate(self, url: str) -> Path:
        """The real path: as it is written, percent-decoded, or relative to one of the folders."""
        literal = Path(_FILE.sub('', url, count=1))
        spelt = [literal, Path(unquote(str(literal)))] if '%' in url else [literal]
        places = [
            *spelt,
            *(folder / name for folder in self.folders or () for name in spelt if not name.is_absolute()),
        ]
        existing = next((place for place in places if os.path.lexists(place)), literal)
        path = Path(os.path.realpath(existing))
        self._check_folder(path)
        return path

    def _check_folder(self, path: Path) -> None:
        if self.folders is None:
            if path.parts[:2] in (('/', 'proc'), ('/', 'sys'), ('/', 'dev')):
                raise ValueError('it is a file of the system')
        elif not any(path.is_relative_to(os.path.realpath(folder)) for folder in self.folders):
            raise ValueError("it is outside the dataset's folder; media_folders in the config allows others")


@contextmanager
def _open_regular(path: Path) -> Iterator[IO[bytes]]:
    """The file, opened without waiting for a pipe and without following a link that has taken its place."""
    descriptor = os.open(path, os.O_RDONLY | _NO_WAITING)
    with os.fdopen(descriptor, 'rb') as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError('it is not a regular file')
        yield file


def _opened_path(file: IO[bytes], path: Path) -> Path:
    """The real path of an open file, according to the system: a link may have been swapped in since."""
    try:
        return Path(os.readlink(f'/proc/self/fd/{file.fileno()}'))
    except OSError:
        return Path(os.path.realpath(path))


def media_type(name: str, content: bytes) -> str:
    """The media type of a file, from its first bytes or else its name.

    >>> media_type('photo.jpg', bytes.fromhex('89504e470d0a1a0a')), media_type('a.mp4', b'')
    ('image/png', 'video/mp4')
    """
    for signature, kind in _SIGNATURES:
        if signature.match(content):
            return kind
    return _BY_NAME.get(Path(name).suffix.lower()) or mimetypes.guess_type(name)[0] or 'application/octet-stream'
