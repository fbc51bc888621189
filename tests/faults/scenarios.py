"""Each scenario drives the command line against something that misbehaves, and counts what was tried, kept and lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from disk_faults import failing_disk, first_failures
from hostile_server import MISBEHAVIOURS, serve_hostile
from machine_faults import clock_jumps, hostile_files, odd_streams, read_only, signalled
from playing import ROWS, Verdict, judge, never, rolecall, write_config
from power_loss import power_lost

from rolecall.runs.store.run_reader import RunReader

__all__ = ['SCENARIOS', 'Verdict', 'play', 'soak']


def hostile_reply(name: str, folder: Path) -> Verdict:
    """Every fourth row meets the misbehaviour for good; all others must be answered, now and after a second start."""

    def is_bad(row: int) -> bool:
        return row % 4 == 1

    out, seconds = folder / 'run', 2 if 'never comes' in name else 20
    with serve_hostile(name, is_bad=is_bad) as server:
        config = write_config(folder, server.url, timeout=seconds)
        try:
            first = rolecall('run', str(config), '--out', str(out))
            second = rolecall('run', str(config), '--out', str(out))
        except subprocess.TimeoutExpired:
            return Verdict(ROWS, 0, 0, ROWS, 'the run hung')
    return judge(out, ROWS, first, second, is_bad=is_bad)


def passing_fault(name: str, folder: Path) -> Verdict:
    """Every fourth row meets the misbehaviour once; asked again, all are answered."""
    out = folder / 'run'
    with serve_hostile(name, is_bad=lambda row: row % 4 == 1, times=1) as server:
        config = write_config(folder, server.url)
        try:
            ran = [rolecall('run', str(config), '--out', str(out), '--rerun', 'failed') for _ in range(2)]
        except subprocess.TimeoutExpired:
            return Verdict(ROWS, 0, 0, ROWS, 'the run hung')
    return judge(out, ROWS, *ran, is_bad=lambda row: False)


def refused_at_first(folder: Path) -> Verdict:
    """The first call of every row is refused with 429, without a word about when to come back."""
    out = folder / 'run'
    with serve_hostile('a refusal without Retry-After', is_bad=lambda row: True, times=1) as server:
        config = write_config(folder, server.url)
        try:
            ran = rolecall('run', str(config), '--out', str(out), seconds=90)
        except subprocess.TimeoutExpired:
            return Verdict(ROWS, 0, 0, ROWS, 'the run crawled')
    return judge(out, ROWS, ran, is_bad=never)


def killed(folder: Path, *, times: int = 4, places: int = 4) -> Verdict:
    """`kill -9` at random moments, then started again: nothing that is in the store is asked again.

    What is not in the store are the newest answers: of those before the last one stored, at most as many are missing as
    calls were in flight, whose replies had not been read.
    """
    out, chance, complaint, stored = folder / 'run', random.Random(0), '', set[int]()
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url, rows=400, max_workers=places)
        for _ in range(times):
            began = len(server.answers)
            running = subprocess.Popen(
                [sys.executable, '-m', 'rolecall', 'run', str(config), '--out', str(out)],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            enough = began + chance.randrange(5, 90)
            while len(server.answers) < enough and running.poll() is None:
                time.sleep(0.001)
            time.sleep(chance.random() / 20)
            running.send_signal(signal.SIGKILL)
            running.wait()
            again = stored.intersection(server.answers[began:])
            stored, answers = _stored_rows(out), server.answers[began:]
            last = max((place for place, row in enumerate(answers) if row in stored), default=-1)
            holes = sum(row not in stored for row in answers[: last + 1])
            if again or holes > places:
                complaint = (
                    f'{len(again)} stored rows were asked again, {holes} answers before the last one are missing'
                )
        began = len(server.answers)
        ran = rolecall('run', str(config), '--out', str(out))
        if again := stored.intersection(server.answers[began:]):
            complaint = f'{len(again)} stored rows were asked again'
    if not stored:
        complaint = 'nothing was stored before the last kill'
    verdict = judge(out, 400, ran, is_bad=never)
    return Verdict(400, verdict.kept, verdict.failed, verdict.lost, complaint or verdict.complaint)


def _stored_rows(out: Path) -> set[int]:
    """The rows whose replies a run has kept."""
    with RunReader(out) as reader:
        requests = [reader.request(key) for key in reader.fingerprints()]
    return {int(messages[-1]['content'].rpartition(' ')[2]) for messages in requests}


def two_at_once(folder: Path) -> Verdict:
    """A second run in the same directory is refused, and the first does not notice."""
    out = folder / 'run'
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url, rows=300, max_workers=2)
        first = subprocess.Popen(
            [sys.executable, '-m', 'rolecall', 'run', str(config), '--out', str(out)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        while not (out / 'run.sqlite').exists():
            time.sleep(0.02)
        second = rolecall('run', str(config), '--out', str(out))
        first.wait(60)
        third = rolecall('run', str(config), '--out', str(out))
    return judge(out, 300, second, third, is_bad=never)


def linked_lock(folder: Path) -> Verdict:
    """A run directory of someone else's, whose lock is a link: its target stays as it is."""
    out, target = folder / 'run', folder / 'target'
    target.write_text('precious')
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url)
        out.mkdir()
        (out / 'lock').symlink_to(target)
        refused = rolecall('run', str(config), '--out', str(out))
        complaint = '' if target.read_text() == 'precious' else 'the target of the link was written'
        if 'Traceback' in refused.stderr:
            complaint = refused.stderr[-300:]
        (out / 'lock').unlink()
        ran = rolecall('run', str(config), '--out', str(out))
    verdict = judge(out, ROWS, ran, is_bad=never)
    return Verdict(verdict.tried, verdict.kept, verdict.failed, verdict.lost, complaint or verdict.complaint)


