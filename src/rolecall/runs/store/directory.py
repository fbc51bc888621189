"""A run directory on disk: which files it may hold, its lock, and itself packed into one file.

Links and special files are refused. A bundle is a zip of the database, the rows asked about, and media they name.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import sqlite3
import stat
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rolecall.errors import RunError
from rolecall.plain_files import open_plain
from rolecall.runs.atomic import write_atomically

FILE, LABELS_FILE = 'run.sqlite', 'labels.jsonl'
VERSION = 4
_LOCK = 'lock'
CONTROL_FILE = 'control.json'
"""What a person wants of a run under way."""
_FILES = (_LOCK, CONTROL_FILE, FILE, f'{FILE}-wal', f'{FILE}-shm', f'{FILE}-journal')
_LOCKS, _LARGEST_LOCK = Path('/proc/locks'), 4096
_LARGEST_CELL, _LIMIT_LENGTH = 256 << 20, 0
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, 'O_NOFOLLOW', 0) | getattr(os, 'O_NONBLOCK', 0)


def check_files(directory: Path) -> None:
    """Refuse a directory whose files lead out of it: what is written must stay inside."""
    for name in _FILES:
        try:
            status = os.lstat(directory / name)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode):
            kind = 'a symbolic link' if stat.S_ISLNK(status.st_mode) else 'not a regular file'
            raise RunError(f'{directory / name}: {kind}. Run directories hold only regular files; remove it.')
        if status.st_nlink > 1:
            raise RunError(f'{directory / name}: has another hard link. Copy the run directory instead of linking it.')


def check_format(db: sqlite3.Connection, file: Path) -> set[str]:
    """The tables of a database; refuses one that a later version, or another program, has written."""
    version = db.execute('PRAGMA user_version').fetchone()[0]
    if version > VERSION:
        raise RunError(f'{file}: written by a later version of rolecall (format {version}; this one reads {VERSION}).')
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    computed = db.execute("SELECT name FROM sqlite_master WHERE type IN ('view', 'trigger') LIMIT 1").fetchone()
    for table in tables if computed is None else ():
        with suppress(sqlite3.Error):  # a damaged table, which hides no other
            query = 'SELECT name FROM pragma_table_xinfo(?) WHERE hidden > 1'
            computed = computed or db.execute(query, (table,)).fetchone()
    if computed is not None:
        raise RunError(
            f'{file}: its {computed[0]!r:.40} is computed when it is read, which no run of rolecall has. '
            'The file was altered; do not use it.'
        )
    if set_limit := getattr(db, 'setlimit', None):  # Python 3.11
        set_limit(_LIMIT_LENGTH, _LARGEST_CELL)
    return tables


def is_running(directory: Path) -> bool | None:
    """Whether a process of this machine is running here; None if that cannot be told. Takes no lock itself."""
    lock = directory / _LOCK
    try:
        with open_plain(lock, largest=_LARGEST_LOCK) as file:
            holder, status = file.read().decode('utf-8', 'replace'), os.fstat(file.fileno())
        locks = [line.split() for line in _LOCKS.read_text('ascii', 'replace').splitlines()]
    except OSError:
        return None
    if any(_holds(fields, holder, status) for fields in locks):
        return True
    return False if holder.strip().endswith(f' on {socket.gethostname()}') else None


def _holds(fields: list[str], holder: str, status: os.stat_result) -> bool:
    """Whether a line of /proc/locks is the lock of a file, by inode and device.

    Some file systems (btrfs) report another device there; then the process must be the one named in the file.
    """
    if len(fields) < 6 or fields[1] != 'FLOCK':
        return False
    process, (device, _, inode) = fields[4], fields[5].rpartition(':')
    same_device = device == f'{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}'
    return inode == str(status.st_ino) and (same_device or holder.startswith(f'process {process} '))


class RunLock:
    """Keeps other processes out of a run directory until it is released or the process ends."""

    def __init__(self, directory: Path) -> None:
        try:
            self._file = os.open(directory / _LOCK, _FLAGS, 0o644)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                check_files(directory)
            raise RunError(f'{directory}: cannot be written: {error.strerror or error}.') from error
        try:
            check_files(directory)
        except RunError:
            os.close(self._file)
            raise
        try:
            free = _lock(self._file)
        except OSError as error:
            os.close(self._file)
            raise RunError(
                f'{directory}: this file system cannot lock files ({error.strerror or error}).\n'
                'Two processes could write here at once. Choose a directory on a local disk with --out.'
            ) from error
        if not free:
            holder = os.read(self._file, 200).decode('utf-8', 'replace').strip()
            os.close(self._file)
            raise RunError(
                f'{directory}: another process is running here{f" ({holder})" if holder else ""}.\n'
                'Wait for it, stop it, or choose another directory with --out.'
            )
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f'process {os.getpid()} on {socket.gethostname()}\n'.encode(), 0)

    def release(self) -> None:
        """Let the next process in."""
        os.close(self._file)


if sys.platform == 'win32':
    import msvcrt

    _FAR = 1 << 30  # beyond what is written, so that the holder's name can be read

    def _lock(file: int) -> bool:
        os.lseek(file, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        finally:
            os.lseek(file, 0, os.SEEK_SET)
        return True
else:
    import fcntl

    def _lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


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
