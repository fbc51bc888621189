"""Task files of lm-evaluation-harness: are our requests and scores those of lm-eval?

`python benchmarks/lm_eval_equal.py --python ENV/bin/python [--every N]`, where that Python has `lm-eval==0.4.13`. Every
N-th task file is exercised on invented rows (0, 2 and 5 shots as text; 2 shots in chat, as one turn and as several); what
lm-eval sends and how it scores canned replies is compared with what we do, `emulate='lm-eval'`.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from rolecall import load_config, preview
from rolecall.config.lm_eval.task import LmTask, TaskOptions
from rolecall.config.lm_eval.task_file import read_task_file
from rolecall.config.lm_eval.task_rows import LmRows
from rolecall.config.lm_eval.task_scores import TaskScores
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


def start_reference(python: str) -> subprocess.Popen[str]:
    command = [python, str(HERE / 'lm_eval_reference.py')]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def ask_reference(reference: subprocess.Popen[str], path: Path) -> dict[str, Any] | None:
    """What lm-eval makes of a task; None if it ended the process."""
    assert reference.stdin
    assert reference.stdout
    try:
        reference.stdin.write(f'{path}\n')
        reference.stdin.flush()
        answer = reference.stdout.readline()
    except BrokenPipeError:
        return None
    found: dict[str, Any] | None = json.loads(answer) if answer else None
    return found


def compare(line: dict[str, Any], tally: Counter[str], examples: list[str]) -> None:
    """Count what is equal for one task."""
    path, prompts_equal, scores_equal = line['path'], True, True
    for (shots, chat), made in zip(SETTINGS, line['made'], strict=True):
        if 'error' in made:
            tally['settings that lm-eval refuses'] += 1
            continue
        ours = our_requests(path, line['rows'], shots, chat, len(made['docs']))
        for doc in made['docs']:
            theirs = [sent(request) for request in doc['requests']]
            same = isinstance(ours, list) and ours[doc['index']] == theirs
            tally['requests'] += len(theirs)
            tally['equal requests'] += len(theirs) if same else 0
            if not same:
                prompts_equal = False
                shown = ours if isinstance(ours, str) else ours[doc['index']]
                examples.append(f'{path} {shots} {chat}\n    {theirs!r:.300}\n    {shown!r:.300}')
        if chat is None and shots == 0:
            scores_equal = same_scores(path, line['rows'], made, tally, examples)
    tally['tasks'] += 1
    tally['tasks with equal requests'] += prompts_equal
    tally['tasks with equal scores'] += scores_equal


def sent(request: list[Any]) -> str:
    """What a model receives, as one text."""
    kind, context, *rest = request
    return context + rest[0] if kind == 'loglikelihood' else context


def our_requests(path: str, rows: Any, shots: int, chat: dict[str, Any] | None, count: int) -> list[list[Any]] | str:
    options: dict[str, Any] = {'num_fewshot': shots, 'emulate': 'lm-eval'}
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


def same_scores(path: str, rows: Any, made: dict[str, Any], tally: Counter[str], examples: list[str]) -> bool:
    try:
        task = LmTask(read_task_file(path), TaskOptions(num_fewshot=0))
        docs = list(LmRows(task).open_dataset(base=None, data=rows).test)
        scores = TaskScores(task, bool(made['multiple_input']), bool(made['multiple_target']))
        equal = True
        for doc in made['docs']:
            if 'metrics' not in doc:
                continue
            row = docs[doc['index']]
            filtered = scores.apply_filters(doc['replies'], row)
            ours = {name: scores.process(row, results) for name, results in filtered.items()}
            tally['scored rows'] += 1
            same = alike(plain(ours), plain(doc['metrics']))
            tally['equal scored rows'] += same
            equal = equal and same
            if not same:
                examples.append(f'{path} scores\n    {doc["metrics"]!r:.300}\n    {plain(ours)!r:.300}')
        return equal
    except Exception as error:  # any function of a task may raise anything
        examples.append(f'{path} scores\n    {type(error).__name__}: {error!s:.300}')
        return False


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--python', required=True, help='a Python that has lm-eval')
    parser.add_argument('--every', type=int, default=1, help='exercise every N-th task file')
    parser.add_argument('--offset', type=int, default=0)
    parser.add_argument('--examples', type=int, default=20)
    arguments = parser.parse_args()
    where = 'import importlib.util; print(importlib.util.find_spec("lm_eval").submodule_search_locations[0])'
    root = Path(
        subprocess.run([arguments.python, '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    )
    files = task_files(root / 'tasks')
    loaded, seconds, why = load_all(files)
    print(f'{loaded} of {len(files)} task files load in {seconds:.1f} s')
    for reason, count in why.most_common(8):
        print(f'  {count} {reason}')
    chosen = files[arguments.offset :: arguments.every]
    tally, examples = Counter[str](), list[str]()
    reference, shown = start_reference(arguments.python), 0
    for number, path in enumerate(chosen, 1):
        line = ask_reference(reference, path)
        if line is None:
            tally['tasks that end the reference process'] += 1
            reference = start_reference(arguments.python)
        elif 'error' in line:
            tally['tasks that no invented row fits, or that lm-eval does not load'] += 1
        else:
            compare(line, tally, examples)
        while examples and shown < arguments.examples:
            print(examples.pop(0), flush=True)
            shown += 1
        if number % 20 == 0:
            print(f'{number} of {len(chosen)}: {dict(tally)}', file=sys.stderr, flush=True)
    reference.terminate()
    for name, count in tally.items():
        print(f'{count:8} {name}')


if __name__ == '__main__':
    sys.exit(main())
