"""A dict that cannot be changed, so that one message can be shared by every request that contains it."""

from __future__ import annotations

import copy
from typing import Any, NoReturn

__all__ = ['FrozenDict']


class FrozenDict(dict[str, Any]):
    """A plain dict to read, compare and serialise; an error to write to.

    >>> message = FrozenDict(role='user', content='Hi')
    >>> message == {'role': 'user', 'content': 'Hi'}
    True
    >>> message['content'] = 'Bye'
    Traceback (most recent call last):
    TypeError: this message is shared between requests; change a copy: dict(message)

    A copy, deep or not, is a plain dict.
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
