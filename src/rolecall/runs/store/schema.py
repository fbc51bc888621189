"""The tables of a run's SQLite file, and opening it for writing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from rolecall.errors import RunError
from rolecall.runs.store.directory import VERSION, check_format
from rolecall.runs.store.row_codec import ROW_NUMBERS, add_checksum_function

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
_CACHE_KIB = 64 << 10
_WAL_PAGES = 8192
"""Pages of the journal before they are moved into the file: fingerprints are spread over all pages of their index."""
_KEPT_STATEMENTS = 16
"""Statements kept compiled: those that write a whole group are large, and seldom the same."""


def open_for_writing(file: Path) -> sqlite3.Connection:
    """A connection to a run's file, which is created or brought up to date."""
    db = sqlite3.connect(
        file, check_same_thread=False, isolation_level=None, timeout=30, cached_statements=_KEPT_STATEMENTS
    )
    try:
        if (found := check_format(db, file)) and 'requests' not in found:
            raise RunError(f'{file}: not a rolecall run: this SQLite file was created by another program.')
        db.execute('PRAGMA journal_mode=WAL')
        db.execute('PRAGMA synchronous=FULL')
        db.execute(f'PRAGMA cache_size=-{_CACHE_KIB}')
        db.execute(f'PRAGMA wal_autocheckpoint={_WAL_PAGES}')
        db.executescript(_TABLES)
        add_checksum_function(db)
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
        known = {name for _, name, *_ in db.execute(f'PRAGMA table_info({table})')}
        for column in columns:
            if column not in known:
                db.execute(f'ALTER TABLE {table} ADD COLUMN {column}')
