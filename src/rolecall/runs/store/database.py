"""A run's database: its tables, its transactions, one after the other, and how it is read where it is damaged.

A group of entries is written by a few large statements. While SQLite works on one, other threads can run Python.
Of a damaged file whole entries are read; the others are left out, counted and named.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.runs.store.codec import checksum
from rolecall.runs.store.directory import VERSION, check_format
from rolecall.runs.store.row_codec import ROW_COLUMNS, ROW_NUMBERS, add_checksum_function
from rolecall.strings import count_noun

_TABLES = """
CREATE TABLE IF NOT EXISTS requests (
    fingerprint BLOB PRIMARY KEY, kind TEXT NOT NULL, outcome TEXT NOT NULL, request BLOB NOT NULL, reply BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE IF NOT EXISTS rows (
    dataset TEXT, model TEXT, row INTEGER, outcome TEXT NOT NULL, result TEXT NOT NULL, checksum INTEGER,
    score, correct, input_tokens, output_tokens, seconds, microseconds, settled,
    PRIMARY KEY (dataset, model, row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS data (
    dataset TEXT, row INTEGER, fields BLOB NOT NULL, checksum INTEGER, PRIMARY KEY (dataset, row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scores (
    dataset TEXT, model TEXT, metric TEXT, card TEXT NOT NULL, PRIMARY KEY (dataset, model, metric)
);
CREATE TABLE IF NOT EXISTS starts (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, manifest TEXT NOT NULL, config TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS answered (who TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS times (
    model TEXT, node TEXT, rows INTEGER, computing REAL, waiting REAL, wording REAL, writing REAL,
    PRIMARY KEY (model, node)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recipes (
    dataset TEXT, model TEXT, asking TEXT, scoring TEXT, PRIMARY KEY (dataset, model)
) WITHOUT ROWID;
"""
_CACHE_KIB = 8 << 10
"""Of each connection. It fills in the first minutes of a run; eight times as much saves no time (600,000 rows)."""
_WAL_PAGES = 8192
"""Pages of the journal before they are moved into the file: fingerprints are spread over all pages of their index."""
_KEPT_STATEMENTS = 16
"""Statements kept compiled: those that write a whole group are large, and seldom the same."""


def open_for_writing(file: Path, *, is_new: bool = True) -> sqlite3.Connection:
    """A connection to a run's file, which is created or brought up to date if it `is_new` to this process."""
    db = sqlite3.connect(
        file, check_same_thread=False, isolation_level=None, timeout=30, cached_statements=_KEPT_STATEMENTS
    )
    try:
        if (tables := check_format(db, file)) and 'requests' not in tables:
            raise RunError(f'{file}: not a rolecall run: this SQLite file was created by another program.')
        db.execute('PRAGMA journal_mode=WAL')
        db.execute('PRAGMA synchronous=FULL')
        db.execute(f'PRAGMA cache_size=-{_CACHE_KIB}')
        db.execute(f'PRAGMA wal_autocheckpoint={_WAL_PAGES}')
        add_checksum_function(db)
        if is_new:
            db.executescript(_TABLES)
            _add_columns(db)
            db.execute(f'PRAGMA user_version={VERSION}')
    except (sqlite3.Error, RunError):
        db.close()
        raise
    return db


def _add_columns(db: sqlite3.Connection) -> None:
    """Give an older store the columns it lacks. Their entries stay empty: nothing is checked or added up by them."""
    added = {'requests': ('checksum',), 'rows': ('checksum', *ROW_NUMBERS), 'times': ('wording', 'writing')}
    for table, columns in added.items():
        present = {name for _, name, *_ in db.execute(f'PRAGMA table_info({table})')}
        for column in columns:
            if column not in present:
                db.execute(f'ALTER TABLE {table} ADD COLUMN {column}')


Entry = tuple[Any, ...]
Statement = tuple[str, Sequence[Any]]
PUT_REQUEST = 'INSERT OR REPLACE INTO requests (fingerprint, kind, outcome, request, reply, checksum)'
PUT_ROW = f'INSERT OR REPLACE INTO rows ({ROW_COLUMNS})'
PUT_FIELDS = 'INSERT OR REPLACE INTO data (dataset, row, fields, checksum)'
_PUT_ANSWERED = 'INSERT OR IGNORE INTO answered (who)'
DROP_SCORES = 'DELETE FROM scores WHERE dataset = ? AND model = ?'
_MOST_VALUES = 30_000 if sqlite3.sqlite_version_info >= (3, 32) else 999
"""Values that one statement may hold."""
_UNWRITABLE = (
    ValueError,
    OverflowError,
    TypeError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)
"""What SQLite raises for one value that it cannot take. (Text that is not Unicode is a ValueError.)"""


@dataclass(slots=True)
class Group:
    """Entries that are written together, and what to call once they are safe."""

    requests: list[Entry] = field(default_factory=list)
    rows: list[Entry] = field(default_factory=list)
    fields: list[Entry] = field(default_factory=list)
    answered: set[str] = field(default_factory=set)
    statements: list[Statement] = field(default_factory=list)
    """Executed after the entries, in order: what depends on them, such as scores."""
    waiting: list[Callable[[], object]] = field(default_factory=list)
    size: int = 0
    """Bytes of the requests and replies."""

    @property
    def is_filled(self) -> bool:
        """Whether there is anything that should be on disk soon."""
        return bool(self.waiting or self.rows or self.statements)


class Transactions:
    """The connection that writes. Each method is one transaction: all of it is on disk when it returns, or none."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._one_at_a_time = threading.Lock()
        self.seconds = 0.0
        """How long groups have been written."""
        self.connection = open_for_writing(file)

    def write_group(self, group: Group) -> list[str]:
        """Write a group; gives what is wrong with the entries that cannot be stored.

        When a row changes, the scores of its pair are deleted with it: they no longer belong to its rows.
        """
        began = time.monotonic()
        with self._transaction():
            self._put_all(_PUT_ANSWERED, [(who,) for who in group.answered])
            self.connection.executemany(DROP_SCORES, {entry[:2] for entry in group.rows})
            unsaved = [
                *self._put_all(PUT_REQUEST, group.requests),
                *self._put_all(PUT_ROW, group.rows),
                *self._put_all(PUT_FIELDS, group.fields),
            ]
            for statement, values in group.statements:
                self.connection.execute(statement, values)
        self.seconds += time.monotonic() - began
        return unsaved

    def import_all(self, put: str, entries: Iterable[Entry]) -> None:
        """Write entries of another store, however many."""
        with self._transaction():
            first = next(iterator := iter(entries), None)
            if first is not None:
                self.connection.executemany(_word_values(put, 1, len(first)), chain([first], iterator))

    def execute(self, *statements: Statement) -> None:
        """Execute statements with their values."""
        with self._transaction():
            for statement, values in statements:
                self.connection.execute(statement, values)

    def _put_all(self, put: str, entries: Sequence[Entry]) -> list[str]:
        """Write entries together; if one of them cannot be written, one by one, so that it spoils no other."""
        unsaved: list[str] = []
        width = len(entries[0]) if entries else 1
        for start in range(0, len(entries), _MOST_VALUES // width):
            some = entries[start : start + _MOST_VALUES // width]
            try:
                self.connection.execute(_word_values(put, len(some), width), list(chain.from_iterable(some)))
            except _UNWRITABLE:
                unsaved += self._put_singly(_word_values(put, 1, width), some)
        return unsaved

    def _put_singly(self, statement: str, entries: Iterable[Entry]) -> Iterator[str]:
        for entry in entries:
            try:
                self.connection.execute(statement, entry)
            except _UNWRITABLE as error:
                name = ', '.join(str(cell)[:40] for cell in entry[:3])
                yield f'an entry cannot be stored ({name}): {error}'

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._one_at_a_time:
            try:
                self.connection.execute('BEGIN IMMEDIATE')
                yield
                self.connection.execute('COMMIT')
            except (sqlite3.Error, OSError) as error:
                self._undo()
                raise RunError(f'{self._file}: {describe_error(error, self._file.parent)}') from error
            except BaseException:
                self._undo()
                raise

    def _undo(self) -> None:
        with suppress(sqlite3.Error):  # SQLite has undone it already
            self.connection.execute('ROLLBACK')


@lru_cache(maxsize=64)
def _word_values(put: str, entries: int, width: int) -> str:
    """The statement that puts so many entries, with a mark for each of their values."""
    marks = f'({",".join("?" * width)})'
    return f'{put} VALUES {",".join([marks] * entries)}'


def describe_error(error: Exception, directory: Path) -> str:
    """An error of SQLite or the disk, with the remedy."""
    message = str(error) or type(error).__name__
    resume = 'Finished rows are kept; run the same command again to continue.'
    if any(word in message for word in ('malformed', 'not a database', 'decode')):
        repair = f'`rolecall doctor {directory} --repair NEW` saves what is whole, if anything is.'
        return f'cannot be used: {message}.\n{repair}'
    if 'full' in message:
        return f'cannot be written: {message}.\n{resume}'
    if 'readonly' in message or 'unable to open' in message:
        return f'cannot be written: the directory is read-only or not reachable ({message}).\n{resume}'
    return f'cannot be used: {message}.\n{resume}'


_OF_EVERY_RUN = {'requests', 'rows', 'scores', 'starts'}
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
        if not check_format(db, file) >= _OF_EVERY_RUN:
            raise RunError(f'{file}: not a rolecall run, or one that was stopped before it started.')
    except (sqlite3.Error, RunError):
        db.close()
        raise
    return db
