"""Copies of run directories: several merged into one, and what is whole of a damaged one, after it was checked.

Requests are the same if their fingerprints are. Where two runs have different answers to one request, or asked
different requests about one row, the first is kept and the conflict is named.
"""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.models.protocol import Reply, Scored
from rolecall.runs.batches.ledger_reader import copy_ledger, has_batches, read_waiting
from rolecall.runs.store.database import Damage
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.labels import copy_decisions
from rolecall.runs.store.lookup import Failure, read_answer
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

_CHUNK = 500
_NAMED = 20
_GOOD = ('ok', 'unparsed')


@dataclass(slots=True)
class Merged:
    """What came out of a merge."""

    out: Path
    rows: Counter[str] = field(default_factory=Counter)
    """How many rows each run brought."""
    requests: int = 0
    known: int = 0
    """Requests that an earlier run had brought already."""
    conflicts: int = 0
    named: list[str] = field(default_factory=list)
    """The first conflicts."""
    damaged: list[str] = field(default_factory=list)
    """What could not be read of which run."""

    @property
    def is_clean(self) -> bool:
        return not self.conflicts and not self.damaged

    def add_conflict(self, what: str) -> None:
        self.conflicts += 1
        if len(self.named) < _NAMED:
            self.named.append(what)

    def lines(self) -> Iterator[str]:
        """The merge for people."""
        for run, rows in self.rows.items():
            yield f'{run}: {count_noun(rows, "row")}'
        repeated = f'; {count_noun(self.known, "request")} known already' if self.known else ''
        added = f'{count_noun(self.rows.total(), "row")} and {count_noun(self.requests, "request")}'
        yield f'{added} added to {self.out}{repeated}'
        if self.conflicts:
            yield f'{count_noun(self.conflicts, "conflict")}, in which the first run was kept:'
            yield from (f'  {what}' for what in self.named)
            if self.conflicts > len(self.named):
                yield f'  … and {self.conflicts - len(self.named):,} more'
        yield from self.damaged


def merge_runs(out: str | Path, runs: Sequence[str | Path]) -> Merged:
    """Take the requests, rows, data and labels of runs into `out`, which may be a run already.

    Scores are not taken over: they belong to all rows. Running the config in `out` computes them.
    """
    target = Path(out)
    sources = [Path(run) for run in runs]
    missing = [str(run) for run in sources if not (run / FILE).is_file()]
    if missing:
        raise RunError(f'no run found in {", ".join(missing)} ({FILE} is missing).')
    if any(run.resolve() == target.resolve() for run in sources):
        raise RunError(f'{target}: is one of the runs to merge. Name another directory for the result.')
    for run in sources:
        if waiting := read_waiting(run):
            raise RunError(f'{run}: {waiting[0]}.\nCollect or cancel it first: rolecall runs collect {run}')
    merged = Merged(target)
    store = Store(target)
    try:
        for run in dict.fromkeys(sources):
            with RunReader(run) as reader:
                _merge_one(store, reader, run, merged)
                if reader.damage:
                    merged.damaged.append(f'{run}: {reader.damage}')
            copy_decisions(run, target)
    finally:
        store.close()
    return merged


def _merge_one(store: Store, reader: RunReader, run: Path, merged: Merged) -> None:
    recipes = {pair: _join_recipes(store, reader, *pair) for pair in reader.pairs()}
    # Until all its rows are there, nothing is known of a pair.
    for pair in recipes:
        store.record_digests(*pair, asking=None, scoring=None)
    if not store.anything:
        store.import_starts(reader.starts())
    entries = reader.entries()
    while chunk := list(islice(entries, _CHUNK)):
        store.import_entries(_pick_entries(store, chunk, run, merged))
    results = reader.results()
    while some := list(islice(results, _CHUNK)):
        picked = list(_pick_results(store, some, run, merged))
        store.import_results(picked)
        merged.rows[str(run)] += len(picked)
    store.import_fields(reader.data())
    for who in reader.answering():
        store.record_answering(who)
    store.flush()
    for pair, (asking, scoring) in recipes.items():
        store.record_digests(*pair, asking=asking, scoring=scoring)


def _join_recipes(store: Store, reader: RunReader, dataset: str, model: str) -> tuple[str | None, str | None]:
    """How all rows of a pair were asked and scored, if both runs say the same."""
    theirs = reader.digests(dataset, model)
    if not store.count_outcomes(dataset, model):
        return theirs
    ours = store.digests(dataset, model)
    return ours[0] if ours[0] == theirs[0] else None, ours[1] if ours[1] == theirs[1] else None


def _pick_entries(
    store: Store, entries: Sequence[tuple[Any, ...]], run: Path, merged: Merged
) -> Iterator[tuple[Any, ...]]:
    """Those that the store lacks, or has only as a failure."""
    stored = store.find_replies([entry[0] for entry in entries])
    for entry in entries:
        ours = stored.get(entry[0])
        if ours is None:
            merged.requests += 1
            yield entry
            continue
        merged.known += 1
        theirs = read_answer(entry)
        if isinstance(ours, Failure) and not isinstance(theirs, Failure):
            yield entry
        elif not isinstance(theirs, Failure) and _answer_of(ours) != _answer_of(theirs):
            merged.add_conflict(f'request {entry[0]}: {run} has another answer')


