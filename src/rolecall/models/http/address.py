"""How a server is addressed: its base URL in every common spelling, its keys, and headers that can be sent.

Keys are looked up when first needed, and hidden from everything that is shown or stored.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

from rolecall.models.protocol import ModelError

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r'[\x00-\x08\x0a-\x1f\x7f]')
HEADER_RULE = 'A name has letters, digits and hyphens, a value no line breaks or other control characters.'
_VARIABLE = re.compile(r'[A-Z][A-Z0-9_]*')
_SURELY_VARIABLE = re.compile(r'[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)')
_HEADER = re.compile(r'[\x21-\x7e]+')
_VERSION = re.compile(r'v\d+(?:(?:alpha|beta)\d*)?')
_VERSION_PART = re.compile(rf'/{_VERSION.pattern}$')
_AZURE = re.compile(r'.*\.(?:openai|services\.ai|cognitiveservices)\.azure\.com', re.IGNORECASE)
_LOOPBACK = re.compile(r'localhost|127(?:\.\d+){3}|::1|0\.0\.0\.0', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Address:
    """A server's base URL. Its query and credentials are not shown."""

    root: str
    query: str = field(default='', repr=False)
    credentials: tuple[str, str] | None = field(default=None, repr=False)

    def endpoint(self, name: str) -> str:
        """The URL of one endpoint; with a slash before it, one that is not under the version (`/v1`)."""
        root = _VERSION_PART.sub('', self.root) if name.startswith('/') else f'{self.root}/'
        return f'{root}{name}?{self.query}' if self.query else f'{root}{name}'

    @property
    def host(self) -> str:
        return urlsplit(self.root).hostname or ''

    @property
    def is_azure(self) -> bool:
        """Whether the server is one of Azure OpenAI, which takes keys in a header of its own."""
        return _AZURE.fullmatch(self.host) is not None or '/openai/deployments/' in self.root

    @property
    def is_loopback(self) -> bool:
        """Whether the server is on this machine."""
        return _LOOPBACK.fullmatch(self.host) is not None

    @property
    def is_own(self) -> bool:
        """Whether the server is on this machine or a private network, so that requests cost nothing."""
        try:
            return self.is_loopback or ipaddress.ip_address(self.host).is_private
        except ValueError:
            return '.' not in self.host


def read_address(url: str, *, endpoints: tuple[str, ...]) -> Address:
    """Parse a base URL with or without slash, version or endpoint. Raises ValueError if it is not one.

    >>> for url in 'http://h:8000', 'http://h:8000/v1/', 'http://h:8000/v1/chat/completions':
    ...     print(read_address(url, endpoints=('chat/completions',)).endpoint('completions'))
    http://h:8000/v1/completions
    http://h:8000/v1/completions
    http://h:8000/v1/completions
    >>> azure = 'https://acme.openai.azure.com/openai/deployments/gpt?api-version=2024-10-21'
    >>> read_address(azure, endpoints=('chat/completions',)).endpoint('chat/completions')
    'https://acme.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21'
    """
    parts = urlsplit(url.strip())
    if parts.scheme not in ('http', 'https') or not parts.hostname:
        raise ValueError('write it like http://localhost:8000/v1 or https://api.example.com/v1')
    place = _place(parts)
    path = '/'.join(filter(None, parts.path.split('/')))
    for endpoint in endpoints:
        if path == endpoint or path.endswith(f'/{endpoint}'):
            path = path[: -len(endpoint)].rstrip('/')
            break
    else:
        segments = path.split('/')
        if not any(_VERSION.fullmatch(segment) for segment in segments) and 'deployments' not in segments:
            path = f'{path}/v1' if path else 'openai/v1' if _AZURE.fullmatch(parts.hostname) else 'v1'
    login = (unquote(parts.username or ''), unquote(parts.password or ''))
    return Address(f'{place}/{path}'.rstrip('/'), parts.query, login if any(login) else None)


def leads_to(url: str, address: Address, *, endpoints: tuple[str, ...]) -> bool:
    """Whether a base URL, however it is spelt, means this address."""
    try:
        return read_address(url, endpoints=endpoints) == address
    except ValueError:
        return False


def _place(parts: SplitResult) -> str:
    host = f'[{parts.hostname}]' if ':' in (parts.hostname or '') else parts.hostname
    try:
        port = f':{parts.port}' if parts.port is not None else ''
    except ValueError:
        raise ValueError('the port is not a number from 0 to 65535') from None
    return f'{parts.scheme}://{host}{port}'


class Keys:
    """The API keys of a model entry: literals, `ENV`, or names of environment variables.

    An entry without a key uses the environment variable `variable`, but only for the server that key belongs to
    (`at_home`): a config that names another server never sees it.

    >>> Keys('sk-literal', variable='OPENAI_API_KEY', at_home=False)
    <keys>
    """

    __slots__ = ('_at_home', '_entries', '_needed', '_values', '_variable')

    def __init__(self, keys: str | Iterable[str] | None, *, variable: str, at_home: bool, needed: bool = False) -> None:
        self._entries = (keys,) if isinstance(keys, str) else None if keys is None else tuple(keys)
        self._variable = variable
        self._at_home = at_home
        self._needed = needed
        self._values: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return '<keys>'

    def values(self) -> tuple[str, ...]:
        """The keys; empty for a server that needs none."""
        if self._values is None:
            self._values = tuple(key for key in map(_check_key, self._look_up_keys()) if key)
        return self._values

    @property
    def withheld(self) -> str:
        """A hint for a 401, if a key in the environment was not sent."""
        if self._entries is not None or self._at_home or not os.environ.get(self._variable):
            return ''
        return f"{self._variable} was not sent: it may belong to another server. Set key='ENV' in the entry to send it."

    def _look_up_keys(self) -> Iterable[str]:
        if self._entries is None:
            key = os.environ.get(self._variable, '') if self._at_home else ''
            if not key and self._needed:
                remedy = f'set the environment variable {self._variable}, or give the model a `key`'
                raise ModelError(f'no key: {remedy} (OnlineChatModule: `api_key`).')
            return (key,)
        return [self._resolve_key(entry.strip()) for entry in self._entries]

    def _resolve_key(self, entry: str) -> str:
        name = self._variable if entry == 'ENV' else entry.removeprefix('$')
        if _VARIABLE.fullmatch(name) and os.environ.get(name):
            return os.environ[name]
        if entry == 'ENV' or entry.startswith('$') or _SURELY_VARIABLE.fullmatch(entry):
            raise ModelError(f'no key: the environment variable {name} is not set.')
        return entry


def _check_key(key: str) -> str:
    key = key.strip()
    if key and not _HEADER.fullmatch(key):
        raise ModelError('the key cannot be sent: it contains spaces or non-ASCII characters.')
    return key


def find_unsendable_header(headers: Mapping[str, str]) -> str | None:
    """The name of the first header that cannot be sent.

    >>> find_unsendable_header({'X-Team': 'a'}), find_unsendable_header({'X-Team': 'a\\nb'})
    (None, 'X-Team')
    """
    wrong = (name for name, value in headers.items() if not _NAME.fullmatch(name) or _CONTROL.search(value))
    return next(wrong, None)
