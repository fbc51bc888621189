"""Reads tokenizer files once: results are cached until the file, or the settings file beside it, changes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from rolecall.errors import DataError

T = TypeVar('T')
_BESIDE = 'tokenizer_config.json'
_CACHED_FILES = 4
"""Vocabularies kept for each loader; a large one takes some tens of megabytes."""


def load_once(load: Callable[[Path], T]) -> Callable[[Path], T]:
    """A loader with shared results, so do not modify them. A file that fails to load is not tried again."""

    @lru_cache(maxsize=_CACHED_FILES)
    def load_version(path: Path, version: object) -> T | DataError:
        try:
            return load(path)
        except DataError as error:
            return error.with_traceback(None)

    def find(path: Path) -> T:
        result = load_version(path, (_version_of(path), _version_of(path.with_name(_BESIDE))))
        if isinstance(result, DataError):
            raise result.with_traceback(None)
        return result

    return find


def _version_of(path: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
