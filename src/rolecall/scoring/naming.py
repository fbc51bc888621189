"""How configs name postprocessors and evaluators: a name, a class, a function, or `{'type': …}` with options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.errors import ConfigError, Problem, did_you_mean

__all__ = ['Entry', 'not_here', 'of_the_reference', 'problems_with_options', 'read_entry', 'short_name']


@dataclass(frozen=True, slots=True)
class Entry:
    """What a config says: what is meant, under which name, with which options, and where it says so."""

    kind: Any
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = ''


def read_entry(entry: Any, *, where: str = '') -> Entry:
    """Take an entry of a config apart.

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
    """The last part of a dotted name, a reference's, a class' or a function's; an object is called after its class."""
    dotted = getattr(kind, 'dotted', None)
    if isinstance(dotted, str) or isinstance(kind, str):
        return str(dotted or kind).rpartition('.')[2] or None
    name = getattr(kind, '__name__', None)
    if isinstance(name, str):
        return name
    return type(kind).__name__ if callable(kind) or hasattr(kind, 'score') else None


def of_the_reference(kind: Any) -> bool:
    """Whether this is only the name of something: a reference, or what the reference systems define themselves."""
    return isinstance(getattr(kind, 'dotted', None), str) or str(getattr(kind, '__module__', '')).split('.')[0] in (
        'opencompass',
        'ais_bench',
    )


def not_here(read: Entry, what: str, known: Iterable[str]) -> Problem:
    """The problem that a config names what this package does not have: misspelt, or the reference systems' alone."""
    said = 'is not supported here' if of_the_reference(read.kind) else 'is not known here'
    own = f'A Python function works too, as {what}.'
    return Problem(read.where, f'the {what} {read.name!r} {said}.', f'{did_you_mean(read.name, known)} {own}')


def problems_with_options(function: Callable[..., Any], read: Entry, *, given: int = 1) -> list[Problem]:
    """Options that `function` does not take, and options it cannot do without, beyond the first `given` arguments.

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
            Problem(_inside(read.where, name), f'{read.name} has no option {name!r}.', did_you_mean(name, names))
            for name in unknown
        ),
        *(Problem(read.where, f'{read.name} needs the option {name!r}.') for name in missing),
    ]


def _inside(where: str, name: str) -> str:
    return f'{where}.{name}' if where else name
