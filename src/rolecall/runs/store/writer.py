"""Where a run keeps what is finished: one SQLite file, written in groups and never half.

Writes gather while the one before is brought to disk; whoever waits for a write is told when it is safe. Nothing is
looked up by position: a request's fingerprint is its key.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import fields
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.render.spans import Request
from rolecall.runs.store.codec import (
    decode_result,
    dumps,
    encode_result,
    pack_request,
    pack_scored,
    read_reply,
    unpack_scored,
    write_reply,
)
from rolecall.runs.store.lock import Lock
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import FILE, VERSION, check_version, tables_in
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Failure', 'Store']

_SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    fingerprint TEXT PRIMARY KEY, kind TEXT NOT NULL, outcome TEXT NOT NULL, request BLOB NOT NULL, reply BLOB NOT NULL
);
CREATE TABLE IF NOT EXISTS rows (
    dataset TEXT, model TEXT, row INTEGER, outcome TEXT NOT NULL, result TEXT NOT NULL,
    PRIMARY KEY (dataset, model, row)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS scores (
    dataset TEXT, model TEXT, metric TEXT, card TEXT NOT NULL, PRIMARY KEY (dataset, model, metric)
);
CREATE TABLE IF NOT EXISTS starts (
    id INTEGER PRIMARY KEY, started TEXT NOT NULL, manifest TEXT NOT NULL, config TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS answered (who TEXT PRIMARY KEY) WITHOUT ROWID;
"""
_PUT_REQUEST = 'INSERT OR REPLACE INTO requests VALUES (?, ?, ?, ?, ?)'
_PUT_ROW = 'INSERT OR REPLACE INTO rows VALUES (?, ?, ?, ?, ?)'
_PUT_ANSWERED = 'INSERT OR IGNORE INTO answered VALUES (?)'
_DROP_SCORES = 'DELETE FROM scores WHERE dataset = ? AND model = ?'
_PAUSE = 0.02
"""Seconds between two groups of writes, at least."""


_REMEMBERED = 100_000
"""In a new run, so many requests are known by heart; beyond, the file is asked."""


class Failure(str):
    """Why a request failed for good."""

    __slots__ = ()


