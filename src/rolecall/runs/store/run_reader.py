"""Reading a run directory: results, requests, scores and how the run was started. Works while the run goes on, too.

A damaged file does not stop the reader: whole entries are read, the others are left out, counted and named in `damage`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.runs.store.codec import (
    DamagedError,
    encode_key,
    read_key,
    read_reply,
    unpack_request,
    unpack_scored,
)
from rolecall.runs.store.database import TolerantDatabase
from rolecall.runs.store.directory import FILE, check_files, is_bundle, unpack_bundle
from rolecall.runs.store.results import Result, SettledRows
from rolecall.runs.store.row_codec import ROW_IS_WHOLE, ROW_NUMBERS, decode_result, is_whole_row
from rolecall.scoring.scorecard import Scorecard

_DAMAGED = 'damaged in the run directory.'
_LIGHT_PAGE = 10_000
_IS_LIGHT = f"""settled = 1 AND instr(result, '_tokens"') = 0 AND instr(result, 'first_token') = 0 AND {ROW_IS_WHOLE}"""
"""Whether a row is whole and its numbers say all that is counted of it."""
_NEXT_MODEL = 'SELECT dataset, model FROM rows WHERE dataset = ? AND model > ? ORDER BY model LIMIT 1'
_NEXT_DATASET = 'SELECT dataset, model FROM rows WHERE dataset > ? ORDER BY dataset, model LIMIT 1'


_MANIFEST: Mapping[str, type] = {'pairs': list, 'models': dict, 'imported': dict}


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """How many requests to a model one machine computed, and where their time went, in seconds.

    Without a model: the process that runs the config, which renders, scores and writes rows; they are counted instead.
    """

    model: str
    node: str
    count: int
    computing: float | None
    waiting: float
    rendering: float | None = None
    writing: float | None = None


class RunReader:
    """A run directory, open for reading."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        self._unpacked = unpack_bundle(self.directory) if is_bundle(self.directory) else None
        if self._unpacked is not None:
            self.directory = Path(self._unpacked.name, self.directory.stem)
        file = self.directory / FILE
        if not file.is_file():
            raise RunError(
                f'{directory}: no run found ({FILE} is missing).\n  `rolecall runs list` lists run directories.'
            )
        check_files(self.directory)
        self._db = TolerantDatabase(file)
        self.damage = self._db.damage
        columns = {name for _, name, *_ in self._db.fetch_all('PRAGMA table_info(rows)')}
        keys = {name: kind for _, name, kind, *_ in self._db.fetch_all('PRAGMA table_info(requests)')}
        self._has_short_keys = keys.get('fingerprint') == 'BLOB'
        self._is_current = columns.issuperset(ROW_NUMBERS)
        self._sum = 'checksum' if 'checksum' in columns else 'NULL'
        self._has_fields = any(self._db.fetch_all("SELECT 1 FROM sqlite_master WHERE name = 'data'"))
        numbers = [name if name in columns else 'NULL' for name in ROW_NUMBERS]
        self._row = f'dataset, model, row, outcome, result, {", ".join(numbers)}, {self._sum}'

    def __enter__(self) -> RunReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()
        if self._unpacked is not None:
            self._unpacked.cleanup()

    @property
    def title(self) -> str:
        """The run's name: that of its directory."""
        return self.directory.absolute().name

    @property
    def created(self) -> str:
        """When the run was first started."""
        starts = self._db.read_table('SELECT started FROM starts ORDER BY id LIMIT 1', 'start', 'the list of starts')
        return str(starts[0][0]) if starts else ''

    def pairs(self) -> list[tuple[str, str]]:
        """Every dataset × model that has results, found by one index look-up each, however many rows there are."""
        try:
            pairs = list(self._find_pairs())
        except sqlite3.Error as error:
            self.damage.add('row', 'the list of pairs', error)
            return self._list_started()
        return [(dataset, model) for dataset, model in pairs if isinstance(dataset, str) and isinstance(model, str)]

    def _list_started(self) -> list[tuple[str, str]]:
        entries = [pair for pair in self.manifest().get('pairs', ()) if isinstance(pair, dict)]
        names = [(pair.get('dataset'), pair.get('model')) for pair in entries]
        return [(dataset, model) for dataset, model in names if isinstance(dataset, str) and isinstance(model, str)]

    def _find_pairs(self) -> Iterator[tuple[Any, Any]]:
        pair = self._db.execute(_NEXT_DATASET, ('',)).fetchone()
        seen: set[Any] = set()
        while pair is not None:
            if pair in seen:
                raise sqlite3.DatabaseError('the rows are out of order')
            seen.add(pair)
            yield pair
            pair = (
                self._db.execute(_NEXT_MODEL, pair).fetchone() or self._db.execute(_NEXT_DATASET, pair[:1]).fetchone()
            )

    def results(self, dataset: str | None = None, model: str | None = None) -> Iterator[Result]:
        """The finished rows, in order, one at a time."""
        for pair in self.pairs() if dataset is None or model is None else [(dataset, model)]:
            if dataset in (None, pair[0]) and model in (None, pair[1]):
                yield from self._results_of(*pair)

    def light_results(self) -> Iterator[Result | SettledRows]:
        """The finished rows; of settled ones only their numbers, many at once and before the others of their page."""
        for pair in self.pairs():
            last: int | None = -1
            while last is not None and self._is_current:
                page = self._light_page(*pair, last)
                if page is None:
                    break
                settled, others, last = page
                if settled is not None:
                    yield settled
                yield from (result for row in others if (result := self.whole_result(*pair, row)) is not None)
            if last is not None:  # an older store, or a damaged page
                yield from self._results_of(*pair, after=last)

    def _light_page(
        self, dataset: str, model: str, last: int
    ) -> tuple[SettledRows | None, list[int], int | None] | None:
        """The next rows of a pair: light ones, numbers of others, the last of all; None if damaged or out of order."""
        numbers = 'row, score, correct, input_tokens, output_tokens, ifnull(seconds, microseconds / 1e6)'
        query = (
            f'SELECT {_IS_LIGHT}, {numbers} FROM rows WHERE dataset = ? AND model = ? AND row > ? ORDER BY row LIMIT ?'
        )
        try:
            page = self._db.execute(query, (dataset, model, last, _LIGHT_PAGE)).fetchall()
        except sqlite3.Error:
            return None
        if not all(isinstance(row, int) and row > last for _, row, *_ in page[-1:]):
            return None
        others = [entry[1] for entry in page if not entry[0]]
        light = [entry for entry in page if entry[0]] if others else page
        settled = SettledRows(dataset, model, *list(zip(*light, strict=True))[1:]) if light else None
        return settled, others, page[-1][1] if page else None

    def rows_after(
        self,
        key: tuple[str, str, int],
        *,
        dataset: str | None = None,
        model: str | None = None,
        first: int = 0,
        limit: int,
    ) -> list[Result]:
        """The next finished rows after a key (dataset, model, row), in order. Costs the same anywhere in the run.

        Of every pair, rows before the `first` are left out. A damaged row is given as `failed`, with that reason.
        """
        query = f'SELECT {self._row} FROM rows WHERE dataset = ? AND model = ? AND row > ? ORDER BY row LIMIT ?'
        entries: list[Any] = []
        for pair in self.pairs():
            if pair >= key[:2] and (dataset or pair[0], model or pair[1]) == pair and len(entries) < limit:
                after = max(key[2] if pair == key[:2] else -1, first - 1)
                entries += self._db.fetch_all(query, [*pair, after, limit - len(entries)])
        return [self._decode(entry) or Result(entry[0], entry[1], entry[2], 'failed', _DAMAGED) for entry in entries]

    def last_row(self, dataset: str, model: str) -> int | None:
        """The number of the last finished row of a pair."""
        entry = self._db.fetch_one('SELECT MAX(row) FROM rows WHERE dataset = ? AND model = ?', (dataset, model))
        return entry[0] if entry and isinstance(entry[0], int) else None

    def result(self, dataset: str, model: str, row: int) -> Result | None:
        """One finished row."""
        query = f'SELECT {self._row} FROM rows WHERE dataset = ? AND model = ? AND row = ?'
        entry = self._db.fetch_one(query, (dataset, model, row))
        return self._decode(entry) if entry else None

    def whole_result(self, dataset: str, model: str, row: Any) -> Result | None:
        """One finished row; where its page is damaged, None, and it is counted as such."""
        try:
            return self.result(dataset, model, row)
        except RunError as error:
            self.damage.add('row', f'{dataset} × {model}, row {row}', error.__cause__ or error)
            return None

    def outcomes(self, dataset: str, model: str) -> dict[int, str]:
        """How each row ended."""
        return dict(
            self._db.fetch_all('SELECT row, outcome FROM rows WHERE dataset = ? AND model = ?', (dataset, model))
        )

    def scorecards(self) -> list[Scorecard]:
        """Every score, in the order of the config; those of datasets and models that it has no more come last."""
        cards = []
        started = [dict.fromkeys(names) for names in zip(*self._list_started(), strict=True)] or [{}, {}]
        datasets, models = ({name: place for place, name in enumerate(names)} for names in started)
        query = 'SELECT dataset, model, card FROM scores ORDER BY rowid'
        for dataset, model, text in self._db.read_table(query, 'score', 'the list of scores'):
            try:
                cards.append(Scorecard.from_record(json.loads(text)))
            except (ValueError, TypeError, RecursionError) as error:
                self.damage.add('score', f'score of {dataset} × {model}', error)
        end = len(datasets) + len(models)
        return sorted(cards, key=lambda card: (datasets.get(card.dataset, end), models.get(card.model, end)))

    def fields(self, dataset: str, row: int) -> Mapping[str, Any]:
        """The columns of a dataset's row; empty where the run has not kept them."""
        query = 'SELECT dataset, row, fields, checksum FROM data WHERE dataset = ? AND row = ?'
        name = f'{dataset}, row {row} of the data'
        try:
            entry = self._db.execute(query, (dataset, row)).fetchone() if self._has_fields else None
            fields = unpack_request(entry[2]) if entry and self._db.is_whole(entry, 'data row', name) else {}
        except (sqlite3.Error, DamagedError) as error:
            self.damage.add('data row', name, error)
            return {}
        return fields if isinstance(fields, Mapping) else {}

    def data(self) -> Iterator[tuple[Any, ...]]:
        """The columns of every row that are whole: dataset, row, fields, checksum."""
        if self._has_fields:
            with suppress(sqlite3.Error):
                for entry in self._db.execute('SELECT dataset, row, fields, checksum FROM data'):
                    if self._db.is_whole(entry, 'data row', f'{entry[0]}, row {entry[1]} of the data'):
                        yield entry

    def request(self, fingerprint: str) -> Any:
        """What was sent; None if there is no such request."""
        entry = self._entry(fingerprint)
        if entry is None:
            return None
        try:
            return unpack_request(entry[3])
        except DamagedError as error:
            self.damage.add('request', f'request {fingerprint}', error)
            return None

    def reply(self, fingerprint: str) -> Reply | Scored | str | None:
        """What came back: a reply, scores, or why it failed; None if it was never finished."""
        entry = self._entry(fingerprint)
        if entry is None:
            return None
        _, kind, _, _, reply, _ = entry
        if kind == 'failure':
            return str(reply)
        try:
            return unpack_scored(reply) if kind == 'score' else read_reply(reply)
        except DamagedError as error:
            self.damage.add('reply', f'reply {fingerprint}', error)
            return None

    @property
    def anything(self) -> bool:
        """Whether any request is finished."""
        return self._db.fetch_one('SELECT 1 FROM requests LIMIT 1') is not None

    def knows(self, fingerprint: str) -> bool:
        """Whether a request is finished."""
        return self._db.fetch_one('SELECT 1 FROM requests WHERE fingerprint = ?', (self._key(fingerprint),)) is not None

    def failed(self, fingerprint: str) -> bool:
        """Whether a request is finished, and failed."""
        entry = self._db.fetch_one('SELECT kind FROM requests WHERE fingerprint = ?', (self._key(fingerprint),))
        return entry is not None and entry[0] == 'failure'

    def fingerprints(self) -> set[str]:
        """Every request that is finished."""
        return {read_key(key) for (key,) in self._db.fetch_all('SELECT fingerprint FROM requests')}

    def _key(self, fingerprint: str) -> str | bytes:
        """The key of a request in this store."""
        return encode_key(fingerprint) if self._has_short_keys else fingerprint

    def entries(self) -> Iterator[tuple[Any, ...]]:
        """Every stored request that is whole: fingerprint, kind, outcome, request, reply, checksum."""
        query = f'SELECT rowid, fingerprint, kind, outcome, request, reply, {self._sum} FROM requests'
        for rowid, (key, *cells) in self._db.salvage(query, 'rowid', (), 'requests', 'request'):
            entry = (read_key(key), *cells)
            if self._db.is_whole(entry, 'request', f'request {rowid}'):
                yield entry

    def starts(self) -> list[tuple[Any, ...]]:
        """Every start of the run that can be read: when, manifest, config."""
        query = 'SELECT id, started, manifest, config FROM starts'
        starts = [entry for _, entry in self._db.salvage(query, 'id', (), 'starts', 'start')]
        return [entry for entry in starts if all(self._is_json(text, f'start {entry[0]}') for text in entry[2:])]

    def times(self) -> list[NodeTimes]:
        """Where the rows of each model were computed, if in other processes."""
        for further in (', wording, writing', ''):  # an older run has fewer, or none
            with suppress(sqlite3.Error):
                query = (
                    f"SELECT model, node, rows, computing, waiting{further} FROM times ORDER BY model = '', model, node"
                )
                return [NodeTimes(*entry) for entry in self._db.execute(query)]
        return []

    def digests(self, dataset: str, model: str) -> tuple[str | None, str | None]:
        """How all rows of a pair were asked and scored, as digests; None where that is not known."""
        entry = None
        with suppress(sqlite3.Error):  # an older run has none
            query = 'SELECT asking, scoring FROM recipes WHERE dataset = ? AND model = ?'
            entry = self._db.execute(query, (dataset, model)).fetchone()
        return (None, None) if entry is None else (entry[0], entry[1])

    def answering(self) -> list[str]:
        """The models that have answered, by the fingerprint of their identity."""
        with suppress(sqlite3.Error):
            return [who for (who,) in self._db.execute('SELECT who FROM answered') if isinstance(who, str)]
        return []

    def manifest(self) -> Mapping[str, Any]:
        """How the run was last started: versions, models, datasets, templates."""
        manifest = dict(self._read_last('manifest'))
        for key, kind in _MANIFEST.items():
            if not isinstance(manifest.get(key, kind()), kind):
                self.damage.add('start', f'{key} of the last start', 'not of its type')
                del manifest[key]
        return manifest

    def config(self) -> Mapping[str, Any]:
        """The config of the last start, without keys."""
        return self._read_last('config')

    def integrity_problems(self) -> list[str]:
        """What SQLite itself finds wrong with the file."""
        try:
            problems = [str(line) for (line,) in self._db.execute('PRAGMA integrity_check(20)')]
        except sqlite3.Error as error:
            return [str(error)]
        return [] if problems == ['ok'] else problems

    def _results_of(self, dataset: str, model: str, *, after: int = -1) -> Iterator[Result]:
        query = f'SELECT row, {self._row} FROM rows WHERE dataset = ? AND model = ?'
        for _, entry in self._db.salvage(query, 'row', (dataset, model), 'rows', 'row', after=after):
            if (result := self._decode(entry)) is not None:
                yield result

    def _decode(self, entry: tuple[Any, ...]) -> Result | None:
        dataset, model, row, *_ = entry
        name = f'{dataset} × {model}, row {row}'
        if None in entry[:5]:
            self.damage.add('row', name, 'a cell is empty')
            return None
        if not is_whole_row(entry):
            self.damage.add('row', name, 'the checksum does not match')
            return None
        try:
            return decode_result(entry[:-1], self._reply_text)
        except DamagedError as error:
            self.damage.add('row', name, error)
            return None

    def _reply_text(self, fingerprint: str) -> str | None:
        reply = self.reply(fingerprint)
        return reply.text if isinstance(reply, Reply) else None

    def _entry(self, fingerprint: str) -> tuple[Any, ...] | None:
        query = f'SELECT fingerprint, kind, outcome, request, reply, {self._sum} FROM requests WHERE fingerprint = ?'
        try:
            entry = self._db.execute(query, (self._key(fingerprint),)).fetchone()
        except sqlite3.Error as error:
            self.damage.add('request', f'request {fingerprint}', error)
            return None
        entry = entry and (fingerprint, *entry[1:])
        return entry if entry is not None and self._db.is_whole(entry, 'request', f'request {fingerprint}') else None

    def _read_last(self, column: str) -> Mapping[str, Any]:
        query = f'SELECT {column} FROM starts ORDER BY id DESC LIMIT 1'
        starts = self._db.read_table(query, 'start', 'the list of starts')
        try:
            manifest = json.loads(starts[0][0]) if starts else {}
        except (ValueError, TypeError, RecursionError) as error:
            self.damage.add('start', f'{column} of the last start', error)
            return {}
        return manifest if isinstance(manifest, Mapping) else {}

    def refuse_if_nothing_is_whole(self) -> None:
        """Raise if the file is damaged so that not a single row or score can be read."""
        if not self.scorecards() and next(iter(self.results()), None) is None and self.damage:
            raise RunError(
                f'{self.directory / FILE}: nothing in it can be read: {self.damage}\n'
                f'`rolecall doctor {self.directory} --repair NEW` saves what is whole, if anything is.'
            )

    def _is_json(self, text: Any, name: str) -> bool:
        try:
            json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            self.damage.add('start', name, error)
            return False
        return True
