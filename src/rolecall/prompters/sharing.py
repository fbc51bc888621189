"""Values that cannot be changed, so that they can be shared, and copies that can."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn

from rolecall.prompts.frozen import FrozenDict

__all__ = ['FrozenList', 'copied', 'frozen']


class FrozenList(list[Any]):
    """A plain list to read, compare and serialise; an error to write to. A copy, deep or not, is a plain list."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError('this list is shared between requests; change a copy: list(…)')

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[Any]:
        return list(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def __reduce__(self) -> tuple[type[FrozenList], tuple[list[Any]]]:
        return (FrozenList, (list(self),))


def frozen(value: Any) -> Any:
    """A copy of JSON-like data in which nothing can be changed, at any depth.

    >>> frozen({'a': [1, {'b': 2}]}) == {'a': [1, {'b': 2}]}
    True
    """
    if isinstance(value, Mapping):
        return FrozenDict({key: frozen(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList(map(frozen, value))
    return value


def copied(value: Any) -> Any:
    """A copy of JSON-like data as plain dicts and lists, at any depth."""
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(copied, value))
    return value