class Store:
    """A run directory, open for writing by this process alone."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f'{directory}: cannot be made: {error.strerror or error}.') from error
        self._lock = Lock(self.directory)
        self._file = self.directory / FILE
        try:
            with self._clear_errors():
                self._write, self._read = self._open(), self._open()
        except RunError:
            self._lock.release()
            raise
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='rolecall-store')
        self._requests: list[tuple[Any, ...]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._answered: set[str] = set()
        self._waiting: list[Callable[[], object]] = []
        self._flushing: asyncio.Task[None] | None = None
        self._new: set[str] | None = None if self.anything else set()
        self.failure: RunError | None = None
        self.when_broken: Callable[[], None] = lambda: None
        """Called when a group of writes cannot be brought to disk: nothing more is kept."""

    def _open(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._file, check_same_thread=False, isolation_level=None, timeout=30)
        try:
            check_version(db, self._file)
            if (found := tables_in(db)) and 'requests' not in found:
                raise RunError(f'{self._file}: this is no run of rolecall, but a database of something else.')
            db.execute('PRAGMA journal_mode=WAL')
            db.execute('PRAGMA synchronous=FULL')
            db.executescript(_SCHEMA)
            db.execute(f'PRAGMA user_version={VERSION}')
        except (sqlite3.Error, RunError):
            db.close()
            raise
        return db

    def close(self) -> None:
        """Bring everything to disk and let go of the directory."""
        self._thread.shutdown()  # a group that is being written when somebody presses Ctrl-C is written to its end
        try:
            if self.failure is None:
                if self._write.in_transaction:
                    self._commit()
                self.flush()
        finally:
            self._read.close()
            self._write.close()
            self._lock.release()

    # -- looking up ----------------------------------------------------------------------------------------------------

    def find_reply(self, fingerprint: str) -> Reply | Scored | Failure | None:
        """What a request came to, if it is finished."""
        if self._new is not None and fingerprint not in self._new:
            return None
        found = self._read.execute('SELECT kind, reply FROM requests WHERE fingerprint = ?', (fingerprint,)).fetchone()
        if found is None:
            return None
        kind, reply = found
        if kind == 'failure':
            return Failure(reply)
        return unpack_scored(reply) if kind == 'score' else read_reply(reply)

    def has_answered(self, who: str) -> bool:
        """Whether this model, by the fingerprint of its identity, has ever answered in this run."""
        return self._read.execute('SELECT 1 FROM answered WHERE who = ?', (who,)).fetchone() is not None

    @property
    def anything(self) -> bool:
        """Whether any request is finished."""
        return self._read.execute('SELECT 1 FROM requests LIMIT 1').fetchone() is not None

    def rows_by_outcome(self, dataset: str, model: str, outcomes: Sequence[str]) -> dict[int, str]:
        """The rows of a pair that ended in one of these outcomes."""
        marks = ','.join('?' * len(outcomes))
        query = f'SELECT row, outcome FROM rows WHERE dataset = ? AND model = ? AND outcome IN ({marks})'
        return dict(self._read.execute(query, (dataset, model, *outcomes)))

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """A finished row."""
        query = 'SELECT result FROM rows WHERE dataset = ? AND model = ? AND row = ?'
        found = self._read.execute(query, (dataset, model, row)).fetchone()
        return None if found is None else decode_result(found[0])

    def results(self, dataset: str, model: str) -> Iterator[Result]:
        """The finished rows of a pair, in order."""
        query = 'SELECT result FROM rows WHERE dataset = ? AND model = ? ORDER BY row'
        for (text,) in self._read.execute(query, (dataset, model)):
            yield decode_result(text)

    # -- writing in groups ---------------------------------------------------------------------------------------------

    def add_reply(
        self, fingerprint: str, request: Request, came: Reply | Scored | Failure, *, then: Callable[[], object]
    ) -> None:
        """Keep what a request came to; `then` is called once it is safe."""
        body: str | bytes
        if isinstance(came, Failure):
            kind, outcome, body = 'failure', 'failed', str(came)
        elif isinstance(came, Scored):
            kind, outcome, body = 'score', 'ok', pack_scored(came)
        else:
            kind, outcome, body = 'generate', came.outcome, write_reply(came)
        self._remember(fingerprint)
        self._requests.append((fingerprint, kind, outcome, pack_request(request), body))
        self._waiting.append(then)
        self._start_flushing()

    def record_answering(self, who: str) -> None:
        """Keep, with the next group, that this model answers."""
        self._answered.add(who)

    def _remember(self, fingerprint: str) -> None:
        if self._new is not None:
            self._new.add(fingerprint)
            if len(self._new) > _REMEMBERED:
                self._new = None

    def add_result(self, result: Result, *, then: Callable[[], object]) -> None:
        """Keep a finished row; `then` is called once it is safe."""
        self._rows.append(_row(result))
        self._waiting.append(then)
        self._start_flushing()

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
                for then in waiting:
                    then()
                await asyncio.sleep(max(0.0, _PAUSE - (time.monotonic() - began)))
        except RunError as error:
            self.failure = error
            self.when_broken()
        finally:
            self._flushing = None

    def _begin(self) -> list[Callable[[], object]]:
        """Write what has gathered into a transaction; whoever waits for it is handed back.

        The scores of a pair go when one of its rows changes: they are no longer those of its rows.
        """
        requests, rows, waiting = self._requests, self._rows, self._waiting
        self._requests, self._rows, self._waiting = [], [], []
        with self._clear_errors():
            self._write.execute('BEGIN IMMEDIATE')
            self._write.executemany(_PUT_REQUEST, requests)
            self._write.executemany(_PUT_ANSWERED, [(who,) for who in self._answered])
            self._write.executemany(_DROP_SCORES, {(dataset, model) for dataset, model, *_ in rows})
            self._write.executemany(_PUT_ROW, rows)
        return waiting

    def _commit(self) -> None:
        with self._clear_errors():
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
        """Note how and with what the run is started. A start like the last one is noted once."""
        last = self._read.execute('SELECT manifest, config FROM starts ORDER BY id DESC LIMIT 1').fetchone()
        if last != (dumps(manifest), config):
            now = datetime.now(timezone.utc).isoformat(timespec='seconds')
            self._at_once(('INSERT INTO starts VALUES (NULL, ?, ?, ?)', (now, dumps(manifest), config)))

    def drop_rows_from(self, dataset: str, model: str, row: int) -> None:
        """Rows from this number on are no longer part of the run. (What was asked for them stays known.)"""
        query = 'SELECT 1 FROM rows WHERE dataset = ? AND model = ? AND row >= ? LIMIT 1'
        if self._read.execute(query, (dataset, model, row)).fetchone() is None:
            return
        self._at_once(
            (_DROP_SCORES, (dataset, model)),
            ('DELETE FROM rows WHERE dataset = ? AND model = ? AND row >= ?', (dataset, model, row)),
        )

    def record_scores(self, cards: Sequence[Scorecard], results: Sequence[Result] = ()) -> None:
        """Keep the scores of a pair, and its rows as they were scored."""
        pairs = {(card.dataset, card.model) for card in cards}
        self._at_once(
            *((_DROP_SCORES, pair) for pair in pairs),
            *(
                (
                    'INSERT INTO scores VALUES (?, ?, ?, ?)',
                    (card.dataset, card.model, card.metric, dumps(_as_dict(card))),
                )
                for card in cards
            ),
            *((_PUT_ROW, _row(result)) for result in results),
        )

    def _at_once(self, *statements: tuple[str, Sequence[Any]]) -> None:
        with self._clear_errors():
            self._write.execute('BEGIN IMMEDIATE')
            for statement, values in statements:
                self._write.execute(statement, values)
            self._write.execute('COMMIT')

    def _undo(self) -> None:
        with suppress(sqlite3.Error, AttributeError):  # no connection yet, or SQLite has undone it already
            self._write.execute('ROLLBACK')

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        """SQLite's errors as the run's own; what was begun is undone."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self._undo()
            raise RunError(
                f'{self._file}: {_told(error)}.\n'
                'Nothing is corrupted: what was finished before is kept, and the same command goes on from there.'
            ) from error


def _told(error: Exception) -> str:
    told = str(error)
    if 'full' in told:
        return f'cannot be written: {told}'
    if 'readonly' in told or 'unable to open' in told:
        return f'cannot be written: the directory is read-only or not reachable ({told})'
    return f'cannot be used: {told}'


def _row(result: Result) -> tuple[Any, ...]:
    return (result.dataset, result.model, result.row, result.outcome, encode_result(result))


def _as_dict(card: Scorecard) -> dict[str, Any]:
    return {field.name: getattr(card, field.name) for field in fields(card)}
