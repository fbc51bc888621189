"""Task files of lm-evaluation-harness: are our requests and scores those of lm-eval?

`python benchmarks/lm_eval_equal.py --python ENV/bin/python [--results FILE] [--every N]`, where that Python has
`lm-eval==0.4.13`. Task files are exercised on invented rows (0, 2 and 5 shots as text; 2 shots in chat, as one turn and as
several); what lm-eval sends and how it scores canned replies is compared with what we do, `emulate='lm-eval'`, and the
2-shot prompts once more without it. One JSON line for each task goes to FILE; a second call takes up where it stopped.
The order is that of a hash of the path, so that the first N files are a sample of all.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from rolecall import load_config, preview
from rolecall.compat.lm_eval.task import LmTask, TaskOptions
from rolecall.compat.lm_eval.task_file import read_task_file
from rolecall.compat.lm_eval.task_rows import LmRows
from rolecall.compat.lm_eval.task_scores import TaskScores
from rolecall.errors import RolecallError

HERE = Path(__file__).parent
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if not loop.last or add_generation_prompt %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHAT_MODEL = [{'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': CHATML}]
SETTINGS: list[tuple[int, dict[str, Any] | None]] = [
    (0, None), (2, None), (5, None), (2, {'multiturn': False, 'system': None}), (2, {'multiturn': True, 'system': 'Be {{brief}}.'})
]  # fmt: skip


def task_files(root: Path) -> list[Path]:
    """Every file that names one task, by its path."""
    found = []
    for path in sorted(root.rglob('*.yaml')):
        values = read_task_file(path).values
        if isinstance(values.get('task'), str) and 'group' not in values and not values.get('class'):
            found.append(path)
    return found


def load_all(files: list[Path]) -> tuple[int, float, Counter[str]]:
    """How many load, and in how many seconds."""
    start, loaded, why = time.perf_counter(), 0, Counter[str]()
    for path in files:
        try:
            load_config(path)
            loaded += 1
        except RolecallError as error:
            why[str(error).splitlines()[1].strip()[:90]] += 1
    return loaded, time.perf_counter() - start, why


class Reference:
    """What lm-eval makes of tasks: asked of one process of its own Python, and kept in a file for the next time.

    A line is found again by the task file's path inside the package and its content. Errors are kept, too.
    """

    def __init__(self, python: str, root: Path, kept: Path) -> None:
        self._python, self._root = python, root
        self._process: subprocess.Popen[str] | None = None
        self._kept = sqlite3.connect(kept, timeout=60)
        self._kept.execute('CREATE TABLE IF NOT EXISTS reference (key TEXT PRIMARY KEY, path TEXT, line BLOB)')

    def __contains__(self, path: Path) -> bool:
        return self._find(path) is not None

    def ask(self, path: Path) -> dict[str, Any]:
        """The line of a task file."""
        known = self._find(path)
        if known is not None:
            found: dict[str, Any] = json.loads(zlib.decompress(known))
            return found
        found = self._ask_process(path)
        packed = zlib.compress(json.dumps(found).encode())
        with self._kept:
            self._kept.execute('REPLACE INTO reference VALUES (?, ?, ?)', (self._key(path), str(path), packed))
        return found

    def forget_errors(self) -> None:
        """Ask again about the tasks that lm-eval did not build."""
        lines = self._kept.execute('SELECT key, line FROM reference').fetchall()
        failed = [(key,) for key, line in lines if 'error' in json.loads(zlib.decompress(line))]
        with self._kept:
            self._kept.executemany('DELETE FROM reference WHERE key = ?', failed)

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
        self._kept.close()

    def _find(self, path: Path) -> bytes | None:
        row = self._kept.execute('SELECT line FROM reference WHERE key = ?', (self._key(path),)).fetchone()
        return row[0] if row else None

    def _key(self, path: Path) -> str:
        return hashlib.sha256(f'{path.relative_to(self._root)}\n'.encode() + path.read_bytes()).hexdigest()

    def _ask_process(self, path: Path) -> dict[str, Any]:
        if self._process is None:
            command = [self._python, str(HERE / 'lm_eval_reference.py')]
            pipe, environment = subprocess.PIPE, {**os.environ, 'OMP_NUM_THREADS': '1'}
            environment.pop('PYTHONPATH', None)
            self._process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
            )
        assert self._process.stdin
        assert self._process.stdout
        try:
            self._process.stdin.write(f'{path}\n')
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ''
        if not answer:
            self._process = None
            return {'path': str(path), 'error': 'ends the process'}
        found: dict[str, Any] = json.loads(answer)
        return found


def compare(line: dict[str, Any]) -> dict[str, Any]:
    """What is equal for one task."""
    path, rows = line['path'], line['rows']
    found: dict[str, Any] = {'requests': 0, 'equal': 0, 'refused': 0, 'notes': []}
    for (shots, chat), made in zip(SETTINGS, line['made'], strict=True):
        if 'error' in made:
            found['refused'] += 1
            continue
        ours = our_requests(path, rows, shots, chat, len(made['docs']))
        for doc in made['docs']:
            theirs = [sent(request) for request in doc['requests']]
            same = isinstance(ours, list) and ours[doc['index']] == theirs
            found['requests'] += len(theirs)
            found['equal'] += len(theirs) if same else 0
            if not same and len(found['notes']) < 2:
                shown = ours if isinstance(ours, str) else ours[doc['index']]
                found['notes'].append(f'{shots} {chat}\n    {theirs!r:.400}\n    {shown!r:.400}')
        if (shots, chat) == (2, None):
            plain_way = our_requests(path, rows, shots, chat, len(made['docs']), emulate=None)
            found['same by default'] = plain_way == ours
    return found | compare_scores(path, rows, line['made'][0])


def sent(request: list[Any]) -> str:
    """What a model receives, as one text."""
    kind, context, *rest = request
    return context + rest[0] if kind == 'loglikelihood' else context


def our_requests(
    path: str, rows: Any, shots: int, chat: dict[str, Any] | None, count: int, emulate: str | None = 'lm-eval'
) -> list[list[Any]] | str:
    options: dict[str, Any] = {'num_fewshot': shots, 'emulate': emulate}
    if chat:
        options |= {'fewshot_as_multiturn': chat['multiturn'], 'system_instruction': chat['system']}
    try:
        config = {**load_config(path, **options), **({'models': CHAT_MODEL} if chat else {})}
        found: list[list[Any]] = [[] for _ in range(count)]
        for one in preview(config, data=rows, limit=count):
            found[one.row].append(one.request)
        return found
    except RolecallError as error:
        return str(error)


def compare_scores(path: str, rows: Any, made: dict[str, Any]) -> dict[str, Any]:
    """Whether canned replies come to the same filtered answers and numbers, row by row and over all rows."""
    scored = [doc for doc in made['docs'] if 'metrics' in doc]
    found: dict[str, Any] = {'scored': len(scored), 'equally scored': 0, 'score notes': []}
    aggregates = made.get('aggregates') or {}
    found['aggregates'] = sum(map(len, aggregates.values()))
    found['equal aggregates'] = 0
    try:
        task = LmTask(read_task_file(path), TaskOptions(num_fewshot=0, emulate='lm-eval'))
        docs = list(LmRows(task).open_dataset(base=None, data=rows).test)
        scores = TaskScores(task, bool(made['multiple_input']), bool(made['multiple_target']))
        items: dict[tuple[str, str], list[Any]] = {}
        for doc in scored:
            row = docs[doc['index']]
            filtered = scores.apply_filters(doc['replies'], row)
            ours = {name: scores.process(row, results) for name, results in filtered.items()}
            for pipeline, numbers in ours.items():
                for metric, item in numbers.items():
                    items.setdefault((pipeline, metric), []).append(item)
            if alike(plain(ours), plain(doc['metrics'])) and alike(plain(filtered), plain(doc['filtered'])):
                found['equally scored'] += 1
            else:
                found['score notes'].append(f'{doc["metrics"]!r:.300}\n    {plain(ours)!r:.300}')
        for pipeline, numbers in aggregates.items():
            for metric, value in numbers.items():
                mine = plain(scores.aggregate(metric, items[pipeline, metric]))
                same = alike(mine, plain(value))
                found['equal aggregates'] += same
                if not same:
                    found['score notes'].append(f'{metric} over all rows: {value!r:.100}\n    {mine!r:.100}')
    except Exception as error:  # any function of a task may raise anything
        found['score notes'].append(f'{type(error).__name__}: {error!s:.300}')
    return found


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, 'tolist'):
        return plain(value.tolist())
    if isinstance(value, (int, float)):
        return float(value) if math.isfinite(value) else str(value)
    return value


def alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    return bool(one == other)


def exercise_all(reference: Reference, files: list[Path], results: Path) -> None:
    """One line for each task, after those that the file has already."""
    known = {json.loads(line)['path'] for line in results.read_text().splitlines()} if results.exists() else set()
    with results.open('a') as out:
        for path in files:
            if str(path) in known:
                continue
            line = reference.ask(path)
            found = {'error': line['error']} if 'error' in line else compare(line)
            out.write(json.dumps({'path': str(path), **found}) + '\n')
            out.flush()


def fill_reference(reference: Reference, files: list[Path]) -> None:
    """Ask lm-eval about all tasks, and say now and then how far it is."""
    begun = time.perf_counter()
    for number, path in enumerate(files, 1):
        reference.ask(path)
        if number % 100 == 0:
            print(f'{number} of {len(files)}, {time.perf_counter() - begun:.0f} s', flush=True)


def summarise(lines: list[dict[str, Any]], examples: int) -> None:
    """Print how many tasks, requests and scored rows are equal, and the first differences."""
    built = [line for line in lines if 'error' not in line]
    asked = [line for line in built if line['requests']]
    equal = [line for line in asked if line['equal'] == line['requests']]
    scored = [line for line in built if line['scored']]
    rightly = [line for line in scored if line['equally scored'] == line['scored']]
    default = [line for line in asked if 'same by default' in line]
    print(f'{len(lines)} tasks, {len(built)} of them built by lm-eval on invented rows')
    print(f'{sum(line["equal"] for line in asked)} of {sum(line["requests"] for line in asked)} requests are equal')
    print(f'{len(equal)} of {len(asked)} tasks have equal requests in every setting')
    print(
        f'{sum(line["equally scored"] for line in scored)} of {sum(line["scored"] for line in scored)} rows are scored alike'
    )
    print(f'{len(rightly)} of {len(scored)} tasks score every row alike')
    print(f'{sum(not line["same by default"] for line in default)} of {len(default)} tasks have other shots by default')
    for why, count in Counter(line['error'][:70] for line in lines if 'error' in line).most_common(examples):
        print(f'  not built: {count} {why}')
    for line in [line for line in asked if line['equal'] != line['requests']][:examples]:
        print(f'  requests: {line["path"]} {line["notes"][0]}')
    for line in [line for line in built if line['score notes']][:examples]:
        print(f'  scores: {line["path"]} {line["score notes"][0]}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--python', required=True, help='a Python that has lm-eval')
    parser.add_argument('--reference', type=Path, help="where lm-eval's side is kept for the next run")
    parser.add_argument('--only-reference', action='store_true', help='fill that file, compare nothing')
    parser.add_argument('--retry', action='store_true', help='ask lm-eval again about tasks that it did not build')
    parser.add_argument(
        '--results', type=Path, help='where each task becomes a line, and what is there is not repeated'
    )
    parser.add_argument('--every', type=int, default=1, help='exercise every N-th task file')
    parser.add_argument('--known', action='store_true', help='exercise only what the reference file has')
    parser.add_argument('--examples', type=int, default=20)
    arguments = parser.parse_args()
    where = 'import importlib.util; print(importlib.util.find_spec("lm_eval").submodule_search_locations[0])'
    root = Path(
        subprocess.run([arguments.python, '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    )
    files = task_files(root / 'tasks')
    shuffled = sorted(files, key=lambda path: hashlib.sha256(str(path.relative_to(root)).encode()).digest())
    shuffled = shuffled[:: arguments.every]
    with tempfile.TemporaryDirectory() as folder:
        reference = Reference(arguments.python, root, arguments.reference or Path(folder, 'reference.sqlite'))
        if arguments.retry:
            reference.forget_errors()
        if arguments.only_reference:
            fill_reference(reference, shuffled)
            return
        loaded, seconds, why = load_all(files)
        print(f'{loaded} of {len(files)} task files load in {seconds:.1f} s', flush=True)
        for reason, count in why.most_common(8):
            print(f'  {count} {reason}')
        results = arguments.results or Path(folder, 'results.jsonl')
        chosen = [path for path in shuffled if path in reference] if arguments.known else shuffled
        exercise_all(reference, chosen, results)
        reference.close()
        summarise([json.loads(line) for line in results.read_text().splitlines()], arguments.examples)


if __name__ == '__main__':
    sys.exit(main())
