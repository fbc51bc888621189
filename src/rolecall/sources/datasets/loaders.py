"""User-defined loaders: a function or a class with `load`, given directly or by dotted path."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import is_reference_class
from rolecall.usercode import short_path

_WORDED_BY_LOADER = re.compile(
    r'(?:NeedleBenchATC|Ruler\w+|AlignmentBench|CIBench|CompassArenaSubjective\w*)(?:Dataset|Bench)'
)
"""Types whose loader in the package writes part of the prompt, so the rows alone would give another prompt."""
SUPPLY_ROWS = 'Or supply rows with --data train=FILE test=FILE (data={…} in Python).'


def explain_unsupported(name: str) -> str:
    """Why a benchmark's type has no loader here, if known.

    >>> explain_unsupported('RulerNiahDataset')[:56]
    "The package's loader writes the prompt of RulerNiahDatas"
    >>> explain_unsupported('GSM9KDataset')
    ''
    """
    if _WORDED_BY_LOADER.fullmatch(name) is None:
        return ''
    return f"The package's loader writes the prompt of {name} itself: install the package and load with foreign='real'."


def resolve_loader(part: Any, name: str) -> Callable[..., Any]:
    """The callable of a user's type: a function, or the `load` of a class."""
    if isinstance(part, type):
        return _load_method(part, name)
    if not _is_function(part):
        raise _loader_problem(
            f'{name!r} is a {type(part).__name__}; expected a function or a class with a load method.'
        )
    loader: Callable[..., Any] = part
    return loader


def _load_method(class_: type, name: str) -> Callable[..., Any]:
    load: Callable[..., Any] | None = getattr(class_, 'load', None)
    if load is None or not callable(load):
        raise _loader_problem(f'the class {name!r} has no load method.')
    if _wants_an_instance(class_) and is_reference_class(class_):
        return partial(load, object.__new__(class_))  # there, the instance is made by loading
    if _wants_an_instance(class_):
        raise _loader_problem(f'{name}.load takes self, but is called on the class.')
    return load


def _loader_problem(what: str) -> ConfigError:
    remedy = f'Use a function, or a class whose load is a staticmethod. {SUPPLY_ROWS}'
    return ConfigError(Problem('type', what, remedy))


def check_call(load: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """ConfigError unless the loader can be called with these arguments."""
    try:
        inspect.signature(load).bind(**arguments)
    except TypeError as error:
        received = f'the other keys of the entry: {", ".join(map(str, arguments))}' if arguments else 'no other keys'
        raise ConfigError(
            Problem(
                'type',
                f'the loader {display_name(load)!r}{_describe_place(load)} cannot be called with this entry: {error}.',
                f'It receives {received}. Give it these parameters, or add **others.',
            )
        ) from error
    except ValueError:  # a built-in without a signature: the call itself will check
        return


def parameters_of(load: Callable[..., Any]) -> frozenset[str]:
    """The names of a loader's parameters, if it has a signature."""
    try:
        return frozenset(inspect.signature(load).parameters)
    except (TypeError, ValueError):
        return frozenset()


def display_name(load: Any) -> str:
    """The name of a function or class, as written in its definition.

    >>> display_name(str.upper), display_name(partial(len))
    ('str.upper', 'len')
    """
    inner = load.func if isinstance(load, partial) else load
    return str(getattr(inner, '__qualname__', None) or getattr(inner, '__name__', None) or inner)


def _is_function(kind: Any) -> bool:
    """Whether this is a function. (A config's reference is callable too, but has no name.)"""
    return callable(kind) and (isinstance(kind, partial) or hasattr(kind, '__name__'))


def _wants_an_instance(kind: type) -> bool:
    load = inspect.getattr_static(kind, 'load')
    return isinstance(load, FunctionType) and next(iter(inspect.signature(load).parameters), '') == 'self'


def _describe_place(load: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(load.func if isinstance(load, partial) else load), '__code__', None)
    return f' ({short_path(code.co_filename)}:{code.co_firstlineno})' if code else ''
