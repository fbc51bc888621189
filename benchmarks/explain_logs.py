"""`rolecall explain` on a log that lm-eval wrote of a small Transformers model: is the difference given to its cause?

`python benchmarks/explain_logs.py --python ENV/bin/python [--rows N]`, where that Python has `lm-eval==0.4.13`, transformers
and torch. A random Llama is saved once; lm-eval scores arc_easy on rows of plain words by `acc` and writes its log.
rolecall runs the same task file three times: as it is, by `acc_norm`, and without examples.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from lm_eval_end_to_end import HERE, write_tasks

TASK = 'local_arc_easy'


def run_theirs(folder: Path) -> None:
    """In the environment of lm-eval: its results and samples, as its command line writes them."""
    from lm_eval.__main__ import cli_evaluate

    sys.argv = [
        *('lm_eval', '--model', 'hf', '--model_args', f'pretrained={folder / "model"},dtype=float32', '--tasks', TASK),
        *('--include_path', str(folder), '--output_path', str(folder / 'log'), '--log_samples', '--device', 'cpu'),
        *('--batch_size', '16'),
    ]
    with contextlib.suppress(ImportError):  # the package that draws its table, after the log is written
        cli_evaluate()


def configs(folder: Path) -> dict[str, dict[str, Any]]:
    """The task as it is, scored by another metric, and without examples."""
    from rolecall import load_config

    task = json.loads((folder / f'{TASK}.yaml').read_text())
    normed = [{'metric': name, 'aggregation': 'mean', 'higher_is_better': True} for name in ('acc_norm', 'acc')]
    entry = {
        'abbr': 'tiny',
        'type': 'HuggingFaceCausalLM',
        'path': str(folder / 'model'),
        'device': 'cpu',
        'model_kwargs': {'torch_dtype': 'float32'},
    }
    files = {}
    for name, changes in {'same': {}, 'metric': {'metric_list': normed}, 'prompt': {'num_fewshot': 0}}.items():
        files[name] = folder / name / f'{TASK}.yaml'
        files[name].parent.mkdir()
        files[name].write_text(json.dumps({**task, **changes}))
    return {name: {**load_config(file, emulate='lm-eval'), 'models': [entry]} for name, file in files.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--python', help='a Python that has lm-eval')
    parser.add_argument('--rows', type=int, default=100)
    parser.add_argument('--theirs', type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.theirs:
        run_theirs(arguments.theirs)
        return
    sys.path.insert(0, str(HERE.parent / 'tests'))
    from rolecall import run_config
    from rolecall.insight.cause_shares import explain
    from small_models import make_model

    where = 'import importlib.util; print(importlib.util.find_spec("lm_eval").submodule_search_locations[0])'
    root = subprocess.run([arguments.python, '-c', where], capture_output=True, text=True, check=True).stdout.strip()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / 'model').mkdir()
        make_model(folder / 'model', 'llama', spread=0.1)
        write_tasks(folder, Path(root, 'tasks'), arguments.rows)
        environment = {**os.environ, 'HF_HUB_OFFLINE': '1', 'TOKENIZERS_PARALLELISM': 'false'}
        environment.pop('PYTHONPATH', None)
        command = [arguments.python, __file__, '--theirs', str(folder)]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode:
            sys.exit(ended.stderr[-3000:])
        for cause, config in configs(folder).items():
            run_config(config, out=folder / 'runs' / cause)
            begun = time.perf_counter()
            [explanation] = explain(folder / 'log', folder / 'runs' / cause, configs=(None, config))
            seconds = time.perf_counter() - begun
            shares = ', '.join(f'{step.cause} {step.points:+.1f}' for step in explanation.steps) or 'nothing'
            values = f'{explanation.left_value:.1f} → {explanation.right_value:.1f}'
            print(f'{cause}: {values} on {explanation.rows} rows: {shares} ({seconds:.2f} s)')
            for line in explanation.unknown:
                print(f'  not known: {line}')


if __name__ == '__main__':
    main()
