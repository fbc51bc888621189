"""What is in the store of a run: answers by the fingerprint of their request, rows by number, how they were made."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from mmap import mmap
from typing import Any

from rolecall.models.protocol import Reply, Scored, Served
from rolecall.runs.store.codec import (
    DamagedError,
    checksum,
    encode_key,
    read_key,
    read_reply,
    read_served,
    storable,
    unpack_scored,
)
from rolecall.runs.store.results import Result, SettledMarks
from rolecall.runs.store.row_codec import ROW_COLUMNS, ROW_IS_WHOLE, decode_result, is_whole_row

_LOOKED_UP = 500
"""Fingerprints in one query."""
_PAGE, _LIGHT_PAGE = 1000, 10_000
_DIGITS = 6
"""Hexadecimal digits of a fingerprint that decide whether it may be in a new store: 16 MiB at most, as they fill."""
_FEW = 20
"""Rows of a page that are looked up one by one; where more are needed, all are read in order."""


class Failure(str):
    """Why a request failed for good."""

    __slots__ = ()


class FingerprintFilter:
    """Tells which fingerprints were surely never added: of a million, 94 in 100; the others are looked up in SQLite.

    >>> added = FingerprintFilter()
    >>> added.add('00ff' * 8)
    >>> added.sift(['1234' * 8, '00ff' * 8]) == ['00ff' * 8]
    True
    """

    __slots__ = ('_seen',)

    def __init__(self) -> None:
        self._seen = mmap(-1, 16**_DIGITS)  # of which only pages that are written to take memory

    def add(self, fingerprint: str) -> None:
        self._seen[_read_place(fingerprint)] = 1

    def sift(self, fingerprints: Sequence[str]) -> list[str]:
        """Those that may have been added."""
        seen = self._seen
        return [fingerprint for fingerprint in fingerprints if seen[_read_place(fingerprint)]]


def _read_place(fingerprint: str) -> int:
    try:
        return int(fingerprint[:_DIGITS], 16)
    except ValueError:  # not one of ours
        return 0


class StoreLookup:
    """The reading half of a store. What is damaged is not there."""

    _read: sqlite3.Connection
    _new: FingerprintFilter | None
    """Which fingerprints may be in a store that was empty; None: SQLite knows."""
    _has_short_keys: bool
    """Whether requests are found by the bytes of their fingerprint; in older stores, by its digits."""
    _trusted: set[tuple[str, str]]
    """Pairs whose rows are all known to be whole."""

    def find_reply(self, fingerprint: str) -> Reply | Scored | Failure | None:
        """The answer to a request, if it is finished and whole."""
        return self.find_replies([fingerprint]).get(fingerprint)

    def find_replies(self, fingerprints: Sequence[str]) -> dict[str, Reply | Scored | Failure]:
        """The answers to those requests that are finished and whole."""
        if self._new is not None:
            fingerprints = self._new.sift(fingerprints)
        replies: dict[str, Reply | Scored | Failure] = {}
        for start in range(0, len(fingerprints), _LOOKED_UP):
            wanted = [self._key(fingerprint) for fingerprint in fingerprints[start : start + _LOOKED_UP]]
            marks = ','.join('?' * len(wanted))
            query = 'SELECT fingerprint, kind, outcome, request, reply, checksum FROM requests WHERE fingerprint IN'
            for key, *cells in self._read.execute(f'{query} ({marks})', wanted):
                entry = (read_key(key), *cells)
                if (reply := read_answer(entry)) is not None:
                    replies[entry[0]] = reply
        return replies

    def _key(self, fingerprint: str) -> str | bytes:
        """The key of a request in this store."""
        return encode_key(fingerprint) if self._has_short_keys else fingerprint

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

    def token_counts(self, dataset: str, model: str) -> Iterator[tuple[int, int | None, int | None, int, str]]:
        """Of each row with an answer: number, tokens expected and reported, requests and outcome."""
        query = (
            "SELECT row, expected_tokens, input_tokens, ifnull(json_array_length(result, '$.fingerprints'), 1), outcome"
            " FROM rows WHERE dataset = ? AND model = ? AND outcome IN ('ok', 'unparsed', 'truncated_by_server')"
            ' AND json_valid(result) ORDER BY row'
        )
        return self._read.execute(query, (storable(dataset), storable(model)))

    def count_served(self, dataset: str, model: str) -> list[tuple[Served, int, int]]:
        """Who answered the rows of a pair, as the replies say: with the number of rows and the first of them."""
        query = (
            "SELECT ifnull(json_extract(result, '$.served'), json_extract(result, '$[5]')) AS who, count(*), min(row)"
            ' FROM rows WHERE dataset = ? AND model = ? AND json_valid(result) AND who IS NOT NULL GROUP BY who'
            ' ORDER BY min(row)'
        )
        entries = self._read.execute(query, (storable(dataset), storable(model)))
        return [(read_served(json.loads(who)), rows, first) for who, rows, first in entries]

    def count_unsettled(self, dataset: str, model: str) -> int:
        """How many rows of a pair have to be read to summarise it."""
        query = 'SELECT count(*) FROM rows WHERE dataset = ? AND model = ? AND settled IS NOT 1'
        return int(self._read.execute(query, (storable(dataset), storable(model))).fetchone()[0])

    def has_rows(self, dataset: str, model: str) -> bool:
        """Whether any row of a pair is finished."""
        query = 'SELECT 1 FROM rows WHERE dataset = ? AND model = ? LIMIT 1'
        return self._read.execute(query, (storable(dataset), storable(model))).fetchone() is not None

    def finished_rows(
        self, dataset: str, model: str, outcomes: Sequence[str]
    ) -> Iterator[tuple[Sequence[int], Sequence[str]]]:
        """The numbers and outcomes of the rows of a pair that are whole and ended in one of these, in order.

        Rows are checked once: after this, `marks` takes them as they are.
        """
        where = f'AND outcome IN ({",".join("?" * len(outcomes))})'
        damaged = False
        for page in self._in_pages(
            f'row, outcome, {ROW_IS_WHOLE}', dataset, model, where=where, values=outcomes, size=_LIGHT_PAGE
        ):
            numbers, ended, are_whole = zip(*page, strict=True)
            if not all(are_whole):
                doubtful = [row for row, _, is_whole in page if not is_whole]
                lost = set(doubtful).difference(self._read_some(dataset, model, doubtful))
                damaged = damaged or bool(lost)
                numbers = tuple(row for row in numbers if row not in lost)
                ended = tuple(outcome for row, outcome, _ in page if row not in lost)
            if numbers:
                yield numbers, ended
        if not damaged:
            self.trust_rows(dataset, model)

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """A finished row."""
        query = f'SELECT {ROW_COLUMNS} FROM rows WHERE dataset = ? AND model = ? AND row = ?'
        entry = self._read.execute(query, (storable(dataset), storable(model), row)).fetchone()
        return None if entry is None else self._read_row(entry)

    def results(self, dataset: str, model: str) -> Iterator[Result]:
        """The finished rows of a pair, in order, one at a time."""
        pages = self._in_pages(f'row, {ROW_COLUMNS}', dataset, model)
        return (result for page in pages for entry in page if (result := self._read_row(entry[1:])) is not None)

    def marks(self, dataset: str, model: str) -> Iterator[Result | SettledMarks]:
        """The finished rows of a pair, in order; of rows that are settled, only score and verdict, many at once."""
        light = 'settled = 1' if (dataset, model) in self._trusted else f'settled = 1 AND {ROW_IS_WHOLE}'
        for page in self._in_pages(f'row, score, correct, {light}', dataset, model, size=_LIGHT_PAGE):
            numbers, scores, correct, are_light = zip(*page, strict=True)
            if all(are_light):
                yield SettledMarks(scores, correct)
                continue
            results = self._read_some(dataset, model, [row for row, *_, is_light in page if not is_light])
            start = 0
            for place, row in enumerate(numbers):
                result = results.get(row)
                if are_light[place] or (result is not None and result.settled):
                    continue
                yield SettledMarks(scores[start:place], correct[start:place])
                start = place + 1
                if result is not None:
                    yield result
            yield SettledMarks(scores[start:], correct[start:])

    def trust_rows(self, dataset: str, model: str) -> None:
        """Note that the rows of a pair need no further check: this process has checked, or will write, all of them."""
        self._trusted.add((dataset, model))

    def _read_some(self, dataset: str, model: str, numbers: Sequence[int]) -> dict[int, Result]:
        """The rows with these ascending numbers, as far as they are whole."""
        if len(numbers) < _FEW:
            pairs = ((number, self.result(dataset, model, number)) for number in numbers)
            return {number: result for number, result in pairs if result is not None}
        wanted = set(numbers)
        query = f'SELECT {ROW_COLUMNS} FROM rows WHERE dataset = ? AND model = ? AND row BETWEEN ? AND ?'
        entries = self._read.execute(query, (storable(dataset), storable(model), numbers[0], numbers[-1]))
        results = (self._read_row(entry) for entry in entries if entry[2] in wanted)
        return {result.row: result for result in results if result is not None}

    def _in_pages(
        self, columns: str, dataset: str, model: str, *, where: str = '', values: Sequence[str] = (), size: int = _PAGE
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Columns of a pair's rows, the number first, in pages: a long read would keep the journal from moving into
        the file."""
        query = f'SELECT {columns} FROM rows WHERE dataset = ? AND model = ? AND row > ? {where} ORDER BY row LIMIT ?'
        pair, last = (storable(dataset), storable(model)), -1
        while page := self._read.execute(query, (*pair, last, *values, size)).fetchall():
            yield page
            last = page[-1][0]

    def _read_row(self, entry: tuple[Any, ...]) -> Result | None:
        """A row as it was stored; None if it is damaged: then it is asked about again."""
        try:
            return decode_result(entry[:-1], self._reply_text) if is_whole_row(entry) else None
        except DamagedError:
            return None

    def digests(self, dataset: str, model: str) -> tuple[str | None, str | None]:
        """How the rows of a pair were asked and scored, as far as all of them are known to have been so."""
        query = 'SELECT asking, scoring FROM recipes WHERE dataset = ? AND model = ?'
        entry = self._read.execute(query, (storable(dataset), storable(model))).fetchone()
        return (None, None) if entry is None else (entry[0], entry[1])

    def _reply_text(self, fingerprint: str) -> str | None:
        reply = self.find_reply(fingerprint)
        return reply.text if isinstance(reply, Reply) else None


def read_answer(entry: tuple[Any, ...]) -> Reply | Scored | Failure | None:
    """The answer in a stored request: fingerprint, kind, outcome, request, reply, checksum.

    None if it is damaged: then it is asked for again.
    """
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
