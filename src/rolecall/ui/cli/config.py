"""`rolecall config`: a config as rolecall reads it."""

from __future__ import annotations

import argparse
import os
from typing import Any, Literal

from rolecall.ui.cli.options import declare_command, declare_group, fail


def add_config(commands: Any) -> None:
    """Declare `rolecall config show`."""
    configs = declare_group(commands, 'config', 'inspect configs')
    parser = declare_command(
        configs,
        'show',
        'print a config after imports and inheritance',
        'Print a config as rolecall reads it: imports resolved, names in file order.',
        '  rolecall config show config.py\n'
        '  rolecall config show config.py --json | jq .datasets[0].abbr\n'
        '  rolecall config show gsm8k > gsm8k.py            a benchmark, to copy and change\n'
        '  rolecall config show mmlu --as lm-eval',
    )
    parser.set_defaults(run=_show)
    parser.add_argument(
        'config', metavar='CONFIG', help='a config file, a benchmark by name, or a task file of lm-evaluation-harness'
    )
    parser.add_argument('--json', action='store_true', help='print JSON')
    parser.add_argument(
        '--as', dest='emulate', choices=['lm-eval', 'opencompass'], help="of a benchmark: this catalogue's wording"
    )


def _show(arguments: argparse.Namespace) -> int:
    from rolecall.compat.benchmarks import is_benchmark_name
    from rolecall.compat.lm_eval import is_task_source
    from rolecall.experiment.opening.loading import load_config
    from rolecall.redaction import mask_config
    from rolecall.sources.config.plain_configs import is_plain_config
    from rolecall.sources.config.printing import format_config
    from rolecall.strings import printable

    style: Literal['json', 'python'] = 'json' if arguments.json else 'python'
    if is_task_source(arguments.config):
        from rolecall.compat.lm_eval.load_tasks import describe_tasks

        print(printable(format_config(describe_tasks(arguments.config), style=style)))
        return 0
    if is_benchmark_name(arguments.config) and ':' not in arguments.config:
        from rolecall.compat.benchmarks.load_benchmarks import describe_benchmarks

        loaded = load_config(arguments.config, emulate=arguments.emulate)
        print(printable(format_config(describe_benchmarks(loaded), style=style)))
        return 0
    if os.path.splitext(arguments.config)[1] not in ('.py', '') and not is_plain_config(arguments.config):
        return fail(f'{arguments.config}: not a config; configs are Python files, or YAML or JSON with datasets.')
    print(printable(format_config(mask_config(load_config(arguments.config)), style=style)))
    return 0
