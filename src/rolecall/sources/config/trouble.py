"""Errors while a config file runs, as problems with file, line and remedy."""

from __future__ import annotations

import difflib
import os
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from rolecall.errors import ConfigError, Problem
from rolecall.usercode import short_path


class MissingImportError(ImportError):
    """An import of a config file that does not exist. A config may catch it like any ImportError."""

    def __init__(self, message: str, *, looked_for: str = '', near: Sequence[str] = ()) -> None:
        super().__init__(message)
        suggestion = f'Did you mean {" or ".join(map(repr, near))}? ' if near else ''
        self.remedy = f'{suggestion}{f"Looked for {looked_for}." if looked_for else ""}'.strip()


class BrokenPackageError(ImportError):
    """A package that is installed but cannot be imported: with `foreign='real'`, ours must not silently replace it."""

    remedy = "Repair its installation, or load the config without foreign='real' (ROLECALL_FOREIGN)."

    def __init__(self, module: str, error: Exception) -> None:
        super().__init__(f'{module} is installed, but importing it raised {type(error).__name__}: {error}.')


def missing_name(name: str, path: str, names: Iterable[str]) -> MissingImportError:
    """The error for `from .base import name` where the base has no such name."""
    public = [candidate for candidate in names if not candidate.startswith('_')]
    near = difflib.get_close_matches(name, public, n=3)
    return MissingImportError(f"{short_path(path)} has no '{name}'.", near=near or public[:5])


def circular_import(chain: Sequence[str]) -> Problem:
    """A file that imports itself, directly or through others."""
    loop = chain[chain.index(chain[-1]) :]
    return Problem(
        short_path(chain[-1]),
        f'circular import: {" -> ".join(map(short_path, loop))}.',
        'Move what both need into a third file and import that.',
    )


def unreadable(path: str, error: OSError) -> ConfigError:
    """A file that is missing or cannot be read."""
    if isinstance(error, IsADirectoryError):
        remedy = 'Name a file. `rolecall report`, `compare` and `explain` read run directories.'
        return ConfigError(Problem(short_path(path), 'is a folder, not a config.', remedy))
    folder, name = os.path.split(path)
    files = os.listdir(folder) if isinstance(error, FileNotFoundError) and os.path.isdir(folder) else []
    near = difflib.get_close_matches(name, files, n=1)
    remedy = f"Did you mean '{near[0]}'?" if near else 'Check the path.'
    return ConfigError(Problem(short_path(path), f'cannot be read: {error.strerror or error}.', remedy))


def syntax_problem(path: str, error: SyntaxError | ValueError) -> Problem:
    """A file that is not Python."""
    if not isinstance(error, SyntaxError):
        return Problem(short_path(path), f'is not Python: {error}.', 'Save it as a text file in UTF-8.')
    line = (error.text or '').strip()
    return Problem(
        f'{short_path(path)}:{error.lineno or 1}',
        f'{error.msg}{f": {line}" if line else ""}',
        'Configs are Python files, and this line does not parse.',
    )


def user_problem(path: str, error: BaseException, names: Mapping[str, object]) -> Problem:
    """An exception raised by the config's own code, at the line of the config it came through."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    where = f'{short_path(path)}:{lines[-1]}' if lines and lines[-1] else short_path(path)
    if isinstance(error, MissingImportError | BrokenPackageError):
        return Problem(where, str(error), error.remedy)
    message = f'{type(error).__name__}: {error}' if str(error) else type(error).__name__
    return Problem(where, message, _remedy(error, names))


def imported_from(path: str, error: ConfigError) -> ConfigError:
    """The same error, with the line of `path` that led to the file at fault added to its remedy."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if not lines:
        return error
    note = f'(imported at {short_path(path)}:{lines[-1]})'
    return type(error)(replace(problem, remedy=f'{problem.remedy}\n  {note}'.lstrip()) for problem in error.problems)


def not_a_list(where: str, value: object) -> Problem:
    """`models` or `datasets` that is not a list."""
    type_name = type(value).__name__
    return Problem(
        where, f'expected a list of dicts, found {type_name}.', f'Write {where.rpartition(": ")[2]} = [dict(...), ...].'
    )


def _remedy(error: BaseException, names: Mapping[str, object]) -> str:
    if isinstance(error, NameError):
        candidates = [name for name in names if not name.startswith('__')]
        near = difflib.get_close_matches(str(getattr(error, 'name', '')), candidates, n=1)
        return f"Did you mean '{near[0]}'?" if near else 'Define it, or import it from the config that does.'
    if isinstance(error, TypeError) and ("'Reference'" in str(error) or "'Call'" in str(error)):
        return (
            'The value belongs to a package that is not imported here, so only its name is known. '
            "Install the package and load with foreign='real', or write the value into the config."
        )
    return ''
