"""Metric libraries are optional: they are imported where they are used."""

from __future__ import annotations

from functools import partial

from rolecall import errors

__all__ = ['needed']

needed = partial(errors.needed, extra='score')
"""A module of the extra `[score]`, or the error that says so."""
