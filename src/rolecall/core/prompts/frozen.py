"""Read-only dicts and lists, so that one message can be shared by every request that contains it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, NoReturn


class FrozenDict(dict[str, Any]):
    """A read-only dict. It compares and serialises like a plain one.

    >>> message = FrozenDict(role='user', content='Hi')
    >>> message == {'role': 'user', 'content': 'Hi'}
    True
    >>> message['content'] = 'Bye'
    Traceback (most recent call last):
    TypeError: this message is shared between requests; change a copy: dict(message)

    Copies, shallow or deep, are plain dicts.
    """

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError('this message is shared between requests; change a copy: dict(message)')

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __copy__(self) -> dict[str, Any]:
        return dict(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return (FrozenDict, (dict(self),))


class FrozenList(list[Any]):
    """A read-only list. Copies, shallow or deep, are plain lists."""

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


def freeze(value: Any) -> Any:
    """A deeply read-only copy of JSON-like data.

    >>> freeze({'a': [1, {'b': 2}]}) == {'a': [1, {'b': 2}]}
    True
    """
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList(map(freeze, value))
    return value


def copy_data(value: Any) -> Any:
    """A deep copy of JSON-like data as plain dicts and lists."""
    if isinstance(value, Mapping):
        return {key: copy_data(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(copy_data, value))
    return value
