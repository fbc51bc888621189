"""Benchmarks by name: are their requests those of the catalogue's file that each wording names?

    python benchmarks/benchmark_names.py --opencompass ENV/bin/python --lm-eval ENV/bin/python [--golden FILE]

The two environments have `opencompass` and `lm-eval==0.4.13`. The catalogue's own code renders its own file on hostile
rows: OpenCompass for four model sides, lm-eval for 0, 2 and 5 shots as text and 2 shots in chat. Our wording is rendered
on the same rows. With --golden the references' requests are kept as digests, which tests/test_benchmark_wordings.py
compares with ours.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / 'tests')]

from benchmark_rows import hostile_rows, hostile_task_rows, splits_of  # noqa: E402
from config_prompts import SIDES, as_messages, case_of, ours, plain, reference  # noqa: E402
from rolecall import load_config, preview  # noqa: E402
from rolecall.compat.benchmarks.records import Benchmark, read_benchmarks  # noqa: E402
from rolecall.compat.lm_eval.task_file import read_task_file  # noqa: E402

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if not loop.last or add_generation_prompt %}"
    '<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
CHAT_MODEL = [{'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': CHATML}]
SETTINGS: list[tuple[int, dict[str, Any] | None]] = [
    (0, None),
    (2, None),
    (5, None),
    (2, {'multiturn': False, 'system': None, 'template': CHATML}),
    (2, {'multiturn': True, 'system': 'Be {{brief}}.', 'template': CHATML}),
]


def site_packages(python: str) -> Path:
    where = 'import sysconfig; print(sysconfig.get_paths()["purelib"])'
    return Path(subprocess.run([python, '-c', where], capture_output=True, text=True, check=True).stdout.strip())


def subset_of(entry: dict[str, Any]) -> str:
    """What tells the datasets of one file apart."""
    return str(entry.get('category') or entry.get('name') or '')


def digest(requests: Any) -> str:
    return hashlib.sha256(json.dumps(requests, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


def opencompass_cases(benchmark: Benchmark, root: Path) -> list[dict[str, Any]]:
    """A case for each dataset of a benchmark and each model side: theirs as the file has it, ours as the registry does."""
    wording = benchmark.wordings['opencompass']
    loaded = load_config(root / wording.equals)
    theirs = {
        subset_of(entry): plain(entry)
        for name, value in loaded.items()
        if name.endswith('datasets') and isinstance(value, list)
        for entry in value
    }
    cases = []
    for entry in wording.entries:
        other = theirs[subset_of(entry)]
        rows = {split: hostile_rows(other, count) for split, count in (('train', 12), ('test', 3))}
        mine, reference_case = (case_of(plain(one)) for one in (entry, other))
        if isinstance(mine, str) or isinstance(reference_case, str):
            raise SystemExit(f'{benchmark.name}: {mine} {reference_case}')
        for side, (api, meta) in SIDES.items():
            given = {'side': side, 'api': api, 'meta': meta, **rows}
            case = {'theirs': {**reference_case, **given}, 'ours': {**mine, **given}}
            cases.append({'benchmark': benchmark.name, 'subset': subset_of(entry), 'side': side, **case})
    return cases


def compare_opencompass(python: str, counts: Counter[str]) -> list[dict[str, Any]]:
    root = site_packages(python) / 'opencompass/configs/datasets'
    found = [one for one in read_benchmarks() if 'opencompass' in one.wordings]
    cases = [case for benchmark in found for case in opencompass_cases(benchmark, root)]
    golden: dict[tuple[str, str], dict[str, Any]] = {}
    for case, made in zip(cases, reference(python, 'opencompass', [case['theirs'] for case in cases]), strict=True):
        where = f'{case["benchmark"]} {case["subset"]} {case["side"]}'
        if 'error' in made:
            counts['opencompass raised'] += 1
            print(f'{where}: {made["error"][:200]}')
            continue
        expected = [as_messages(one) for one in made['prompts']] if case['theirs']['api'] else made['prompts']
        mine = ours(case['ours'])
        counts['opencompass requests'] += len(expected)
        counts['opencompass equal'] += len(expected) if mine == expected else 0
        if mine != expected:
            print(f'{where} differs:\n  ours   {mine[0]!r:.500}\n  theirs {expected[0]!r:.500}')
        key = (case['benchmark'], case['subset'])
        line = golden.setdefault(key, {'benchmark': key[0], 'style': 'opencompass', 'subset': key[1], 'requests': {}})
        line['requests'][case['side']] = digest(expected)
    return list(golden.values())


def our_task_requests(name: str, task: str, rows: Any, shots: int, chat: dict[str, Any] | None) -> list[list[Any]]:
    options: dict[str, Any] = {'num_fewshot': shots, 'emulate': 'lm-eval'}
    if chat:
        options |= {'fewshot_as_multiturn': chat['multiturn'], 'system_instruction': chat['system']}
    chosen = [entry for entry in load_config(name, **options)['datasets'] if entry['abbr'] == task]
    found: list[list[Any]] = [[], []]
    for one in preview({'datasets': chosen, **({'models': CHAT_MODEL} if chat else {})}, data=rows, limit=2):
        found[one.row].append(one.request)
    return found


def lm_eval_files(benchmark: Benchmark, root: Path) -> list[tuple[str, Path]]:
    """Our tasks with the files they equal: by the subset of the data, where there are several."""
    wording = benchmark.wordings['lm-eval']
    read = {one: read_task_file(one).values for one in root.glob(wording.equals)}
    files = {str(values.get('dataset_name')): one for one, values in read.items() if 'group' not in values}
    if len(wording.entries) == 1:
        return [(str(wording.entries[0]['task']), next(iter(files.values())))]
    return [(str(entry['task']), files[str(entry['dataset_name'])]) for entry in wording.entries]


def compare_lm_eval(python: str, counts: Counter[str]) -> list[dict[str, Any]]:
    root = site_packages(python) / 'lm_eval/tasks'
    script = [python, str(HERE / 'reference' / 'lm_eval_requests.py')]
    jobs = []
    for benchmark in (one for one in read_benchmarks() if 'lm-eval' in one.wordings):
        for (task, file), entry in zip(
            lm_eval_files(benchmark, root), benchmark.wordings['lm-eval'].entries, strict=True
        ):
            rows = hostile_task_rows(benchmark.name, splits_of(entry))
            jobs.append({'name': benchmark.name, 'task': task, 'path': str(file), 'rows': rows, 'settings': SETTINGS})
    given = '\n'.join(map(json.dumps, jobs))
    made = subprocess.run(script, input=given, capture_output=True, text=True, check=True).stdout.splitlines()
    golden = []
    for job, line in zip(jobs, made, strict=True):
        digests = []
        for (shots, chat), theirs in zip(SETTINGS, json.loads(line), strict=True):
            mine = our_task_requests(job['name'], job['task'], job['rows'], shots, chat)
            size = sum(map(len, theirs))
            counts['lm-eval requests'] += size
            counts['lm-eval equal'] += size if mine == theirs else 0
            if mine != theirs:
                print(
                    f'{job["task"]} {shots} {chat is not None} differs:\n  ours   {mine!r:.500}\n  theirs {theirs!r:.500}'
                )
            digests.append(digest(theirs))
        golden.append({'benchmark': job['name'], 'style': 'lm-eval', 'subset': job['task'], 'requests': digests})
    return golden


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--opencompass', metavar='PYTHON', help='a Python that has opencompass installed')
    options.add_argument('--lm-eval', metavar='PYTHON', help='a Python that has lm-eval installed')
    options.add_argument('--golden', metavar='FILE', help='write the digests of the references here')
    given = options.parse_args()
    counts: Counter[str] = Counter()
    golden = compare_opencompass(given.opencompass, counts) if given.opencompass else []
    golden += compare_lm_eval(given.lm_eval, counts) if given.lm_eval else []
    if given.golden:
        lines = (json.dumps(line, ensure_ascii=False) for line in golden)
        Path(given.golden).write_text('\n'.join(lines) + '\n', encoding='utf-8')
    for system in ('opencompass', 'lm-eval'):
        total, equal = counts[f'{system} requests'], counts[f'{system} equal']
        if total:
            print(
                f'{system}: {equal:,} of {total:,} requests equal ({equal / total:.2%}); raised {counts[f"{system} raised"]}'
            )


if __name__ == '__main__':
    main()
