"""Scenarios about the machine: streams, files, signals and the clock. The server behaves."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from hostile_server import serve_hostile
from playing import ROWS, Verdict, judge, never, rolecall, write_config

__all__ = ['clock_jumps', 'hostile_files', 'odd_streams', 'read_only', 'signalled']

_PIPE_SIZE = 1031  # F_SETPIPE_SZ, which has no name in Python 3.10 and before


def odd_streams(folder: Path) -> Verdict:
    """Standard streams closed, full, or connected to a reader that leaves or never reads: runs end as they should."""
    ways = {
        'closed': '2>&-',
        'all closed': '>&- 2>&- <&-',
        'full': '2>/dev/full',
        'left': '2>&- | head -c 1 >/dev/null',
        'blocked': '',
    }
    verdicts: list[Verdict] = []
    for number, way in enumerate(ways.values()):
        out = folder / f'run{number}'
        with serve_hostile('null', is_bad=never) as server:
            command = f'{sys.executable} -m rolecall run {write_config(folder, server.url)} --out {out} {way}'
            blocked = _full_pipe() if not way else subprocess.DEVNULL
            try:
                subprocess.run(['bash', '-c', command], timeout=60, stdout=subprocess.DEVNULL, stderr=blocked)
            except subprocess.TimeoutExpired:
                return Verdict(ROWS, 0, 0, ROWS, f'the run hung ({way or "blocked"})')
        verdicts.append(judge(out, ROWS, is_bad=never))
    return _sum(verdicts)


def _full_pipe() -> int:
    """The end of a pipe that holds as much as it can, and is never read."""
    _reader, writer = os.pipe()
    fcntl.fcntl(writer, _PIPE_SIZE, 4096)
    os.set_blocking(writer, False)
    try:
        while True:
            os.write(writer, b'x' * 512)
    except BlockingIOError:
        os.set_blocking(writer, True)
    return writer


def hostile_files(folder: Path) -> Verdict:
    """Data and tokenizers made to break their readers: each is used, or refused with a reason, in time and memory."""
    with gzip.open(folder / 'bomb.jsonl.gz', 'wb', 9) as bomb:
        bomb.writelines(b' ' * (1 << 20) for _ in range(2000))
    with gzip.open(folder / 'line.jsonl.gz', 'wb', 9) as bomb:
        bomb.writelines([b'{"question": "', *(b'a' * (1 << 20) for _ in range(2000)), b'"}'])
    head = ','.join(['question', 'answer', *(f'c{number}' for number in range(100_000))])
    (folder / 'wide.csv').write_text(f'{head}\n{",".join(map(str, range(100_002)))}\n')
    (folder / 'deep.jsonl').write_text('[' * 100_000)
    files = ['bomb.jsonl.gz', 'line.jsonl.gz', 'wide.csv', 'deep.jsonl']
    piece = {'type': 'WordPiece', 'vocab': {'a': 0}, 'unk_token': '[UNK]', 'continuing_subword_prefix': '##'}
    bpe = {'type': 'BPE', 'vocab': {'a': 0, '?': 1}, 'merges': [], 'unk_token': '?'}
    split = {'type': 'Split', 'pattern': {'Regex': '(a+)+$'}, 'behavior': 'Isolated', 'invert': False}
    tokenizers = [
        {'model': {**piece, 'max_input_chars_per_word': 100}},
        {'model': bpe, 'pre_tokenizer': split},
        {'model': {**bpe, 'vocab': [1, 2]}},
        {'model': 5},
    ]
    complaint, ended = '', 0
    for number, file in enumerate(files):
        config = write_config(folder, 'http://127.0.0.1:9', data=folder / file)
        for command in (['view', str(config)], ['run', str(config), '--out', str(folder / f'r{number}')]):
            problem = _try(*command)
            complaint, ended = complaint or problem, ended + (not problem)
    config = write_config(folder, 'http://127.0.0.1:9')
    for number, content in enumerate(tokenizers):
        place = folder / f'tokenizer{number}'
        place.mkdir()
        (place / 'tokenizer.json').write_text(json.dumps({'version': '1.0', 'added_tokens': [], **content}))
        problem = _try('view', str(config), '--tokenizer', str(place))
        complaint, ended = complaint or problem, ended + (not problem)
    tried = 2 * len(files) + len(tokenizers)
    return Verdict(tried, ended, 0, tried - ended, complaint)


def _try(*command: str) -> str:
    """What was wrong with how a command ended; empty if nothing was."""
    began = time.monotonic()
    try:
        ended = rolecall(*command, seconds=100)
    except subprocess.TimeoutExpired:
        return f'{command[0]} hung'
    said = ended.stdout + ended.stderr
    if 'Traceback' in said or 'MemoryError' in said or ended.returncode not in (0, 1, 2):
        return f'{command[0]}: {said[-300:]}'
    return '' if time.monotonic() - began < 90 else f'{command[0]} took {time.monotonic() - began:.0f} s'


def signalled(folder: Path) -> Verdict:
    """Signals that end a run: what is finished is kept, and the next start asks only for the rest."""
    out, rows = folder / 'run', 400
    complaint = ''
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url, rows=rows, max_workers=4)
        signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
        for place, number in enumerate(signals, start=1):
            running = subprocess.Popen(
                [sys.executable, '-m', 'rolecall', 'run', str(config), '--out', str(out)],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            )  # fmt: skip
            until = time.monotonic() + 30
            while len(server.answered) < 70 * place and time.monotonic() < until:
                time.sleep(0.02)
            running.send_signal(number)
            said = running.communicate(timeout=60)[1]
            if 'Traceback' in said:
                complaint = complaint or said[-300:]
        last = rolecall('run', str(config), '--out', str(out))
        again = sum(server.answered.values()) - rows
    verdict = judge(out, rows, last, is_bad=never)
    if again > len(signals) * 4:
        complaint = complaint or f'{again} answered requests were asked again'
    return Verdict(rows, verdict.kept, verdict.failed, verdict.lost, complaint or verdict.complaint)


def read_only(folder: Path) -> Verdict:
    """A run directory that becomes read-only: an error, and nothing is lost when it can be written again."""
    place = folder / 'place'
    place.mkdir()
    if subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=64m', 'none', str(place)], capture_output=True).returncode:
        return Verdict(0, 0, 0, 0, 'not tried: no tmpfs can be mounted here')
    try:
        with serve_hostile('null', is_bad=never) as server:
            config = write_config(folder, server.url)
            half = write_config(folder, server.url, rows=ROWS // 2, name='half.py')
            first = rolecall('run', str(half), '--out', str(place / 'run'))
            subprocess.run(['mount', '-o', 'remount,ro', str(place)], check=True)
            refused = rolecall('run', str(config), '--out', str(place / 'run'))
            shown = rolecall('report', str(place / 'run'))
            subprocess.run(['mount', '-o', 'remount,rw', str(place)], check=True)
            last = rolecall('run', str(config), '--out', str(place / 'run'))
        complaint = (
            '' if refused.returncode == 2 and refused.stderr.strip() else 'a read-only directory was not refused'
        )
        verdict = judge(place / 'run', ROWS, first, refused, shown, last, is_bad=never)
        return Verdict(ROWS, verdict.kept, verdict.failed, verdict.lost, complaint or verdict.complaint)
    finally:
        subprocess.run(['umount', '-l', str(place)], check=False)


def clock_jumps(folder: Path) -> Verdict:
    """The clock of the machine runs a thousand times too fast, and starts years ago."""
    if shutil.which('faketime') is None:
        return Verdict(0, 0, 0, 0, 'not tried: faketime is not installed')
    out = folder / 'run'
    with serve_hostile('null', is_bad=never) as server:
        config = write_config(folder, server.url)
        command = [sys.executable, '-m', 'rolecall', 'run', str(config), '--out', str(out)]
        fast = {**os.environ, 'FAKETIME_DONT_FAKE_MONOTONIC': '1', 'DONT_FAKE_MONOTONIC': '1'}
        ran = subprocess.run(
            ['faketime', '-f', '@2001-01-01 00:00:00 x1000', *command],
            capture_output=True, text=True, errors='replace', timeout=120, env=fast,
        )  # fmt: skip
    return judge(out, ROWS, ran, is_bad=never)


def _sum(verdicts: list[Verdict]) -> Verdict:
    counts = [sum(getattr(one, name) for one in verdicts) for name in ('tried', 'kept', 'failed', 'lost')]
    return Verdict(*counts, next((one.complaint for one in verdicts if one.complaint), ''))