def damaged_store(folder: Path) -> Verdict:
    """Pages of the store overwritten: what is whole is shown, the rest is counted, nothing is a traceback."""
    out = folder / 'run'
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url, rows=300)
        rolecall('run', str(config), '--out', str(out))
    with sqlite3.connect(out / 'run.sqlite') as store:
        store.execute('PRAGMA wal_checkpoint(TRUNCATE)')
    data = bytearray((out / 'run.sqlite').read_bytes())
    chance = random.Random(1)
    written = [at for at in range(8192, len(data)) if data[at]]  # what is where depends on when it was written
    for at in chance.sample(written, 60):
        data[at] ^= 1 << chance.randrange(8)
    (out / 'run.sqlite').write_bytes(data)
    looked = [rolecall(*command, str(out)) for command in (('report',), ('export', 'results'), ('doctor',))]
    complaint = next((one.stderr[-300:] for one in looked if 'Traceback' in one.stderr), '')
    if not complaint and not all('damaged' in one.stdout + one.stderr for one in looked):
        complaint = 'the damage was not reported'
    kept = len(looked[1].stdout.splitlines())
    return Verdict(300, kept, 0, 0 if kept > 200 or looked[1].stderr else 300 - kept, complaint)


def full_disk(folder: Path) -> Verdict:
    """A file system with no room left: an error, and with room again everything is there."""
    small = folder / 'small'
    small.mkdir()
    mounted = subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=256k', 'none', str(small)], capture_output=True)
    if mounted.returncode:
        return Verdict(0, 0, 0, 0, 'not tried: no tmpfs can be mounted here')
    try:
        with serve_hostile('null', is_bad=never) as server:
            config = write_config(folder, server.url, rows=400)
            first = rolecall('run', str(config), '--out', str(small / 'run'))
            subprocess.run(['mount', '-o', 'remount,size=64m', str(small)], check=True)
            second = rolecall('run', str(config), '--out', str(small / 'run'))
        return judge(small / 'run', 400, first, second, is_bad=never)
    finally:
        subprocess.run(['umount', '-l', str(small)], check=False)


