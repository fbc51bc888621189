"""What lm-eval itself asks of given rows, for `benchmarks/benchmark_names.py`; runs where lm-eval is installed.

Each line of standard input is {path, rows, settings}: a task file, its splits, and pairs of shots and chat options. Each
line of output is a list, for every setting the requests of the first two rows as whole texts.
"""

import contextlib
import io
import json
import logging
import os
import sys

os.environ.update(HF_DATASETS_OFFLINE='1', HF_HUB_OFFLINE='1')
logging.disable(logging.CRITICAL)

import datasets  # noqa: E402
from jinja2 import Environment  # noqa: E402
from lm_eval.api.task import ConfigurableTask  # noqa: E402
from lm_eval.tasks._yaml_loader import load_yaml  # noqa: E402

datasets.disable_progress_bars()
ROWS = 2


def requests_of(config, rows, shots, chat):
    datasets.load_dataset = lambda *_, **__: {name: datasets.Dataset.from_list(listed) for name, listed in rows.items()}
    task = ConfigurableTask(config=dict(config))
    if task.config.num_fewshot != 0:
        task.set_config('num_fewshot', shots)
    task.set_fewshot_seed(1234)
    options = {}
    if chat:
        template = Environment(keep_trailing_newline=True).from_string(chat['template'])
        options = {
            'apply_chat_template': True,
            'fewshot_as_multiturn': chat['multiturn'],
            'system_instruction': chat['system'],
            'chat_template': lambda messages, add_generation_prompt=True: template.render(
                messages=messages, add_generation_prompt=add_generation_prompt
            ),
        }
    task.build_all_requests(limit=ROWS, rank=0, world_size=1, **options)
    found = [[] for _ in range(ROWS)]
    for instance in task.instances:
        context, *rest = instance.args
        found[instance.doc_id].append(context + rest[0] if instance.request_type == 'loglikelihood' else context)
    return found


def main():
    results = os.fdopen(os.dup(1), 'w')
    for line in sys.stdin:
        job = json.loads(line)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            config = load_yaml(job['path'], resolve_func=True)
            for key in ('tag', 'group', 'task_list'):
                config.pop(key, None)
            made = [requests_of(config, job['rows'], shots, chat) for shots, chat in job['settings']]
        results.write(json.dumps(made) + '\n')
        results.flush()


if __name__ == '__main__':
    main()
