"""What the linter says: rules, what they violation on, and the findings that come of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from rolecall.experiment.lint.subject import CheckedRow, CheckedRows, Level, Subject

Severity = Literal['error', 'warning', 'info']
SEVERITIES: tuple[Severity, ...] = ('error', 'warning', 'info')
"""Worst first."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a person should know before a run."""

    rule: str
    severity: Severity
    where: str
    """The dataset, the model, or `dataset × model`."""
    message: str
    remedy: str
    row: int | None = None
    """The row that shows it best; None if it is not about rows."""
    example: str = ''
    """An excerpt that shows it."""
    count: int = 0
    """How many rows are concerned; 0 if it is not about rows."""
    seen: int = 0
    """How many rows were looked at."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule applies to a dataset or model as such, or to one row. Violations about one thing make one finding."""

    message: str
    about: str = ''
    """What in particular, a field for instance: violations about different things are different findings."""
    example: str = ''
    remedy: str = ''
    """What to do in this very case, before what the rule advises in general."""
    severity: Severity | None = None
    """Where this case is worse, or less bad, than the rule's usual one."""
    weight: int = 0
    """The heaviest violation is the one that is shown."""
    if_all_of: int = 0
    """Not sure in itself: it counts only if every row shows it, and at least this many rows were seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One thing that the linter looks for, at one level or several: once, in each row, after the rows, or several."""

    name: str
    severity: Severity
    description: str
    remedy: str
    levels: tuple[Level, ...]
    once: Callable[[Subject], Iterator[Violation]] | None = None
    each: Callable[[Subject, CheckedRow], Iterator[Violation]] | None = None
    after: Callable[[Subject, CheckedRows], Iterator[Violation]] | None = None


def excerpt(text: str, around: str = '', *, width: int = 80) -> str:
    """A stretch of a text, with `around` in it where it occurs.

    >>> excerpt('0123456789 needle 0123456789', 'needle', width=12)
    '…89 needle 01…'
    """
    at = max(text.find(around), 0)
    start = max(0, min(at - (width - len(around)) // 2, len(text) - width))
    stop = min(len(text), start + max(width, len(around)))
    return f'{"…" * (start > 0)}{text[start:stop]}{"…" * (stop < len(text))}'
