"""Files of a tokenizer are read once: what was loaded is kept until the file, or the settings beside it, change."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from rolecall.errors import DataError

T = TypeVar('T')
_BESIDE = 'tokenizer_config.json'
_KEPT = 4
"""Vocabularies kept for each loader; a large one takes some tens of megabytes."""


def load_once(load: Callable[[Path], T]) -> Callable[[Path], T]:
    """A loader whose results are shared, so they must not be changed. A file that cannot be used is tried once, too."""

    @lru_cache(maxsize=_KEPT)
    def load_version(path: Path, version: object) -> T | DataError:
        try:
            return load(path)
        except DataError as error:
            return error.with_traceback(None)

    def find(path: Path) -> T:
        found = load_version(path, (_version_of(path), _version_of(path.with_name(_BESIDE))))
        if isinstance(found, DataError):
            raise found.with_traceback(None)
        return found

    return find


def _version_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
