"""The user's own loaders: a function or a class with `load`, given as it is or by its dotted path."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.usercode import SPOKEN_FOR, neighbours_of, short_path, user_code

__all__ = ['check_call', 'name_of_ours', 'own_loader', 'parameters_of', 'shown']

"""Packages whose class names we answer to."""

_SUPPLY = 'Rows can also be supplied with --data train=FILE test=FILE (data={…} in Python).'


def name_of_ours(kind: Any) -> str | None:
    """The name under which a `type` may be one of ours; None if it is the user's own function, class or dotted path.

    >>> [name_of_ours(kind) for kind in ('GSM8KDataset', 'opencompass.datasets.GSM8KDataset', 'mytools.GSM8KDataset')]
    ['GSM8KDataset', 'GSM8KDataset', None]
    """
    if isinstance(kind, str):
        package, dot, _ = kind.partition('.')
        return None if dot and package not in SPOKEN_FOR | {'rolecall'} else kind.rpartition('.')[2]
    if isinstance(kind, type):
        return None if callable(getattr(kind, 'load', None)) else kind.__name__
    return None if _is_function(kind) else str(kind).rpartition('.')[2]


def own_loader(kind: Any, base: Path | None) -> Callable[..., Any]:
    """What to call for a type that is the user's own. Dotted paths lead to a file below `base`, or to a module."""
    found = _found_at(kind, base) if isinstance(kind, str) else kind
    name = kind if isinstance(kind, str) else shown(kind)
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
    return ConfigError(Problem('type', what, f'Name a function, or a class whose load is a staticmethod. {_SUPPLY}'))


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


def _found_at(dotted: str, base: Path | None) -> Any:
    """What a dotted path leads to: the longest part of it that is a module, and the names inside."""
    parts = dotted.split('.')
    lengths = range(len(parts) - 1, 0, -1) if all(part.isidentifier() for part in parts) else ()
    for find in (_beside(base), _importable):
        for length in lengths:
            if module := find(parts[:length]):
                return _inside(module, parts[length:], dotted)
    where = 'is installed' if base is None else 'lies beside the config or is installed'
    what = f'there is no loader {dotted!r}: no module {".".join(parts[:-1])!r} {where}.'
    raise ConfigError(Problem('type', what, f'Correct the path, or use the bare name of a known type. {_SUPPLY}'))


def _inside(module: ModuleType, names: list[str], dotted: str) -> Any:
    found: Any = module
    for name in names:
        if not hasattr(found, name):
            public = [known for known in vars(module) if not known.startswith('_')]
            what = f'there is no loader {dotted!r}: {module.__name__!r} has no {".".join(names)!r}.'
            raise ConfigError(Problem('type', what, did_you_mean(name, public)))
        found = getattr(found, name)
    return found


def _beside(base: Path | None) -> Callable[[list[str]], ModuleType | None]:
    """Finds modules that are files below a folder."""

    def find(parts: list[str]) -> ModuleType | None:
        for inner in (f'{"/".join(parts)}.py', f'{"/".join(parts)}/__init__.py') if base is not None else ():
            file = Path(base or '', inner).absolute()
            if file.is_file():
                return _run(file, '.'.join(parts))
        return None

    return find


def _importable(parts: list[str]) -> ModuleType | None:
    """The module that Python itself knows by this name."""
    name = '.'.join(parts)
    with user_code(f'importing {name!r}'):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and f'{name}.'.startswith(f'{error.name}.'):
                return None
            raise


def _run(file: Path, name: str) -> ModuleType:
    """The file as a module. It is kept under its path, so that no other module of that name is in the way."""
    module = sys.modules[str(file)] = ModuleType(str(file))
    module.__file__ = str(file)
    with user_code(f'importing {name!r}'), neighbours_of(file):
        exec(compile(file.read_bytes(), file, 'exec', dont_inherit=True), vars(module))
    return module
