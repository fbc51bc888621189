"""What people decide about a run's rows, kept in `labels.jsonl` in the run directory.

A line is a *label*, the mark that a row deserves, or an *answer*, what its reply says. Several people may decide about
a row; of each person the newest line counts. A decision belongs to the reply that it was made about.
"""

from __future__ import annotations

import hashlib
import json
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Literal, NamedTuple

from rolecall.errors import DataError, RunError
from rolecall.runs.store.codec import storable
from rolecall.runs.store.results import Result

LABELS: Mapping[str, float] = {'correct': 1.0, 'wrong': 0.0, 'win': 1.0, 'tie': 0.5, 'loss': 0.0}
"""The labels that are words, with their marks; others are numbers on the scale of the score."""
Kind = Literal['label', 'answer']
KINDS: tuple[Kind, ...] = ('label', 'answer')
_FILE = 'labels.jsonl'
_LARGEST = 256 << 20
_LONGEST_NAME = 80

RowKey = tuple[str, str, int]
"""A dataset, a model and the number of a row."""
Value = str | float | None
"""A label, or an answer; as an answer, None says that the reply gives none."""


class Decision(NamedTuple):
    """What a person decided about a row, and a digest of the reply that it is about."""

    value: Value
    reply: str = ''

    def is_about(self, result: Result | None) -> bool:
        """Whether the row still has that reply."""
        return result is not None and self.reply in ('', digest_replies(result))


def digest_replies(result: Result) -> str:
    """A short digest of what a row's model replied."""
    return hashlib.sha256(json.dumps(result.replies or result.prediction, default=str).encode()).hexdigest()[:12]


def mark_of(label: Value) -> float:
    """The mark that a label stands for.

    >>> mark_of('correct'), mark_of('tie'), mark_of(7.5)
    (1.0, 0.5, 7.5)
    """
    return LABELS[label] if isinstance(label, str) else float(label or 0.0)


def settle(labels: Sequence[Value]) -> Value:
    """What most people say, or the mean of their numbers; None where as many say one thing as another.

    >>> settle(['correct', 'wrong', 'correct']), settle(['correct', 'wrong']), settle([3.0, 4.0])
    ('correct', None, 3.5)
    """
    if labels and all(isinstance(label, float) for label in labels):
        return fmean(map(mark_of, labels))
    (first, most), *others = Counter(labels).most_common(2) or [(None, 0)]
    return None if others and others[0][1] == most else first


class Labels:
    """The labels of one run, or its answers. What another process appends is read, too."""

    def __init__(self, directory: Path, kind: Kind = 'label') -> None:
        self._file = directory / _FILE
        self._kind = kind
        self._decisions: dict[RowKey, dict[str, Decision]] = {}
        self._state = (0, 0)

    def find(self, key: RowKey) -> Mapping[str, Decision]:
        """The decisions about a row, by person."""
        self._read_changes()
        return self._decisions.get(key, {})

    def by_row(self) -> Mapping[RowKey, Mapping[str, Decision]]:
        """The decisions about every row that has some, by person."""
        self._read_changes()
        return self._decisions

    def items(self) -> Iterator[tuple[RowKey, Value]]:
        """Every row with what most people say; without rows on which they are divided."""
        for key, decisions in self.by_row().items():
            value = settle([decision.value for decision in decisions.values()])
            if value is not None or self._kind == 'answer':
                yield key, value

    def add(self, key: RowKey, value: Value, *, by: str = '', result: Result | None = None) -> None:
        """Keep what a person decides about a row; an empty text takes it back."""
        self.add_all([(key, by, Decision(value, digest_replies(result) if result else ''))])

    def add_all(self, decisions: Iterable[tuple[RowKey, str, Decision]]) -> None:
        """Keep what people decide about rows."""
        records = []
        for (dataset, model, row), by, (value, reply) in decisions:
            if self._kind == 'label' and not (value in (*LABELS, '') or isinstance(value, int | float)):
                raise DataError(f'expected a label of {", ".join(LABELS)}, a number, or none; got {value!r:.40}.')
            place = {'dataset': dataset, 'model': model, 'row': row, 'by': by[:_LONGEST_NAME]}
            records.append(json.dumps(place | {self._kind: value, 'reply': reply}) + '\n')
        if not records:
            return
        self._refuse_others()
        try:
            with open(self._file, 'a', encoding='utf-8') as stream:
                stream.writelines(records)
        except OSError as error:
            raise RunError(f'{self._file}: cannot be written: {error.strerror or error}.') from error
        self._read_changes()

    def _read_changes(self) -> None:
        """Read the file again if it has changed."""
        try:
            status = self._file.lstat()
            state = status.st_size, status.st_mtime_ns
            if state == self._state or not stat.S_ISREG(status.st_mode):
                return
            if status.st_size > _LARGEST:
                raise RunError(
                    f'{self._file}: has {state[0]:,} bytes, more than labels can take. Remove or shorten it.'
                )
            *lines, _ = self._file.read_bytes().split(b'\n')  # a line that is being written has no end yet
        except OSError:
            return
        self._decisions, self._state = {}, state
        for line in lines:
            self._read_line(line.decode('utf-8', 'replace'))

    def _read_line(self, line: str) -> None:
        try:
            record = json.loads(line)
            key = (storable(str(record['dataset'])), storable(str(record['model'])), int(record['row']))
            value = storable(record[self._kind]) if isinstance(record[self._kind], str) else record[self._kind]
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        by, people = storable(str(record.get('by') or '')), self._decisions.setdefault(key, {})
        if self._is_valid(value):
            people[by] = Decision(float(value) if isinstance(value, int) else value, str(record.get('reply') or ''))
        else:
            people.pop(by, None)
        if not people:
            del self._decisions[key]

    def _is_valid(self, value: Any) -> bool:
        if self._kind == 'answer':
            return value is None or (isinstance(value, str) and value != '')
        if isinstance(value, str):
            return value in LABELS
        return isinstance(value, int | float) and abs(value) <= sys.float_info.max

    def _refuse_others(self) -> None:
        """Refuse to write to anything but a regular file of this run: the directory may come from elsewhere."""
        try:
            status = self._file.lstat()
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise RunError(f'{self._file}: a link, or not a regular file. Run directories hold neither; remove it.')


def copy_decisions(source: Path, target: Path) -> None:
    """Add the labels and answers of one run directory to those of another."""
    for kind in KINDS:
        stored = Labels(target, kind)
        stored.add_all(
            [
                (key, by, decision)
                for key, decisions in Labels(source, kind).by_row().items()
                for by, decision in decisions.items()
                if stored.find(key).get(by) != decision
            ]
        )
