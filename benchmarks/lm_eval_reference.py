"""The reference side of lm_eval_equal.py; runs in an environment with `lm-eval` and imports nothing of ours.

For each task file on standard input: rows that fit its fields are invented, lm-eval builds its requests from them, and
canned replies are filtered and scored. One JSON line for each task and setting.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import logging
import math
import os
import random
import re
import sys
from pathlib import Path

os.environ['HF_DATASETS_OFFLINE'] = os.environ['HF_HUB_OFFLINE'] = '1'
logging.disable(logging.CRITICAL)

import datasets  # noqa: E402
from jinja2 import Environment, meta  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

datasets.disable_progress_bars()
datasets.disable_caching()
WORDS = [
    'alpha',
    'beta',
    'gamma\n',
    '中文',
    'naïve',
    '{answer}',
    '{{x}}',
    '{% if %}',
    '</E>',
    '<|im_end|>',
    '(B)',
    '42',
    '"q"',
    "it's",
    ' ',
    '#### 7',
    '[x]',
    'Yes',
    'the',
]
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if not loop.last or add_generation_prompt %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHAT = Environment(keep_trailing_newline=True).from_string(CHATML)
SETTINGS = [
    (0, None),
    (2, None),
    (5, None),
    (2, {'multiturn': False, 'system': None}),
    (2, {'multiturn': True, 'system': 'Be {{brief}}.'}),
]
LISTS = re.compile('choice|option|ending|candidate|distractor|answers|targets|classes|labels', re.IGNORECASE)
NUMBERS = re.compile('label|gold|idx|index|^answer|correct|target|right|level|id$', re.IGNORECASE)
ATTEMPTS = 24
METHODS = set(dir(str)) | set(dir(list)) | set(dir(dict))


def text(rng: random.Random, most: int = 5) -> str:
    return ' '.join(rng.choice(WORDS) for _ in range(rng.randint(1, most)))


def value(name: str, kind: str, rng: random.Random):
    if kind.startswith('dict:'):
        parts = [part.partition('=') for part in kind.removeprefix('dict:').split(',')]
        return {inner: list('ABCD') if inner == 'label' else value(inner, shape, rng) for inner, _, shape in parts}
    match kind:
        case 'list':
            return [f'{text(rng, 3)}{i}' for i in range(4)]
        case 'index':
            return rng.randrange(4)
        case 'bit':
            return rng.randrange(2)
        case 'digit':
            return str(rng.randrange(4))
        case 'letter':
            return rng.choice('ABCD')
        case 'ordinal':
            return rng.choice('12')
        case 'textlabel':
            return {'text': [f'{text(rng, 2)}{i}' for i in range(4)], 'label': list('ABCD')}
        case 'literal':
            return str([f'w{i}' for i in range(4)])
        case _:
            return text(rng)


def kinds_for(name: str, rng: random.Random, attempt: int, attributes: dict[str, list[str]]) -> str:
    if inner := attributes.get(name):
        return 'dict:' + ','.join(f'{one}={kinds_for(one, rng, attempt, {})}' for one in inner)
    if LISTS.search(name):
        ways = ['list', 'textlabel', 'literal', 'text']
    elif NUMBERS.search(name):
        ways = ['index', 'digit', 'letter', 'text', 'bit', 'letter', 'ordinal']
    else:
        ways = ['text', 'text', 'list', 'index']
    return ways[0] if attempt == 0 else rng.choice(ways)


def columns_of(config: dict) -> tuple[set[str], dict[str, list[str]]]:
    found: set[str] = set()
    sources: list[str] = []
    few = config.get('fewshot_config') or {}
    for source in (config, few):
        for key in (
            'doc_to_text',
            'doc_to_target',
            'doc_to_choice',
            'gen_prefix',
            'description',
            'process_docs',
            'process_results',
        ):
            spec = source.get(key)
            if isinstance(spec, str):
                sources.append(spec)
                if spec.isidentifier() or re.fullmatch(r'[\w-]+', spec):
                    found.add(spec)
                with contextlib.suppress(Exception):
                    found |= meta.find_undeclared_variables(Environment().parse(spec))
            elif callable(spec):
                with contextlib.suppress(Exception):
                    module = inspect.getsource(inspect.getmodule(inspect.unwrap(getattr(spec, 'func', spec))) or spec)
                    sources.append(module)
                    found |= set(
                        re.findall(r"""(?:doc|row|x|item|example|ex|sample|d|line)\[['"](\w+)['"]\]""", module)
                    )
                    found |= set(re.findall(r"""\.get\(['"](\w+)['"]""", module))
    columns = {name for name in found if name not in ('range', 'len')}
    attributes: dict[str, list[str]] = {}
    for name in columns:
        inner: dict[str, None] = {}
        for source in sources:
            for pair in re.findall(rf"""\b{re.escape(name)}(?:['"]\])?(?:\.(\w+)\b|\[['"](\w+)['"]\])""", source):
                inner |= dict.fromkeys(one for one in pair if one and one not in METHODS)
        if inner:
            attributes[name] = list(inner)
    return columns, attributes


