"""Server addresses: every common spelling of a base URL leads to the same endpoints."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import SplitResult, unquote, urlsplit

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
