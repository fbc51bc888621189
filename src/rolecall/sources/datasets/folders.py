"""Finding data: paths, patterns, folders with one file per split, and the usual data folders."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from rolecall.errors import DataError
from rolecall.plain_files import read_table
from rolecall.sources.datasets.compression import COMPRESSED
from rolecall.sources.datasets.formats import FileOptions, is_data_file, open_file
from rolecall.sources.datasets.rows import WHOLE, JoinedRows, Rows, Splits

_SPLIT_NAMES = ('train', 'training', 'test', 'testing', 'validation', 'valid', 'val', 'dev', 'eval')
_METADATA = ('dataset_info.json', 'dataset_infos.json', 'dataset_dict.json', 'state.json', 'config.json')


def find(path: str | Path, base: Path | None = None) -> Path:
    """The file or folder that a config's path names; DataError lists every place tried.

    Relative paths are looked for under `base`, the working directory, `$COMPASS_DATA_CACHE` and
    `~/.cache/opencompass`, as written and at the usual place of a well-known name; that place also under
    `$ROLECALL_DATA`.
    """
    tried = _places(path, base)
    for place in tried:
        if os.path.exists(place):  # False, too, for a name that no file can have
            return place
    places = '\n    '.join(map(str, tried))
    raise DataError(
        f'{path}: no such file or folder. Tried:\n    {places}\n'
        '  Put the data in one of them, or supply rows with --data train=FILE test=FILE.'
    )


def find_all(path: str | Path, base: Path | None = None) -> list[Path]:
    """The files or folders that a path or a pattern (`part-*.jsonl`) means, sorted."""
    if not re.search(r'[*?\[]', str(path)) or any(os.path.exists(place) for place in _places(path, base)):
        return [find(path, base)]
    for place in _places(path, base):
        anchor = Path(place.anchor)
        try:
            files = sorted(anchor.glob(str(place.relative_to(anchor))))
        except (OSError, ValueError) as error:
            raise DataError(f'{path}: invalid file pattern: {error}.') from error
        if files:
            return files
    raise DataError(f'{path}: no file matches this pattern.')


def open_files(paths: Iterable[Path], options: FileOptions | None = None) -> Rows:
    """The rows of several files, one after another."""
    parts = [open_file(path, options) for path in paths]
    return parts[0] if len(parts) == 1 else JoinedRows(parts)


def open_path(paths: list[Path], options: FileOptions | None = None) -> Splits:
    """The splits of one folder, or the rows of one or more files as a whole."""
    if len(paths) == 1 and paths[0].is_dir():
        return open_folder(paths[0], options)
    files = [file for path in paths for file in (_data_files(path) if path.is_dir() else [path])]
    return {WHOLE: open_files(files, options)}


def open_folder(folder: Path, options: FileOptions | None = None) -> Splits:
    """The splits of a folder. `train.jsonl`, `test-00000-of-00002.parquet` and `dev/part1.csv` name theirs.

    If no file names a split, all files together are the dataset.
    """
    by_split: dict[str, list[Path]] = {}
    for file in _data_files(folder):
        by_split.setdefault(_split_in_name(file.relative_to(folder)), []).append(file)
    if not by_split:
        raise DataError(f'{folder}: holds no file of a known format.')
    if WHOLE in by_split and len(by_split) > 1:
        names = ', '.join(str(file.relative_to(folder)) for file in by_split[WHOLE])
        raise DataError(
            f'{folder}: cannot tell the split of these files: {names}.\n'
            '  List the files of each split: data_files={"train": …, "test": …}.'
        )
    return {split: open_files(files, options) for split, files in by_split.items()}


def _data_files(folder: Path) -> list[Path]:
    return sorted(
        path
        for path in folder.rglob('*')
        if path.is_file()
        and is_data_file(path)
        and path.name not in _METADATA
        and not any(part.startswith('.') for part in path.relative_to(folder).parts)
    )


def _split_in_name(path: Path) -> str:
    """The split in a file's name, or else in its innermost folder that names one.

    >>> [_split_in_name(Path(name)) for name in ('a/train-00000-of-00002.parquet', 'dev/x.csv', 'data.json')]
    ['train', 'dev', '*']
    """
    name = path.name
    while Path(name).suffix.lower() in COMPRESSED:
        name = Path(name).stem
    for part in (Path(name).stem, *reversed(path.parent.parts)):
        names = [word for word in re.split(r'[^a-z]+', part.lower()) if word in _SPLIT_NAMES]
        if names:
            return names[-1]
    return WHOLE


def _places(path: str | Path, base: Path | None) -> list[Path]:
    literal = Path(os.path.expanduser(path))
    if literal.is_absolute():
        return [literal]
    cache = os.environ.get('COMPASS_DATA_CACHE')
    roots = [base, Path.cwd(), Path(cache) if cache else None, Path.home() / '.cache' / 'opencompass']
    names = [literal]
    if local := _read_places().get(str(path).rstrip('/')):
        names.append(Path(local))
    places = [Path(root, name).absolute() for root in roots if root is not None for name in names]
    if local and (folder := os.environ.get('ROLECALL_DATA')):
        places.append(Path(os.path.expanduser(folder), local.removeprefix('data/')).absolute())
    return list(dict.fromkeys(places))


@lru_cache
def _read_places() -> dict[str, str]:
    """The folder of each named dataset below a data root, as published configs expect it."""
    return dict(read_table(__file__, 'places.tsv'))
