"""The same model and tasks through lm-eval's HF backend and through rolecall: are the metrics equal, and which is faster?

`python benchmarks/lm_eval_end_to_end.py --python ENV/bin/python [--rows N]`, where that Python has `lm-eval==0.4.13`,
transformers and the same torch. A random Llama is saved once; ten tasks of the wheel get rows of plain words in local
files; both sides run on the CPU in float32 (`--as lm-eval`), and count the tokens that their model computes.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
WORDS = [
    'the',
    'a',
    'river',
    'stone',
    'light',
    'window',
    'seven',
    'green',
    'quiet',
    'under',
    'morning',
    'carries',
    'between',
    'paper',
    'answer',
    'small',
    'bridge',
]
TASKS: dict[str, tuple[str, int]] = {
    'arc_easy': ('arc/arc_easy.yaml', 2),
    'hellaswag': ('hellaswag/hellaswag.yaml', 0),
    'piqa': ('piqa/piqa.yaml', 2),
    'winogrande': ('winogrande/default.yaml', 0),
    'boolq': ('super_glue/boolq/default.yaml', 0),
    'openbookqa': ('openbookqa/openbookqa.yaml', 2),
    'sciq': ('sciq/sciq.yaml', 0),
    'lambada_openai': ('lambada/lambada_openai.yaml', 0),
    'wikitext': ('wikitext/wikitext.yaml', 0),
    'gsm8k': ('gsm8k/gsm8k.yaml', 2),
}
"""Each task with its file in the wheel and its number of examples."""


def words(rng: random.Random, least: int, most: int) -> str:
    return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(least, most)))


def make_row(rng: random.Random) -> dict[str, Any]:
    """A row that has every column that any of the tasks reads."""
    four = [words(rng, 1, 5) for _ in range(4)]
    return {
        'question': words(rng, 6, 14),
        'choices': {'text': four, 'label': list('ABCD')},
        'answerKey': rng.choice('ABCD'),
        'activity_label': words(rng, 2, 4),
        'ctx_a': f'{words(rng, 8, 20)}.',
        'ctx_b': words(rng, 2, 4),
        'endings': four,
        'goal': words(rng, 6, 14),
        'sol1': words(rng, 4, 10),
        'sol2': words(rng, 4, 10),
        'label': rng.randrange(2),
        'sentence': f'{words(rng, 4, 9)} _ {words(rng, 4, 9)}.',
        'option1': four[0],
        'option2': four[1],
        'answer': rng.choice('12'),
        'passage': words(rng, 40, 90),
        'question_stem': words(rng, 6, 14),
        'support': words(rng, 30, 60),
        'distractor1': four[0],
        'distractor2': four[1],
        'distractor3': four[2],
        'correct_answer': four[3],
        'text': words(rng, 20, 50),
        'page': f'{words(rng, 40, 90)} . {words(rng, 40, 90)} .',
    }


def write_tasks(folder: Path, tasks: Path, count: int) -> None:
    """Task files that include the wheel's own and take their rows from files here."""
    rng = random.Random(0)
    files = {split: str(folder / f'{split}.jsonl') for split in ('train', 'validation', 'test')}
    for path in files.values():
        Path(path).write_text('\n'.join(json.dumps(make_row(rng)) for _ in range(count)))
    for name, (path, shots) in TASKS.items():
        written = {
            'include': str(tasks / path),
            'task': f'local_{name}',
            'dataset_path': 'json',
            'dataset_name': None,
            'dataset_kwargs': {'data_files': files},
            'num_fewshot': shots,
        }
        if name == 'gsm8k':
            written['generation_kwargs'] = {'until': ['Question:'], 'do_sample': False, 'max_gen_toks': 24}
        (folder / f'local_{name}.yaml').write_text(json.dumps(written))


def count_tokens(model_class: Any) -> list[int]:
    """Count what a model computes, padding included."""
    counted, forward = [0], model_class.forward

    @functools.wraps(forward)
    def counting(self: Any, *arguments: Any, **options: Any) -> Any:
        given = options.get('input_ids', arguments[0] if arguments else None)
        counted[0] += given.numel() if given is not None else 0
        return forward(self, *arguments, **options)

    model_class.forward = counting
    return counted


