"""API keys: looked up when first needed, hidden from everything that is shown or stored. Headers that can be sent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from rolecall.models.protocol import ModelError

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_CONTROL = re.compile(r'[\x00-\x08\x0a-\x1f\x7f]')
HEADER_RULE = 'A name has letters, digits and hyphens, a value no line breaks or other control characters.'
_VARIABLE = re.compile(r'[A-Z][A-Z0-9_]*')
_SURELY_VARIABLE = re.compile(r'[A-Z][A-Z0-9_]*_(?:KEY|TOKEN)')
_HEADER = re.compile(r'[\x21-\x7e]+')


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
