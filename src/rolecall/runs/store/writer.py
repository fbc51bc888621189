"""The store of a run: one SQLite file, written in groups and never half.

Writes gather while the group before is brought to disk; callbacks are called once a write is safe. Nothing is looked up
by position: the fingerprint of a request is its key. Every entry carries a checksum.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.render.spans import Request
from rolecall.runs.store.codec import (
    ROW_NUMBERS,
    checksum,
    dumps,
    encode_result,
    pack_fields,
    pack_request,
    pack_scored,
    row_checksum,
    row_numbers,
    storable,
    write_reply,
)
from rolecall.runs.store.directory import FILE, VERSION, RunLock, check_format
from rolecall.runs.store.lookup import ROW_COLUMNS, Failure, StoreLookup
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Failure', 'Store', 'open_store']

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    fingerprint TEXT PRIMARY KEY, kind TEXT NOT NULL, outcome TEXT NOT NULL, request BLOB NOT NULL, reply BLOB NOT NULL,
    checksum INTEGER
);
CREATE TABLE IF NOT EXISTS rows (
    dataset TEXT, model TEXT, row INTEGER, outcome TEXT NOT NULL, result TEXT NOT NULL, checksum INTEGER,
    score, correct, input_tokens, output_tokens, seconds, settled,
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
    model TEXT, node TEXT, rows INTEGER, computing REAL, waiting REAL, PRIMARY KEY (model, node)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS recipes (
    dataset TEXT, model TEXT, asking TEXT, scoring TEXT, PRIMARY KEY (dataset, model)
) WITHOUT ROWID;
"""
_PUT_REQUEST = 'INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?, ?)'
_PUT_ROW = f'INSERT OR REPLACE INTO rows ({ROW_COLUMNS}) VALUES ({", ".join("?" * 12)})'
_PUT_FIELDS = 'INSERT OR REPLACE INTO data VALUES (?, ?, ?, ?)'
_PUT_ANSWERED = 'INSERT OR IGNORE INTO answered VALUES (?)'
_DROP_SCORES = 'DELETE FROM scores WHERE dataset = ? AND model = ?'
_PAUSE = 0.02
"""Seconds between two groups of writes, at least."""
_RECENT = 256
"""Replies kept in memory until the rows they belong to are stored."""
_REMEMBERED = 100_000
"""Fingerprints kept in memory for a new run; past this many, query SQLite."""
_CACHE_KIB = 64 << 10
_WAL_PAGES = 8192
"""Pages of the journal before they are moved into the file: fingerprints are spread over all pages of their index."""


_UNWRITABLE = (
    ValueError,
    OverflowError,
    TypeError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
    sqlite3.DataError,
)
"""What SQLite raises for one value that it cannot take. (Text that is not Unicode is a ValueError.)"""


