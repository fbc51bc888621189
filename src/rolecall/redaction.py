"""Keeps secrets out of everything that is shown or stored.

`find_secrets` collects the secret values of a config or a model entry: whatever a name, a header, a URL's query or its
credentials marks as one. A `Redactor` replaces them in any text, also where they are JSON-escaped, URL-encoded or in
base64, hexadecimal or HTML. `mask_config` is a config for people to read.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from html import escape
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlencode, urlsplit, urlunsplit

MASK = '[key]'
_HIDDEN = '***'
_WORDS = re.compile(r'[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+')
_SECRET_WORDS = frozenset(
    re.findall(
        r'\w+',
        'key keys apikey apikeys token secret secrets password passwd passphrase pwd pw'
        ' auth authorization credential credentials cred creds cookie bearer signature sig',
    )
)
_NOT_SECRET = re.compile(
    r'(?:bos|eos|pad|unk|sep|cls|mask|ice|image|stop|end|special|additional_special|gen_field_replace)_token'
    r'|max_tokens?_key|key_header|token_id|.*tokens|think_tag',
    re.IGNORECASE,
)
_ACCESS_TOKEN = 'PAT'
"""In capitals only, as in GITHUB_PAT: `pat` is a pattern."""
_SECRET_QUERIES = frozenset({'code', 'pass', 'pin', 'sas', 'session', 'sid', 'ticket'})
_ADDRESSES = re.compile(r'(?:.*_)?(?:url|uri|api_base|base|endpoint|address|host|proxy|proxies)s?', re.IGNORECASE)
"""Names whose values are addresses; there, the path of a URL may hold a secret as well."""
_HEADERS = re.compile(r'(?:.*_)?headers?', re.IGNORECASE)
_WEBHOOK = re.compile(r'hook|/bot\d+:|/key/', re.IGNORECASE)
"""In addresses of Slack, Discord, Teams, Telegram, IFTTT and their like the path is the secret, whatever names it."""
_RANDOM, _KINDS = re.compile(r'[a-zA-Z\d]{24,}'), tuple(map(re.compile, ('[a-z]', '[A-Z]', r'\d')))
_PLAIN = re.compile(r'[\d.:/ -]*|[a-z]+(?:[/;=., -][a-z0-9/;=., *+-]*)?|v?\d[\w.-]*', re.IGNORECASE)
"""Values of headers and queries that are words, media types, dates or versions, if all their parts are short."""
_PART = re.compile(r'[a-z]{0,15}|\d{1,8}|v?\d{1,4}[a-z]{1,7}\d{0,2}|[a-z]{1,7}\d{1,3}', re.IGNORECASE)
_IN_HEADER = re.compile(r'[;,\s]+(?:[\w-]+=)?|^[\w-]+=')
_ORGANIZATION = 'org'
"""An option that is sent as a header."""
_URL = re.compile(r'[a-z][a-z0-9+.-]{0,30}://\S+', re.IGNORECASE)
_REFERENCE = re.compile(r'\$?[A-Z][A-Z0-9_]*')
_SPLITS = ('train', 'test', 'validation')
"""Inline rows of a dataset are data: a column named `key` holds answers."""
_LONGEST_NAME = 100
"""Longer keys of a mapping are data: a question that speaks of passwords does not make its answer a secret."""
_SHORTEST = 4
_SHORTEST_UNNAMED = 8
_DEEPEST = 60


def is_secret_name(name: str) -> bool:
    """Whether a name says that its value is a secret.

    >>> [is_secret_name(name) for name in ('api_key', 'HF_TOKEN', 'xAuth', 'max_tokens', 'eos_token', 'monkey')]
    [True, True, True, False, False, False]
    """
    if len(name) > _LONGEST_NAME or _NOT_SECRET.fullmatch(name):
        return False
    return any(word == _ACCESS_TOKEN or word.lower() in _SECRET_WORDS for word in _WORDS.findall(name))


def find_secrets(value: Any) -> set[str]:
    """The secret values in a config or an entry; names of environment variables stand for their values.

    >>> sorted(find_secrets({'url': 'https://u:pa55@h/v1?sig=abc123', 'headers': {'X-Auth': 'zzz999'}}))
    ['abc123', 'pa55', 'zzz999']
    """
    return {secret for text in _walk(value, secret=False, depth=0) for secret in _resolve(text) if secret}


_FOLDERS = ('PWD', 'OLDPWD')
"""Variables that shells set to working folders; in configs `pwd` is a password."""


_REMEMBERED: set[str] = set()


def remember_secrets(secrets: Iterable[str]) -> None:
    """Keep keys that were given in code, so that whatever hides the environment's secrets hides them, too."""
    _REMEMBERED.update(secret for secret in secrets if len(secret) >= _SHORTEST_UNNAMED)


def environment_secrets() -> set[str]:
    """The values of environment variables with secret names, secrets inside addresses, and keys given in code."""
    return _REMEMBERED | _secrets_among(tuple(os.environ.items()))


