"""A dataset: training rows, test rows and how they are read, opened from an entry of a config."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from rolecall.checking import is_whole
from rolecall.errors import ConfigError, DataError, Problem, did_you_mean, import_extra
from rolecall.registry import Registry, part_name
from rolecall.sources.datasets.arrow import open_hub
from rolecall.sources.datasets.benchmarks import BENCHMARKS, HUB_BENCHMARKS
from rolecall.sources.datasets.columns import flatten, spread_choices
from rolecall.sources.datasets.folders import find, find_all, open_files, open_path
from rolecall.sources.datasets.formats import FileOptions
from rolecall.sources.datasets.layouts import repeat_rows
from rolecall.sources.datasets.loaders import (
    SUPPLY_ROWS,
    check_call,
    display_name,
    explain_unsupported,
    parameters_of,
    resolve_loader,
)
from rolecall.sources.datasets.ranges import Range, Reader, apply_range
from rolecall.sources.datasets.rows import (
    EMPTY,
    WHOLE,
    ListRows,
    MappedRows,
    OwnRows,
    RowFunction,
    Rows,
    Splits,
)
from rolecall.usercode import user_code

Entry: TypeAlias = Mapping[str, Any]
OpenBuiltin: TypeAlias = Callable[[Entry, 'Path | None'], Splits]

_BUILDERS = {'json': 'json', 'csv': 'csv', 'parquet': 'parquet', 'text': 'text'}
_NOT_FOR_LOADERS = ('type', 'abbr', 'reader_cfg', 'infer_cfg', 'eval_cfg', 'lint')
_FOR_SCORES = ('n', 'k')
"""Repetitions per row, and k of pass@k. Passed to a loader only if it has parameters of these names."""
_HUB_OPTIONS = ('name', 'data_files', 'data_dir', 'split', 'revision', 'cache_dir', 'token', 'features')


@dataclass(frozen=True, slots=True)
class Dataset:
    """An opened dataset entry. `train` and `test` have their ranges applied."""

    train: Rows
    test: Rows
    reader: Reader
    name: str
    note: str = ''
    """What reports say about its rows."""


def open_dataset(entry: Entry, *, base: Path | None = None, data: Mapping[str, str | Path] | None = None) -> Dataset:
    """Open the dataset of a config entry.

    `base` is where relative paths start; `data` replaces the entry's own rows: `{'train': file, 'test': file}`.

    >>> demo = open_dataset({
    ...     'abbr': 'demo',
    ...     'type': 'Rows',
    ...     'test': [{'question': '1+1=?', 'answer': '2'}],
    ...     'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
    ... })
    >>> demo.name, len(demo.train), demo.test[0]['question'], demo.reader.output_column
    ('demo', 0, '1+1=?', 'answer')
    """
    if not isinstance(entry, Mapping):
        raise ConfigError(Problem('', f'a dataset must be a mapping, got {type(entry).__name__}.'))
    kind = entry.get('type')
    own = getattr(kind, 'open_dataset', None)
    # An object with named splits, like a task of another harness. (A reference has any attribute.)
    if own is not None and not isinstance(getattr(kind, 'dotted', None), str):
        opened: Dataset = own(base=base, data=data)
        return opened
    reader_cfg = entry.get('reader_cfg') or {}
    try:
        reader = Reader.from_config(reader_cfg)
    except ConfigError as error:
        raise ConfigError(problem.inside('reader_cfg') for problem in error.problems) from None
    inline = bool(data) or _is_inline(entry)
    splits = _open_data_files(data, entry) if data else _open_splits(entry, base)
    if 'flatten' in entry or entry.get('choices_from') is not None:
        splits = _convert_rows(splits, entry, reader)
    train_is_needed = 'train_split' in reader_cfg and not inline
    name = _dataset_name(entry)
    test_names, train_names = ([reader.test_split, 'test'], [reader.train_split, 'train'])
    if data:  # files are given for what they are to be, whatever splits the entry names
        test_names, train_names = test_names[::-1], train_names[::-1]
    test_rows = _pick_split(splits, test_names if inline else test_names[:1])
    train_rows = _pick_split(splits, train_names if inline else train_names[:1])
    if test_rows is None or (train_rows is None and train_is_needed):
        key = 'test_split' if test_rows is None else 'train_split'
        raise DataError(_describe_missing_split(name, key, getattr(reader, key), splits))
    test = _apply_range(test_rows, reader.test_range, 'test_range')
    if train_rows is test_rows and reader.train_range == reader.test_range:
        return Dataset(test, test, reader, name)
    train = _apply_range(EMPTY if train_rows is None else train_rows, reader.train_range, 'train_range')
    return Dataset(train, test, reader, name)


def _convert_rows(splits: Splits, entry: Entry, reader: Reader) -> Splits:
    """The rows with nested values as columns (`flatten`), and options under letters and as lines (`choices_from`)."""
    column, answer = entry.get('choices_from'), reader.output_column
    if isinstance(column, list | tuple) and all(isinstance(name, str) for name in column):
        column = tuple(column)
    elif column is not None and not isinstance(column, str):
        raise ConfigError(
            Problem('choices_from', f'must be the name of a column or a list of them, got {column!r:.60}.')
        )
    if not isinstance(entry.get('flatten', False), bool):
        raise ConfigError(Problem('flatten', f'must be True or False, got {entry["flatten"]!r:.60}.'))
    if entry.get('flatten'):
        splits = _map_splits(splits, lambda row, index: flatten(row), f'{_dataset_name(entry)}.flatten')
    if column is not None:
        where = f'{_dataset_name(entry)}.choices_from'
        splits = _map_splits(splits, lambda row, index: spread_choices(row, column, answer), where)
    return splits


def _map_splits(splits: Splits, convert: RowFunction, where: str) -> Splits:
    """Splits that share their rows still do."""
    mapped = {id(rows): MappedRows(rows, convert, where) for rows in splits.values()}
    return {name: mapped[id(rows)] for name, rows in splits.items()}


def _apply_range(rows: Rows, range_: Range, key: str) -> Rows:
    try:
        return apply_range(rows, range_)
    except DataError as error:
        if range_ is None:
            raise
        raise DataError(f'{key}: {error}') from error


def _pick_split(splits: Splits, names: Sequence[str]) -> Rows | None:
    """The rows of a split by the first of its names, or the rows that belong to no split."""
    return next((splits[name] for name in (*names, WHOLE) if name in splits), None)


def _describe_missing_split(name: str, key: str, wanted: str, splits: Splits) -> str:
    there = ', '.join(map(repr, splits)) or 'none'
    return f'{name}: no split {wanted!r} (reader_cfg.{key}). Available splits: {there}.'


def _dataset_name(entry: Entry) -> str:
    for key in ('abbr', 'name'):
        if entry.get(key):
            return str(entry[key])
    path = entry.get('path')
    return Path(path).stem if isinstance(path, str | Path) else 'dataset'


def _open_splits(entry: Entry, base: Path | None) -> Splits:
    kind = 'Rows' if _is_inline(entry) else entry.get('type', 'File')
    try:
        part = DATASETS.find(kind, base=base)
    except ConfigError as error:
        worded = explain_unsupported(part_name(kind))
        remedies = (f'{worded or problem.remedy} {SUPPLY_ROWS}'.lstrip() for problem in error.problems)
        problems = [replace(problem, remedy=remedy) for problem, remedy in zip(error.problems, remedies, strict=True)]
        raise ConfigError(problems) from error.__cause__
    if part.builtin:
        builtin: OpenBuiltin = part.value
        if hint := entry.get('rows_from'):  # a benchmark by name whose rows were not found
            raise DataError(str(hint))
        return builtin(entry, base)
    return _call_loader(resolve_loader(part.value, kind if isinstance(kind, str) else display_name(kind)), entry)


def _is_inline(entry: Entry) -> bool:
    kind = entry.get('type')
    if kind is None:
        return any(key in entry for key in ('train', 'test', 'splits'))
    return DATASETS.builtin_name(kind) == 'Rows'


def _benchmark_path(entry: Entry) -> str | Path:
    path = entry.get('path')
    if isinstance(path, str) and path in _BUILDERS:
        path = entry.get('data_files')
    if not isinstance(path, str | Path):
        raise ConfigError(Problem('path', f'must be the location of the data, got {path!r}.'))
    return path


def _read_file_options(entry: Entry) -> FileOptions:
    keys = ('format', 'fallback', 'encoding', 'on_error', 'field', 'columns')
    options = {key: entry[key] for key in keys if entry.get(key) is not None}
    wrong = [key for key in ('format', 'fallback', 'encoding', 'field') if not isinstance(options.get(key, ''), str)]
    problems = [Problem(key, f'must be a string, got {options[key]!r}.') for key in wrong]
    columns = options.get('columns', ())
    if not isinstance(columns, list | tuple) or not all(isinstance(name, str) for name in columns):
        problems.append(Problem('columns', f'must be a list of column names, got {columns!r}.'))
    elif len(set(columns)) < len(columns):
        problems.append(Problem('columns', f'duplicate column name: {columns!r}.'))
    if problems:
        raise ConfigError(problems)
    return FileOptions(**{**options, 'columns': tuple(columns) or None})


def _open_data_files(data: Mapping[str, str | Path], entry: Entry) -> Splits:
    options = _read_file_options({key: entry[key] for key in ('encoding', 'on_error') if key in entry})
    return {name: _open_rows_at([path], None, options) for name, path in data.items()}


def _read_inline_splits(entry: Entry, base: Path | None) -> Splits:
    """Rows written in the config: train and test, or splits by name."""
    named = entry.get('splits') or {}
    if not isinstance(named, Mapping):
        raise ConfigError(Problem('splits', 'must be a mapping of split names to rows.'))
    roles = {key: entry[key] for key in ('train', 'test') if entry.get(key) is not None}
    places = {name: f'splits[{name!r}]' for name in named} | {name: name for name in roles}
    options = _read_file_options(entry)
    problems, splits = [], {}
    for name, value in {**named, **roles}.items():
        try:
            with user_code('reading the rows', where=places[name]):
                splits[name] = _read_rows(value, places[name], base, options)
        except DataError as error:
            problems.append(Problem(places[name], str(error)))
    if problems:
        raise ConfigError(problems)
    return splits


def _read_rows(value: Any, where: str, base: Path | None, options: FileOptions) -> Rows:
    """Rows given as a list or an iterator, as Rows, or as the path (or paths) of files."""
    if isinstance(value, str | Path):
        return _open_rows_at([value], base, options)
    if isinstance(value, list | tuple) and value and all(isinstance(item, str | Path) for item in value):
        return _open_rows_at(value, base, options)
    if isinstance(value, Mapping):
        raise DataError(f'{where}: must be a list of rows, got one mapping.')
    if isinstance(value, Rows) and not isinstance(value, list | tuple):
        return value if type(value).__module__.startswith('rolecall.') else OwnRows(value, where)
    if isinstance(value, Iterable):
        return ListRows.from_items(value, where)
    raise DataError(f'{where}: must be a list of rows or a file path, got {type(value).__name__}.')


def _open_rows_at(paths: Iterable[str | Path], base: Path | None, options: FileOptions) -> Rows:
    places = [place for path in paths for place in find_all(path, base)]
    splits = open_path(places, options)
    if WHOLE not in splits:
        raise DataError(f'{places[0]}: this folder has several splits ({", ".join(splits)}); name the files.')
    return splits[WHOLE]


def _open_file_splits(entry: Entry, base: Path | None) -> Splits:
    """Files by `path` (and `file_name`), or by `data_files`, which may be a mapping of split to files."""
    options = _read_file_options(entry)
    source = entry.get('data_files', entry.get('path'))
    if source is None:
        raise ConfigError(Problem('path', 'path or data_files is missing.'))
    if isinstance(source, Mapping):
        splits = {str(name): open_files(_find_files(files, base), options) for name, files in source.items()}
    else:
        splits = open_path(_find_files(_locate_named_file(source, entry, base), base), options)
    return repeat_rows(splits, entry)


def _locate_named_file(source: Any, entry: Entry, base: Path | None) -> Any:
    """The file called `file_name` below the path, if the entry names one."""
    name = entry.get('file_name')
    if not name or not isinstance(source, str | Path):
        return source
    if not isinstance(name, str | Path):
        raise ConfigError(Problem('file_name', f'must be a file name below path, got {name!r}.'))
    return find(source, base) / name


def _find_files(source: Any, base: Path | None) -> list[Path]:
    paths = [source] if isinstance(source, str | Path) else source
    if not isinstance(paths, list | tuple) or not all(isinstance(path, str | Path) for path in paths) or not paths:
        raise ConfigError(Problem('path', f'must be a path or a list of paths, got {source!r}.'))
    return [place for path in paths for place in find_all(path, base)]


def open_reasoning_gym(entry: Entry, base: Path | None) -> Splits:
    """Generated rows of the task `name`: `size` of them, made with `seed`; `options` go to the task."""
    problems = [
        Problem(key, f'must be a whole number from {least}, got {entry[key]!r:.60}.')
        for key, least in (('size', 1), ('seed', 0))
        if key in entry and not is_whole(entry[key], least=least)
    ]
    if problems:
        raise ConfigError(problems)
    library = import_extra('reasoning_gym', extra='generate', purpose='to generate rows')
    name = str(entry.get('name'))
    tasks = import_extra('reasoning_gym.factory', extra='generate', purpose='to generate rows').DATASETS
    if name not in tasks:
        raise DataError(f'reasoning-gym has no task {name!r}. {did_you_mean(name, sorted(tasks))[:300]}')
    try:
        generated = library.create_dataset(
            name, size=entry.get('size', 100), seed=entry.get('seed', 42), **(entry.get('options') or {})
        )
        rows: list[dict[str, Any]] = [dict(generated[number]) for number in range(len(generated))]
    except Exception as error:  # a generator of the package may raise anything
        raise DataError(f'reasoning-gym: the task {name!r} failed: {error}') from error
    return {'test': ListRows(rows)}


def _open_hub_splits(entry: Entry, base: Path | None) -> Splits:
    """A dataset of the hub, or local files named through a format (`path='json', data_files=…`)."""
    path = entry.get('path')
    if not isinstance(path, str | Path):
        raise ConfigError(Problem('path', f'must be a hub dataset, a folder or a file format, got {path!r}.'))
    file_format = _BUILDERS.get(str(path))
    if file_format and 'data_files' in entry:
        splits = _open_file_splits({**entry, 'fallback': file_format}, base)
        return {'train': splits[WHOLE]} if WHOLE in splits and 'split' not in entry else splits
    local = Path(base or '', path)
    options = {key: entry[key] for key in _HUB_OPTIONS if entry.get(key) is not None}
    return open_hub(str(local if os.path.exists(local) else path), options)


def _call_loader(load: Callable[..., Any], entry: Entry) -> Splits:
    """Rows that a function returns: one iterable of mappings, or a mapping of split to iterable."""
    arguments = loader_arguments(load, entry)
    check_call(load, arguments)
    name = display_name(load)
    remedy = 'Correct it, or supply rows with --data train=FILE test=FILE (data={…} in Python).'
    with user_code(f'the loader {name!r}', remedy=remedy):
        result = load(**arguments)
        if isinstance(result, Mapping):
            return {
                str(key): _read_rows(rows, f'{name}()[{key!r}]', None, FileOptions()) for key, rows in result.items()
            }
        return {WHOLE: _read_rows(result, f'{name}()', None, FileOptions())}


def loader_arguments(load: Callable[..., Any], entry: Entry) -> dict[str, Any]:
    """The arguments of a user's loader: the entry's keys, without those meant for other parts."""
    named = parameters_of(load)
    return {
        key: value
        for key, value in entry.items()
        if key not in _NOT_FOR_LOADERS and (key not in _FOR_SCORES or key in named)
    }


def _find_benchmark(load: Callable[[Path, Entry], Splits]) -> OpenBuiltin:
    def open_benchmark(entry: Entry, base: Path | None) -> Splits:
        return load(find(_benchmark_path(entry), base), entry)

    open_benchmark.__doc__ = load.__doc__
    return open_benchmark


DATASETS: Registry[OpenBuiltin] = Registry(
    'dataset',
    {
        'Rows': _read_inline_splits,
        **dict.fromkeys(('File', 'CustomDataset', 'JsonlDataset', 'CodeCustomDataset'), _open_file_splits),
        'HFDataset': _open_hub_splits,
        'ReasoningGymDataset': open_reasoning_gym,
        **{name: _find_benchmark(load) for name, load in BENCHMARKS.items()},
        **HUB_BENCHMARKS,
    },
    spelling=lambda name: name.lower().replace('_', ''),
    is_ours=lambda name: False,
)
"""Each opens the splits of an entry. Older spellings (`hellaswagDataset_V2`) differ in case and underscores only."""
