"""The older way to build on other configs: `_base_ = ['a.py', 'b.py']`, merged key by key under the file's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from rolecall.errors import ConfigError, Problem

__all__ = ['merge', 'merge_bases']


def merge_bases(namespace: dict[str, Any], path: str, run: Callable[[str], dict[str, Any]]) -> None:
    """Puts the names of the files in `_base_` under those of the file itself."""
    bases = namespace['_base_']
    bases = [bases] if isinstance(bases, str) else bases
    if not isinstance(bases, list | tuple) or not all(isinstance(base, str) for base in bases):
        raise ConfigError(Problem(path, f'_base_ is {bases!r}.', 'Give a path, or a list of paths.'))
    under: dict[str, Any] = {}
    for base in bases:
        names = run(os.path.normpath(os.path.join(os.path.dirname(path), base)))
        public = {name: value for name, value in names.items() if not name.startswith('_')}
        if twice := sorted(set(public) & set(under)):
            raise ConfigError(
                Problem(path, f'two files of _base_ define {", ".join(twice)}.', 'Let one of them define it.')
            )
        under.update(public)
    for name, value in under.items():
        namespace[name] = merge(value, namespace[name]) if name in namespace else value


def merge(under: Any, over: Any) -> Any:
    """`over` laid on `under`: dicts key by key, everything else replaced; `_delete_=True` replaces a dict too.

    >>> merge(dict(a=1, b=dict(c=2, d=3)), dict(b=dict(c=9)))
    {'a': 1, 'b': {'c': 9, 'd': 3}}
    >>> merge(dict(a=1), dict(_delete_=True, b=2))
    {'b': 2}
    """
    if not isinstance(over, Mapping):
        return over
    kept = {key: value for key, value in over.items() if key != '_delete_'}
    if not isinstance(under, Mapping) or over.get('_delete_'):
        return kept
    merged = {key: merge(under[key], value) if key in under else value for key, value in kept.items()}
    return {**under, **merged}
