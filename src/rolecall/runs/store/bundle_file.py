"""A run in one file: a zip of its database, the rows it was asked about, and, if wanted, the media they name."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rolecall.errors import RunError
from rolecall.runs.atomic import write_atomically
from rolecall.runs.store.directory import FILE

SUFFIX = '.rolecall'
MEDIA = 'media'
_ROWS = 'rows'
_NAME = re.compile(rf'{re.escape(FILE)}|{_ROWS}/\d+\.jsonl|{MEDIA}/[^\\]+')
_LARGEST = 64 << 30

RowsBySplit = Mapping[tuple[str, str], Iterable[Mapping[str, Any]]]
"""By dataset and split."""


def write_bundle(directory: Path, target: Path, rows: RowsBySplit, media: Mapping[str, Path]) -> None:
    """Pack a run directory. `media` has files under the relative paths that rows name."""
    with write_atomically(target) as part, zipfile.ZipFile(part, 'w', zipfile.ZIP_DEFLATED) as packed:
        with TemporaryDirectory() as folder:
            copy = Path(folder, FILE)
            with closing(sqlite3.connect(directory / FILE)) as source, closing(sqlite3.connect(copy)) as whole:
                source.backup(whole)
            packed.write(copy, FILE)
        for number, ((dataset, split), some) in enumerate(rows.items()):
            lines = [{'dataset': dataset, 'split': split}, *map(dict, some)]
            packed.writestr(f'{_ROWS}/{number}.jsonl', '\n'.join(json.dumps(line, default=str) for line in lines))
        for name, file in media.items():
            packed.write(file, f'{MEDIA}/{name}')


def is_bundle(path: Path) -> bool:
    """Whether a path is a run in one file."""
    return path.suffix == SUFFIX and path.is_file()


def unpack_bundle(path: Path) -> TemporaryDirectory[str]:
    """The run directory of a bundle, in a folder of its own under the bundle's name; gone when it is cleaned up."""
    folder = TemporaryDirectory(prefix='rolecall-')
    try:
        with zipfile.ZipFile(path) as packed:
            for entry in packed.infolist():
                if not _NAME.fullmatch(entry.filename) or '..' in entry.filename.split('/'):
                    raise RunError(f'{path}: {entry.filename!r:.60} does not belong in a bundle. Do not use the file.')
            if sum(entry.file_size for entry in packed.infolist()) > _LARGEST:
                raise RunError(f'{path}: larger than {_LARGEST >> 30} GiB when unpacked.')
            for entry in packed.infolist():
                place = Path(folder.name, path.stem, entry.filename)
                place.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(entry) as source, open(place, 'wb') as copy:
                    shutil.copyfileobj(source, copy)
                os.chmod(place, 0o600)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError) as error:  # RuntimeError: encrypted
        folder.cleanup()
        raise RunError(f'{path}: not a bundle that can be opened: {error}.') from error
    except RunError:
        folder.cleanup()
        raise
    return folder


def read_bundled_rows(directory: Path, dataset: str) -> dict[str, list[dict[str, Any]]]:
    """The rows of a dataset by split, as a bundle has them; empty for a run directory that was not one."""
    splits: dict[str, list[dict[str, Any]]] = {}
    for file in sorted((directory / _ROWS).glob('*.jsonl')):
        try:
            with open(file, encoding='utf-8') as lines:
                head = json.loads(next(lines))
                if head['dataset'] == dataset:
                    splits[str(head['split'])] = [dict(json.loads(line)) for line in lines]
        except (ValueError, TypeError, LookupError, StopIteration, RecursionError) as error:
            raise RunError(f'{file}: not the rows of a bundle: {error!r:.80}. Do not use the file.') from error
    return splits