class Store(StoreLookup):
    """A run directory, open for writing by this process alone."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f'{directory}: cannot be created: {error.strerror or error}.') from error
        self._lock = RunLock(self.directory)
        self._file = self.directory / FILE
        try:
            with self._translate_errors():
                self._write, self._read = self._open(), self._open()
                self._new: set[str] | None = None if self.anything else set()
        except RunError:
            self._lock.release()
            raise
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='rolecall-store')
        self._requests: list[tuple[Any, ...]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._fields: list[tuple[Any, ...]] = []
        self._fields_from: dict[str, str] = {}
        """Which model's rows bring the columns of a dataset: they are the same for all models."""
        self._answered: set[str] = set()
        self._recent: dict[str, str] = {}
        self._waiting: list[Callable[[], object]] = []
        self._flushing: asyncio.Task[None] | None = None
        self.failure: RunError | None = None
        self.seconds_writing = 0.0
        self.when_broken: Callable[[], None] = lambda: None
        """Called when a group of writes cannot be brought to disk: nothing more is kept."""
        self.when_unsaved: Callable[[str], None] = lambda message: None
        """Called with what could not be stored, where that is one entry and not the disk."""

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None, timeout=30)
        try:
            if (found := check_format(db, self._file)) and 'requests' not in found:
                raise RunError(f'{self._file}: not a rolecall run: this SQLite file was created by another program.')
            db.execute('PRAGMA journal_mode=WAL')
            db.execute('PRAGMA synchronous=FULL')
            db.execute(f'PRAGMA cache_size=-{_CACHE_KIB}')
            db.execute(f'PRAGMA wal_autocheckpoint={_WAL_PAGES}')
            db.executescript(_SCHEMA)
            _add_columns(db)
            db.execute(f'PRAGMA user_version={VERSION}')
        except (sqlite3.Error, RunError):
            db.close()
            raise
        return db

    def close(self) -> None:
        """Bring everything to disk and release the directory."""
        self._thread.shutdown()  # on Ctrl-C, the group that is being written is written to its end
        try:
            if self.failure is None:
                if self._write.in_transaction:
                    self._commit()
                self.flush()
        finally:
            self._read.close()
            self._write.close()
            self._lock.release()

    # -- writing in groups ---------------------------------------------------------------------------------------------

    def add_reply(
        self, fingerprint: str, request: Request, came: Reply | Scored | Failure, *, then: Callable[[], object]
    ) -> None:
        """Store the answer to a request; `then` is called once it is safe."""
        self.add_replies([(fingerprint, request, came)], then=then)

    def add_replies(
        self, answers: Sequence[tuple[str, Request, Reply | Scored | Failure]], *, then: Callable[[], object]
    ) -> None:
        """Store the answers to requests; `then` is called once they are safe."""
        for fingerprint, request, came in answers:
            self._add_reply(fingerprint, request, came)
        self._waiting.append(then)
        self._start_flushing()

    def _add_reply(self, fingerprint: str, request: Request, came: Reply | Scored | Failure) -> None:
        body: str | bytes
        if isinstance(came, Failure):
            kind, outcome, body = 'failure', 'failed', storable(str(came))
        elif isinstance(came, Scored):
            kind, outcome, body = 'score', 'ok', pack_scored(came)
        else:
            kind, outcome, body = 'generate', came.outcome, write_reply(came)
        self._remember(fingerprint)
        if isinstance(came, Reply):
            self._recent[fingerprint] = came.text
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
        entry = (fingerprint, kind, outcome, pack_request(request), body)
        self._requests.append((*entry, checksum(*entry)))

    def record_answering(self, who: str) -> None:
        """Store, with the next group, that this model answers."""
        self._answered.add(who)

    def _remember(self, fingerprint: str) -> None:
        if self._new is not None:
            self._new.add(fingerprint)
            if len(self._new) > _REMEMBERED:
                self._new = None

    def add_result(self, result: Result, *, then: Callable[[], object]) -> None:
        """Store a finished row; `then` is called once it is safe."""
        self.add_results([result], then=then)

    def add_results(self, results: Sequence[Result], *, then: Callable[[], object]) -> None:
        """Store finished rows; `then` is called once they are safe."""
        self._rows += map(self._row_entry, results)
        self._waiting.append(then)
        self._start_flushing()

    def add_fields(self, dataset: str, model: str, row: int, fields: Mapping[str, Any]) -> None:
        """Store the columns of a dataset's row with the next group, once for all models."""
        if self._fields_from.setdefault(dataset, model) == model:
            entry = (storable(dataset), row, pack_fields(fields))
            self._fields.append((*entry, checksum(*entry)))

    def _row_entry(self, result: Result) -> tuple[Any, ...]:
        numbers = row_numbers(result)
        text = encode_result(result, self._is_stored, numbers=numbers)
        entry = (storable(result.dataset), storable(result.model), result.row, result.outcome, text, *numbers)
        return (*entry, row_checksum(entry))

    def _is_stored(self, fingerprint: str, text: str) -> bool:
        """Whether this reply is, or will be, stored with its request."""
        known = self._recent.get(fingerprint)
        return (self._reply_text(fingerprint) if known is None else known) == text

    def _start_flushing(self) -> None:
        if self._flushing is None:
            self._flushing = asyncio.get_running_loop().create_task(self._flush_in_groups())

    async def _flush_in_groups(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting and self.failure is None:
                began = time.monotonic()
                waiting = self._begin()
                await loop.run_in_executor(self._thread, self._commit)
                self.seconds_writing += time.monotonic() - began
                for then in waiting:
                    then()
                await asyncio.sleep(max(0.0, _PAUSE - (time.monotonic() - began)))
        except RunError as error:
            self.failure = error
            self.when_broken()
        finally:
            self._flushing = None

    def _begin(self) -> list[Callable[[], object]]:
        """Write what has gathered into a transaction; gives the callbacks that wait for it.

        When a row changes, the scores of its pair are deleted with it: they no longer belong to its rows.
        """
        requests, rows, fields, waiting = self._requests, self._rows, self._fields, self._waiting
        self._requests, self._rows, self._fields, self._waiting = [], [], [], []
        with self._translate_errors():
            self._write.execute('BEGIN IMMEDIATE')
            self._write.executemany(_PUT_ANSWERED, [(who,) for who in self._answered])
            self._write.executemany(_DROP_SCORES, {(dataset, model) for dataset, model, *_ in rows})
            self._put_all(_PUT_REQUEST, requests)
            self._put_all(_PUT_ROW, rows)
            self._put_all(_PUT_FIELDS, fields)
        return waiting

    def _put_all(self, statement: str, entries: list[tuple[Any, ...]]) -> None:
        """Write entries together; if one of them cannot be written, one by one, so that it spoils no other."""
        try:
            self._write.executemany(statement, entries)
        except _UNWRITABLE:
            for entry in entries:
                try:
                    self._write.execute(statement, entry)
                except _UNWRITABLE as error:
                    name = ', '.join(str(cell)[:40] for cell in entry[:3])
                    self.when_unsaved(f'an entry cannot be stored ({name}): {error}')

    def _commit(self) -> None:
        with self._translate_errors():
            self._write.execute('COMMIT')

    async def wait_until_saved(self) -> None:
        """Wait until everything is on disk."""
        while self._flushing is not None:
            await asyncio.shield(self._flushing)
        if self.failure is not None:
            raise self.failure

    def flush(self) -> None:
        """Bring everything to disk now."""
        if self._waiting:
            waiting = self._begin()
            self._commit()
            for then in waiting:
                then()

    # -- writing at once -----------------------------------------------------------------------------------------------

    def record_start(self, manifest: Mapping[str, Any], config: str) -> None:
        """Record how the run is started. A start like the last one is recorded once."""
        config = storable(config)
        last = self._read.execute('SELECT manifest, config FROM starts ORDER BY id DESC LIMIT 1').fetchone()
        if last != (dumps(manifest), config):
            now = datetime.now(timezone.utc).isoformat(timespec='seconds')
            self._at_once(('INSERT INTO starts VALUES (NULL, ?, ?, ?)', (now, dumps(manifest), config)))

    def drop_rows_from(self, dataset: str, model: str, row: int) -> None:
        """Rows from this number on are no longer part of the run. (Their requests stay.)"""
        dataset, model = storable(dataset), storable(model)
        query = 'SELECT 1 FROM rows WHERE dataset = ? AND model = ? AND row >= ? LIMIT 1'
        if self._read.execute(query, (dataset, model, row)).fetchone() is None:
            return
        self._at_once(
            (_DROP_SCORES, (dataset, model)),
            ('DELETE FROM rows WHERE dataset = ? AND model = ? AND row >= ?', (dataset, model, row)),
        )

    def record_recipe(self, dataset: str, model: str, *, asking: str | None, scoring: str | None) -> None:
        """Store that all rows of a pair, those to come included, are asked and scored this way."""
        pair = (storable(dataset), storable(model))
        if self.recipe(*pair) != (asking, scoring):
            self._at_once(('INSERT OR REPLACE INTO recipes VALUES (?, ?, ?, ?)', (*pair, asking, scoring)))

    def add_times(self, model: str, times: Mapping[str, Any]) -> None:
        """Add up where the rows of a model were computed: by machine, rows and seconds computing and waiting."""
        statement = (
            'INSERT INTO times VALUES (?, ?, ?, ?, ?) ON CONFLICT (model, node) DO UPDATE SET'
            ' rows = rows + excluded.rows, computing = computing + excluded.computing,'
            ' waiting = waiting + excluded.waiting'
        )
        self._at_once(
            *(
                (statement, (storable(model), storable(node), one.rows, one.computing, one.waiting))
                for node, one in times.items()
            )
        )

    def update_rows(self, results: Sequence[Result]) -> None:
        """Store rows as they were scored; the scores of their pairs no longer hold."""
        pairs = {(storable(result.dataset), storable(result.model)) for result in results}
        entries = list(map(self._row_entry, results))
        with self._translate_errors():
            self._write.execute('BEGIN IMMEDIATE')
            self._write.executemany(_DROP_SCORES, pairs)
            self._put_all(_PUT_ROW, entries)
            self._write.execute('COMMIT')

    def record_scores(self, cards: Sequence[Scorecard], results: Sequence[Result] = ()) -> None:
        """Store the scores of a pair, and its rows as they were scored."""
        pairs = {(storable(card.dataset), storable(card.model)) for card in cards}
        self._at_once(
            *((_DROP_SCORES, pair) for pair in pairs),
            *(
                (
                    'INSERT INTO scores VALUES (?, ?, ?, ?)',
                    (storable(card.dataset), storable(card.model), storable(card.metric), dumps(_as_dict(card))),
                )
                for card in cards
            ),
            *((_PUT_ROW, self._row_entry(result)) for result in results),
        )

    def import_starts(self, starts: Sequence[tuple[Any, ...]]) -> None:
        """Take over the starts of another store."""
        self._at_once(*(('INSERT INTO starts VALUES (NULL, ?, ?, ?)', start) for start in starts))

    def import_entries(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Take over stored requests with their replies, as they are."""
        self._import(_PUT_REQUEST, ((*entry[:-1], checksum(*entry[:-1])) for entry in entries))

    def import_results(self, results: Iterable[Result]) -> None:
        """Take over finished rows."""
        self._import(_PUT_ROW, map(self._row_entry, results))

    def import_fields(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Take over the columns of rows."""
        self._import(_PUT_FIELDS, entries)

    def _import(self, statement: str, entries: Iterable[tuple[Any, ...]]) -> None:
        self._new = None
        with self._translate_errors():
            self._write.execute('BEGIN IMMEDIATE')
            self._write.executemany(statement, entries)
            self._write.execute('COMMIT')

    def _at_once(self, *statements: tuple[str, Sequence[Any]]) -> None:
        with self._translate_errors():
            self._write.execute('BEGIN IMMEDIATE')
            for statement, values in statements:
                self._write.execute(statement, values)
            self._write.execute('COMMIT')

    def _undo(self) -> None:
        with suppress(sqlite3.Error, AttributeError):  # no connection yet, or SQLite has undone it already
            self._write.execute('ROLLBACK')

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """SQLite's errors as the run's own; an open transaction is rolled back."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self._undo()
            raise RunError(f'{self._file}: {_describe_error(error, self.directory)}') from error


@contextmanager
def open_store(directory: str | Path) -> Iterator[Store]:
    """The store of a run, closed in the end. A damaged file that is met anywhere in between is an error of the run."""
    try:
        with closing(Store(directory)) as store:
            yield store
    except sqlite3.Error as error:
        raise RunError(f'{Path(directory) / FILE}: {_describe_error(error, Path(directory))}') from error


def _describe_error(error: Exception, directory: Path) -> str:
    said = str(error)
    kept = 'Finished rows are kept; run the same command again to continue.'
    if any(word in said for word in ('malformed', 'not a database', 'decode')):
        return (
            f'cannot be used: {said}.\n`rolecall doctor {directory} --repair NEW` saves what is whole, if anything is.'
        )
    if 'full' in said:
        return f'cannot be written: {said}.\n{kept}'
    if 'readonly' in said or 'unable to open' in said:
        return f'cannot be written: the directory is read-only or not reachable ({said}).\n{kept}'
    return f'cannot be used: {said}.\n{kept}'


def _add_columns(db: sqlite3.Connection) -> None:
    """Give an older store the columns it lacks. Their entries stay empty: nothing is checked or added up by them."""
    for table, columns in (('requests', ('checksum',)), ('rows', ('checksum', *ROW_NUMBERS))):
        known = {name for _, name, *_ in db.execute(f'PRAGMA table_info({table})')}
        for column in columns:
            if column not in known:
                db.execute(f'ALTER TABLE {table} ADD COLUMN {column}')


def _as_dict(card: Scorecard) -> dict[str, Any]:
    return {field.name: getattr(card, field.name) for field in fields(card)}