def splits_of(config: dict) -> set[str]:
    few = config.get('fewshot_config') or {}
    named = [config.get(key) for key in ('training_split', 'validation_split', 'test_split', 'fewshot_split')]
    return {name for name in (*named, few.get('split')) if isinstance(name, str)}


def plain(value):
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if hasattr(value, 'tolist'):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


def build(config: dict, rows: dict, shots: int, chat: dict | None) -> dict:
    datasets.load_dataset = lambda *a, **k: {name: datasets.Dataset.from_list(listed) for name, listed in rows.items()}
    task = ConfigurableTask(config=dict(config))
    if task.config.num_fewshot != 0:
        task.set_config('num_fewshot', shots)
    task.set_fewshot_seed(1234)
    options = {}
    if chat:
        options = {
            'apply_chat_template': True,
            'fewshot_as_multiturn': chat['multiturn'],
            'system_instruction': chat['system'],
            'chat_template': lambda messages, add_generation_prompt=True: CHAT.render(
                messages=messages, add_generation_prompt=add_generation_prompt
            ),
        }
    task.build_all_requests(limit=2, rank=0, world_size=1, **options)
    rng = random.Random(7)
    docs: dict[int, list] = {}
    for instance in task.instances:
        docs.setdefault(instance.doc_id, []).append(instance)
    for listed in docs.values():
        for instance in listed:
            if instance.request_type == 'generate_until':
                instance.resps = [text(rng) for _ in range(instance.repeats or 1)]
            elif instance.request_type == 'loglikelihood':
                instance.resps = [(round(-5 * rng.random(), 3), rng.random() < 0.3)]
            else:
                instance.resps = [round(-50 * rng.random(), 3)]
    made = {'multiple_input': task.multiple_input, 'multiple_target': task.multiple_target, 'docs': []}
    scored = True
    try:
        task.apply_filters()
    except Exception:
        scored = False
    for number, listed in docs.items():
        requests = [[instance.request_type, *plain(instance.args)] for instance in listed]
        doc = {'index': number, 'requests': requests, 'replies': [plain(instance.resps) for instance in listed]}
        if scored:
            with contextlib.suppress(Exception):
                doc['metrics'] = {
                    name: plain(task.process_results(listed[0].doc, [one.filtered_resps[name] for one in listed]))
                    for name in listed[0].filtered_resps
                }
        made['docs'].append(doc)
    return made


def exercise(path: Path, out) -> None:
    config = load_yaml(path, resolve_func=True)
    for key in ('tag', 'group', 'task_list'):
        config.pop(key, None)
    (columns, attributes), splits = columns_of(config), splits_of(config)
    for attempt in range(ATTEMPTS):
        rng = random.Random(f'{path.name} {attempt}')
        kinds = {name: kinds_for(name, rng, attempt, attributes) for name in sorted(columns)}
        rows = {
            split: [{name: value(name, kind, rng) for name, kind in kinds.items()} for _ in range(7)]
            for split in sorted(splits)
        }
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                first = build(config, rows, *SETTINGS[0])
        except (Exception, SystemExit) as error:
            last = f'{type(error).__name__}: {error}'[:200]
            continue
        made = [first]
        for setting in SETTINGS[1:]:
            try:
                with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                    made.append(build(config, rows, *setting))
            except (Exception, SystemExit) as error:
                made.append({'error': f'{type(error).__name__}: {error}'[:200]})
        out.write(json.dumps({'path': str(path), 'rows': rows, 'made': made}) + '\n')
        out.flush()
        return
    out.write(json.dumps({'path': str(path), 'error': last}) + '\n')
    out.flush()


if __name__ == '__main__':
    results = os.fdopen(os.dup(1), 'w')
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # task files may print what they like
    for line in sys.stdin:
        given = Path(line.strip())
        try:
            exercise(given, results)
        except (Exception, SystemExit) as error:
            why = f'load: {type(error).__name__}: {error}'[:200]
            results.write(json.dumps({'path': str(given), 'error': why}) + '\n')
            results.flush()
