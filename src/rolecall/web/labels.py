"""What people say about rows of a run: kept beside it in `labels.jsonl`, the newest line for a row counts.

Labels are compared with the run's own verdicts, so that a judge can be calibrated: the share of rows on which both
agree, with its interval.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rolecall.errors import DataError, RunError
from rolecall.scoring.statistics import wilson

__all__ = ['LABELS', 'Labels']

LABELS = ('correct', 'wrong')
_FILE = 'labels.jsonl'

Key = tuple[str, str, int]


class Labels:
    """The labels of one run, read when it is opened and appended to."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / _FILE
        self._verdicts: dict[Key, str] = {}
        self._given: dict[Key, str] = {}
        if self._file.is_file() and not self._file.is_symlink():
            for line in self._file.read_text(encoding='utf-8', errors='replace').splitlines():
                self._read(line)

    def _read(self, line: str) -> None:
        try:
            read = json.loads(line)
            key = (str(read['dataset']), str(read['model']), int(read['row']))
            self._set(key, str(read['label']), str(read['verdict']))
        except (ValueError, KeyError, TypeError):
            return

    def _set(self, key: Key, label: str, verdict: str) -> None:
        if label in LABELS:
            self._given[key], self._verdicts[key] = label, verdict
        else:
            self._given.pop(key, None)
            self._verdicts.pop(key, None)

    def find(self, key: Key) -> str:
        """The label of a row; empty if it has none."""
        return self._given.get(key, '')

    def disagrees(self, key: Key) -> bool:
        """Whether a row has a label that is not the run's verdict."""
        return key in self._given and self._given[key] != self._verdicts[key]

    def add(self, key: Key, label: str, verdict: str) -> None:
        """Keep a label; an empty one takes the last one back."""
        if label not in (*LABELS, ''):
            raise DataError(f'expected a label of {", ".join(LABELS)}, or none; got {label!r:.40}.')
        dataset, model, row = key
        line = json.dumps({'dataset': dataset, 'model': model, 'row': row, 'label': label, 'verdict': verdict})
        if self._file.is_symlink():
            raise RunError(f'{self._file}: is a link, so nothing is written to it.')
        try:
            with open(self._file, 'a', encoding='utf-8') as stream:
                stream.write(f'{line}\n')
        except OSError as error:
            raise RunError(f'{self._file}: cannot be written: {error.strerror or error}.') from error
        self._set(key, label, verdict)

    def agreement(self) -> Mapping[str, Any] | None:
        """On how many labelled rows the run's verdict is the same, with an interval; None without labels."""
        if not self._given:
            return None
        rows = len(self._given)
        agree = sum(not self.disagrees(key) for key in self._given)
        low, high = wilson(agree, rows)
        return {'agree': agree, 'rows': rows, 'low': low, 'high': high}