@lru_cache(maxsize=1)
def _secrets_among(variables: tuple[tuple[str, str], ...]) -> frozenset[str]:
    named = {value for name, value in variables if is_secret_name(name) and name not in _FOLDERS}
    urls = (_in_urls(value, paths=_ADDRESSES.fullmatch(name) is not None) for name, value in variables)
    return frozenset(value for value in named.union(*urls) if len(value) >= _SHORTEST_UNNAMED)


def _walk(value: Any, *, secret: bool, depth: int, paths: bool = False) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        if secret:
            yield value
        yield from _in_urls(value, paths=paths)
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if _HEADERS.fullmatch(str(name)) and isinstance(inner, Mapping):
                yield from _in_headers(inner)
            elif name == _ORGANIZATION and isinstance(inner, str) and len(inner) >= _SHORTEST_UNNAMED:
                yield inner
            elif name not in _SPLITS or isinstance(inner, str):
                hidden = secret or is_secret_name(str(name))
                addresses = paths or _ADDRESSES.fullmatch(str(name)) is not None
                yield from _walk(inner, secret=hidden, depth=depth + 1, paths=addresses)
    elif isinstance(value, (list, tuple, set)):
        for inner in value:
            yield from _walk(inner, secret=secret, depth=depth + 1, paths=paths)


def _in_headers(headers: Mapping[str, Any]) -> Iterator[str]:
    for name, value in headers.items():
        if is_secret_name(str(name)) or _looks_secret(str(value)):
            yield str(value)
            yield str(value).rpartition(' ')[2]  # without 'Bearer'
            yield from filter(_looks_secret, _IN_HEADER.split(str(value)))  # 'sid=…; user=…'


def _in_urls(text: str, *, paths: bool = False) -> Iterator[str]:
    for url in _URL.findall(text) if '://' in text else ():
        try:
            parts = urlsplit(url)
        except ValueError:
            continue
        yield from filter(None, (parts.password and unquote(parts.password),))
        if parts.username and (parts.password is None or _looks_secret(parts.username)):
            yield unquote(parts.username)
        for name, value in parse_qsl(parts.query):
            if is_secret_name(name) or name.lower() in _SECRET_QUERIES or _looks_secret(value):
                yield value
        looks_secret = _looks_secret if paths or _WEBHOOK.search(parts.netloc + parts.path) else _looks_random
        yield from filter(looks_secret, map(unquote, parts.path.split('/')))


def drop_url_secrets(url: str) -> str:
    """The URL without user, password and secret parameters, and with secret parts of its path masked.

    >>> drop_url_secrets('https://me:pa55word@host:8000/v1?api_key=sk-1&version=2')
    'https://host:8000/v1?version=2'
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    secrets = set(_in_urls(url, paths=True))
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if value not in secrets])
    host = parts.netloc.rpartition('@')[2]
    path = '/'.join(_HIDDEN if unquote(part) in secrets else part for part in parts.path.split('/'))
    return urlunsplit(parts._replace(netloc=host, path=path, query=query)) if secrets or host != parts.netloc else url


def _looks_secret(value: str) -> bool:
    """Whether a value without a telling name may be a secret: it is not made of words, dates and versions.

    >>> [_looks_secret(value) for value in ('text/event-stream', '2024-10-21', 'sk-abc123def456', '7f3a9c2e11bb')]
    [False, False, True, True]
    """
    if len(value) < _SHORTEST_UNNAMED:
        return False
    return _PLAIN.fullmatch(value) is None or not all(map(_PART.fullmatch, re.split(r'[\W_]', value)))


def _looks_random(value: str) -> bool:
    """Whether a part of any path cannot be words: it has 24 small and capital letters and digits in a row."""
    return any(all(kind.search(part) for kind in _KINDS) for part in _RANDOM.findall(value))


def _resolve(text: str) -> tuple[str, ...]:
    """The value itself, or that of the environment variable it names."""
    if _REFERENCE.fullmatch(text):
        return (os.environ.get(text.removeprefix('$'), '') or ('' if '_' in text or text == 'ENV' else text),)
    return (text,)


class Redactor:
    """Replaces secrets in texts, however they are written there.

    >>> Redactor(['sk-"1"+ä']).redact('key sk-"1"+ä, JSON sk-\\\\"1\\\\"+ä, URL sk-%221%22%2B%C3%A4')
    'key [key], JSON [key], URL [key]'
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self.secrets = frozenset(secret for secret in secrets if len(secret) >= _SHORTEST)

    def __repr__(self) -> str:
        return f'<redactor of {len(self.secrets)} secrets>'

    @cached_property
    def _all_spellings(self) -> tuple[str, ...]:
        """Every way to write one of the secrets, the longest first."""
        spellings = {spelling for secret in self.secrets for spelling in _spellings(secret)}
        return tuple(sorted(spellings, key=len, reverse=True))

    @cached_property
    def _beginnings(self) -> frozenset[str]:
        return frozenset(spelling[:length] for spelling in self._all_spellings for length in range(1, len(spelling)))

    def redact(self, text: str) -> str:
        """The text with every secret replaced by `[key]`."""
        pattern = self._find_hits(text) if self.secrets else None
        return pattern.sub(MASK, text) if pattern is not None else text

    def is_clean(self, text: str) -> bool:
        """Whether no secret is in the text."""
        return self._find_hits(text) is None

    def safe_length(self, text: str) -> int:
        """How much of an unfinished text can be shown: the rest may be the beginning of a secret.

        >>> Redactor(['sk-123']).safe_length('The key is sk-1')
        11
        """
        longest = len(self._all_spellings[0]) if self._all_spellings else 0
        lengths = range(min(len(text), longest - 1), 0, -1)
        cut = len(text) - next((length for length in lengths if text[-length:] in self._beginnings), 0)
        pattern = self._find_hits(text)
        for hit in pattern.finditer(text) if pattern is not None else ():
            if hit.start() < cut < hit.end():
                return hit.start()
        return cut

    def _find_hits(self, text: str) -> re.Pattern[str] | None:
        hits = [spelling for spelling in self._all_spellings if spelling in text]
        return re.compile('|'.join(map(re.escape, hits))) if hits else None

    def redact_value(self, value: Any) -> Any:
        """A JSON value with every secret in its strings and names replaced."""
        if not self.secrets:
            return value
        if isinstance(value, str):
            return self.redact(value)
        if isinstance(value, Mapping):
            return {self.redact_value(name): self.redact_value(inner) for name, inner in value.items()}
        return type(value)(map(self.redact_value, value)) if isinstance(value, (list, tuple)) else value


