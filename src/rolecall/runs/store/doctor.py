"""Checking a run directory, and saving what is whole into a new one."""

from __future__ import annotations

import tempfile
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rolecall.errors import RunError
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.labels import Labels
from rolecall.runs.store.run_reader import Damage, RunReader
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

__all__ = ['Checkup', 'check_run', 'repair_run']

_MOST_TIMES_LARGER = 100


@dataclass(frozen=True, slots=True)
class Checkup:
    """What a check of a run directory found."""

    whole: Counter[str]
    """Entries that are whole, by kind."""
    damage: Damage
    file_problems: tuple[str, ...] = ()
    """What SQLite itself finds wrong with the file."""

    @property
    def is_whole(self) -> bool:
        return not self.damage and not self.file_problems

    def lines(self) -> list[str]:
        """The findings, for people."""
        counts = ', '.join(count_noun(self.whole[kind], kind) for kind in ('row', 'request', 'score'))
        lines = [f'whole: {counts}']
        lines += [f'damaged: {count_noun(count, kind)}' for kind, count in self.damage.counts.items()]
        lines += [f'  {name}: {why}' for name, why in self.damage.named.items()]
        return lines + [f'SQLite: {problem}' for problem in self.file_problems]


def check_run(directory: str | Path) -> Checkup:
    """Read every entry of a run and compare it with its checksum."""
    with _open_damaged(Path(directory)) as reader:
        problems = tuple(reader.integrity_problems())
        return _check(reader, problems)


def repair_run(directory: str | Path, target: str | Path) -> Checkup:
    """Save what is whole into a new run directory. Running the config there asks for what is missing.

    Human labels come along. The scores of a pair are saved only if nothing was damaged: they must belong to their rows.
    """
    if (Path(target) / FILE).exists():
        raise RunError(f'{target}: there is a run already. Name a new directory.')
    with _open_damaged(Path(directory)) as reader:
        problems = tuple(reader.integrity_problems())
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
        for key, label in Labels(Path(directory)).items():
            Labels(Path(target)).add(key, label)
    with RunReader(target) as saved:
        return Checkup(_check(saved, ()).whole, reader.damage, problems)


@contextmanager
def _open_damaged(directory: Path) -> Iterator[RunReader]:
    """A reader of a run. SQLite refuses a file that was cut off, so a copy is filled up with empty pages."""
    try:
        reader = RunReader(directory)
    except RunError:
        data = (directory / FILE).read_bytes() if (directory / FILE).is_file() else b''
        size = int.from_bytes(data[16:18], 'big') * int.from_bytes(data[28:32], 'big')
        if not data.startswith(b'SQLite format 3') or not len(data) < size <= _MOST_TIMES_LARGER * len(data):
            raise
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / FILE).write_bytes(data.ljust(size, b'\0'))
            with RunReader(folder) as padded:
                padded.damage.add('file', str(directory / FILE), f'cut off after {len(data):,} of {size:,} bytes')
                yield padded
        return
    with reader:
        yield reader


def _check(reader: RunReader, problems: tuple[str, ...]) -> Checkup:
    whole = Counter(row=0, request=0, score=0)
    for kind, entries in (('row', reader.results()), ('request', reader.entries()), ('score', reader.scorecards())):
        for _ in entries:
            whole[kind] += 1
    deque(reader.data(), maxlen=0)  # read for what is damaged
    return Checkup(whole, reader.damage, problems)
