"""Benchmarks by name: a registry of our own, generated tasks, and the catalogues of installed packages."""

from __future__ import annotations

import os
from pathlib import Path

from rolecall.compat.benchmarks.catalogues import CATALOGUES, GENERATED

__all__ = ['benchmark_names', 'is_benchmark_name']

WORDINGS = Path(__file__).parent / 'wordings'


def benchmark_names() -> tuple[str, ...]:
    """The names in the registry. Nothing is parsed.

    >>> 'gsm8k' in benchmark_names()
    True
    """
    return tuple(sorted(name.removesuffix('.yaml') for name in os.listdir(WORDINGS) if name.endswith('.yaml')))


def is_benchmark_name(source: str | Path) -> bool:
    """Whether a source is a benchmark's name, or several separated by commas, rather than a path.

    A file of that name wins, and so does anything that looks like a path.

    >>> [is_benchmark_name(one) for one in ('gsm8k', 'gsm8k,mmlu', 'gsm9k', 'gsm8k.py', './gsm8k', 'opencompass:x')]
    [True, True, True, False, False, True]
    """
    if not isinstance(source, str) or os.path.isfile(source):
        return False
    prefix, colon, _ = source.partition(':')
    if colon:
        return f'{prefix}:' in (*CATALOGUES, GENERATED)
    if '/' in source or os.sep in source or source in ('', '.', '..') or os.path.splitext(source)[1]:
        return False
    return not os.path.isdir(source) or source in benchmark_names()
