"""Counts that are kept beside a run, for reports and the page: what scanners find in replies, what sways judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from rolecall.errors import RunError
from rolecall.runs.atomic import write_atomically

_LARGEST = 16 << 20
_ROWS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Hit:
    """A row whose reply a scanner reports, with the characters that show it."""

    row: int
    excerpt: str
    note: str = ''


@dataclass(frozen=True, slots=True)
class ScanCount:
    """How many replies of a dataset × model a scanner reports, with a 95 % interval of their share."""

    scanner: str
    dataset: str
    model: str
    hits: int
    replies: int
    low: float
    high: float
    rows: tuple[Hit, ...] = ()

    FILE: ClassVar[str] = 'scan.json'
    HEADS: ClassVar[tuple[str, ...]] = ('scanner', 'dataset', 'model', 'replies', '%', 'rows')

    @property
    def share(self) -> str:
        """The share of replies with its interval, in per cent."""
        return _percent(self.hits, self.replies, self.low, self.high)

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        rows = ', '.join(str(hit.row) for hit in self.rows[:_ROWS_NAMED]) + (', …' if self.hits > _ROWS_NAMED else '')
        return (self.scanner, self.dataset, self.model, f'{self.hits:,} of {self.replies:,}', self.share, rows)


@dataclass(frozen=True, slots=True)
class ProbeCount:
    """How many rows a probe swayed a judge on, with a 95 % interval of their share."""

    probe: str
    dataset: str
    judge: str
    swayed: int
    rows: int
    low: float
    high: float
    kappa: float | None = None
    """Of the control: Cohen's kappa with what is known of the answers."""

    FILE: ClassVar[str] = 'probes.json'
    HEADS: ClassVar[tuple[str, ...]] = ('probe', 'dataset', 'judge', 'swayed', '%')

    @property
    def cells(self) -> tuple[str, ...]:
        """A line of the table."""
        name = self.probe if self.kappa is None else f'{self.probe} (κ {self.kappa:.2f})'
        share = _percent(self.swayed, self.rows, self.low, self.high)
        return (name, self.dataset, self.judge, f'{self.swayed:,} of {self.rows:,}', share)


TEXT_CELLS = 3
"""The first cells of a line are texts, the others numbers."""
Kept = TypeVar('Kept', ScanCount, ProbeCount)


def keep_counts(directory: Path, kind: type[Kept], counts: Sequence[Kept]) -> None:
    """Keep counts with a run. Those of other names, datasets and models stay."""
    file = directory / kind.FILE
    if file.is_symlink():
        raise RunError(f'{file}: a link. Run directories hold only regular files; remove it.')
    merged = {_key(count): count for count in (*read_counts(directory, kind), *counts)}
    with write_atomically(file) as part:
        part.write_text(json.dumps([asdict(count) for count in merged.values()]), 'utf-8')


def read_counts(directory: Path, kind: type[Kept]) -> list[Kept]:
    """The counts that are kept with a run; empty if there are none, or if the file is not one of ours."""
    file = directory / kind.FILE
    with suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
        if not file.is_symlink() and file.stat().st_size <= _LARGEST:
            return [_make(kind, record) for record in json.loads(file.read_text('utf-8'))]
    return []


def _make(kind: type[Kept], record: dict[str, object]) -> Kept:
    hits = record.get('rows')
    return kind(**{**record, 'rows': tuple(Hit(**hit) for hit in hits)} if isinstance(hits, list) else record)  # type: ignore[arg-type]


def _key(count: ScanCount | ProbeCount) -> tuple[str, ...]:
    if isinstance(count, ScanCount):
        return count.scanner, count.dataset, count.model
    return count.probe, count.dataset, count.judge


def _percent(hits: int, of: int, low: float, high: float) -> str:
    return f'{100 * hits / of:.1f} [{100 * low:.1f}, {100 * high:.1f}]' if of else ''
