"""The reference side of lm_eval_equal.py; runs in an environment with `lm-eval` and imports nothing of ours.

For each task file on standard input: rows that fit its fields are invented (`lm_eval_rows.py`), lm-eval builds its
requests from them, and canned replies are filtered and scored. One JSON line for each task.
"""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import json
import logging
import math
import os
import random
import signal
import socket
import sys
import time
from pathlib import Path

for name in ('HF_DATASETS_OFFLINE', 'HF_HUB_OFFLINE', 'HF_EVALUATE_OFFLINE'):
    os.environ[name] = '1'
logging.disable(logging.CRITICAL)


def refuse_network(*_, **__):
    raise OSError('the network is not used here')


socket.getaddrinfo = socket.create_connection = (
    refuse_network  # metrics of `evaluate` would be retried for half a minute
)
time.sleep = lambda seconds: None

import datasets  # noqa: E402
import datasets.arrow_dataset  # noqa: E402
import datasets.fingerprint  # noqa: E402
import numpy  # noqa: E402
from jinja2 import Environment  # noqa: E402
from lm_eval import utils as lm_eval_utils  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

from lm_eval_rows import Invention, spy_on, text  # noqa: E402

datasets.disable_progress_bars()
datasets.disable_caching()
NUMBERED = itertools.count()
# Without a cache a fingerprint is only a name; hashing functions with everything they reach takes most of the time.
datasets.fingerprint.Hasher.hash = classmethod(lambda cls, value: f'{next(NUMBERED):016x}')
datasets.arrow_dataset.generate_fingerprint = lambda *_, **__: f'{next(NUMBERED):016x}'
datasets.Dataset.filter = spy_on(datasets.Dataset.filter)
lm_eval_utils.env.from_string = functools.lru_cache(maxsize=512)(lm_eval_utils.env.from_string)
MAPPED: dict = {}
STATES: dict = {}
"""The first state of each generator at the top of a task's file."""


def remember_maps(map_rows):
    """`Dataset.map`, which maps a table with a function once.

    For a dataset on disk `datasets` keeps the result in its cache, so that a function which draws random numbers
    gives one order of choices to examples, requests and scores. Tables in memory have no cache.
    """

    def remembering(table, function=None, *arguments, **options):
        key = table._fingerprint, describe_function(function), repr(arguments), repr(sorted(options.items()))
        if key not in MAPPED:
            MAPPED[key] = map_rows(table, function, *arguments, **options)
        return MAPPED[key]

    return remembering


def describe_function(function) -> str:
    """A function's code with what it holds: what `datasets` hashes for its cache."""
    if isinstance(function, functools.partial):
        return f'{describe_function(function.func)} {function.args!r} {function.keywords!r}'
    code = getattr(function, '__code__', None)
    if code is None:
        return repr(function)
    held = [describe_function(cell.cell_contents) for cell in function.__closure__ or ()]
    return f'{code.co_filename}:{code.co_firstlineno}:{code.co_name} {held} {function.__defaults__!r}'


datasets.Dataset.map = remember_maps(datasets.Dataset.map)
CHATML = "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if not loop.last or add_generation_prompt %}<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
CHAT = Environment(keep_trailing_newline=True).from_string(CHATML)
SETTINGS = [
    (0, None),
    (2, None),
    (5, None),
    (2, {'multiturn': False, 'system': None}),
    (2, {'multiturn': True, 'system': 'Be {{brief}}.'}),
]
ATTEMPTS = 60
SECONDS = 30
"""Of CPU time, for one task."""


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


def build(config: dict, tables: dict, shots: int, chat: dict | None, *, scores: bool = False) -> dict:
    """The requests of the first two rows, and how canned replies to them are scored."""
    datasets.load_dataset = lambda *a, **k: dict(tables)
    MAPPED.clear()
    seed_generators(config)
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
    docs: dict[int, list] = {}
    for instance in task.instances:
        docs.setdefault(instance.doc_id, []).append(instance)
    if scores:
        return reply_and_score(task, docs)
    return {'docs': [{'index': number, 'requests': requests_of(listed)} for number, listed in docs.items()]}


def seed_generators(config: dict) -> None:
    """As in a new process: seeded as simple_evaluate does it, and generators of task files at their beginning."""
    random.seed(0)
    numpy.random.seed(1234)
    for value in (*config.values(), *(config.get('fewshot_config') or {}).values()):
        for one in getattr(value, '__globals__', {}).values():
            if isinstance(one, random.Random):
                one.setstate(STATES.setdefault(id(one), one.getstate()))


