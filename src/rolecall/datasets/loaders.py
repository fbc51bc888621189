"""The user's own loaders: a function or a class with `load`, given as it is or by its dotted path."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.usercode import short_path

__all__ = ['SUPPLY_ROWS', 'check_call', 'own_loader', 'parameters_of', 'shown']

SUPPLY_ROWS = 'Rows can also be supplied with --data train=FILE test=FILE (data={…} in Python).'


def own_loader(found: Any, name: str) -> Callable[..., Any]:
    """What to call for a type that is the user's own: a function, or the `load` of a class."""
    if isinstance(found, type):
        return _load_of(found, name)
    if not _is_function(found):
        raise _no_loader(f'{name!r} is of type {type(found).__name__}, which loads nothing.')
    loader: Callable[..., Any] = found
    return loader


def _load_of(found: type, name: str) -> Callable[..., Any]:
    load: Callable[..., Any] | None = getattr(found, 'load', None)
    if load is None or not callable(load):
        raise _no_loader(f'the class {name!r} has no load.')
    if _wants_an_instance(found):
        raise _no_loader(f'the load of the class {name!r} takes self, but it is called without an instance.')
    return load


def _no_loader(what: str) -> ConfigError:
    remedy = f'Name a function, or a class whose load is a staticmethod. {SUPPLY_ROWS}'
    return ConfigError(Problem('type', what, remedy))


def check_call(load: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """ConfigError unless the loader can be called with these arguments."""
    try:
        inspect.signature(load).bind(**arguments)
    except TypeError as error:
        given = f'the other keys of the entry: {", ".join(map(str, arguments))}' if arguments else 'no other keys'
        raise ConfigError(
            Problem(
                'type',
                f'the loader {shown(load)!r}{_written_at(load)} cannot be called: {error}.',
                f'It is given {given}. Let its parameters be these, or take the rest with **others.',
            )
        ) from error
    except ValueError:  # something built in that does not tell its parameters: calling it will
        return


def parameters_of(load: Callable[..., Any]) -> frozenset[str]:
    """The names of a loader's parameters, where it tells them."""
    try:
        return frozenset(inspect.signature(load).parameters)
    except (TypeError, ValueError):
        return frozenset()


def shown(load: Any) -> str:
    """The name of a function or class, as the user wrote it.

    >>> shown(str.upper), shown(partial(len))
    ('str.upper', 'len')
    """
    inner = load.func if isinstance(load, partial) else load
    return str(getattr(inner, '__qualname__', None) or getattr(inner, '__name__', None) or inner)


def _is_function(kind: Any) -> bool:
    """Whether it can be called. (A reference of a config can, too, but it has no name of its own.)"""
    return callable(kind) and (isinstance(kind, partial) or hasattr(kind, '__name__'))


def _wants_an_instance(kind: type) -> bool:
    load = inspect.getattr_static(kind, 'load')
    return isinstance(load, FunctionType) and next(iter(inspect.signature(load).parameters), '') == 'self'


def _written_at(load: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(load.func if isinstance(load, partial) else load), '__code__', None)
    return f' ({short_path(code.co_filename)}:{code.co_firstlineno})' if code else ''
