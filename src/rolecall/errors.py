"""Every exception of the package. A problem says what is wrong, where, and what to do about it.

RolecallError
├── ConfigError            a config cannot be used; carries all its problems at once
│   └── TemplateError      a prompt template or meta template cannot be used
├── RenderError            a row cannot become a request (unequal turns, a chat template that raises, …)
├── PrompterError          a prompter cannot be built, or cannot word this input
├── DataError              rows cannot be read (missing file, malformed line, bad range, …)
├── RunError               a run cannot start or continue; finished rows are kept
└── MissingExtraError      an optional dependency is not installed; names the extra to install
"""

from __future__ import annotations

import difflib
import importlib.util
import sys
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any


class RolecallError(Exception):
    """The root of every exception raised on purpose. It can be pickled, so that other processes can raise it."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_error, (type(self), self.args), self.__dict__


def _restore_error(kind: type[RolecallError], arguments: tuple[Any, ...]) -> RolecallError:
    return kind.__new__(kind, *arguments)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    >>> print(Problem('datasets[0].reader_cfg', "unknown key 'colums'.", "Did you mean 'columns'?"))
    datasets[0].reader_cfg
      unknown key 'colums'.
      Did you mean 'columns'?
    """

    where: str
    what: str
    remedy: str = ''

    def inside(self, prefix: str) -> Problem:
        """The same problem, seen from further out: `prefix` is put before its place."""
        if not prefix:
            return self
        glue = '' if not self.where or self.where.startswith('[') else '.'
        return replace(self, where=f'{prefix}{glue}{self.where}')

    def __str__(self) -> str:
        return '\n  '.join(part for part in (self.where, self.what, self.remedy) if part)


class ConfigError(RolecallError):
    """A config cannot be used. `problems` holds everything found, not only the first."""

    def __init__(self, problems: Problem | Iterable[Problem]) -> None:
        self.problems = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__('\n'.join(map(str, self.problems)))


class TemplateError(ConfigError):
    """A prompt template or meta template cannot be used."""


class RenderError(RolecallError):
    """A row cannot become a request."""


class PrompterError(RolecallError, ValueError):
    """A prompter cannot be built, or cannot word this input."""


class DataError(RolecallError):
    """Rows cannot be read."""


class RunError(RolecallError):
    """A run cannot start or continue. Finished rows are kept."""


class MissingExtraError(RolecallError):
    """An optional dependency is not installed.

    >>> str(MissingExtraError('pyarrow', extra='data', purpose='to read Parquet files'))
    "pyarrow is needed to read Parquet files: pip install 'rolecall[data]'"
    """

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(f"{package} is needed {purpose}: pip install 'rolecall[{extra}]'")


def import_extra(module: str, *, extra: str, purpose: str) -> Any:
    """A module of an optional dependency, or the error that says which extra brings it.

    Warnings from compiling the package's source for the first time are suppressed.
    """
    try:
        if module in sys.modules:  # as nearly always, and without the lock on warnings
            return importlib.import_module(module)
        with warnings.catch_warnings():
            warnings.filterwarnings('ignore', 'invalid escape sequence')
            return importlib.import_module(module)
    except ImportError as missing:
        raise MissingExtraError(module.split('.')[0], extra=extra, purpose=purpose) from missing


def require_packages(*packages: str, extra: str, purpose: str) -> None:
    """Raise if a package of an extra is missing; nothing is imported."""
    for package in packages:
        if sys.modules.get(package) is None and importlib.util.find_spec(package) is None:
            raise MissingExtraError(package, extra=extra, purpose=purpose)


def describe_error(error: BaseException) -> str:
    """An exception in one line.

    >>> describe_error(SystemExit(3))
    'SystemExit: 3'
    """
    try:
        return f'{type(error).__name__}: {error}'
    except Exception:  # its __str__ failed
        return type(error).__name__


def close_match(word: object, candidates: Iterable[object], *, cutoff: float = 0.6) -> str | None:
    """The known word that a misspelt one most resembles, if any does.

    >>> close_match('retriver', ['retriever', 'inferencer']), close_match('x', ['retriever'])
    ('retriever', None)
    """
    return next(iter(difflib.get_close_matches(str(word), map(str, candidates), n=1, cutoff=cutoff)), None)


def did_you_mean(word: object, candidates: Iterable[object]) -> str:
    """A suggestion for a misspelt word, or the list of valid ones.

    >>> did_you_mean('retriver', ['retriever', 'inferencer'])
    "Did you mean 'retriever'?"
    >>> did_you_mean('x', ['b', 'a'])
    "Known: 'b', 'a'."
    """
    names = [str(name) for name in candidates]
    close = close_match(word, names)
    if close is not None:
        return f"Did you mean '{close}'?"
    return f'Known: {", ".join(map(repr, names))}.' if names else ''