def requests_of(listed: list) -> list:
    return [[instance.request_type, *plain(instance.args)] for instance in listed]


def reply_and_score(task, docs: dict[int, list]) -> dict:
    rng = random.Random(7)
    for listed in docs.values():
        for instance in listed:
            if instance.request_type == 'generate_until':
                instance.resps = [text(rng) for _ in range(instance.repeats or 1)]
            elif instance.request_type == 'loglikelihood':
                instance.resps = [(round(-5 * rng.random(), 3), rng.random() < 0.3)]
            else:
                instance.resps = [round(-50 * rng.random(), 3)]
    made = {'multiple_input': task.multiple_input, 'multiple_target': task.multiple_target, 'docs': []}
    filtered, items = True, {}
    try:
        task.apply_filters()
    except Exception as error:
        filtered, made['unfiltered'] = False, f'{type(error).__name__}: {error}'[:200]
    for number, listed in docs.items():
        replies = [plain(instance.resps) for instance in listed]
        doc = {'index': number, 'requests': requests_of(listed), 'replies': replies}
        if filtered:
            doc |= score(task, listed, items)
        made['docs'].append(doc)
    if all('metrics' in doc for doc in made['docs']):
        made['aggregates'] = aggregate(task, items)
    return made


def score(task, listed: list, items: dict) -> dict:
    """The filtered answers to the requests of a row and its numbers, which are also added to `items`."""
    found = {
        'filtered': {name: [plain(one.filtered_resps[name]) for one in listed] for name in listed[0].filtered_resps}
    }
    try:
        numbers = {
            name: task.process_results(listed[0].doc, [one.filtered_resps[name] for one in listed])
            for name in listed[0].filtered_resps
        }
    except Exception as error:
        return found | {'unscored': f'{type(error).__name__}: {error}'[:200]}
    for pipeline, metrics in numbers.items():
        for metric, item in metrics.items():
            items.setdefault((pipeline, metric), []).append(item)
    return found | {'metrics': plain(numbers)}


def aggregate(task, items: dict) -> dict:
    """Each metric over all rows; what cannot be computed is left out."""
    found: dict = {}
    for (pipeline, metric), listed in items.items():
        with contextlib.suppress(Exception):
            found.setdefault(pipeline, {})[metric] = plain(task.aggregation()[metric](listed))
    return found


def exercise(path: Path) -> dict:
    """What lm-eval makes of a task, on rows that are changed until it accepts them."""
    config = load_yaml(path, resolve_func=True)
    for key in ('tag', 'group', 'task_list'):
        config.pop(key, None)
    splits = sorted(splits_of(config))
    invention, last = Invention(config, path), ''
    for attempt in range(ATTEMPTS):
        rows = {split: invention.rows(7) for split in splits}
        try:
            tables = {name: datasets.Dataset.from_list(listed) for name, listed in rows.items()}
            first = build_quietly(config, tables, *SETTINGS[0], scores=True)
        except (Exception, SystemExit) as error:
            last = f'{type(error).__name__}: {error}'[:200]
            if not invention.learn(error, attempt):
                break
            continue
        invention.keep()
        made = [first]
        for setting in SETTINGS[1:]:
            try:
                made.append(build_quietly(config, tables, *setting))
            except (Exception, SystemExit) as error:
                made.append({'error': f'{type(error).__name__}: {error}'[:200]})
        return {'path': str(path), 'rows': rows, 'made': made}
    invention.give_up()
    return {'path': str(path), 'error': last}


def build_quietly(config: dict, tables: dict, shots: int, chat: dict | None, *, scores: bool = False) -> dict:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        return build(config, tables, shots, chat, scores=scores)


class TaskTimeout(BaseException):
    """A task that does not end."""


def stop_task(*_) -> None:
    raise TaskTimeout('took too long')


def main() -> None:
    results = os.fdopen(os.dup(1), 'w')
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # task files may print what they like
    signal.signal(signal.SIGALRM, stop_task)
    signal.signal(signal.SIGPROF, stop_task)
    for line in sys.stdin:
        path = Path(line.strip())
        signal.alarm(20 * SECONDS)
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            found = exercise(path)
        except (Exception, SystemExit, TaskTimeout) as error:
            found = {'path': str(path), 'error': f'load: {type(error).__name__}: {error}'[:200]}
        finally:
            signal.alarm(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
        results.write(json.dumps(found) + '\n')
        results.flush()


if __name__ == '__main__':
    main()
