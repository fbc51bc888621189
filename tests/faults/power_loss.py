"""Power is lost at any moment: what had not reached the disk is lost in part, sector by sector, on a copy.

A process stores replies and notes each that the store calls safe. A library that is loaded before the C library records
what it writes, syncs, truncates and deletes. The record is then played up to each of its entries: what was synced is
there, and of what was written since, nothing, everything or any part. The next start on each copy must find no damage, and
every reply that had been called safe.
"""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from disk_faults import build_library
from playing import Verdict

__all__ = ['power_lost']

_REPLIES, _SECTOR, _FOLDER, _NOTES = 60, 512, 'run', 'safe.txt'
_HEAD = struct.Struct('4q')
_STORE = f"""
import asyncio, os, sys
from functools import partial
from rolecall.models.protocol import Reply
from rolecall.runs.store import database
database._WAL_PAGES = 12  # so that the journal is moved into the file many times
from rolecall.runs.store.writer import open_store

async def main(folder):
    with open_store(folder) as store, open(f'{{folder}}/{_NOTES}', 'wb', 0) as notes:
        for number in range({_REPLIES}):
            reply = Reply('long ' * (number * 37 % 500))
            store.add_reply(f'{{number * 0x9E3779B97F4A7C15 % (1 << 128):032x}}', 'asked', reply, then=partial(notes.write, b'%d ' % number))
            await asyncio.sleep(0.004)
        await store.wait_until_saved()

asyncio.run(main(sys.argv[1]))
"""


@dataclass
class _Disk:
    """Files as they surely are, and what was done to each since it was last synced."""

    synced: dict[str, bytearray] = field(default_factory=dict)
    pending: dict[str, list[tuple[str, int, bytes]]] = field(default_factory=lambda: defaultdict(list))

    def take(self, kind: str, name: str, at: int, data: bytes) -> None:
        if kind == 's' and name == _FOLDER:
            for file, changes in self.pending.items():
                deletions = [place for place, (what, _, _) in enumerate(changes, start=1) if what == 'u']
                if deletions:
                    self.synced.pop(file, None)
                    del changes[: deletions[-1]]
        elif kind == 's':
            for change in self.pending.pop(name, ()):
                _apply(self.synced, name, *change)
        else:
            self.pending[name].append((kind, at, data))

    def after_loss(self, chance: random.Random, share: float) -> dict[str, bytearray]:
        """The files if this share of what was not synced survives."""
        files = {name: bytearray(content) for name, content in self.synced.items()}
        for name, changes in self.pending.items():
            for kind, at, data in changes:
                for start in range(0, max(len(data), 1), _SECTOR):
                    if chance.random() < share:
                        _apply(files, name, kind, at + start, data[start : start + _SECTOR])
        return files


def _apply(files: dict[str, bytearray], name: str, kind: str, at: int, data: bytes) -> None:
    if kind == 'u':
        files.pop(name, None)
        return
    content = files.setdefault(name, bytearray())
    if kind == 't':
        content[:] = content[:at].ljust(at, b'\0')
        return
    content.extend(bytes(max(0, at - len(content))))
    content[at : at + len(data)] = data


def power_lost(folder: Path) -> Verdict:
    """Losses at every entry of the record, each with three shares of what survives."""
    library = build_library(folder)
    if library is None:
        return Verdict(0, 0, 0, 0, 'not tried: no C compiler is here')
    run, log = folder / _FOLDER, folder / 'log'
    run.mkdir()
    environment = {**os.environ, 'LD_PRELOAD': str(library), 'FAULT_FOLDER': str(run), 'FAULT_LOG': str(log)}
    subprocess.run([sys.executable, '-c', _STORE, str(run)], env=environment, check=True, timeout=120)
    disk, safe, tried, chance, complaint = _Disk(), 0, 0, random.Random(28), ''
    for place, (kind, name, at, data) in enumerate(_read(log)):
        if name == _NOTES:
            safe += len(data.split())
            continue
        disk.take(kind, name, at, data)
        for share in (0.0, chance.choice((0.1, 0.5, 0.9)), 1.0):
            tried += 1
            copy = folder / 'copy'
            _write(copy, disk.after_loss(chance, share))
            complaint = complaint or _look(copy, safe, f'after entry {place}, {share:.0%} of what was not synced kept')
    kept = safe if not complaint else 0
    return Verdict(_REPLIES, kept, 0, _REPLIES - kept, complaint or ('' if tried > 300 else f'only {tried} losses'))


def _read(log: Path) -> Iterator[tuple[str, str, int, bytes]]:
    record, place = log.read_bytes(), 0
    while place < len(record):
        kind, at, size, length = _HEAD.unpack_from(record, place)
        begin = place + _HEAD.size + length
        yield chr(kind), os.path.basename(record[begin - length : begin].decode()), at, record[begin : begin + size]
        place = begin + size


def _write(copy: Path, files: dict[str, bytearray]) -> None:
    copy.mkdir(exist_ok=True)
    for old in copy.iterdir():
        old.unlink()
    for name, content in files.items():
        if name.startswith('run.sqlite') and not name.endswith('-shm'):  # the index of the journal is made anew
            (copy / name).write_bytes(content)


def _look(copy: Path, safe: int, when: str) -> str:
    """What is wrong with a copy after the next start; nothing if it is whole and holds the replies that were safe."""
    from rolecall.errors import RunError
    from rolecall.runs.store.copies import check_run
    from rolecall.runs.store.writer import open_store

    try:
        with open_store(copy):
            pass
        checkup = check_run(copy)
    except RunError as error:
        return f'{when}: {error}'
    if not checkup.is_whole:
        return f'{when}: {checkup.lines()}'
    return '' if checkup.whole['request'] >= safe else f'{when}: {checkup.whole["request"]} of {safe} safe replies'
