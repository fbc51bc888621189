"""A config as it is kept with a run: readable, and without keys."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from typing import Any

from rolecall._version import __version__

__all__ = ['describe_run', 'hide_secrets']

_SECRET = re.compile(
    r'(?:.*_)?(?:api_?key|secret|secret_key|access_key|access_token|password|authorization)|keys?|token', re.I
)
_HEADERS = re.compile(r'.*headers?', re.I)
_USER_IN_URL = re.compile(r'(\w+://)[^/@\s]+@')
_HIDDEN = '***'
_MOST_ROWS = 100


def hide_secrets(value: Any) -> Any:
    """The config with every key, password and header hidden, and long lists of inline rows named, not kept.

    >>> hide_secrets({'models': [{'abbr': 'gpt', 'key': 'sk-1', 'path': 'gpt-4o'}]})
    {'models': [{'abbr': 'gpt', 'key': '***', 'path': 'gpt-4o'}]}
    """
    if isinstance(value, Mapping):
        return {name: _hidden(str(name), inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [hide_secrets(inner) for inner in value]
    return _USER_IN_URL.sub(rf'\1{_HIDDEN}@', value) if isinstance(value, str) else value


def _hidden(name: str, value: Any) -> Any:
    if name in ('train', 'test', 'validation') and isinstance(value, (list, tuple)):
        return list(value) if len(value) <= _MOST_ROWS else f'{len(value)} rows'
    if _HEADERS.fullmatch(name) and isinstance(value, Mapping):
        return dict.fromkeys(value, _HIDDEN)
    if _SECRET.fullmatch(name) and isinstance(value, (str, list, tuple)):
        return value if value == 'ENV' else _HIDDEN
    return hide_secrets(value)


def describe_run(models: Mapping[str, Mapping[str, Any]], pairs: list[dict[str, Any]]) -> dict[str, Any]:
    """With what a run was made: versions, models, and each dataset × model with the identity of its wording."""
    return {
        'rolecall': __version__,
        'python': platform.python_version(),
        'platform': platform.platform(),
        'models': models,
        'pairs': pairs,
    }