def _answer_of(answer: Reply | Scored | Failure | None) -> object:
    """What was answered, without what it cost."""
    if isinstance(answer, Reply):
        return answer.text, answer.outcome, answer.reasoning, answer.tool_calls
    return (answer.ids, answer.logprobs) if isinstance(answer, Scored) else answer


def _pick_results(store: Store, results: Sequence[Result], run: Path, merged: Merged) -> Iterator[Result]:
    for result in results:
        ours = store.result(result.dataset, result.model, result.row)
        if ours is None or (ours.outcome not in _GOOD and result.outcome in _GOOD):
            yield result
        elif result.outcome in _GOOD and result.fingerprints != ours.fingerprints:
            name = f'{result.dataset} × {result.model}, row {result.row}'
            merged.add_conflict(f'{name}: {run} asked something else')


_NOTHING = 'Nothing in it can be saved: run the config in a new directory.'


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a check of a run directory found."""

    whole: Counter[str]
    """Entries that are whole, by kind."""
    damage: Damage
    file_problems: tuple[str, ...] = ()
    """What is wrong with the file as a whole: it is cut off, or SQLite finds it damaged."""

    @property
    def is_whole(self) -> bool:
        return not self.damage and not self.file_problems

    def lines(self) -> list[str]:
        """The findings, for people."""
        counts = ', '.join(count_noun(self.whole[kind], kind) for kind in ('row', 'request', 'score'))
        lines = [f'whole: {counts}']
        lines += [f'damaged: {count_noun(count, kind)}' for kind, count in self.damage.counts.items()]
        lines += [f'  {name}: {why}' for name, why in self.damage.named.items()]
        return lines + [f'file: {problem}' for problem in self.file_problems]


def check_run(directory: str | Path) -> Checkup:
    """Read every entry of a run and compare it with its checksum."""
    with _open_damaged(Path(directory)) as reader:
        problems = _find_file_problems(reader)
        return _check(reader, problems)


def describe_receipts(directory: str | Path) -> list[str]:
    """What the servers of a run did with its requests, by their own reports."""
    with RunReader(directory) as reader:
        receipts = [(card, card.receipt) for card in reader.scorecards() if card.receipt]
    lines = [f'{card.dataset} × {card.model}: {finding}' for card, receipt in receipts for finding in receipt.findings]
    checked, unknown = (sum(getattr(receipt, name) for _, receipt in receipts) for name in ('checked', 'unknown'))
    amounts = f'{count_noun(checked, "row")} compared{f", {unknown:,} with unknown prompt tokens" if unknown else ""}'
    return [f'receipts: {amounts}', *dict.fromkeys(lines)] if receipts else []


def repair_run(directory: str | Path, target: str | Path) -> Checkup:
    """Save what is whole into a new run directory. Running the config there asks for what is missing.

    Human labels come along. The scores of a pair are saved only if nothing was damaged: they must belong to their rows.
    """
    if (Path(target) / FILE).exists():
        raise RunError(f'{target}: there is a run already. Name a new directory.')
    with _open_damaged(Path(directory)) as reader:
        problems = _find_file_problems(reader)
        first = next(chain(reader.results(), reader.entries()), None)
        if first is None and (reader.damage or problems) and not has_batches(directory):
            raise RunError(f'{Path(directory) / FILE}: {"; ".join(problems) or reader.damage}. {_NOTHING}')
        store = Store(target)
        try:
            store.import_starts(reader.starts())
            store.import_entries(reader.entries())
            store.import_results(reader.results())
            store.import_fields(reader.data())
            for who in reader.answering():
                store.record_answering(who)
            store.flush()
            if not reader.damage and not problems:
                store.record_scores(reader.scorecards())
        finally:
            store.close()
        copy_ledger(directory, target)
        copy_decisions(Path(directory), Path(target))
    with RunReader(target) as saved:
        return Checkup(_check(saved, ()).whole, reader.damage, problems)


def _open_damaged(directory: Path) -> RunReader:
    """A reader of a run; an error that says so where not even the list of tables can be read."""
    try:
        return RunReader(directory)
    except RunError as error:
        cut = _describe_cut(directory / FILE)
        if not cut and type(error.__cause__) is not sqlite3.DatabaseError:  # such as a directory without a run
            raise
        raise RunError(f'{directory / FILE}: {cut or error.__cause__}. {_NOTHING}') from error


def _find_file_problems(reader: RunReader) -> tuple[str, ...]:
    cut = _describe_cut(reader.directory / FILE)
    return (*([cut] if cut else []), *reader.integrity_problems())


def _describe_cut(file: Path) -> str:
    """How much of a file is there, where its first page tells of more."""
    if not file.is_file():
        return ''
    with file.open('rb') as opened:
        start = opened.read(100)
    size, full = file.stat().st_size, int.from_bytes(start[16:18], 'big') * int.from_bytes(start[28:32], 'big')
    journal = file.with_name(f'{FILE}-wal')
    pending = journal.exists() and journal.stat().st_size > 0
    is_cut = start.startswith(b'SQLite format 3') and not pending and size < full
    return f'cut off after {size:,} of {full:,} bytes' if is_cut else ''


def _check(reader: RunReader, problems: tuple[str, ...]) -> Checkup:
    whole = Counter(row=0, request=0, score=0)
    for kind, entries in (('row', reader.results()), ('request', reader.entries()), ('score', reader.scorecards())):
        for _ in entries:
            whole[kind] += 1
    deque(reader.data(), maxlen=0)  # read for what is damaged
    reader.manifest(), reader.config()
    return Checkup(whole, reader.damage, problems)
