"""What is in the store of a run: answers by the fingerprint of their request, rows by number, how they were made."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from rolecall.models.protocol import Reply, Scored
from rolecall.runs.store.codec import (
    ROW_NUMBERS,
    DamagedError,
    checksum,
    decode_result,
    read_reply,
    row_checksum,
    storable,
    unpack_scored,
)
from rolecall.runs.store.results import Result

__all__ = ['ROW_COLUMNS', 'Failure', 'StoreLookup']

ROW_COLUMNS = f'dataset, model, row, outcome, result, {", ".join(ROW_NUMBERS)}, checksum'
_LOOKED_UP = 500
"""Fingerprints in one query."""
_PAGE = 1000


class Failure(str):
    """Why a request failed for good."""

    __slots__ = ()


class StoreLookup:
    """The reading half of a store. What is damaged is not there."""

    _read: sqlite3.Connection
    _new: set[str] | None
    """The fingerprints in a store that was empty, while they are few; None: SQLite knows."""

    def find_reply(self, fingerprint: str) -> Reply | Scored | Failure | None:
        """The answer to a request, if it is finished and whole."""
        return self.find_replies([fingerprint]).get(fingerprint)

    def find_replies(self, fingerprints: Sequence[str]) -> dict[str, Reply | Scored | Failure]:
        """The answers to those requests that are finished and whole."""
        if self._new is not None:
            fingerprints = [one for one in fingerprints if one in self._new]
        found: dict[str, Reply | Scored | Failure] = {}
        for start in range(0, len(fingerprints), _LOOKED_UP):
            wanted = fingerprints[start : start + _LOOKED_UP]
            marks = ','.join('?' * len(wanted))
            query = 'SELECT fingerprint, kind, outcome, request, reply, checksum FROM requests WHERE fingerprint IN'
            for entry in self._read.execute(f'{query} ({marks})', wanted):
                if (reply := _read_answer(entry)) is not None:
                    found[entry[0]] = reply
        return found

    def read_entry(self, entry: tuple[Any, ...]) -> Reply | Scored | Failure | None:
        """The answer in a stored request: fingerprint, kind, outcome, request, reply, checksum."""
        return _read_answer(entry)

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
        return dict(self._read.execute(query, (storable(dataset), storable(model), *outcomes)))

    def count_outcomes(self, dataset: str, model: str) -> Counter[str]:
        """How many rows of a pair ended in which outcome."""
        query = 'SELECT outcome, count(*) FROM rows WHERE dataset = ? AND model = ? GROUP BY outcome ORDER BY min(row)'
        return Counter(dict(self._read.execute(query, (storable(dataset), storable(model)))))

    def count_unsettled(self, dataset: str, model: str) -> int:
        """How many rows of a pair have to be read to summarise it."""
        query = 'SELECT count(*) FROM rows WHERE dataset = ? AND model = ? AND settled IS NOT 1'
        count: int = self._read.execute(query, (storable(dataset), storable(model))).fetchone()[0]
        return count

    def finished_rows(self, dataset: str, model: str) -> Iterator[tuple[int, str]]:
        """The number and outcome of every finished row of a pair that is whole, in order."""
        return ((entry[2], entry[3]) for entry in self._pages(dataset, model) if _is_whole_row(entry))

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """A finished row."""
        query = f'SELECT {ROW_COLUMNS} FROM rows WHERE dataset = ? AND model = ? AND row = ?'
        found = self._read.execute(query, (storable(dataset), storable(model), row)).fetchone()
        return None if found is None else self._read_row(found)

    def results(self, dataset: str, model: str) -> Iterator[Result]:
        """The finished rows of a pair, in order, one at a time."""
        return (result for entry in self._pages(dataset, model) if (result := self._read_row(entry)) is not None)

    def marks(self, dataset: str, model: str) -> Iterator[Result | tuple[float, int | None]]:
        """The finished rows of a pair, in order; of rows that are settled, only score and verdict."""
        for entry in self._pages(dataset, model):
            if entry[-2] == 1 and _is_whole_row(entry):
                yield entry[5], entry[6]
            elif (result := self._read_row(entry)) is not None:
                yield result

    def _pages(self, dataset: str, model: str) -> Iterator[tuple[Any, ...]]:
        """The entries of a pair's rows, in pages: a long read would keep the journal from moving into the file."""
        query = f'SELECT {ROW_COLUMNS} FROM rows WHERE dataset = ? AND model = ? AND row > ? ORDER BY row LIMIT ?'
        pair, last = (storable(dataset), storable(model)), -1
        while page := self._read.execute(query, (*pair, last, _PAGE)).fetchall():
            yield from page
            last = page[-1][2]

    def _read_row(self, entry: tuple[Any, ...]) -> Result | None:
        """A row as it was stored; None if it is damaged: then it is asked about again."""
        try:
            return decode_result(entry[:-1], self._reply_text) if _is_whole_row(entry) else None
        except DamagedError:
            return None

    def recipe(self, dataset: str, model: str) -> tuple[str | None, str | None]:
        """How the rows of a pair were asked and scored, as far as all of them are known to have been so."""
        query = 'SELECT asking, scoring FROM recipes WHERE dataset = ? AND model = ?'
        found = self._read.execute(query, (storable(dataset), storable(model))).fetchone()
        return (None, None) if found is None else (found[0], found[1])

    def _reply_text(self, fingerprint: str) -> str | None:
        reply = self.find_reply(fingerprint)
        return reply.text if isinstance(reply, Reply) else None


def _read_answer(entry: tuple[Any, ...]) -> Reply | Scored | Failure | None:
    """The answer in an entry; None if it is damaged: then it is asked for again."""
    *cells, stored = entry
    if stored is not None and stored != checksum(*cells):
        return None
    _, kind, _, _, reply = cells
    if kind == 'failure':
        return Failure(reply)
    try:
        return unpack_scored(reply) if kind == 'score' else read_reply(reply)
    except DamagedError:
        return None


def _is_whole_row(entry: tuple[Any, ...]) -> bool:
    *cells, stored = entry
    return stored is None or stored == row_checksum(cells)
