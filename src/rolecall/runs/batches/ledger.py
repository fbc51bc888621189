"""The ledger of a run's batches: every request that was handed over, and how far each batch has come.

It lies in the run's own database, so a copy of the run directory is complete. A step that costs money is written down
before it is taken: a process that dies in between leaves a batch that is looked for, not one that is paid for twice.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal

from rolecall.errors import RunError
from rolecall.runs.batches.ledger_reader import OPEN_STATES
from rolecall.runs.store.codec import dumps
from rolecall.runs.store.directory import FILE

_SCHEMA = """
CREATE TABLE IF NOT EXISTS batches (
    number INTEGER PRIMARY KEY, model TEXT NOT NULL, vendor TEXT NOT NULL, server TEXT NOT NULL,
    requests INTEGER NOT NULL, state TEXT NOT NULL, token TEXT NOT NULL, file_id TEXT NOT NULL DEFAULT '',
    remote_id TEXT NOT NULL DEFAULT '', since TEXT NOT NULL, note TEXT NOT NULL DEFAULT '',
    rejected TEXT NOT NULL DEFAULT ''
);
CREATE TABLE IF NOT EXISTS batch_requests (
    fingerprint TEXT PRIMARY KEY, batch INTEGER, dataset TEXT NOT NULL, model TEXT NOT NULL, state TEXT NOT NULL,
    size INTEGER NOT NULL, reason TEXT NOT NULL DEFAULT '',
    input_tokens INTEGER, output_tokens INTEGER, cached_tokens INTEGER
);
CREATE INDEX IF NOT EXISTS batch_requests_by_batch ON batch_requests (batch, state);
CREATE TABLE IF NOT EXISTS batch_bodies (fingerprint TEXT PRIMARY KEY, request BLOB NOT NULL, entry BLOB);
CREATE TABLE IF NOT EXISTS batch_notes (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS batch_rows (
    dataset TEXT, split TEXT, row INTEGER, fields BLOB NOT NULL, PRIMARY KEY (dataset, split, row)
) WITHOUT ROWID;
"""
_OF_BATCH = 'SELECT fingerprint FROM batch_requests WHERE batch = ?'

FOUND = 'found at the server after an interruption'
"""Noted for a batch whose creation was not confirmed. Its results may show that it is another one."""
COPIED = 'found at the server, submitted from another copy of this run'
"""Noted for a batch that another copy of the run directory submitted."""

State = Literal['new', 'uploaded', 'creating', 'created', 'collected', 'cancelled']


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request that is to go out with a batch, encoded as it will be sent."""

    fingerprint: str
    dataset: str
    model: str
    request: str | bytes
    entry: bytes


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """One batch. `creating`: the server was asked to create it, and its id has not been written down yet."""

    number: int
    model: str
    vendor: str
    server: str
    requests: int
    state: State
    token: str
    file_id: str
    remote_id: str
    since: str
    note: str
    rejected: str
    """Ids of batches that turned out to be others, separated by spaces."""

    @property
    def name(self) -> str:
        """The server's id of it, or our number."""
        return self.remote_id or f'batch {self.number}'


_COLUMNS = ', '.join(BatchRecord.__slots__)


class BatchLedger:
    """The batches of one run. The run's lock must be held while it is written."""

    def __init__(self, directory: Path) -> None:
        self._db = sqlite3.connect(directory / FILE, isolation_level=None, timeout=30)
        self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self._db.close()

    # -- requests ------------------------------------------------------------------------------------------------------

    def state_of(self, fingerprint: str) -> str | None:
        """What became of a request: `waiting`, `answered`, `failed`, `expired`, `cancelled`; None if it is not here."""
        query = 'SELECT state FROM batch_requests WHERE fingerprint = ?'
        entry = self._db.execute(query, (fingerprint,)).fetchone()
        return None if entry is None else str(entry[0])

    def add(self, pending: Iterable[PendingRequest]) -> None:
        """Note requests that are to go out with the next batch."""
        requests = list(pending)
        with self._transaction():
            self._db.executemany(
                'INSERT OR REPLACE INTO batch_requests (fingerprint, dataset, model, state, size)'
                " VALUES (?, ?, ?, 'waiting', ?)",
                ((request.fingerprint, request.dataset, request.model, len(request.entry)) for request in requests),
            )
            self._db.executemany(
                'INSERT OR REPLACE INTO batch_bodies VALUES (?, ?, ?)',
                ((request.fingerprint, request.request, zlib.compress(request.entry, 1)) for request in requests),
            )

    def pack(self, model: str, *, vendor: str, server: str, most_requests: int, most_bytes: int) -> int:
        """Put a model's requests that are in no batch into new ones, within the server's limits; how many batches."""
        query = 'SELECT fingerprint, size FROM batch_requests WHERE batch IS NULL AND model = ? ORDER BY rowid'
        groups: list[list[str]] = []
        used = most_bytes
        for fingerprint, size in self._db.execute(query, (model,)).fetchall():
            if not groups or used + size + 2 > most_bytes or len(groups[-1]) >= most_requests:
                groups.append([])
                used = 64
            used += size + 2
            groups[-1].append(fingerprint)
        with self._transaction():
            for group in groups:
                values = (model, vendor, server, len(group), self._make_token(model, group), _now())
                number = self._db.execute(
                    'INSERT INTO batches (model, vendor, server, requests, state, token, since)'
                    " VALUES (?, ?, ?, ?, 'new', ?, ?)",
                    values,
                ).lastrowid
                self._db.executemany(
                    'UPDATE batch_requests SET batch = ? WHERE fingerprint = ?', ((number, key) for key in group)
                )
        return len(groups)

    def _make_token(self, model: str, fingerprints: Iterable[str]) -> str:
        """What a batch is recognised by at the server: the same in every copy of this run, another in another run."""
        if 'identity' not in self.notes():
            self.note('identity', secrets.token_hex(8))
        identity = self.notes()['identity']
        text = '\n'.join((identity, model, *sorted(fingerprints)))
        return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]

    def entries(self, batch: BatchRecord) -> Iterator[bytes]:
        """The requests of a batch as they are sent."""
        query = (
            'SELECT entry FROM batch_requests AS sent JOIN batch_bodies USING (fingerprint)'
            ' WHERE batch = ? ORDER BY sent.rowid'
        )
        return (zlib.decompress(entry) for (entry,) in self._db.execute(query, (batch.number,)))

    def find_requests(self, batch: BatchRecord, fingerprints: Sequence[str]) -> dict[str, str | bytes]:
        """The requests among these that belong to a batch and have not come back."""
        marks = ','.join('?' * len(fingerprints))
        query = (
            'SELECT fingerprint, request FROM batch_requests JOIN batch_bodies USING (fingerprint)'
            " WHERE batch = ? AND state = 'waiting'"
        )
        return dict(self._db.execute(f'{query} AND fingerprint IN ({marks})', (batch.number, *fingerprints)))

    def owns(self, batch: BatchRecord, fingerprints: Sequence[str]) -> int:
        """How many of these fingerprints belong to a batch, whatever became of them."""
        marks = ','.join('?' * len(fingerprints))
        query = f'SELECT count(*) FROM batch_requests WHERE batch = ? AND fingerprint IN ({marks})'
        return int(self._db.execute(query, (batch.number, *fingerprints)).fetchone()[0])

    def settle(self, outcomes: Sequence[tuple[str, str, str, Any]]) -> None:
        """Note what became of requests: fingerprint, state, reason, and the tokens of the reply or None.

        What was sent is kept with the reply from now on; what has none is put down anew if it is still wanted.
        """
        with self._transaction():
            self._db.executemany(
                'UPDATE batch_requests SET state = ?, reason = ?, input_tokens = ?, output_tokens = ?,'
                ' cached_tokens = ? WHERE fingerprint = ?',
                (
                    (
                        state,
                        reason[:400],
                        *((usage.input_tokens, usage.output_tokens, usage.cached_tokens) if usage else (None,) * 3),
                        fingerprint,
                    )
                    for fingerprint, state, reason, usage in outcomes
                ),
            )
            self._db.executemany(
                'DELETE FROM batch_bodies WHERE fingerprint = ?', ((outcome[0],) for outcome in outcomes)
            )

    def settle_rest(self, batch: BatchRecord, state: str, reason: str) -> int:
        """Note the same of every request of a batch that has not come back; how many there are."""
        query = "UPDATE batch_requests SET state = ?, reason = ? WHERE batch = ? AND state = 'waiting'"
        with self._transaction():
            count = self._db.execute(query, (state, reason[:400], batch.number)).rowcount
            self._db.execute(f'DELETE FROM batch_bodies WHERE fingerprint IN ({_OF_BATCH})', (batch.number,))
        return count

    def count(self, batch: BatchRecord) -> Counter[str]:
        """How many requests of a batch are in which state."""
        query = 'SELECT state, count(*) FROM batch_requests WHERE batch = ? GROUP BY state'
        return Counter(dict(self._db.execute(query, (batch.number,))))

    # -- batches -------------------------------------------------------------------------------------------------------

    def open_batches(self) -> list[BatchRecord]:
        """The batches that are not finished, oldest first."""
        marks = ','.join('?' * len(OPEN_STATES))
        query = f'SELECT {_COLUMNS} FROM batches WHERE state IN ({marks}) ORDER BY number'
        return [BatchRecord(*entry) for entry in self._db.execute(query, OPEN_STATES)]

    def find(self, number: int) -> BatchRecord:
        """A batch as it stands now."""
        entry = self._db.execute(f'SELECT {_COLUMNS} FROM batches WHERE number = ?', (number,)).fetchone()
        return BatchRecord(*entry)

    def known_ids(self) -> set[str]:
        """The server's ids of all batches."""
        return {remote_id for (remote_id,) in self._db.execute("SELECT remote_id FROM batches WHERE remote_id <> ''")}

    def update(self, batch: BatchRecord, **changes: str) -> BatchRecord:
        """Change a batch; gives it as it stands then."""
        assignments = ', '.join(f'{name} = ?' for name in changes)
        self._db.execute(f'UPDATE batches SET {assignments} WHERE number = ?', (*changes.values(), batch.number))
        return self.find(batch.number)

    def mark_creating(self, batch: BatchRecord) -> BatchRecord:
        """Note that the server is about to be asked to create a batch."""
        return self.update(batch, state='creating', since=_now())

    def mark_created(self, batch: BatchRecord, remote_id: str) -> BatchRecord:
        """Note that a batch is at the server, which confirmed it; what was sent is no longer needed."""
        with self._transaction():
            query = f'UPDATE batch_bodies SET entry = NULL WHERE fingerprint IN ({_OF_BATCH})'
            self._db.execute(query, (batch.number,))
            return self.update(batch, state='created', remote_id=remote_id)

    def discard_unsubmitted(self) -> None:
        """Forget everything that no server was asked to process: rows put it down anew where it is still wanted."""
        states = "SELECT number FROM batches WHERE state IN ('new', 'uploaded')"
        with self._transaction():
            self._db.execute(
                f"DELETE FROM batch_requests WHERE state = 'waiting' AND (batch IS NULL OR batch IN ({states}))"
            )
            self._db.execute("DELETE FROM batches WHERE state IN ('new', 'uploaded')")
            self._discard_bodies()

    def discard(self, batch: BatchRecord) -> None:
        """Forget a batch that the server refused to create: nothing of it was or will be answered."""
        with self._transaction():
            self._db.execute('DELETE FROM batch_requests WHERE batch = ?', (batch.number,))
            self._db.execute('DELETE FROM batches WHERE number = ?', (batch.number,))
            self._discard_bodies()

    def _discard_bodies(self) -> None:
        self._db.execute('DELETE FROM batch_bodies WHERE fingerprint NOT IN (SELECT fingerprint FROM batch_requests)')

    # -- what the run was ----------------------------------------------------------------------------------------------

    def note(self, name: str, value: Any) -> None:
        """Keep a value, as JSON."""
        with self._transaction():
            self._db.execute('INSERT OR REPLACE INTO batch_notes VALUES (?, ?)', (name, dumps(value)))

    def notes(self) -> dict[str, str]:
        """The values that were kept, as JSON."""
        return dict(self._db.execute('SELECT name, value FROM batch_notes'))

    def keep_rows(self, dataset: str, split: str, rows: Iterable[tuple[int, bytes]], *, total: int) -> None:
        """Keep rows of a split that has `total` rows, in place of those that were kept under their numbers."""
        with self._transaction():
            self._db.execute(
                'DELETE FROM batch_rows WHERE dataset = ? AND split = ? AND row >= ?', (dataset, split, total)
            )
            self._db.executemany(
                'INSERT OR REPLACE INTO batch_rows VALUES (?, ?, ?, ?)',
                ((dataset, split, number, fields) for number, fields in rows),
            )

    def kept_rows(self, dataset: str, split: str) -> Iterator[bytes]:
        """The rows that were kept of a split, in order."""
        query = 'SELECT fields FROM batch_rows WHERE dataset = ? AND split = ? ORDER BY row'
        return (fields for (fields,) in self._db.execute(query, (dataset, split)))

    def take(self, table: str, entries: Iterable[tuple[Any, ...]]) -> int:
        """Take over entries of a table of another ledger; how many."""
        rows = list(entries)
        with self._transaction():
            for entry in rows:
                self._db.execute(f'INSERT OR IGNORE INTO {table} VALUES ({", ".join("?" * len(entry))})', entry)
        return len(rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        try:
            self._db.execute('BEGIN IMMEDIATE')
            yield
            self._db.execute('COMMIT')
        except BaseException as error:
            if self._db.in_transaction:
                self._db.execute('ROLLBACK')
            if isinstance(error, sqlite3.Error):
                raise RunError(f'the list of batches cannot be written: {error}.') from error
            raise


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec='seconds')
