"""A config as it is kept with a run: readable, and without keys."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from rolecall._version import __version__
from rolecall.redaction import mask_config
from rolecall.strings import count_noun

_MOST_ROWS = 100
_SPLITS = ('train', 'test', 'validation')


def hide_secrets(value: Any) -> Any:
    """The config with every secret hidden, and long lists of inline rows counted, not kept.

    >>> hide_secrets({'models': [{'abbr': 'gpt', 'key': 'sk-1', 'path': 'gpt-4o'}]})
    {'models': [{'abbr': 'gpt', 'key': '***', 'path': 'gpt-4o'}]}
    """
    return mask_config(without_rows(value))


def without_rows(value: Any) -> Any:
    """The config with long lists of inline rows counted, not kept."""
    if isinstance(value, Mapping):
        return {name: _count_rows(name, inner) for name, inner in value.items()}
    return [without_rows(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def _count_rows(name: object, value: Any) -> Any:
    if name in _SPLITS and isinstance(value, (list, tuple)) and len(value) > _MOST_ROWS:
        return count_noun(len(value), 'row')
    return without_rows(value)


def describe_run(
    models: Mapping[str, Mapping[str, Any]], pairs: list[dict[str, Any]], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """With what a run was made: versions, models, each dataset × model with the identity of its wording, overrides."""
    return {
        'rolecall': __version__,
        'python': platform.python_version(),
        'platform': platform.platform(),
        'models': models,
        'pairs': pairs,
        **({'overrides': hide_secrets(dict(overrides))} if overrides else {}),
    }
