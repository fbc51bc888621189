"""Runs user code: its prints go to standard error, its exceptions become problems."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Lock

from rolecall.errors import ConfigError, Problem, RolecallError

_OURS = (str(Path(__file__).parent), os.path.dirname(importlib.__file__), '<frozen ')


class _PrintingToStderr:
    """Standard output belongs to what rolecall itself writes; the last to leave puts it back.

    There is one standard output for all threads: if each put back what it found, the last could leave it redirected.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._stdout = sys.stdout

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._stdout, sys.stdout = sys.stdout, sys.stderr
            self._inside += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                sys.stdout = self._stdout


printing_to_stderr = _PrintingToStderr()
"""`with printing_to_stderr:` around code of the user's own. May be nested, and entered by several threads."""


@contextmanager
def neighbours_of(file: str | Path) -> Iterator[None]:
    """Let code import what lies beside its file, as `python FILE.py` does."""
    folder = str(Path(file).resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


_importing_nothing: ContextVar[bool] = ContextVar('importing_nothing', default=False)


@contextmanager
def without_user_code() -> Iterator[None]:
    """Import no code that a config names: it comes from a run directory, which may be a stranger's."""
    token = _importing_nothing.set(True)
    try:
        yield
    finally:
        _importing_nothing.reset(token)


def check_importable(path: str, where: str) -> None:
    """Refuse code of the user's own where a run directory names it."""
    if _importing_nothing.get():
        what = f'it names {path}, which is not imported from a run directory.'
        raise ConfigError(Problem(where, what, '--config names the config that has it.'))


@contextmanager
def user_code(what: str, *, where: str = 'type', remedy: str = '') -> Iterator[None]:
    """Run user code; exceptions become problems of the entry, with their file and line.

    >>> with user_code("the loader 'load'"):
    ...     {}['question']
    Traceback (most recent call last):
    rolecall.errors.ConfigError: type
      the loader 'load' raised KeyError: 'question' (<doctest rolecall.usercode.user_code[0]>:2).
    """
    try:
        with printing_to_stderr:
            yield
    except RolecallError:
        raise
    except (Exception, SystemExit) as error:  # it is code: it may raise anything
        message = f'{type(error).__name__}: {error}' if str(error) else type(error).__name__
        place = _place(error)
        raise ConfigError(
            Problem(where, f'{what} raised {message}{f" ({place})" if place else ""}.', remedy)
        ) from error


def _place(error: BaseException) -> str:
    """The line at which the user's own file, the first that is neither ours nor Python's, led to the exception."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_OURS)]
    lines = [frame.lineno for frame in frames if frame.filename == frames[0].filename]
    return f'{short_path(frames[0].filename)}:{lines[-1]}' if lines else ''


def short_path(path: str) -> str:
    """A path, relative to the working directory if it lies below it."""
    relative = os.path.relpath(path)
    return path if relative.startswith(os.pardir) else relative