def soak(folder: Path, *, seconds: float) -> Verdict:
    """One run, 256 calls at once, faults on a third of all requests, interrupted after so many seconds.

    Every answer that the server gave has to be kept (but for those in flight at the end), none may be given twice, and
    memory may not grow. The curve of memory is printed.
    """
    sys.path.insert(0, str(Path(__file__).parent.parent))
    from servers import by_share, prompt_of, serve

    answers: Counter[int] = Counter()

    def answer(body: Mapping[str, object]) -> str:
        number = int(prompt_of(body).rpartition(' ')[2])
        answers[number] += 1
        return f'answer {number}'

    rows, out = int(1500 * seconds) + 1000, folder / 'run'
    data = folder / 'rows.jsonl'
    with data.open('w') as lines:
        lines.writelines(f'{{"question": "row {number}", "answer": "answer {number}"}}\n' for number in range(rows))
    shares = by_share(rate_limit=0.1, error=0.1, drop=0.06, malformed=0.04, truncated=0.04)
    options = {'latency': 0.02, 'keep_calls': False, 'max_requests': 10**9, 'max_seconds': seconds + 300}
    with serve(answer, faults=shares, **options) as server, (folder / 'log').open('w+') as log:
        config = write_config(folder, server.url, data=data, max_workers=256, retry=12)
        running = subprocess.Popen(
            [sys.executable, '-m', 'rolecall', 'run', str(config), '--out', str(out)],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        curve = _watch_memory(running, seconds)
        running.send_signal(signal.SIGINT)
        code = running.wait(120)
        log.seek(0)
        said = log.read()
    twice = sum(count - 1 for count in answers.values())
    results = [json.loads(line) for line in rolecall('export', 'results', str(out), seconds=600).stdout.splitlines()]
    kept = {row['row'] for row in results if row['outcome'] in ('ok', 'unparsed')}
    failed = sum(row['outcome'] == 'failed' and bool(row.get('reason')) for row in results)
    lost = len(answers.keys() - kept)
    print(
        f'memory in MB, every {seconds / len(curve):.0f} s: {" ".join(f"{one:.0f}" for one in curve)}', file=sys.stderr
    )
    print(
        f'answered {len(answers):,}, kept {len(kept):,}, not kept {lost:,} (interrupted), answered again {twice:,}',
        file=sys.stderr,
    )
    complaint = said[-300:] if 'Traceback' in said or code not in (0, 130) else ''
    if curve[-1] > 1.5 * curve[len(curve) // 4] + 50:
        complaint = complaint or f'memory grew from {curve[len(curve) // 4]:.0f} to {curve[-1]:.0f} MB'
    if twice:
        complaint = complaint or f'{twice:,} answers were asked for twice'
    return Verdict(len(answers) + failed, len(kept), failed, max(0, lost - 256), complaint)


def _watch_memory(running: subprocess.Popen[bytes], seconds: float) -> list[float]:
    """Megabytes in use, sampled forty times."""
    curve: list[float] = []
    for _ in range(40):
        time.sleep(seconds / 40)
        if running.poll() is not None:
            break
        status = Path(f'/proc/{running.pid}/status').read_text()
        found = re.search(r'VmRSS:\s*(\d+)', status)
        curve.append(int(found[1]) / 1024 if found else 0.0)
    return curve or [0.0]


_PASSING = (
    'a dropped connection', 'a reply cut in the middle', 'a length too long', 'a Retry-After date with an absurd zone',
)  # fmt: skip
SCENARIOS: dict[str, Callable[[Path], Verdict]] = {
    **{
        name: lambda folder, name=name: hostile_reply(name, folder)
        for name in MISBEHAVIOURS
        if 'Retry-After' not in name  # a refusal for good is retried for minutes
    },
    **{f'{name}, once': lambda folder, name=name: passing_fault(name, folder) for name in _PASSING},
    "429 without Retry-After at every row's first call": refused_at_first,
    'kill -9 at random moments': killed,
    'two runs in one directory': two_at_once,
    'a lock that is a link': linked_lock,
    'bits flipped in the store': damaged_store,
    'standard streams closed, full, left or blocked': odd_streams,
    'a read-only directory': read_only,
    'Ctrl-C, SIGTERM, SIGHUP and SIGQUIT': signalled,
    'a clock that jumps': clock_jumps,
    'hostile data and tokenizer files (commands, not rows)': hostile_files,
    'a full disk': full_disk,
    'power is lost at any moment (simulated on a copy)': power_lost,
    'the first writes, syncs and renames fail': first_failures,
    'every write, sync and rename fails, each in turn': failing_disk,
}


def play(name: str, folder: Path) -> Verdict:
    """Run one scenario in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    os.environ['OPENAI_API_KEY'] = 'sk-secret-of-the-test'
    return SCENARIOS[name](folder)
