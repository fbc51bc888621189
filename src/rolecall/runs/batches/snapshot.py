"""What a run needs to be finished elsewhere: its config without keys, and the rows it asks about.

A copy of the run directory and the key are enough, as long as the config names nothing but built-in or installed parts.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rolecall.redaction import mask_config
from rolecall.runs.batches.ledger import BatchLedger
from rolecall.runs.pair_run import PreparedRun
from rolecall.sources.config.files import Config
from rolecall.sources.config.printing import format_config
from rolecall.sources.datasets import Rows

_HIDDEN = '***'
_OF_FILES = (
    *('path', 'data_files', 'file_name', 'train', 'test', 'splits'),
    *('choices_from', 'flatten', 'num_repeats', 'on_error', 'gold_patch'),
)
"""Options of a dataset that say where rows come from, or that have been applied to them."""
_APPLIED = ('train_range', 'test_range', 'train_split', 'test_split')
_KEYS = ('key', 'api_key')


def keep_snapshot(ledger: BatchLedger, prepared: PreparedRun) -> None:
    """Keep config and rows of a run that is about to be submitted."""
    before, limit = Snapshot(ledger), prepared.options.limit
    tasks = prepared.experiment.tasks
    config = {
        **{name: value for name, value in prepared.experiment.config.items() if not name.endswith('datasets')},
        'datasets': [without_rows({**task.entry, 'abbr': task.abbr}) for task in tasks],
        'models': [{**model.entry, 'abbr': model.abbr} for model in prepared.experiment.all_models],
    }
    record = json.loads(format_config(hide_keys(config), style='json'))
    for name in ('datasets', 'models'):  # what an earlier command submitted into the same run stays
        own = {entry['abbr'] for entry in record[name]}
        record[name] += [entry for entry in before.config.get(name, ()) if entry['abbr'] not in own]
    ledger.note('config', json.dumps(record))
    ledger.note('datasets', list(dict.fromkeys([*before.datasets, *(task.abbr for task in tasks)])))
    ledger.note('models', list(dict.fromkeys([*before.models, *(model.abbr for model in prepared.experiment.models)])))
    limits = [limit, before.limit] if before.exists else [limit]
    ledger.note('limit', None if None in limits else max(filter(None, limits)))
    path = prepared.experiment.config.path if isinstance(prepared.experiment.config, Config) else None
    ledger.note('path', str(path.absolute()) if path is not None else None)
    ledger.note('digest', _digest(prepared.experiment.config))
    for pair in {run.dataset: run.compiled for run in prepared.pairs}.values():
        abbr = pair.task.abbr
        ledger.keep_rows(abbr, 'test', _encode_rows(pair.data.test, limit), total=len(pair.data.test))
        if type(pair.task.retriever).__name__ != 'ZeroRetriever':
            ledger.keep_rows(abbr, 'train', _encode_rows(pair.data.train, None), total=len(pair.data.train))


def note_command(directory: str | Path, command: str) -> None:
    """Keep the command that runs the config live, for people who collect the run."""
    with closing(BatchLedger(Path(directory))) as ledger:
        ledger.note('command', command)


class Snapshot:
    """A run as it was submitted."""

    def __init__(self, ledger: BatchLedger) -> None:
        notes = {name: json.loads(value) for name, value in ledger.notes().items()}
        self._ledger = ledger
        self.config: dict[str, Any] = json.loads(notes.get('config', '{}'))
        """The config without keys and rows."""
        self.datasets: list[str] = notes.get('datasets', [])
        self.models: list[str] = notes.get('models', [])
        self.entries: Mapping[str, Mapping[str, Any]] = notes.get('entries', {})
        self.limit: int | None = notes.get('limit')
        self.path: str | None = notes.get('path')
        self.command: str = notes.get('command') or f'rolecall run {self.path or "CONFIG"} --out RUN'
        self._digest: str | None = notes.get('digest')

    @property
    def exists(self) -> bool:
        """Whether anything was ever submitted."""
        return bool(self.datasets)

    def is_config(self, config: Mapping[str, Any]) -> bool:
        """Whether a config says what was submitted."""
        return _digest(config) == self._digest

    def has_rows_of(self, prepared: PreparedRun) -> bool:
        """Whether the rows of a prepared config are those that were submitted."""
        tests = {pair.dataset: pair.compiled.data.test for pair in prepared.pairs}
        return all(
            before is not None and now is not None and zlib.decompress(before) == zlib.decompress(now[1])
            for name, rows in tests.items()
            for before, now in zip_longest(self._ledger.kept_rows(name, 'test'), _encode_rows(rows, self.limit))
        )

    def restore_config(self) -> dict[str, Any]:
        """The config with its rows as they were submitted."""
        return {**self.config, 'datasets': [self._with_rows(entry) for entry in self.config.get('datasets', ())]}

    def _with_rows(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        packed = {split: self._ledger.kept_rows(entry['abbr'], split) for split in ('train', 'test')}
        rows = {split: [json.loads(zlib.decompress(row)) for row in some] for split, some in packed.items()}
        return {**entry, 'type': 'Rows', **rows}


def hide_keys(value: Any) -> Any:
    """A config or an entry without secrets. A key that was written out is looked up in the environment instead."""
    return _refer_to_environment(mask_config(value))


def _refer_to_environment(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            name: 'ENV' if name in _KEYS and inner == _HIDDEN else _refer_to_environment(inner)
            for name, inner in value.items()
            if not (isinstance(inner, Mapping) and inner and all(part == _HIDDEN for part in inner.values()))
        }
    return [_refer_to_environment(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def without_rows(entry: Mapping[str, Any]) -> dict[str, Any]:
    """A dataset's entry without what says where its rows come from, or has been applied to them."""
    reader = entry.get('reader_cfg')
    rest = {name: value for name, value in entry.items() if name not in (*_OF_FILES, 'type', 'reader_cfg')}
    if isinstance(reader, Mapping):
        rest['reader_cfg'] = {name: value for name, value in reader.items() if name not in _APPLIED}
    return rest


def _digest(config: Mapping[str, Any]) -> str:
    text = format_config(mask_config(dict(config)), style='json')
    return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]


def _encode_rows(rows: Rows, limit: int | None) -> Iterator[tuple[int, bytes]]:
    for number, row in enumerate(rows):
        if limit is not None and number >= limit:
            return
        yield number, zlib.compress(json.dumps(dict(row), default=str).encode(), 1)
