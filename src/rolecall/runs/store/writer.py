"""The store of a run: one SQLite file, written in groups and never half.

Writes gather while a thread brings the group before to disk; callbacks are called once a write is safe. Nothing is
looked up by position: the fingerprint of a request is its key. Every entry carries a checksum.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.core.render.spans import Request
from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.runs.store.codec import (
    checksum,
    dumps,
    pack_fields,
    pack_request,
    pack_scored,
    request_checksum,
    storable,
    write_reply,
)
from rolecall.runs.store.database import (
    DROP_SCORES,
    PUT_FIELDS,
    PUT_REQUEST,
    PUT_ROW,
    Group,
    Transactions,
    describe_error,
    open_for_writing,
)
from rolecall.runs.store.directory import FILE, RunLock
from rolecall.runs.store.lookup import Failure, FingerprintFilter, StoreLookup
from rolecall.runs.store.results import Result
from rolecall.runs.store.row_codec import (
    LONG_REPLY,
    encode_result,
    row_checksum,
    row_numbers,
)
from rolecall.scoring.scorecard import Scorecard

_AMOUNTS = ('rows', 'computing', 'waiting', 'wording', 'writing')
_ADD_TIMES = (
    f'INSERT INTO times (model, node, {", ".join(_AMOUNTS)}) VALUES (?, ?, ?, ?, ?, ?, ?)'
    f' ON CONFLICT (model, node) DO UPDATE SET {", ".join(f"{name} = {name} + excluded.{name}" for name in _AMOUNTS)}'
)
_PAUSE, _LONG_PAUSE = 0.02, 0.2
"""Seconds between two groups of writes, at least; longer behind `_MANY` rows: large groups cost less a row."""
_MANY = 500
_RECENT = 256
"""Long replies kept in memory until the rows they belong to are stored."""
_MOST_GATHERED = 5000
"""Rows that may wait to be written before those to come wait, too."""
_MOST_GATHERED_BYTES = 64 << 20
"""Bytes of requests and replies that may wait likewise."""


class Store(StoreLookup):
    """A run directory, open for writing by this process alone."""

    def __init__(self, directory: str | Path, *, tell: Callable[[str], None] = lambda message: None) -> None:
        """`tell` is called with what could not be stored, where that is one entry and not the disk."""
        self.directory = Path(directory)
        self._tell_unsaved = tell
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f'{directory}: cannot be created: {error.strerror or error}.'
            raise RunError(f'{what}\n  Name another directory for the run with --out (out=…).') from error
        self._lock = RunLock(self.directory)
        self._file = self.directory / FILE
        try:
            with _translate_errors(self._file):
                self._transactions, self._read = Transactions(self._file), open_for_writing(self._file, is_new=False)
                keys = self._read.execute("SELECT type FROM pragma_table_info('requests') WHERE name = 'fingerprint'")
                self._has_short_keys = keys.fetchone()[0] == 'BLOB'
                self._new = None if self.anything else FingerprintFilter()
        except RunError:
            self._lock.release()
            raise
        self._thread = ThreadPoolExecutor(1, thread_name_prefix='rolecall-store')
        self._gathered = Group()
        self._written: Group | None = None
        """The group that is being written."""
        self._fields_from: dict[str, str] = {}
        """Which model's rows bring the columns of a dataset: they are the same for all models."""
        self._answering: set[str] = set()
        self._trusted = set()
        self._recent: dict[str, str] = {}
        self._flushing: asyncio.Task[None] | None = None
        self.failure: Exception | None = None
        """Why the run has to end: a group could not be written, or a callback raised."""
        self._broken: asyncio.Future[None] | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._digests: dict[tuple[str, str], tuple[str | None, str | None]] = {}
        """Recipes that are recorded, and may not be on disk yet."""

    @property
    def seconds_writing(self) -> float:
        """How long groups have been written so far."""
        return self._transactions.seconds

    @property
    def broken(self) -> asyncio.Future[None]:
        """Done when there is a failure: nothing more is written before the store is closed."""
        if self._broken is None:
            self._broken = asyncio.get_running_loop().create_future()
        return self._broken

    def close(self) -> None:
        """Bring everything to disk and release the directory."""
        self._thread.shutdown()
        try:
            if not isinstance(self.failure, RunError):  # after the error of a callback, the file can be written
                if self._written is not None:  # on Ctrl-C, a group may have been taken and not written
                    self._write_group(self._written)
                self.flush()
        finally:
            self._read.close()
            self._transactions.connection.close()
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
        for fingerprint, request, answer in answers:
            self._add_reply(fingerprint, request, answer)
        self._gathered.waiting.append(then)
        self._start_flushing()

    def _add_reply(self, fingerprint: str, request: Request, answer: Reply | Scored | Failure) -> None:
        body: str | bytes
        if isinstance(answer, Failure):
            kind, outcome, body = 'failure', 'failed', storable(str(answer))
        elif isinstance(answer, Scored):
            kind, outcome, body = 'score', 'ok', pack_scored(answer)
        else:
            kind, outcome, body = 'generate', answer.outcome, write_reply(answer)
        if self._new is not None:
            self._new.add(fingerprint)
        if isinstance(answer, Reply) and len(answer.text) >= LONG_REPLY:
            self._recent[fingerprint] = answer.text
            if len(self._recent) > _RECENT:
                del self._recent[next(iter(self._recent))]
        packed = pack_request(request)
        whole = request_checksum(fingerprint, kind, outcome, packed, body)
        self._gathered.requests.append((self._key(fingerprint), kind, outcome, packed, body, whole))
        self._gathered.size += len(packed) + len(body)

    def record_answering(self, who: str) -> None:
        """Store, with the next group, that this model answers."""
        if who not in self._answering:
            self._answering.add(who)
            self._gathered.answered.add(who)

    def add_results(self, results: Sequence[Result], *, then: Callable[[], object]) -> None:
        """Store finished rows; `then` is called once they are safe."""
        self._gathered.rows += map(self._row_entry, results)
        self._gathered.waiting.append(then)
        self._start_flushing()

    def add_fields(self, dataset: str, model: str, rows: Iterable[tuple[int, Mapping[str, Any]]]) -> None:
        """Store the columns of a dataset's rows, by number, with the next group, once for all models."""
        if self._fields_from.setdefault(dataset, model) == model:
            name = storable(dataset)
            for row, fields in rows:
                packed = pack_fields(fields)
                self._gathered.fields.append((name, row, packed, checksum(name, row, packed)))

    def _row_entry(self, result: Result) -> tuple[Any, ...]:
        numbers = row_numbers(result)
        text = encode_result(result, self._is_stored, numbers=numbers)
        entry = (storable(result.dataset), storable(result.model), result.row, result.outcome, text, *numbers)
        return (*entry, row_checksum(entry))

    def _is_stored(self, fingerprint: str, text: str) -> bool:
        """Whether this reply is, or will be, stored with its request."""
        recent = self._recent.get(fingerprint)
        return (self._reply_text(fingerprint) if recent is None else recent) == text

    def _start_flushing(self) -> None:
        """Have what has gathered written soon; at once, where no event loop is running."""
        if self._flushing is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.flush()
        else:
            self._flushing = loop.create_task(self._flush_in_groups())

    async def _flush_in_groups(self) -> None:
        try:
            while self._gathered.is_filled and self.failure is None:
                began = time.monotonic()
                group = self._take_group()
                self._tell(group, await self._write_in_thread(group))
                pause = _LONG_PAUSE if len(group.rows) >= _MANY else _PAUSE
                await asyncio.sleep(max(0.0, pause - (time.monotonic() - began)))
        except Exception as error:  # whatever it is: what was taken is not safe, so the run must not end well
            self.failure = error
            for waiting in (*self._waiting, *filter(None, [self._broken])):
                _end_waiting(waiting)
        finally:
            self._flushing = None

    async def _write_in_thread(self, group: Group) -> list[str]:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._write_group, group)
        except RunError:
            raise
        except Exception as error:  # out of memory, no thread to be had
            raise RunError(f'{self._file}: {describe_error(error, self.directory)}') from error

    def _take_group(self) -> Group:
        """What has gathered. It is remembered until it is on disk."""
        group = self._written = self._gathered
        self._gathered = Group()
        return group

    def _write_group(self, group: Group) -> list[str]:
        unsaved = self._transactions.write_group(group)
        self._written = None
        return unsaved

    def _tell(self, group: Group, unsaved: Sequence[str]) -> None:
        """Call what waits for a group that is on disk, unless a callback failed before."""
        if self.failure is not None:
            return
        for message in unsaved:
            self._tell_unsaved(message)
        for then in group.waiting:
            then()

    async def wait_for_room(self) -> None:
        """Wait while many rows, or large ones, wait to be written: the disk is slower than the models."""
        while self._flushing is not None and (
            len(self._gathered.rows) > _MOST_GATHERED or self._gathered.size > _MOST_GATHERED_BYTES
        ):
            await asyncio.sleep(_PAUSE)

    async def wait_until_saved(self, *pair: str) -> None:
        """Wait until everything that was added so far, or the rows of a pair (dataset, model), is on disk."""
        waits = self._has_unsaved(*pair) if pair else self._flushing is not None or self._gathered.is_filled
        if self.failure is None and waits:
            saved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.add(saved)
            self._gathered.waiting.append(partial(_end_waiting, saved))
            self._start_flushing()
            try:
                await saved
            finally:
                self._waiting.discard(saved)
        if self.failure is not None:
            raise self.failure

    def _has_unsaved(self, dataset: str, model: str) -> bool:
        names = (storable(dataset), storable(model))
        groups = filter(None, (self._gathered, self._written))
        return any(entry[:2] == names for group in groups for entry in group.rows)

    def flush(self) -> None:
        """Bring everything to disk now."""
        if self._gathered.is_filled or self._gathered.answered:
            group = self._take_group()
            self._tell(group, self._write_group(group))

    # -- writing at once -----------------------------------------------------------------------------------------------

    def record_start(self, manifest: Mapping[str, Any], config: str) -> None:
        """Record how the run is started. A start like the last one is recorded once."""
        config = storable(config)
        last = self._read.execute('SELECT manifest, config FROM starts ORDER BY id DESC LIMIT 1').fetchone()
        if last != (dumps(manifest), config):
            now = datetime.now(timezone.utc).isoformat(timespec='seconds')
            self._transactions.execute(('INSERT INTO starts VALUES (NULL, ?, ?, ?)', (now, dumps(manifest), config)))

    def last_manifest(self) -> Mapping[str, Any]:
        """How the run was started the last time; empty before its first start, or where that cannot be read."""
        start = self._read.execute('SELECT manifest FROM starts ORDER BY id DESC LIMIT 1').fetchone()
        try:
            manifest = json.loads(start[0]) if start else {}
        except (TypeError, ValueError):
            return {}
        return manifest if isinstance(manifest, dict) else {}

    def drop_rows_from(self, dataset: str, model: str, row: int) -> None:
        """Rows from this number on are no longer part of the run. (Their requests stay.)"""
        dataset, model = storable(dataset), storable(model)
        query = 'SELECT 1 FROM rows WHERE dataset = ? AND model = ? AND row >= ? LIMIT 1'
        if self._read.execute(query, (dataset, model, row)).fetchone() is None:
            return
        self._transactions.execute(
            (DROP_SCORES, (dataset, model)),
            ('DELETE FROM rows WHERE dataset = ? AND model = ? AND row >= ?', (dataset, model, row)),
        )

    def record_digests(self, dataset: str, model: str, *, asking: str | None, scoring: str | None) -> None:
        """Store, with the next group, that all rows of a pair, those to come included, are asked and scored so."""
        if self.digests(dataset, model) != (asking, scoring):
            pair = (storable(dataset), storable(model))
            self._digests[pair] = (asking, scoring)
            self._gathered.statements.append(
                ('INSERT OR REPLACE INTO recipes VALUES (?, ?, ?, ?)', (*pair, asking, scoring))
            )
            self._start_flushing()

    def digests(self, dataset: str, model: str) -> tuple[str | None, str | None]:
        """How the rows of a pair were asked and scored, as far as all of them are known to have been so."""
        return self._digests.get((storable(dataset), storable(model))) or super().digests(dataset, model)

    def add_times(self, model: str, times: Mapping[str, Any]) -> None:
        """Add up where the rows of a model were computed: by machine, requests and seconds computing and waiting."""
        for node, computed in times.items():
            amounts = (computed.requests, computed.computing, computed.waiting, None, None)
            self._transactions.execute((_ADD_TIMES, (storable(model), storable(node), *amounts)))

    def add_own_times(self, node: str, *, rows: int, waiting: float, rendering: float, writing: float) -> None:
        """Add up where the time of the process that runs the config went, in seconds."""
        self._transactions.execute((_ADD_TIMES, ('', storable(node), rows, None, waiting, rendering, writing)))

    def update_rows(self, results: Iterable[Result]) -> None:
        """Store rows as they were scored, with the next group; the scores of their pairs no longer hold."""
        self._gathered.rows += map(self._row_entry, results)
        self._start_flushing()

    def record_scores(self, cards: Sequence[Scorecard], results: Sequence[Result] = ()) -> None:
        """Store the scores of a pair, and its rows as they were scored, with the next group."""
        pairs = {(storable(card.dataset), storable(card.model)) for card in cards}
        self._gathered.statements += ((DROP_SCORES, pair) for pair in pairs)
        for card in cards:
            names = (storable(card.dataset), storable(card.model), storable(card.metric))
            self._gathered.statements.append(
                ('INSERT INTO scores VALUES (?, ?, ?, ?)', (*names, dumps(card.to_record())))
            )
        self.update_rows(results)

    def import_starts(self, starts: Sequence[tuple[Any, ...]]) -> None:
        """Take over the starts of another store."""
        self._transactions.execute(*(('INSERT INTO starts VALUES (NULL, ?, ?, ?)', start) for start in starts))

    def import_entries(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Take over stored requests with their replies, as they are."""
        self._import(PUT_REQUEST, ((self._key(key), *cells, checksum(key, *cells)) for key, *cells, _ in entries))

    def import_results(self, results: Iterable[Result]) -> None:
        """Take over finished rows."""
        self._import(PUT_ROW, map(self._row_entry, results))

    def import_fields(self, entries: Iterable[tuple[Any, ...]]) -> None:
        """Take over the columns of rows."""
        self._import(PUT_FIELDS, entries)

    def _import(self, put: str, entries: Iterable[tuple[Any, ...]]) -> None:
        self._new = None
        self._transactions.import_all(put, entries)


@contextmanager
def open_store(directory: str | Path, *, tell: Callable[[str], None] = lambda message: None) -> Iterator[Store]:
    """The store of a run, closed in the end. A damaged file that is met anywhere in between is an error of the run."""
    with _translate_errors(Path(directory) / FILE), closing(Store(directory, tell=tell)) as store:
        yield store


@contextmanager
def _translate_errors(file: Path) -> Iterator[None]:
    """SQLite's errors as the run's own."""
    try:
        yield
    except sqlite3.Error as error:
        raise RunError(f'{file}: {describe_error(error, file.parent)}') from error


def _end_waiting(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)
