"""From a benchmark's files to splits and rows: files at fixed places, records that are several rows, hub datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, DataError, Problem
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


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One split: its file (`{name}` is taken from the dataset's entry), and how its rows are read."""

    file: str = ''
    shape: Shape | None = None
    labels: str = ''
    range: str | None = None


def layout(
    splits: Mapping[str, str | SplitFile],
    shape: Shape | None = None,
    *,
    options: FileOptions | None = None,
    keep: Callable[[Row], bool] | None = None,
    **defaults: str,
) -> Loader:
    """Make a loader for files at fixed places below a path. A split whose file is absent is omitted.

    `shape` turns a record of the file into a row; `keep` chooses records; `defaults` fill names in places.
    If the path is itself a file, that file is the whole dataset.
    """
    table = {name: split if isinstance(split, SplitFile) else SplitFile(split) for name, split in splits.items()}

    def load(path: Path, entry: Entry) -> Splits:
        in_one_file = path.is_file() and not any(split.range for split in table.values())
        wanted = {WHOLE: SplitFile(shape=next(iter(table.values())).shape)} if in_one_file else table
        opened: Splits = {}
        looked_for = []
        for name, split in wanted.items():
            file = path / _fill_name(split.file, {**defaults, **entry}) if split.file else path
            looked_for.append(file)
            if file.is_file():
                rows = _open_split(file, split, options)
                rows = rows if keep is None else FilteredRows(rows, keep, str(file))
                rows = _reshape_rows(rows, split.shape or shape, str(file))
                opened[name] = apply_range(rows, split.range)
        if not opened:
            raise DataError(f'{path}: none of its files exist: {", ".join(map(str, looked_for))}.')
        return opened

    places = [f'{name} = {split.file}' if name != WHOLE else split.file for name, split in table.items() if split.file]
    load.__doc__ = f'Files below path: {", ".join(places)}.' if places else 'One file of rows, named by path.'
    return load


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


def read_num_repeats(entry: Entry) -> int:
    """The entry's `num_repeats`, 1 if it has none."""
    times = entry.get('num_repeats', 1)
    if isinstance(times, bool) or not isinstance(times, int) or times < 1:
        raise ConfigError(Problem('num_repeats', f'must be a positive integer, got {times!r}.'))
    return times


def repeat_rows(load: Loader) -> Loader:
    """`num_repeats`: every row that many times in a row."""

    def load_repeated(path: Path, entry: Entry) -> Splits:
        times = read_num_repeats(entry)
        splits = load(path, entry)
        if times == 1:
            return splits
        return {
            name: select(rows, [index for index in range(len(rows)) for _ in range(times)])
            for name, rows in splits.items()
        }

    load_repeated.__doc__ = load.__doc__
    return load_repeated


def repeat_test_split(load: Loader) -> Loader:
    """`num_repeats`: the test split that many times over."""

    def load_repeated(path: Path, entry: Entry) -> Splits:
        splits = load(path, entry)
        times = read_num_repeats(entry)
        test = splits['test']
        return splits if times == 1 else {**splits, 'test': select(test, [*range(len(test))] * times)}

    load_repeated.__doc__ = load.__doc__
    return load_repeated


def expand_rows(load: Loader, expand: Callable[[Row, int], Iterable[Row]]) -> Loader:
    """Make a loader whose records are several rows each, or none."""

    def load_expanded(path: Path, entry: Entry) -> Splits:
        return {
            name: ListRows([row for number, record in enumerate(rows) for row in _expand(expand, record, number, path)])
            for name, rows in load(path, entry).items()
        }

    load_expanded.__doc__ = load.__doc__
    return load_expanded


def _expand(expand: Callable[[Row, int], Iterable[Row]], record: Row, number: int, path: Path) -> list[Row]:
    try:
        return list(expand(record, number))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f'{path}: record {number} has an unexpected layout ({type(error).__name__}: {error}).\n'
            f'  Its columns: {list_names(record)}.'
        ) from error


def read_json(path: Path) -> Any:
    """A whole JSON document, for files that hold no list of rows."""
    try:
        return json.loads(path.read_text('utf-8'))
    except OSError as error:
        raise DataError(f'{path}: cannot read: {error.strerror}.') from error
    except (ValueError, RecursionError) as error:
        raise DataError(f'{path}: not valid JSON: {error}.') from error


HubLoader: TypeAlias = Callable[[Entry, 'Path | None'], Splits]


def hub_layout(
    shape: Shape | None = None,
    *,
    splits: Mapping[str, str] | None = None,
    config: str = '',
    keep: Callable[[Row, Entry], bool] | None = None,
    path: str = '',
) -> HubLoader:
    """Make a loader for a hub dataset, or a folder with its files.

    `splits` maps our names of splits to the hub's (`{name}` is taken from the entry); `config` is the key of the
    entry that names the hub's configuration; `path` is the dataset where the entry names none.
    """

    def load(entry: Entry, base: Path | None) -> Splits:
        source = str(entry.get('path') or path)
        if not source:
            raise ConfigError(Problem('path', 'must be the location of the data, got nothing.'))
        opened = _open_hub_or_folder(source, str(entry.get(config) or '') if config else '', base)
        chosen = opened
        if splits is not None:
            named = {ours: theirs.format_map(entry) for ours, theirs in splits.items()}
            chosen = {ours: opened.get(theirs, opened.get(WHOLE)) for ours, theirs in named.items()}  # type: ignore[misc]
            missing = [named[ours] for ours, rows in chosen.items() if rows is None]
            if missing:
                raise DataError(f'{source}: no split {", ".join(missing)}. Available: {", ".join(opened)}.')
        if keep is not None:
            choose = keep
            chosen = {name: FilteredRows(rows, lambda row: choose(row, entry), source) for name, rows in chosen.items()}
        return {name: _reshape_rows(rows, shape, source) for name, rows in chosen.items()}

    load.__doc__ = 'A hub dataset, or a folder with its files.'
    return load


def _open_hub_or_folder(source: str, config: str, base: Path | None) -> Splits:
    try:
        folder = find(source, base)
    except DataError:
        return open_hub(source, {'name': config} if config else {})
    if config and (folder / config).exists():
        folder = folder / config
    return {WHOLE: open_file(folder)} if folder.is_file() else open_folder(folder)
