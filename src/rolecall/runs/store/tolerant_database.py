"""A run's database, read-only and perhaps damaged: whole entries are read, the others left out, counted and named."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.runs.store.codec import checksum
from rolecall.runs.store.directory import check_format
from rolecall.runs.store.row_codec import add_checksum_function
from rolecall.strings import count_noun

_TABLES = {'requests', 'rows', 'scores', 'starts'}
_NAMED = 20
_MOST_MISSES = 10_000


class Damage:
    """What could not be read: how many entries of each kind, and the first of them by name."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.named: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self.counts)

    def add(self, kind: str, name: str, why: object) -> None:
        """Note one entry that cannot be read; the same one counts once."""
        if name not in self.named or len(self.named) >= _NAMED:
            self.counts[kind] += 1
        if len(self.named) < _NAMED:
            self.named.setdefault(name, str(why))

    def __str__(self) -> str:
        counts = ', '.join(count_noun(count, kind) for kind, count in self.counts.items())
        return f'damaged and left out: {counts}. `rolecall doctor` says which and repairs the rest.'


class TolerantDatabase:
    """The database of a run, and the damage found in it so far."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._connection = _open_database(file)
        self.damage = Damage()
        self.execute = self._connection.execute
        """Run a query; `sqlite3.Error` where the file is damaged."""

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def is_whole(self, entry: tuple[Any, ...], kind: str, name: str) -> bool:
        """Whether an entry has all its cells and fits its checksum, the last of them."""
        *cells, stored = entry
        if None in cells:
            self.damage.add(kind, name, 'a cell is empty')
        elif stored is not None and stored != checksum(*cells):
            self.damage.add(kind, name, 'the checksum does not match')
        else:
            return True
        return False

    def salvage(
        self, query: str, key: str, values: tuple[Any, ...], table: str, kind: str, *, after: int = -1
    ) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """The entries of a query with their integer key, in order. Where a page is damaged, key by key after it."""
        last = after
        glue = 'AND' if values else 'WHERE'
        try:
            for number, *entry in self.execute(f'{query} {glue} {key} > ? ORDER BY {key}', (*values, last)):
                if isinstance(number, int):
                    last = number
                    yield number, tuple(entry)
            return
        except sqlite3.Error as error:
            self.damage.add(kind, f'{table} after {key} {last}', error)
        misses = 0
        while misses < _MOST_MISSES:
            last += 1
            entry = None
            with suppress(sqlite3.Error):
                entry = self.execute(f'{query} {glue} {key} = ?', (*values, last)).fetchone()
            misses = 0 if entry else misses + 1
            if entry:
                yield last, tuple(entry[1:])

    def read_table(self, query: str, kind: str, name: str) -> list[Any]:
        """What a query finds; nothing where the table is damaged, which hides no other table."""
        try:
            return list(self.execute(query))
        except sqlite3.Error as error:
            self.damage.add(kind, name, error)
            return []

    def fetch_all(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        """What a query finds; an error names the file and what saves the rest."""
        try:
            yield from self.execute(query, values)
        except sqlite3.Error as error:
            raise RunError(
                f'{self._file}: cannot be read: {error}.\n'
                f'`rolecall doctor {self._file.parent} --repair NEW` saves what is whole, if anything is.'
            ) from error

    def fetch_one(self, query: str, values: Sequence[Any] = ()) -> Any:
        """The first entry of the same, or None."""
        return next(self.fetch_all(query, values), None)


def _open_database(file: Path) -> sqlite3.Connection:
    """The database, read-only. Where the directory is read-only it is taken as it lies, if no journal is pending."""
    address = f'{file.absolute().as_uri()}?mode=ro'
    try:
        return _connect(address, file)
    except sqlite3.Error as error:
        failed = error
    journal = Path(f'{file}-wal')
    if not journal.exists() or journal.stat().st_size == 0:
        with suppress(sqlite3.Error):
            return _connect(f'{address}&immutable=1', file)
    raise RunError(f'{file}: cannot be read: {failed}.\n  `rolecall doctor {file.parent}` says more.') from failed


def _connect(address: str, file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True)
    db.text_factory = lambda data: data.decode('utf-8', 'replace')
    add_checksum_function(db)
    try:
        db.execute(
            'PRAGMA writable_schema = ON'
        )  # one damaged table definition hides no other table; nothing is written
        if not check_format(db, file) >= _TABLES:
            raise RunError(f'{file}: not a rolecall run, or one that was stopped before it started.')
    except (sqlite3.Error, RunError):
        db.close()
        raise
    return db
