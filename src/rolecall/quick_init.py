"""Frozen dataclasses that are constructed as fast as mutable ones, for objects created for every row of a run."""

from __future__ import annotations

from dataclasses import MISSING, fields
from functools import update_wrapper
from typing import Any, TypeVar

T = TypeVar('T')


def quick_init(frozen: type[T]) -> type[T]:
    """Decorate a frozen, slotted dataclass so that constructing one takes a quarter of the time.

    The `__init__` of a frozen dataclass calls `object.__setattr__` for each field. This one lets the new object be of a
    class with the same slots that is not frozen, assigns the fields, and turns it into what it should be. With 24
    fields that takes 0.75 µs instead of 3.3; a dataclass that is not frozen, 0.37. A run makes five such objects for
    every row, and they are part of the public interface, so they stay frozen. A NamedTuple is as quick, but equals
    other tuples and can be iterated, which results and replies must not.

    >>> from dataclasses import dataclass, replace
    >>> @quick_init
    ... @dataclass(frozen=True, slots=True)
    ... class Point:
    ...     x: int
    ...     y: int = 0
    >>> replace(Point(1), y=2)
    Point(x=1, y=2)
    >>> Point(1).x = 3
    Traceback (most recent call last):
    dataclasses.FrozenInstanceError: cannot assign to field 'x'
    """
    own: Any = frozen.__init__
    all_fields = fields(frozen)  # type: ignore[arg-type]  # a dataclass
    names = [field.name for field in all_fields]
    defaults = dict(zip(reversed(names), reversed(own.__defaults__ or ()), strict=False))
    scope = {
        '_frozen': frozen,
        '_open': type(f'_Open{frozen.__name__}', (), {'__slots__': tuple(names)}),
        '_own': own,
        '_turn': object.__setattr__,
        **{f'_default_{name}': default for name, default in defaults.items()},
        **{f'_make_{field.name}': field.default_factory for field in all_fields},
    }
    factories = {
        field.name: f'_make_{field.name}() if {field.name} is _default_{field.name} else {field.name}'
        for field in all_fields
        if field.default_factory is not MISSING
    }
    lines = [
        f'def __init__(self, {", ".join(names)}):',
        '    if type(self) is not _frozen:',  # a subclass has other slots
        f'        return _own(self, {", ".join(names)})',
        "    _turn(self, '__class__', _open)",
        *(f'    self.{name} = {factories.get(name, name)}' for name in names),
        '    self.__class__ = _frozen',
    ]
    exec('\n'.join(lines), scope)  # names of fields, nothing else
    init: Any = update_wrapper(scope['__init__'], own)
    init.__defaults__ = own.__defaults__
    frozen.__init__ = init  # type: ignore[method-assign]
    return frozen
