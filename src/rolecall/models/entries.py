"""Options of a model entry, read with their types; all that is wrong with an entry is reported at once."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from rolecall.errors import ConfigError, Problem

__all__ = ['EntryReader']


class EntryReader:
    """Reads one entry. Each method takes the names an option goes by: the first that is set counts.

    >>> reader = EntryReader({'max_out_len': 'many'}, 'gpt')
    >>> reader.count('max_out_len')
    >>> reader.finish()
    Traceback (most recent call last):
    rolecall.errors.ConfigError: gpt.max_out_len
      expected a whole number above 0, got 'many'.
    """

    def __init__(self, entry: Mapping[str, Any], where: str) -> None:
        self._entry = entry
        self._where = where
        self._problems: list[Problem] = []

    def text(self, *names: str) -> str | None:
        """A string that is not empty."""
        name, value = self._given(names)
        if value is None or isinstance(value, str):
            return value or None
        self._refuse(name, 'a string', value)
        return None

    def texts(self, *names: str) -> tuple[str, ...] | None:
        """A string or a list of them. Values are not shown when they are wrong: they may be secret."""
        name, value = self._given(names)
        listed = (value,) if isinstance(value, str) else value
        if listed is None:
            return None
        if isinstance(listed, (list, tuple)) and all(isinstance(item, str) for item in listed):
            return tuple(listed)
        self._refuse(name, 'a string or a list of strings', type(value))
        return None

    def count(self, *names: str) -> int | None:
        """A whole number above 0."""
        name, value = self._given(names)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
            return value
        self._refuse(name, 'a whole number above 0', value)
        return None

    def amount(self, *names: str) -> float | None:
        """A number; 0 and less mean that there is no limit."""
        name, value = self._given(names)
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return value if value is not None and value > 0 else None
        self._refuse(name, 'a number', value)
        return None

    def flag(self, *names: str) -> bool | None:
        """True or False."""
        name, value = self._given(names)
        if value is None or isinstance(value, bool):
            return value
        self._refuse(name, 'True or False', value)
        return None

    def options(self, *names: str) -> dict[str, Any]:
        """The mappings of all these names, later ones on top."""
        found: dict[str, Any] = {}
        for name in names:
            value = self._entry.get(name)
            if isinstance(value, Mapping):
                found |= value
            elif value is not None:
                self._refuse(name, 'a dict', type(value))
        return found

    def headers(self) -> dict[str, str]:
        """Header lines to send along."""
        return {str(name): str(value) for name, value in self.options('headers', 'extra_headers').items()}

    def one_of(self, name: str, known: Iterable[str]) -> str | None:
        """One of the words that are understood."""
        value = self._entry.get(name)
        known = tuple(known)
        if value is None or value in known:
            return value
        self._refuse(name, f'one of {", ".join(known)}', value)
        return None

    def refuse_misspelt(self, known: Iterable[str]) -> None:
        """An option that is nearly one we know is a slip. Others may belong to somebody else who reads the entry."""
        known = tuple(known)
        for name in map(str, self._entry):
            close = [] if name in known else difflib.get_close_matches(name, known, n=1, cutoff=0.85)
            if close:
                self.refuse(name, 'unknown option.', f"Did you mean '{close[0]}'?")

    def refuse(self, name: str, what: str, remedy: str = '') -> None:
        """Take down that an option cannot be used."""
        self._problems.append(Problem(f'{self._where}.{name}', what, remedy))

    def finish(self) -> None:
        """Raise everything that was found wrong."""
        if self._problems:
            raise ConfigError(self._problems)

    def _given(self, names: tuple[str, ...]) -> tuple[str, Any]:
        name = next((name for name in names if self._entry.get(name) not in (None, '')), names[0])
        return name, self._entry.get(name)

    def _refuse(self, name: str, expected: str, value: object) -> None:
        shown = value.__name__ if isinstance(value, type) else f'{value!r:.60}'
        self.refuse(name, f'expected {expected}, got {shown}.')
