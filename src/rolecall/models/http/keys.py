"""API keys: looked up when first needed, hidden from everything that is shown or stored."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from rolecall.models.protocol import ModelError

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

    __slots__ = ('_at_home', '_found', '_needed', '_variable', '_written')

    def __init__(
        self, written: str | Iterable[str] | None, *, variable: str, at_home: bool, needed: bool = False
    ) -> None:
        self._written = (written,) if isinstance(written, str) else None if written is None else tuple(written)
        self._variable = variable
        self._at_home = at_home
        self._needed = needed
        self._found: tuple[str, ...] | None = None

    def __repr__(self) -> str:
        return '<keys>'

    def values(self) -> tuple[str, ...]:
        """The keys; empty for a server that needs none."""
        if self._found is None:
            self._found = tuple(key for key in map(_check_key, self._look_up_keys()) if key)
        return self._found

    @property
    def withheld(self) -> str:
        """A hint for a 401, if a key in the environment was not sent."""
        if self._written is not None or self._at_home or not os.environ.get(self._variable):
            return ''
        return f"{self._variable} was not sent: it may belong to another server. Set key='ENV' in the entry to send it."

    def _look_up_keys(self) -> Iterable[str]:
        if self._written is None:
            found = os.environ.get(self._variable, '') if self._at_home else ''
            if not found and self._needed:
                raise ModelError(f'no key: set the environment variable {self._variable}, or give the model a `key`.')
            return (found,)
        return [self._resolve_key(written.strip()) for written in self._written]

    def _resolve_key(self, written: str) -> str:
        name = self._variable if written == 'ENV' else written.removeprefix('$')
        if _VARIABLE.fullmatch(name) and os.environ.get(name):
            return os.environ[name]
        if written == 'ENV' or written.startswith('$') or _SURELY_VARIABLE.fullmatch(written):
            raise ModelError(f'no key: the environment variable {name} is not set.')
        return written


def _check_key(key: str) -> str:
    key = key.strip()
    if key and not _HEADER.fullmatch(key):
        raise ModelError('the key cannot be sent: it contains spaces or non-ASCII characters.')
    return key
