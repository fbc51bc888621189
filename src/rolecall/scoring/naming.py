"""How configs name postprocessors and evaluators: a name, a class, a function, or `{'type': …}` with options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean

__all__ = ['Entry', 'is_reference_name', 'problems_with_options', 'read_entry', 'short_name', 'unknown_name']


@dataclass(frozen=True, slots=True)
class Entry:
    """A config entry: the object or name, its short name, its options, and its place in the config."""

    kind: Any
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = ''


def read_entry(entry: Any, *, where: str = '') -> Entry:
    """Split a config entry into type and options.

    >>> read_entry({'type': 'pkg.evaluators.MATHEvaluator', 'version': 'v2'})
    Entry(kind='pkg.evaluators.MATHEvaluator', name='MATHEvaluator', options={'version': 'v2'}, where='')
    """
    options = {key: value for key, value in entry.items() if key != 'type'} if isinstance(entry, Mapping) else {}
    kind = entry.get('type') if isinstance(entry, Mapping) else entry
    name = short_name(kind)
    if name is None:
        raise ConfigError(
            Problem(where, f"expected a name, a function or a dict with 'type', got {entry!r:.80}.", "Add type='…'.")
        )
    return Entry(kind, name, options, where)


def short_name(kind: Any) -> str | None:
    """The last part of a dotted name, or the name of a function, a class or an object's class."""
    dotted = getattr(kind, 'dotted', None)
    if isinstance(dotted, str) or isinstance(kind, str):
        return str(dotted or kind).rpartition('.')[2] or None
    name = getattr(kind, '__name__', None)
    if isinstance(name, str):
        return name
    return type(kind).__name__ if callable(kind) or hasattr(kind, 'score') else None


def is_reference_name(kind: Any) -> bool:
    """Whether this names a part of a reference system: a stand-in, or the real class of an installed package."""
    return isinstance(getattr(kind, 'dotted', None), str) or str(getattr(kind, '__module__', '')).split('.')[0] in (
        'opencompass',
        'ais_bench',
    )


def unknown_name(read: Entry, what: str, known: Iterable[str]) -> Problem:
    """The problem of a name that is misspelt, or that only the reference system implements."""
    kind = 'unsupported' if is_reference_name(read.kind) else 'unknown'
    article = 'an' if what[0] in 'aeiou' else 'a'
    own = f'A Python function also works as {article} {what}.'
    return Problem(read.where, f'{kind} {what} {read.name!r}.', f'{did_you_mean(read.name, known)} {own}')


def problems_with_options(function: Callable[..., Any], read: Entry, *, given: int = 1) -> list[Problem]:
    """Options that `function` does not accept, and required ones that are missing, past the first `given` arguments.

    >>> def cut(text, length, side='left'): ...
    >>> [problem.what for problem in problems_with_options(cut, Entry(cut, 'cut', {'sde': 'left'}))]
    ["cut has no option 'sde'.", "cut needs the option 'length'."]
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[given:]
    except ValueError:
        return []
    kinds = inspect.Parameter
    named = [one for one in parameters if one.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)]
    names = [one.name for one in named]
    takes_any = any(one.kind is kinds.VAR_KEYWORD for one in parameters)
    unknown = [name for name in read.options if name not in names and not takes_any]
    missing = [one.name for one in named if one.default is kinds.empty and one.name not in read.options]
    return [
        *(
            Problem(_join_path(read.where, name), f'{read.name} has no option {name!r}.', did_you_mean(name, names))
            for name in unknown
        ),
        *(Problem(read.where, f'{read.name} needs the option {name!r}.') for name in missing),
    ]


def _join_path(where: str, name: str) -> str:
    return f'{where}.{name}' if where else name
