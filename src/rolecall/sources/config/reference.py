"""Stand-ins for packages that a config names but this machine lacks: they record the name and do nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Resolve = Callable[[str], 'object | None']
"""Finds the object with a dotted name; None if it does not exist here."""


def resolve_nothing(dotted: str, /) -> None:
    """A resolver that finds nothing, so every name stays a reference."""


class Reference:
    """Something in a package that was not imported. It prints as its dotted name and is only ever compared by it.

    >>> torch = Reference('torch')
    >>> torch.float16
    torch.float16
    >>> torch.float16 == Reference('torch.float16'), bool(torch)
    (True, True)
    >>> torch.device('cuda', index=0)
    torch.device('cuda', index=0)
    """

    __slots__ = ('_resolve', 'dotted')

    dotted: str
    _resolve: Resolve

    def __init__(self, dotted: str, resolve: Resolve = resolve_nothing) -> None:
        object.__setattr__(self, 'dotted', dotted)
        object.__setattr__(self, '_resolve', resolve)

    def __getattr__(self, name: str) -> Any:
        if name.startswith('__'):
            raise AttributeError(name)
        longer = f'{self.dotted}.{name}'
        value = self._resolve(longer)
        return Reference(longer, self._resolve) if value is None else value

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f'{self.dotted} is a reference to something outside this config; it has no {name} to set')

    def __call__(self, *args: Any, **kwargs: Any) -> Call:
        return Call(self, args, kwargs)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and other.dotted == self.dotted

    def __hash__(self) -> int:
        return hash(self.dotted)

    def __repr__(self) -> str:
        return self.dotted

    def __copy__(self) -> Reference:
        return self

    def __deepcopy__(self, memo: object) -> Reference:
        return self

    def __reduce__(self) -> tuple[Callable[[str], Reference], tuple[str]]:
        return Reference, (self.dotted,)


class Call:
    """A reference that was called: what was called, and with what.

    Used as a decorator, it returns the function or class unchanged.

    >>> call = Reference('pkg.Registry').register('name')
    >>> call.target, call.args
    (pkg.Registry.register, ('name',))
    >>> call(len) is len
    True
    """

    __slots__ = ('args', 'kwargs', 'target')

    def __init__(self, target: Reference | Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.target = target
        self.args = args
        self.kwargs = kwargs

    def __getattr__(self, name: str) -> Reference:
        if name.startswith('__'):
            raise AttributeError(name)
        return Reference(f'{self!r}.{name}')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs and callable(args[0]) and not isinstance(args[0], Reference | Call):
            return args[0]
        return Call(self, args, kwargs)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Call)
            and self.target == other.target
            and self.args == other.args
            and self.kwargs == other.kwargs
        )

    def __hash__(self) -> int:
        return hash(('call', self.target))

    def __repr__(self) -> str:
        arguments = [*map(repr, self.args), *(f'{key}={value!r}' for key, value in self.kwargs.items())]
        return f'{self.target!r}({", ".join(arguments)})'

    def __reduce__(self) -> tuple[type[Call], tuple[Any, ...]]:
        return Call, (self.target, self.args, self.kwargs)


def dotted_name(value: object) -> str | None:
    """The dotted name of a class, function or reference; None for everything else.

    >>> dotted_name(Reference('opencompass.models.OpenAI')), dotted_name(dict), dotted_name(3)
    ('opencompass.models.OpenAI', 'builtins.dict', None)
    """
    if isinstance(value, Reference):
        return value.dotted
    module = getattr(value, '__module__', None)
    name = getattr(value, '__qualname__', None)
    if callable(value) and isinstance(module, str) and isinstance(name, str):
        return f'{module}.{name}'
    return None
