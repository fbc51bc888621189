"""From a benchmark's files to splits and rows: files at fixed places, records that are several rows, hub datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.plain_files import read_plain
from rolecall.sources.datasets.arrow import open_hub
from rolecall.sources.datasets.folders import find, open_folder
from rolecall.sources.datasets.formats import FileOptions, open_file
from rolecall.sources.datasets.ranges import apply_range
from rolecall.sources.datasets.rows import (
    WHOLE,
    FilteredRows,
    LabelledRows,
    ListRows,
    MappedRows,
    Row,
    Rows,
    Splits,
    list_names,
    select,
)

Entry: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = Callable[[Row], Row]
Loader: TypeAlias = Callable[[Path, Entry], Splits]
HubLoader: TypeAlias = Callable[[Entry, 'Path | None'], Splits]


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One split: its file, and how its rows are read.

    `{name}` in a file is taken from the dataset's entry; `a.jsonl|b.jsonl` is the first that exists.
    """

    file: str = ''
    shape: Shape | None = None
    labels: str = ''
    range: str | None = None


def open_layout(
    path: Path,
    entry: Entry,
    splits: Mapping[str, str | SplitFile],
    shape: Shape | None = None,
    *,
    options: FileOptions | None = None,
    keep: Callable[[Row], bool] | None = None,
) -> Splits:
    """Open files at fixed places below a path. A split whose file is absent is omitted.

    `shape` turns a record of the file into a row; `keep` chooses records. If the path is itself a file, that file is
    the whole dataset.
    """
    table = {name: split if isinstance(split, SplitFile) else SplitFile(split) for name, split in splits.items()}
    if path.is_file() and not any(split.range for split in table.values()):
        table = {WHOLE: SplitFile(shape=next(iter(table.values())).shape)}
    opened: Splits = {}
    looked_for = []
    for name, split in table.items():
        files = [path / _fill_name(file, entry) if file else path for file in split.file.split('|')]
        looked_for += files
        for file in [file for file in files if file.is_file()][:1]:
            rows = _open_split(file, split, options)
            rows = rows if keep is None else FilteredRows(rows, keep, str(file))
            rows = _reshape_rows(rows, split.shape or shape, str(file))
            opened[name] = apply_range(rows, split.range)
    if not opened:
        raise DataError(f'{path}: none of its files exist: {", ".join(map(str, looked_for))}.')
    return opened


def _fill_name(file: str, entry: Entry) -> str:
    try:
        return file.format_map(entry)
    except KeyError as error:
        key = str(error.args[0])
        raise ConfigError(Problem(key, f'missing {key!r}: the files of this dataset are named {file!r}.')) from None


def _open_split(file: Path, split: SplitFile, options: FileOptions | None) -> Rows:
    rows = open_file(file, options)
    if not split.labels:
        return rows
    labels = file.parent / split.labels
    return LabelledRows(rows, open_file(labels), f'{file} and {labels}')


def _reshape_rows(rows: Rows, shape: Shape | None, where: str) -> Rows:
    return rows if shape is None else MappedRows(rows, lambda row, _: shape(row), where)


def _read_num_repeats(entry: Entry) -> int:
    """The entry's `num_repeats`, 1 if it has none."""
    times = entry.get('num_repeats', 1)
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ConfigError(Problem('num_repeats', f'must be a positive integer, got {times!r}.'))
    return times


def repeat_rows(splits: Splits, entry: Entry) -> Splits:
    """`num_repeats`: every row that many times in a row."""
    times = _read_num_repeats(entry)
    if times == 1:
        return splits
    return {
        name: select(rows, [index for index in range(len(rows)) for _ in range(times)]) for name, rows in splits.items()
    }


def repeat_test_split(splits: Splits, entry: Entry) -> Splits:
    """`num_repeats`: the test split that many times over."""
    times = _read_num_repeats(entry)
    test = splits['test']
    return splits if times == 1 else {**splits, 'test': select(test, [*range(len(test))] * times)}


def expand_rows(splits: Splits, expand: Callable[[Row, int], Iterable[Row]], path: Path) -> Splits:
    """Rows of records that are several rows each, or none."""
    return {
        name: ListRows([row for number, record in enumerate(rows) for row in _expand(expand, record, number, path)])
        for name, rows in splits.items()
    }


def _expand(expand: Callable[[Row, int], Iterable[Row]], record: Row, number: int, path: Path) -> list[Row]:
    try:
        return list(expand(record, number))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f'{path}: record {number} has an unexpected layout ({type(error).__name__}: {error}).\n'
            f'  Its columns: {list_names(record)}.'
        ) from error


def filter_splits(splits: Splits, keep: Callable[[Row], bool], where: object) -> Splits:
    return {name: FilteredRows(rows, keep, str(where)) for name, rows in splits.items()}


def choose_rows(splits: Splits, entry: Entry, columns: Mapping[str, str], where: object) -> Splits:
    """The rows whose columns have the values that these keys of the entry ask for; `ALL` and None ask for all rows."""
    wanted = {column: entry[key] for key, column in columns.items() if entry.get(key) not in (None, 'ALL')}
    if not wanted:
        return splits
    return filter_splits(splits, lambda row: all(row[column] == value for column, value in wanted.items()), where)


_LARGEST_JSON = 4 << 30


def read_json(path: Path) -> Any:
    """A whole JSON document, for files that hold no list of rows."""
    try:
        return json.loads(read_plain(path, largest=_LARGEST_JSON))
    except OSError as error:
        raise DataError(f'{path}: cannot read: {error.strerror}.') from error
    except (ValueError, RecursionError) as error:
        raise DataError(f'{path}: not valid JSON: {error}.') from error


def open_hub_layout(
    entry: Entry,
    base: Path | None,
    shape: Shape | None = None,
    *,
    splits: Mapping[str, str] | None = None,
    config: str = '',
    keep: Callable[[Row, Entry], bool] | None = None,
) -> Splits:
    """Open a hub dataset, or a folder with its files.

    `splits` maps our names of splits to the hub's (`{name}` is taken from the entry); `config` is the key of the
    entry that names the hub's configuration, or its name with `{keys}` of the entry.
    """
    source = str(entry.get('path') or '')
    if not source:
        raise ConfigError(Problem('path', 'must be the location of the data, got nothing.'))
    configuration = config.format_map(entry) if '{' in config else str(entry.get(config) or '') if config else ''
    opened = _open_hub_or_folder(source, configuration, base)
    chosen = opened
    if splits:
        named = {ours: theirs.format_map(entry) for ours, theirs in splits.items()}
        chosen = {ours: opened.get(theirs, opened.get(WHOLE)) for ours, theirs in named.items()}  # type: ignore[misc]
        missing = [named[ours] for ours, rows in chosen.items() if rows is None]
        if missing:
            raise DataError(f'{source}: no split {", ".join(missing)}. Available: {", ".join(opened)}.')
    if keep is not None:
        choose = keep
        chosen = filter_splits(chosen, lambda row: choose(row, entry), source)
    return {name: _reshape_rows(rows, shape, source) for name, rows in chosen.items()}


def _open_hub_or_folder(source: str, config: str, base: Path | None) -> Splits:
    try:
        folder = find(source, base)
    except DataError:
        return open_hub(source, {'name': config} if config else {})
    if config and (folder / config).exists():
        folder = folder / config
    return {WHOLE: open_file(folder)} if folder.is_file() else open_folder(folder)
