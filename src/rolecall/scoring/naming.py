"""How configs name postprocessors and evaluators: a name, a class, a function, or `{'type': …}` with options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.checking import argument_problems
from rolecall.errors import ConfigError, Problem
from rolecall.registry import Registry, part_name

_METHODS = ('score', 'mark', 'build_metric')
"""What an evaluator that is an object may have."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A config entry: the object or name, its short name, its options, and its place in the config."""

    kind: Any
    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: str = ''
    builtin: bool = False


def read_entry(entry: Any, *, where: str = '') -> Entry:
    """Split a config entry into type and options.

    >>> read_entry({'type': 'pkg.evaluators.MATHEvaluator', 'version': 'v2'}).name
    'MATHEvaluator'
    """
    options = {key: value for key, value in entry.items() if key != 'type'} if isinstance(entry, Mapping) else {}
    kind = entry.get('type') if isinstance(entry, Mapping) else entry
    usable = isinstance(kind, str) or callable(kind) or any(hasattr(kind, method) for method in _METHODS)
    if not kind or not usable:
        raise ConfigError(
            Problem(where, f"expected a name, a function or a dict with 'type', got {entry!r:.80}.", "Add type='…'.")
        )
    return Entry(kind, part_name(kind), options, where)


def find_entry(entry: Any, registry: Registry[Any], *, where: str = '') -> Entry:
    """The entry with what its type stands for: a built-in, a plugin, or the user's own."""
    named = read_entry(entry, where=where)
    part = registry.find(named.kind, where=where)
    return Entry(part.value, part.name, named.options, where, part.builtin)


def option_problems(function: Callable[..., Any], entry: Entry, *, skip: int = 1) -> list[Problem]:
    """Options that `function` does not accept, and required ones that are missing, past the first `skip` arguments."""
    return [
        problem.inside(entry.where)
        for problem in argument_problems(function, entry.options, name=entry.name, skip=skip)
    ]
