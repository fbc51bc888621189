"""Human labels of a run's rows, kept in `labels.jsonl` in the run directory. The newest line for a row counts.

Labels are compared with the run's own verdicts, which calibrates a judge: the share of labelled rows on which both
agree, with its interval.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rolecall.errors import DataError, RunError
from rolecall.scoring.statistics import wilson

LABELS = ('correct', 'wrong')
_FILE = 'labels.jsonl'
_LARGEST = 256 << 20

RowKey = tuple[str, str, int]
"""A dataset, a model and the number of a row."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """On how many labelled rows the run's verdict is the same, with a 95 % interval of the share."""

    agree: int
    rows: int
    low: float
    high: float
    unjudged: int = 0
    """Labelled rows whose verdict is neither correct nor wrong. They are not in `rows`."""


class Labels:
    """The labels of one run. Lines that another process appends are read, too."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _FILE
        self._labels: dict[RowKey, str] = {}
        self._read_bytes = 0

    def find(self, key: RowKey) -> str:
        """The label of a row; empty if it has none."""
        self._read_new_lines()
        return self._labels.get(key, '')

    def items(self) -> Iterator[tuple[RowKey, str]]:
        """Every labelled row with its label."""
        self._read_new_lines()
        return iter(self._labels.items())

    def add(self, key: RowKey, label: str) -> None:
        """Keep a label; an empty one takes the last one back."""
        if label not in (*LABELS, ''):
            raise DataError(f'expected a label of {", ".join(LABELS)}, or none; got {label!r:.40}.')
        dataset, model, row = key
        line = json.dumps({'dataset': dataset, 'model': model, 'row': row, 'label': label})
        self._refuse_others()
        try:
            with open(self._file, 'a', encoding='utf-8') as stream:
                stream.write(f'{line}\n')
        except OSError as error:
            raise RunError(f'{self._file}: cannot be written: {error.strerror or error}.') from error
        self._read_new_lines()

    def agreement(self, verdict_of: Callable[[RowKey], str]) -> Agreement | None:
        """How often the labels agree with the verdicts; None without labels."""
        verdicts = [(verdict_of(key), label) for key, label in self.items()]
        if not verdicts:
            return None
        judged = [verdict == label for verdict, label in verdicts if verdict in LABELS]
        low, high = wilson(sum(judged), len(judged))
        return Agreement(sum(judged), len(judged), low, high, unjudged=len(verdicts) - len(judged))

    def _read_new_lines(self) -> None:
        try:
            size = self._file.lstat().st_size
            if size == self._read_bytes or self._file.is_symlink():
                return
            if size > _LARGEST:
                raise RunError(f'{self._file}: has {size:,} bytes, more than labels can take. Remove or shorten it.')
            if size < self._read_bytes:  # the file was replaced
                self._labels, self._read_bytes = {}, 0
            with open(self._file, 'rb') as stream:
                stream.seek(self._read_bytes)
                *lines, _ = stream.read().split(b'\n')  # a line that is being written has no end yet
        except OSError:
            return
        self._read_bytes += sum(len(line) + 1 for line in lines)
        for line in lines:
            self._read_line(line.decode('utf-8', 'replace'))

    def _read_line(self, line: str) -> None:
        try:
            record = json.loads(line)
            key = (str(record['dataset']), str(record['model']), int(record['row']))
            label = record['label']
        except (ValueError, KeyError, TypeError, RecursionError):
            return
        if label in LABELS:
            self._labels[key] = label
        else:
            self._labels.pop(key, None)

    def _refuse_others(self) -> None:
        """Refuse to write to anything but a regular file of this run: the directory may come from elsewhere."""
        try:
            status = self._file.lstat()
        except OSError:
            return
        if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
            raise RunError(f'{self._file}: a link, or not a regular file. Run directories hold neither; remove it.')