class StreamRedactor:
    """Redacts streamed text: a possible beginning of a secret is held back until it is decided.

    >>> shown = []
    >>> pieces = StreamRedactor(Redactor(['sk-123']), shown.append)
    >>> for piece in 'Your key: s', 'k-1', '23. Or sk', 'y?':
    ...     pieces.take(piece)
    >>> pieces.finish(), ''.join(shown)
    (None, 'Your key: [key]. Or sky?')
    """

    def __init__(self, redactor: Redactor, show: Callable[[str], None]) -> None:
        self._redactor = redactor
        self._show = show
        self._pending = ''

    def take(self, piece: str) -> None:
        """The next piece."""
        self._pending += piece
        self._release(self._redactor.safe_length(self._pending))

    def finish(self) -> None:
        """The text is complete."""
        self._release(len(self._pending))

    def _release(self, length: int) -> None:
        safe, self._pending = self._pending[:length], self._pending[length:]
        if safe:
            self._show(self._redactor.redact(safe))


def _spellings(secret: str) -> Iterator[str]:
    """The secret as it is, JSON-escaped, URL-encoded, in HTML, as hex, and in base64 wherever it starts there."""
    yield secret
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield json.dumps(secret)[1:-1].replace('/', '\\/')
    yield from (
        json.dumps(json.dumps(secret)[1:-1])[1:-1],
        json.dumps(json.dumps(secret, ensure_ascii=False)[1:-1])[1:-1],
    )
    for encoded in (quote(secret, safe=''), quote(secret), quote_plus(secret)):
        yield encoded
        yield re.sub('%[0-9A-F]{2}', lambda match: match[0].lower(), encoded)
    data = secret.encode('utf-8', 'surrogatepass')
    yield from (data.hex(), data.hex().upper())
    yield from (
        escape(secret),
        escape(secret, quote=False),
        escape(secret).replace('&quot;', '&#34;').replace('&#x27;', '&#39;'),
    )
    for shift in range(3) if len(data) >= 6 else ():
        packed = base64.b64encode(bytes(shift) + data).decode().rstrip('=')
        # The first and last letters may also encode text before and after the secret.
        inner = packed[(0, 2, 3)[shift] : len(packed) - ((shift + len(data)) % 3 != 0)]
        yield inner
        yield inner.replace('+', '-').replace('/', '_')


def mask_config(value: Any) -> Any:
    """A config with its secrets hidden, for people to read.

    >>> mask_config({'models': [{'abbr': 'gpt', 'key': 'sk-1', 'path': 'gpt-4o'}]})
    {'models': [{'abbr': 'gpt', 'key': '***', 'path': 'gpt-4o'}]}
    """
    return _mask(value, Redactor(find_secrets(value) | environment_secrets()), depth=0)


def _mask(value: Any, redactor: Redactor, *, depth: int, secret: bool = False) -> Any:
    if depth > _DEEPEST:
        return _HIDDEN
    if isinstance(value, str):
        if secret:
            return value if value == 'ENV' or (_REFERENCE.fullmatch(value) and '_' in value) else _HIDDEN
        return redactor.redact(value).replace(MASK, _HIDDEN) if redactor.secrets else value
    if isinstance(value, Mapping):
        return {
            name: dict.fromkeys(inner, _HIDDEN)
            if _HEADERS.fullmatch(str(name)) and isinstance(inner, Mapping)
            else _mask(
                inner, redactor, depth=depth + 1, secret=secret or name == _ORGANIZATION or is_secret_name(str(name))
            )
            for name, inner in value.items()
        }
    if isinstance(value, (list, tuple)):
        return _HIDDEN if secret else [_mask(inner, redactor, depth=depth + 1) for inner in value]
    return value
