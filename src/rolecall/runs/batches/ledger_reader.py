"""What a run's ledger says about its batches, read without the run's lock.

A run without a ledger has no batches. A ledger that is damaged, or held by another program, says nothing: that is
an error wherever money depends on it, and a line to read everywhere else.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rolecall.errors import RunError
from rolecall.runs.store.directory import FILE
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.runs.pair_run import PreparedRun

OPEN_STATES = ('new', 'uploaded', 'creating', 'created')
"""States of a batch that is not finished: not yet at the server, perhaps, or surely."""
_TABLES = ('batches', 'batch_requests', 'batch_bodies', 'batch_notes', 'batch_rows')
_OFFICIAL = ('api.openai.com', 'api.anthropic.com')


@dataclass(frozen=True, slots=True)
class BatchTokens:
    """Tokens that were paid at the batch price."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int


def describe_waiting(directory: str | Path) -> list[str]:
    """What waits at which server since when, a line for each model; empty where nothing does."""
    try:
        return read_waiting(directory)
    except RunError as error:
        return [str(error)]


def read_waiting(directory: str | Path) -> list[str]:
    """The lines of `describe_waiting`; an error where the ledger cannot be read."""
    marks = ','.join('?' * len(OPEN_STATES))
    query = (
        "SELECT vendor, server, model, min(since), state = 'created', max(remote_id), count(*),"
        " sum((SELECT count(*) FROM batch_requests WHERE batch = number AND state = 'waiting'))"
        f" FROM batches WHERE state IN ({marks}) GROUP BY vendor, server, model, state = 'created' ORDER BY min(number)"
    )
    lines = []
    for vendor, server, model, since, created, remote_id, batches, waiting in _read(directory, query, OPEN_STATES):
        requests, name = count_noun(waiting, 'request'), remote_id if batches == 1 else count_noun(batches, 'batch')
        if created:
            place = vendor if urlsplit(server).hostname in _OFFICIAL else server
            lines.append(f'{requests} of {model} waiting at {place} since {since[:16].replace("T", " ")} UTC ({name})')
        else:
            lines.append(f'{requests} of {model}: submission interrupted; repeat the command with --batch')
    return lines


def has_batches(directory: str | Path) -> bool:
    """Whether anything of a run was put down for a batch, as far as that can be read."""
    with suppress(RunError):
        return bool(_read(directory, 'SELECT 1 FROM batch_notes LIMIT 1'))
    return False


def count_waiting(directory: str | Path, models: Iterable[str]) -> int:
    """How many requests of these models a server has, perhaps, and has not answered; an error if that is not known."""
    query = (
        'SELECT requests.model, count(*) FROM batch_requests AS requests JOIN batches ON number = batch'
        " WHERE requests.state = 'waiting' AND batches.state IN ('creating', 'created') GROUP BY requests.model"
    )
    counts = dict(_read(directory, query))
    return sum(counts.get(model, 0) for model in set(models))


def refuse_while_waiting(prepared: PreparedRun, out: str | Path) -> None:
    """Refuse to ask live what a batch is being paid for."""
    models = {*prepared.models, *(judge.model_entry.model.name for judge in prepared.judges)}
    if waiting := count_waiting(out, models):
        raise RunError(
            f'{out}: {count_noun(waiting, "request")} of this run in a batch; asked live, they would be paid twice.\n'
            f'Fetch the answers with `rolecall runs collect {out}`, or cancel first: '
            f'`rolecall runs collect {out} --cancel`.'
        )


def read_batch_tokens(directory: str | Path) -> Mapping[tuple[str, str], BatchTokens]:
    """The tokens that were paid at the batch price, by dataset and model, as far as they can be read."""
    query = (
        'SELECT dataset, model, coalesce(sum(input_tokens), 0), coalesce(sum(output_tokens), 0),'
        " coalesce(sum(cached_tokens), 0) FROM batch_requests WHERE state = 'answered' GROUP BY dataset, model"
    )
    with suppress(RunError):
        return {(dataset, model): BatchTokens(*counts) for dataset, model, *counts in _read(directory, query)}
    return {}


def copy_ledger(directory: str | Path, target: str | Path) -> int:
    """Copy what can be read of a run's batches into another run; how many entries."""
    from rolecall.runs.batches.ledger import BatchLedger  # which most runs never open

    tables = {table: entries for table in _TABLES if (entries := list(_read_rows(directory, table)))}
    if not tables:
        return 0
    with closing(BatchLedger(Path(target))) as ledger:
        return sum(ledger.take(table, entries) for table, entries in tables.items())


def _read(directory: str | Path, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """The entries of a query; none for a run that has no batches."""
    file = Path(directory) / FILE
    if not file.is_file():
        return []
    try:
        with closing(_connect(file)) as db:
            return db.execute(query, values).fetchall()
    except sqlite3.Error as error:
        if str(error).startswith('no such table'):
            return []
        what = f'the list of batches cannot be read ({error}); requests may be waiting at a server'
        raise RunError(f'{directory}: {what}.\nCheck the run first: rolecall doctor {directory}') from error


def _read_rows(directory: str | Path, table: str) -> Iterator[tuple[Any, ...]]:
    """The entries of a table up to the first that cannot be read."""
    with suppress(sqlite3.Error), closing(_connect(Path(directory) / FILE)) as db:
        yield from db.execute(f'SELECT * FROM {table}')


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f'{file.resolve().as_uri()}?mode=ro', uri=True, timeout=5)