def run_theirs(folder: Path, batch: int) -> dict[str, Any]:
    """In the environment of lm-eval: its metrics, seconds and tokens."""
    import lm_eval
    import transformers
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    model = HFLM(pretrained=str(folder / 'model'), dtype='float32', device='cpu', batch_size=batch)
    manager = TaskManager(include_path=str(folder), include_defaults=False)
    counted, found, each = count_tokens(transformers.LlamaForCausalLM), {}, {}
    begun = time.perf_counter()
    for name in TASKS:
        made = lm_eval.simple_evaluate(
            model=model, tasks=[f'local_{name}'], task_manager=manager, bootstrap_iters=0, log_samples=False
        )
        numbers = made['results'][f'local_{name}']
        found[name] = {key.removesuffix(',none'): value for key, value in numbers.items() if isinstance(value, float)}
        each[name] = counted[0]
    return {'seconds': time.perf_counter() - begun, 'tokens': counted[0], 'numbers': found, 'each': each}


def run_ours(folder: Path, batch: int) -> dict[str, Any]:
    """In this environment: our metrics, seconds and tokens."""
    import transformers

    from rolecall import load_config, run_config

    entry = {
        'abbr': 'tiny',
        'type': 'HuggingFaceCausalLM',
        'path': str(folder / 'model'),
        'device': 'cpu',
        'model_kwargs': {'torch_dtype': 'float32'},
        'batch_size': batch,
    }
    counted, found, each = count_tokens(transformers.LlamaForCausalLM), {}, {}
    begun = time.perf_counter()
    for name in TASKS:
        config = {**load_config(folder / f'local_{name}.yaml', emulate='lm-eval'), 'models': [entry]}
        [card] = run_config(config, out=folder / 'runs' / name).scorecards
        share = 100 if card.is_percent else 1
        numbers = {card.metric: card.value, **(card.further or {})}
        found[name] = {key: [value, share] for key, value in numbers.items()}
        each[name] = counted[0]
    return {'seconds': time.perf_counter() - begun, 'tokens': counted[0], 'numbers': found, 'each': each}


def compare(theirs: dict[str, Any], ours: dict[str, Any]) -> None:
    equal = total = 0
    for name, numbers in theirs['numbers'].items():
        for key, value in numbers.items():
            mine, share = ours['numbers'][name].get(key, (math.nan, 1))
            total += 1
            equal += mine == value * share
            if mine != value * share:
                off = abs(mine / (value * share) - 1)
                print(f'  {name} {key}: lm-eval {value * share!r}, rolecall {mine!r} ({off:.1e})')
    print(f'{equal} of {total} numbers of {len(TASKS)} tasks are equal to the last digit')
    before = [0, 0]
    for name in TASKS:
        now = [theirs['each'][name], ours['each'][name]]
        print(f'  {name}: {now[0] - before[0]:,} and {now[1] - before[1]:,} tokens')
        before = now
    for what in ('tokens', 'seconds'):
        print(f'{what}: lm-eval {theirs[what]:,.1f}, rolecall {ours[what]:,.1f}: {theirs[what] / ours[what]:.2f} times')


def call(python: str, folder: Path, side: str, batch: int) -> dict[str, Any]:
    environment = {**os.environ, 'HF_HUB_OFFLINE': '1', 'OMP_NUM_THREADS': '1', 'TOKENIZERS_PARALLELISM': 'false'}
    if side == 'theirs':
        environment.pop('PYTHONPATH', None)
    command = [python, __file__, '--side', side, '--folder', str(folder), '--batch', str(batch)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        sys.exit(f'{side}:\n{ended.stderr[-3000:]}')
    found: dict[str, Any] = json.loads((folder / f'{side}.json').read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--python', help='a Python that has lm-eval')
    parser.add_argument('--rows', type=int, default=40)
    parser.add_argument('--batch', type=int, default=1, help='batch size of both; 1 is the default of lm-eval')
    parser.add_argument('--side', choices=('ours', 'theirs'), help=argparse.SUPPRESS)
    parser.add_argument('--folder', type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        run_side = run_theirs if arguments.side == 'theirs' else run_ours
        made = run_side(arguments.folder, arguments.batch)
        (arguments.folder / f'{arguments.side}.json').write_text(json.dumps(made))
        return
    where = 'import importlib.util; print(importlib.util.find_spec("lm_eval").submodule_search_locations[0])'
    root = subprocess.run([arguments.python, '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    sys.path.insert(0, str(HERE.parent / 'tests'))
    from small_models import make_model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / 'model').mkdir()
        make_model(folder / 'model', 'llama', spread=0.1)
        write_tasks(folder, Path(root, 'tasks'), arguments.rows)
        theirs = call(arguments.python, folder, 'theirs', arguments.batch)
        compare(theirs, call(sys.executable, folder, 'ours', arguments.batch))


if __name__ == '__main__':
    main()
