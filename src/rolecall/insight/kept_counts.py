"""Counts that are kept beside a run, for reports and the page: what scanners find in replies, what sways judges."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from rolecall.models.tokenizers.text import replace_lone_surrogates
from rolecall.runs.atomic import read_run_json, write_run_json
from rolecall.scoring.statistics import Interval, wilson

CountKind = Literal['scan', 'probes']
"""Each kind is a file, `scan.json` or `probes.json`."""
HEADS: Mapping[CountKind, tuple[str, ...]] = {
    'scan': ('scanner', 'dataset', 'model', 'replies', '%', 'rows'),
    'probes': ('probe', 'dataset', 'judge', 'swayed', '%'),
}
TEXT_CELLS = 3
"""The first cells of a line are texts, the others numbers."""
ATTACKS = 'attack rate'
"""The line that says on how many rows any probe sways a judge."""
_COUNT_AGAIN: Mapping[CountKind, str] = {
    'scan': 'Scan again: rolecall runs scan RUN.',
    'probes': 'Probe again: rolecall run CONFIG --probe.',
}
_MOST_REPLIES = 10**12
_ROWS_NAMED = 5


@dataclass(frozen=True, slots=True)
class Hit:
    """A row whose reply a scanner reports, with the characters that show it."""

    row: int
    excerpt: str
    note: str = ''


@dataclass(frozen=True, slots=True)
class HitCount:
    """How many replies a scanner reports, or on how many rows a probe sways a judge (its `model`)."""

    name: str
    dataset: str
    model: str
    hits: int
    total: int
    rows: tuple[Hit, ...] = ()
    kappa: float | None = None
    """Cohen's kappa of a judge's verdicts with what is known of the answers."""
    judge: Mapping[str, str] = field(default_factory=dict)
    """Digests of the judge that was probed: its model, its prompt, how its replies are read."""

    @property
    def share(self) -> str:
        """The share of hits with its 95 % interval, in per cent."""
        low, high = self.interval
        return f'{100 * self.hits / self.total:.1f} [{100 * low:.1f}, {100 * high:.1f}]' if self.total else ''

    @property
    def interval(self) -> Interval:
        """Wilson's interval of the share of hits."""
        return wilson(self.hits, self.total)

    def cells(self, kind: CountKind) -> tuple[str, ...]:
        """A line of the table."""
        name = self.name if self.kappa is None else f'{self.name} (κ {self.kappa:.2f})'
        rows = ', '.join(str(hit.row) for hit in self.rows[:_ROWS_NAMED]) + (', …' if self.hits > _ROWS_NAMED else '')
        cells = (name, self.dataset, self.model, f'{self.hits:,} of {self.total:,}', self.share, rows)
        return cells[: len(HEADS[kind])]


def keep_counts(directory: Path, kind: CountKind, counts: Sequence[HitCount]) -> None:
    """Keep counts with a run. Those of other names, datasets and models stay."""
    merged = {(count.name, count.dataset, count.model): count for count in (*read_counts(directory, kind), *counts)}
    write_run_json(directory / f'{kind}.json', [asdict(count) for count in merged.values()])


def read_counts(directory: Path, kind: CountKind) -> list[HitCount]:
    """The counts that are kept with a run; empty if there are none, or if the file is not one of ours."""
    with suppress(ValueError, TypeError, AttributeError, KeyError):
        return [_read_count(record) for record in read_run_json(directory / f'{kind}.json')]
    return []


def describe_unreadable(directory: Path) -> Iterator[str]:
    """Which counts of a run are left out: those of another version, or what something else wrote."""
    for kind, remedy in _COUNT_AGAIN.items():
        file = directory / f'{kind}.json'
        if file.exists() and read_run_json(file) != [] and not read_counts(directory, kind):
            yield f'{file} is left out: this version cannot read it. {remedy}'


def _read_count(record: Mapping[str, Any]) -> HitCount:
    whole = json.loads(replace_lone_surrogates(json.dumps(record, ensure_ascii=False)))  # a reply may hold half a pair
    count = HitCount(**{**whole, 'rows': tuple(Hit(**hit) for hit in whole['rows'])})
    texts = (count.name, count.dataset, count.model, *(text for hit in count.rows for text in (hit.excerpt, hit.note)))
    numbers = (count.hits, count.total, *(hit.row for hit in count.rows))
    if not all(isinstance(text, str) for text in texts) or not all(type(number) is int for number in numbers):
        raise TypeError('expected texts and numbers')
    if not 0 <= count.hits <= count.total <= _MOST_REPLIES or not isinstance(count.kappa, float | int | None):
        raise ValueError('expected a share')
    return count
