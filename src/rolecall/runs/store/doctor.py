"""Checking a run directory, and saving what is whole into a new one."""

from __future__ import annotations

import sqlite3
from collections import Counter, deque
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from rolecall.errors import RunError
from rolecall.runs.batches.ledger_reader import copy_ledger, has_batches
from rolecall.runs.store.database import Damage
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.labels import copy_decisions
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

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
