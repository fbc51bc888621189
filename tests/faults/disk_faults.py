"""Every write, sync and rename of a run fails, one after the other, below SQLite and Python: a history is checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hostile_server import serve_hostile
from playing import Verdict, judge, never, rolecall, write_config

__all__ = ['build_library', 'failing_disk', 'first_failures']

_ROWS = 12
_SOURCE = Path(__file__).with_name('failing_disk.c')


def failing_disk(folder: Path) -> Verdict:
    """The n-th write, sync and rename fails, for every n, once and from then on."""
    return _sum_up(folder, None)


def first_failures(folder: Path) -> Verdict:
    """The same for the first two of each kind."""
    return _sum_up(folder, 2)


def build_library(folder: Path) -> Path | None:
    """The library that comes before the C library; None where it cannot be built."""
    library, compiler = folder / 'failing_disk.so', shutil.which('cc')
    if compiler is None or sys.platform != 'linux':
        return None
    subprocess.run([compiler, '-shared', '-fPIC', '-o', str(library), str(_SOURCE), '-ldl'], check=True)
    return library


def _sum_up(folder: Path, most: int | None) -> Verdict:
    library = build_library(folder)
    if library is None:
        return Verdict(0, 0, 0, 0, 'not tried: no C compiler is here')
    verdicts = [
        verdict
        for kind in ('write', 'sync', 'rename')
        for lasts in (False, True)
        for verdict in _fail_each(folder / f'{kind}{lasts:d}', library, kind, lasts=lasts, most=most)
    ]
    complaint = next((verdict.complaint for verdict in verdicts if verdict.complaint), '')
    sums = (sum(getattr(verdict, name) for verdict in verdicts) for name in ('tried', 'kept', 'failed', 'lost'))
    return Verdict(*sums, complaint)


def _fail_each(folder: Path, library: Path, kind: str, *, lasts: bool, most: int | None) -> Iterator[Verdict]:
    """A verdict for each number of the call that fails, until a run makes fewer calls than that."""
    for number in count(1):
        place = folder / str(number)
        place.mkdir(parents=True)
        fired, verdict = _fail_one(place, library, kind, number, lasts=lasts)
        shutil.rmtree(place)
        if not fired or (most is not None and number > most):
            return
        yield verdict
        if not verdict.survived:
            return


def _fail_one(place: Path, library: Path, kind: str, number: int, *, lasts: bool) -> tuple[bool, Verdict]:
    out, mark = place / 'run', place / 'mark'
    faults = {'FAULT_FOLDER': str(out), 'FAULT_KIND': kind, 'FAULT_NUMBER': str(number), 'FAULT_MARK': str(mark)}
    environment = {**os.environ, **faults, **({'FAULT_LASTS': '1'} if lasts else {}), 'LD_PRELOAD': str(library)}
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(place, server.url, rows=_ROWS, max_workers=2)
        first = rolecall('run', str(config), '--out', str(out), env=environment)
        stored = _stored_rows(out)
        before = dict(server.answered)
        second = rolecall('run', str(config), '--out', str(out))
        after = dict(server.answered)
    verdict = judge(out, _ROWS, first, second, is_bad=never)
    again = [row for row in stored if after.get(row, 0) > before.get(row, 0)]
    complaint = verdict.complaint or (f'stored rows were asked again: {again[:3]}' if again else '')
    if mark.exists() and first.returncode == 0 and len(stored) < _ROWS:
        complaint = complaint or f'{kind} {number} failed, rows are missing, and the run ended with 0'
    if complaint:
        complaint = f'{kind} {number}{" and all later" if lasts else ""}: {complaint}'
    return mark.exists(), Verdict(_ROWS, verdict.kept, verdict.failed, verdict.lost, complaint)


def _stored_rows(out: Path) -> list[int]:
    """The rows of a run that have an answer."""
    exported = rolecall('export', 'results', str(out))
    rows = map(json.loads, exported.stdout.splitlines() if exported.returncode == 0 else ())
    return [int(row['row']) for row in rows if row['outcome'] in ('ok', 'unparsed')]
