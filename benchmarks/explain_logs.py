"""`rolecall explain` on logs that lm-eval and OpenCompass wrote of a small Transformers model: is the cause named?

    python benchmarks/explain_logs.py --lm-eval ENV/bin/python [--rows N]
    python benchmarks/explain_logs.py --opencompass ENV/bin/python [--path FOLDER] [--rows N]

The first Python has `lm-eval==0.4.13`, the second `opencompass==0.5.4`, both transformers and torch (`--path` goes before their
packages: OpenCompass 0.5.4 needs a transformers before 5). A random Llama is saved once; each harness asks it and writes its log.
rolecall runs the same task file or config as it is, and with one thing changed: the metric, the reader, the prompt.
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


OPENCOMPASS = """
from opencompass.datasets.custom import CustomDataset
from opencompass.models import HuggingFaceBaseModel
from opencompass.openicl.icl_evaluator import AccEvaluator
from opencompass.openicl.icl_inferencer import GenInferencer, PPLInferencer
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import ZeroRetriever
from opencompass.utils.text_postprocessors import first_capital_postprocess

words = 'Question: {question}\\nA. {A}\\nB. {B}\\nC. {C}\\nD. {D}\\nAnswer: '
shared = dict(
    type=CustomDataset,
    path='FOLDER/rows.jsonl',
    reader_cfg=dict(input_columns=['question', 'A', 'B', 'C', 'D'], output_column='answer'),
)
datasets = [
    dict(
        abbr='generated',
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template=words),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=GenInferencer, max_out_len=16),
        ),
        eval_cfg=dict(
            evaluator=dict(type=AccEvaluator), pred_postprocessor=dict(type=first_capital_postprocess)
        ),
        **shared,
    ),
    dict(
        abbr='weighed',
        infer_cfg=dict(
            prompt_template=dict(type=PromptTemplate, template={label: words + label for label in 'ABCD'}),
            retriever=dict(type=ZeroRetriever),
            inferencer=dict(type=PPLInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
        **shared,
    ),
]
models = [
    dict(
        type=HuggingFaceBaseModel,
        abbr='tiny',
        path='FOLDER/model',
        tokenizer_path='FOLDER/model',
        model_kwargs=dict(device_map='cpu', torch_dtype='torch.float32'),
        max_seq_len=2048,
        max_out_len=16,
        batch_size=8,
        run_cfg=dict(num_gpus=0),
    )
]
"""


def run_opencompass(python: str, path: str, folder: Path, rows: int) -> dict[str, dict[str, Any]]:
    """OpenCompass' own command; and the configs that rolecall runs beside it."""
    from rolecall import load_config
    from sweeps import make_rows

    settings = folder / 'model' / 'tokenizer_config.json'  # its Llama takes no other inputs
    names = {'model_input_names': ['input_ids', 'attention_mask']}
    settings.write_text(json.dumps({**json.loads(settings.read_text()), **names}))
    (folder / 'rows.jsonl').write_text('\n'.join(map(json.dumps, make_rows(rows, 0))))
    file = folder / 'eval.py'
    file.write_text(OPENCOMPASS.replace('FOLDER', str(folder)))
    command = [str(Path(python).parent / 'opencompass'), str(file), '--work-dir', str(folder / 'log'), '--debug']
    run_quietly([*command, '--dump-eval-details'], {'PYTHONPATH': path})
    loaded = load_config(file)
    entry = {'abbr': 'tiny', 'type': 'HuggingFaceBaseModel', 'path': str(folder / 'model'), 'device': 'cpu'}
    models = [{**entry, 'model_kwargs': {'torch_dtype': 'float32'}, 'max_out_len': 16}]
    last = {'pred_postprocessor': {'type': 'last_capital_postprocess'}}
    reread = [{**data, 'eval_cfg': {**data['eval_cfg'], **last}} for data in loaded['datasets']]
    reworded = json.loads(json.dumps(loaded['datasets'], default=repr).replace('Question: ', 'Pick one. '))
    for data, original in zip(reworded, loaded['datasets'], strict=True):
        template = data['infer_cfg']['prompt_template']['template']
        infer = {**original['infer_cfg'], 'prompt_template': {'type': 'PromptTemplate', 'template': template}}
        data.update({**original, 'infer_cfg': infer})
    cases = {'same': loaded['datasets'], 'reader': reread, 'prompt': reworded}
    return {name: {'models': models, 'datasets': datasets} for name, datasets in cases.items()}


def run_quietly(command: list[str], environment: dict[str, str]) -> None:
    plain = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    offline = {'HF_HUB_OFFLINE': '1', 'TOKENIZERS_PARALLELISM': 'false'}
    ended = subprocess.run(
        command, env={**plain, **offline, **environment}, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        sys.exit(ended.stderr[-3000:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--lm-eval', dest='python', help='a Python that has lm-eval')
    parser.add_argument('--opencompass', help='a Python that has OpenCompass')
    parser.add_argument('--path', default='', help='a folder of packages that go before those of that Python')
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

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / 'model').mkdir()
        make_model(folder / 'model', 'llama', spread=0.1)
        if arguments.opencompass:
            sides = run_opencompass(arguments.opencompass, arguments.path, folder, arguments.rows)
        else:
            where = 'import importlib.util; print(importlib.util.find_spec("lm_eval").submodule_search_locations[0])'
            root = subprocess.run([arguments.python, '-c', where], capture_output=True, text=True, check=True).stdout
            write_tasks(folder, Path(root.strip(), 'tasks'), arguments.rows)
            run_quietly([arguments.python, __file__, '--theirs', str(folder)], {'PYTHONPATH': arguments.path})
            sides = configs(folder)
        for cause, config in sides.items():
            run_config(config, out=folder / 'runs' / cause, force=True, lint=False)
            begun = time.process_time()
            for explanation in explain(folder / 'log', folder / 'runs' / cause, configs=(None, config)):
                shares = ', '.join(f'{step.cause} {step.points:+.1f}' for step in explanation.steps) or 'nothing'
                values = f'{explanation.left_value:.1f} → {explanation.right_value:.1f}'
                print(f'{cause}, {explanation.dataset}: {values} on {explanation.rows} rows: {shares}')
                for line in explanation.unknown:
                    print(f'  not known: {line}')
            print(f'  {time.process_time() - begun:.2f} s CPU')


if __name__ == '__main__':
    main()
