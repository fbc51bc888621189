"""A dict that cannot be changed, so that one message can be shared by every request that contains it."""

from __future__ import annotations

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
    """

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError('this message is shared between requests; change a copy: dict(message)')

    __setitem__ = __delitem__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        return (FrozenDict, (dict(self),))
