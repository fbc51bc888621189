"""The standard library's dataclasses, without compiling methods that are never called.

The standard decorator compiles up to six methods of each class, a third of the time that a short run takes. Here an
`__init__` is compiled when it is first used, and the other methods are closures.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import MISSING, FrozenInstanceError
from dataclasses import asdict as asdict
from dataclasses import field as field
from dataclasses import fields as fields
from dataclasses import replace as replace
from functools import partial
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """The standard `dataclass`, for classes without `InitVar`, `order` and `unsafe_hash`.

        A frozen instance with slots takes a third of the usual time to make: it assigns its fields as an instance of
        a class with the same slots that is not frozen, instead of calling `object.__setattr__` for each. Runs make a
        dozen such objects for every row.

        >>> @dataclass(frozen=True, slots=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> replace(Point(1), y=2), Point(1) == Point(1, 0), len({Point(1), Point(1)})
        (Point(x=1, y=2), True, 1)
        >>> Point(1).x = 3
        Traceback (most recent call last):
        dataclasses.FrozenInstanceError: cannot assign to field 'x'
        """
        return partial(_make, **options) if cls is None else _make(cls, **options)


_Values = Callable[[Any], tuple[Any, ...]]


def _make(written: type, *, frozen: bool = False, eq: bool = True, **options: bool) -> Any:
    own = vars(written)
    bases = [base for base in written.__mro__[1:] if dataclasses.is_dataclass(base)]
    below_frozen = any(vars(base)['__dataclass_params__'].frozen for base in bases)
    shown, slots = options.pop('repr', True), options.get('slots', False)
    cls: Any = dataclasses.dataclass(
        written, init=False, repr=False, eq=False, frozen=frozen and below_frozen, **options
    )
    params = cls.__dataclass_params__
    params.init, params.repr, params.eq, params.frozen = True, shown, eq, frozen
    methods: dict[str, Any] = {'__init__': _LazyInit(cls)}
    if shown:
        methods['__repr__'] = _make_repr([field.name for field in fields(cls) if field.repr])
    if eq:
        methods['__eq__'] = _make_eq(_make_getter([field.name for field in fields(cls) if field.compare]))
    if frozen:
        methods |= _refuse_changes(cls, {field.name for field in fields(cls)})
        if slots:
            methods |= {'__getstate__': _get_state, '__setstate__': _set_state}
    for name, method in methods.items():
        if name not in own:
            setattr(cls, name, method)
    has_hash = '__hash__' in own and (own['__hash__'] is not None or '__eq__' not in own)
    if eq and not has_hash:
        hashed = [field.name for field in fields(cls) if (field.compare if field.hash is None else field.hash)]
        cls.__hash__ = _make_hash(_make_getter(hashed)) if frozen else None
    return cls


def _make_getter(names: list[str]) -> _Values:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda self: tuple(getattr(self, name) for name in names)


def _make_repr(names: list[str]) -> Callable[[Any], str]:
    @recursive_repr()
    def show(self: Any) -> str:
        return f'{type(self).__qualname__}({", ".join(f"{name}={getattr(self, name)!r}" for name in names)})'

    return show


def _make_eq(values: _Values) -> Callable[[Any, Any], bool]:
    return lambda self, other: values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented


def _make_hash(values: _Values) -> Callable[[Any], int]:
    return lambda self: hash(values(self))


def _refuse_changes(cls: Any, names: set[str]) -> dict[str, Any]:
    def assign(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f'cannot assign to field {name!r}')
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f'cannot delete field {name!r}')
        super(cls, self).__delattr__(name)

    return {'__setattr__': assign, '__delattr__': delete}


def _get_state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for entry, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, entry.name, value)


class _LazyInit:
    """Stands for an `__init__` until it is looked up."""

    __slots__ = ('_cls',)

    def __init__(self, cls: type) -> None:
        self._cls: Any = cls

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        init = self._cls.__init__ = _compile_init(self._cls)
        return init if instance is None else init.__get__(instance)


class _Factory:
    """The default that signatures show for a field with a default factory."""

    def __repr__(self) -> str:
        return '<factory>'


def _compile_init(cls: Any) -> Any:
    """The `__init__` of a dataclass, with the globals of its module."""
    scope: dict[str, Any] = {'_cls': cls, '_set': object.__setattr__, '_factory': _Factory()}
    positional, by_name = ['self'], ['*']
    values = {}
    for entry in fields(cls):
        name = parameter = entry.name
        if entry.default_factory is not MISSING:
            scope[f'_make_{name}'] = entry.default_factory
            values[name] = f'_make_{name}() if {name} is _factory else {name}' if entry.init else f'_make_{name}()'
            parameter = f'{name}=_factory'
        elif entry.default is not MISSING:
            scope[f'_default_{name}'] = entry.default
            values[name] = name if entry.init else f'_default_{name}'
            parameter = f'{name}=_default_{name}'
        elif entry.init:
            values[name] = name
        if entry.init:
            (by_name if entry.kw_only else positional).append(parameter)
    body = plain = [f'self.{name} = {value}' for name, value in values.items()]
    if cls.__dataclass_params__.frozen:
        body = [f'_set(self, {name!r}, {value})' for name, value in values.items()]
        if cls.__bases__ == (object,) and '__slots__' in vars(cls) and len(values) > 2:
            scope['_open'] = type(f'_Open{cls.__name__}', (), {'__slots__': cls.__slots__})
            plain = ["_set(self, '__class__', _open)", *plain, 'self.__class__ = _cls']
            subclass = (f'    {line}' for line in body)  # has other slots
            body = ['if self.__class__ is _cls:', *(f'    {line}' for line in plain), 'else:', *subclass]
    if hasattr(cls, '__post_init__'):
        body = [*body, 'self.__post_init__()']
    parameters = ', '.join(positional + (by_name if len(by_name) > 1 else []))
    lines = [f'def __init__({parameters}):', *(f'    {line}' for line in body or ['pass'])]
    made: dict[str, Any] = {}
    source = '\n'.join([f'def make({", ".join(scope)}):', *(f'    {line}' for line in lines), '    return __init__'])
    exec(source, vars(sys.modules[cls.__module__]), made)  # names of fields, nothing else
    init = made['make'](**scope)
    init.__qualname__ = f'{cls.__qualname__}.__init__'
    init.__annotations__ = {field.name: field.type for field in fields(cls) if field.init} | {'return': None}
    return init
