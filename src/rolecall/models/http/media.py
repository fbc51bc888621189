"""Media in requests: local files become data URLs; other URLs are unchanged."""

from __future__ import annotations

import base64
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rolecall.models.protocol import ModelError

__all__ = ['data_url', 'media_key', 'media_type', 'part_url', 'read_media', 'with_url']

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


def data_url(url: str) -> str:
    """The URL as a data URL if it names a local file, which is read.

    >>> data_url('https://example.com/cat.png')
    'https://example.com/cat.png'
    """
    if _REMOTE.match(url):
        return url
    kind, content = read_media(url)
    return f'data:{kind};base64,{base64.b64encode(content).decode("ascii")}'


def read_media(url: str) -> tuple[str, bytes]:
    """Media type and bytes of a local file, named by `file:` URL or path."""
    path = Path(_FILE.sub('', url, count=1))
    if not path.exists() and '%' in url:
        path = Path(unquote(str(path)))
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, 'strerror', None) or str(error)
        raise ModelError(f'{url[:200]}: this file of the request cannot be read ({why}).') from error
    return media_type(path.name, content), content


def media_type(name: str, content: bytes) -> str:
    """The media type of a file, from its first bytes or else its name.

    >>> media_type('photo.jpg', bytes.fromhex('89504e470d0a1a0a')), media_type('a.mp4', b'')
    ('image/png', 'video/mp4')
    """
    for signature, kind in _SIGNATURES:
        if signature.match(content):
            return kind
    return _BY_NAME.get(Path(name).suffix.lower()) or mimetypes.guess_type(name)[0] or 'application/octet-stream'
