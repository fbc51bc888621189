"""Reading a run directory: results, requests, scores and how the run was started. Works while the run goes on, too."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.runs.store.codec import decode_result, read_reply, unpack_request, unpack_scored
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

__all__ = ['FILE', 'VERSION', 'RunReader', 'check_version', 'tables_in']

FILE = 'run.sqlite'
VERSION = 1
_TABLES = {'requests', 'rows', 'scores', 'starts'}


_NEXT_PAIR = 'SELECT dataset, model FROM rows WHERE (dataset, model) > (?, ?) ORDER BY dataset, model LIMIT 1'


class RunReader:
    """A run directory, open for reading."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        file = self.directory / FILE
        if not file.is_file():
            raise RunError(f'{directory}: there is no run here ({FILE} is missing).')
        self._db = _opened(file)

    def __enter__(self) -> RunReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    @property
    def title(self) -> str:
        """The run's name: that of its directory."""
        return self.directory.absolute().name

    @property
    def created(self) -> str:
        """When the run was first started."""
        found = self._one('SELECT started FROM starts ORDER BY id LIMIT 1')
        return str(found[0]) if found else ''

    def pairs(self) -> list[tuple[str, str]]:
        """Every dataset × model that has results, found by one index look-up each, however many rows there are."""
        found: list[tuple[str, str]] = []
        while pair := self._one(_NEXT_PAIR, found[-1] if found else ('', '')):
            found.append(pair)
        return found

    def rows_after(
        self, key: tuple[str, str, int], *, dataset: str | None = None, model: str | None = None, limit: int
    ) -> list[Result]:
        """The next finished rows after a key (dataset, model, row), in order. Costs the same anywhere in the run."""
        wanted, values = _where(dataset, model)
        after = f'{wanted} AND' if wanted else ' WHERE'
        query = f'SELECT result FROM rows{after} (dataset, model, row) > (?, ?, ?) ORDER BY dataset, model, row LIMIT ?'
        return [decode_result(text) for (text,) in self._all(query, [*values, *key, limit])]

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One finished row."""
        query = 'SELECT result FROM rows WHERE dataset = ? AND model = ? AND row = ?'
        found = self._one(query, (dataset, model, row))
        return decode_result(found[0]) if found else None

    def results(self, dataset: str | None = None, model: str | None = None) -> Iterator[Result]:
        """The finished rows, in order."""
        wanted, values = _where(dataset, model)
        for (text,) in self._all(f'SELECT result FROM rows{wanted} ORDER BY dataset, model, row', values):
            yield decode_result(text)

    def outcomes(self, dataset: str, model: str) -> dict[int, str]:
        """How each row ended."""
        wanted, values = _where(dataset, model)
        return dict(self._all(f'SELECT row, outcome FROM rows{wanted}', values))

    def scorecards(self) -> list[Scorecard]:
        """Every score, in the order in which pairs were finished."""
        return [Scorecard(**json.loads(text)) for (text,) in self._all('SELECT card FROM scores ORDER BY rowid')]

    def request(self, fingerprint: str) -> Any:
        """What was sent; None if there is no such request."""
        found = self._one('SELECT request FROM requests WHERE fingerprint = ?', (fingerprint,))
        return None if found is None else unpack_request(found[0])

    def reply(self, fingerprint: str) -> Reply | Scored | str | None:
        """What came back: a reply, scores, or why it failed; None if it was never finished."""
        found = self._one('SELECT kind, reply FROM requests WHERE fingerprint = ?', (fingerprint,))
        if found is None:
            return None
        kind, reply = found
        if kind == 'failure':
            return str(reply)
        return unpack_scored(reply) if kind == 'score' else read_reply(reply)

    @property
    def anything(self) -> bool:
        """Whether any request is finished."""
        return self._one('SELECT 1 FROM requests LIMIT 1') is not None

    def knows(self, fingerprint: str) -> bool:
        """Whether a request is finished."""
        return self._one('SELECT 1 FROM requests WHERE fingerprint = ?', (fingerprint,)) is not None

    def failed(self, fingerprint: str) -> bool:
        """Whether a request is finished, and failed."""
        found = self._one('SELECT kind FROM requests WHERE fingerprint = ?', (fingerprint,))
        return found is not None and found[0] == 'failure'

    def fingerprints(self) -> set[str]:
        """Every request that is finished."""
        return {fingerprint for (fingerprint,) in self._all('SELECT fingerprint FROM requests')}

    def manifest(self) -> Mapping[str, Any]:
        """How the run was last started: versions, models, datasets, templates."""
        return self._last('manifest')

    def config(self) -> Mapping[str, Any]:
        """The config of the last start, without keys."""
        return self._last('config')

    def _last(self, column: str) -> Mapping[str, Any]:
        found = self._one(f'SELECT {column} FROM starts ORDER BY id DESC LIMIT 1')
        read: Mapping[str, Any] = json.loads(found[0]) if found else {}
        return read

    def _all(self, query: str, values: Sequence[Any] = ()) -> Iterator[Any]:
        try:
            yield from self._db.execute(query, values)
        except sqlite3.Error as error:
            raise RunError(f'{self.directory / FILE}: cannot be read: {error}.') from error

    def _one(self, query: str, values: Sequence[Any] = ()) -> Any:
        return next(self._all(query, values), None)


def _opened(file: Path) -> sqlite3.Connection:
    """The file, open for reading. Where nobody may write beside it, it is taken as it lies if no journal is pending."""
    address = f'{file.absolute().as_uri()}?mode=ro'
    try:
        return _checked(address, file)
    except sqlite3.Error as error:
        failed = error
    journal = Path(f'{file}-wal')
    if not journal.exists() or journal.stat().st_size == 0:
        with suppress(sqlite3.Error):
            return _checked(f'{address}&immutable=1', file)
    raise RunError(f'{file}: cannot be read: {failed}.') from failed


def _checked(address: str, file: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True)
    try:
        check_version(db, file)
        if not tables_in(db) >= _TABLES:
            raise RunError(f'{file}: this is no run of rolecall, or one that was stopped before it began.')
    except (sqlite3.Error, RunError):
        db.close()
        raise
    return db


def check_version(db: sqlite3.Connection, file: Path) -> None:
    """Refuse a store that a later version has written, or a file that is something else."""
    version = db.execute('PRAGMA user_version').fetchone()[0]
    if version > VERSION:
        raise RunError(f'{file}: was written by a later version of rolecall (format {version}, known: {VERSION}).')


def tables_in(db: sqlite3.Connection) -> set[str]:
    """The names of a file's tables."""
    return {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def _where(dataset: str | None, model: str | None) -> tuple[str, list[str]]:
    given = [(name, value) for name, value in (('dataset', dataset), ('model', model)) if value is not None]
    return (' WHERE ' + ' AND '.join(f'{name} = ?' for name, _ in given) if given else '', [v for _, v in given])
