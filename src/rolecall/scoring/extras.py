"""Metric libraries are optional: they are imported where they are used."""

from __future__ import annotations

import importlib
from typing import Any

from rolecall.errors import MissingExtraError

__all__ = ['needed']


def needed(module: str, *, purpose: str) -> Any:
    """A module of the extra `[score]`, or the error that says so."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(module.split('.')[0], extra='score', purpose=purpose) from missing
