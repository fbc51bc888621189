"""Dicts with attribute access: the form in which a config imports another config's dicts."""

from __future__ import annotations

import copy
from typing import Any


class Settings(dict[str, Any]):
    """A dict that also answers to `settings.key` and has `copy()` and `deepcopy()`.

    >>> reader = Settings(input_columns=['question'], output_column='answer')
    >>> reader.output_column
    'answer'
    >>> reader.train_split = 'dev'
    >>> reader == {'input_columns': ['question'], 'output_column': 'answer', 'train_split': 'dev'}
    True
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this dict has no '{name}'; it has {', '.join(map(repr, self))}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        if name not in self:
            raise AttributeError(name)
        del self[name]

    def copy(self) -> Settings:
        """A new dict with the same values."""
        return Settings(self)

    def deepcopy(self) -> Settings:
        """A new dict with copies of the values."""
        return copy.deepcopy(self)


def with_attributes(value: Any, done: dict[int, Any]) -> Any:
    """The same value with every dict in it a `Settings`. Lists are changed in place; shared values stay shared.

    >>> with_attributes([dict(a=dict(b=1))], {})[0].a.b
    1
    """
    kind = type(value)
    if kind is not dict and kind is not list and kind is not Settings and kind is not tuple:
        return value
    converted = done.get(id(value))
    if converted is not None:
        return converted[1]
    if kind is tuple:
        parts = tuple([with_attributes(part, done) for part in value])
        return value if all(map(_is, parts, value)) else parts
    if kind is list:
        done[id(value)] = (value, value)
        for index, part in enumerate(value):
            if type(part) in _CONTAINERS:
                value[index] = with_attributes(part, done)
        return value
    settings = value if kind is Settings else Settings(value)
    done[id(value)] = (value, settings)
    for key, part in value.items():
        if type(part) in _CONTAINERS:
            settings[key] = with_attributes(part, done)
    return settings


_CONTAINERS = frozenset({dict, list, tuple, Settings})


def _is(left: object, right: object) -> bool:
    return left is right
