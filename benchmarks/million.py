"""A run of many rows on one machine: rows a second, peak memory, bytes a row; resuming, reporting, exporting, comparing.

    python benchmarks/million.py [--rows 1000000] [--keep FOLDER]

The model is a Python function, so that everything measured is rolecall's own work. Each phase is a process of its own
with the real command line; its peak memory is the kernel's figure. Beside the run stands a bare loop that reads the
same file, fills the same template, calls the same function and writes the same texts to SQLite.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

CONFIG = """
def answer(prompt):
    left, right = prompt.split()[3:6:2]
    return f'The answer is {int(left) + int(right)}.'

models = [dict(abbr='adder', type=answer)]
datasets = [dict(
    abbr='sums', type='File', path='rows.jsonl',
    reader_cfg=dict(input_columns=['question'], output_column='answer'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Question: {question}\\nAnswer:')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor=dict(type='gsm8k_postprocess')),
)]
"""
BARE = """
import json, sqlite3, sys
sys.path.insert(0, '.')
from config import answer
db = sqlite3.connect('bare.sqlite')
db.execute('CREATE TABLE rows (row INTEGER PRIMARY KEY, sent TEXT, said TEXT)')
for number, line in enumerate(open('rows.jsonl')):
    sent = 'Question: ' + json.loads(line)['question'] + '\\nAnswer:'
    db.execute('INSERT INTO rows VALUES (?, ?, ?)', (number, sent, answer(sent)))
    if number % 1000 == 0:
        db.commit()
db.commit()
"""
LEFT = 1000
"""Rows that are not finished when a run is resumed."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One process: what it did, how long it took, how much of that it computed, and its peak memory in MB."""

    name: str
    seconds: float
    computed: float
    peak: float

    def __str__(self) -> str:
        return f'{self.name:34} {self.seconds:8.1f} s   CPU {self.computed:6.1f} s   peak {self.peak:5.0f} MB'


def measure(name: str, folder: Path, *command: str) -> Phase:
    """Run a command to its end."""
    began = time.monotonic()
    with open(folder / 'output.txt', 'w') as output:
        process = subprocess.Popen([sys.executable, *command], cwd=folder, stdout=output, stderr=output)
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit((folder / 'output.txt').read_text())
    computed = used.ru_utime + used.ru_stime
    phase = Phase(name, time.monotonic() - began, computed, used.ru_maxrss / 1024)
    print(phase, flush=True)
    return phase


def write_rows(folder: Path, rows: int) -> int:
    """The data; gives how many characters are sent and said about it."""
    size = 0
    with open(folder / 'rows.jsonl', 'w') as file:
        for number in range(rows):
            question = f'what is {number} + {number % 97} ? Give the sum.'
            file.write(json.dumps({'question': question, 'answer': str(number + number % 97)}) + '\n')
            size += len(f'Question: {question}\nAnswer:') + len(f'The answer is {number + number % 97}.')
    return size


def forget_rows(folder: Path, rows: int) -> None:
    """Take the last rows out of the run, as if it had been killed before them."""
    with sqlite3.connect(folder / 'out' / 'run.sqlite') as db:
        last = rows - min(LEFT, rows)
        db.execute('DELETE FROM requests WHERE rowid > ?', (last,))
        db.execute('DELETE FROM rows WHERE row >= ?', (last,))
        db.execute('DELETE FROM scores')
    db.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rows', type=int, default=1_000_000)
    parser.add_argument('--keep', type=Path, help='work in this folder and leave it')
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / 'config.py').write_text(CONFIG)
        said = write_rows(folder, arguments.rows)
        rolecall = ('-m', 'rolecall')
        bare = measure('a bare loop', folder, '-c', BARE)
        run = measure('run', folder, *rolecall, 'run', 'config.py', '--out', 'out', '-q')
        size = sum(file.stat().st_size for file in (folder / 'out').iterdir())
        measure('report', folder, *rolecall, 'report', 'out')
        measure('run again, all done', folder, *rolecall, 'run', 'config.py', '--out', 'out', '-q')
        forget_rows(folder, arguments.rows)
        measure(f'run again, all but {LEFT:,} done', folder, *rolecall, 'run', 'config.py', '--out', 'out', '-q')
        measure('report as a page', folder, *rolecall, 'report', 'out', '--html', 'report.html')
        for form in ('jsonl', 'csv'):
            measure(f'export results, {form}', folder, *rolecall, 'export', 'results', 'out', '-o', f'rows.{form}')
        shutil.copytree(folder / 'out', folder / 'copy', dirs_exist_ok=True)
        measure('compare with a copy', folder, *rolecall, 'compare', 'out', 'copy')
        page = (folder / 'report.html').stat().st_size
        rows = arguments.rows
        print(f'{rows:,} rows: {rows / run.seconds:,.0f} rows/s, {run.seconds / bare.seconds:.1f} times the bare loop')
        print(
            f'store {size / 1e6:,.0f} MB: {(size - said) / rows:,.0f} bytes a row beyond {said / rows:.0f} sent and said'
        )
        print(f'page {page / 1e6:,.1f} MB')


if __name__ == '__main__':
    main()
