"""Print a config after imports and inheritance.

Print a config as rolecall reads it: imports resolved, names in file order.

  rolecall config show config.py
  rolecall config show config.py --json | jq .datasets[0].abbr
  rolecall config show gsm8k > gsm8k.py            a benchmark, to copy and change
  rolecall config show mmlu --as lm-eval
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any, Literal

from rolecall.ui.cli.output import fail

_CONFIGS = ('.py', '.yaml', '.yml', '.json', '')


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.experiment.opening.loading import Source, load_source
    from rolecall.redaction import mask_config
    from rolecall.sources.config.printing import format_config
    from rolecall.strings import printable

    style: Literal['json', 'python'] = 'json' if arguments.json else 'python'
    source = Source.recognise(arguments.config)
    config: Mapping[str, Any]
    if source.kind == 'rows' or (source.kind == 'config' and os.path.splitext(arguments.config)[1] not in _CONFIGS):
        return fail(f'{arguments.config}: not a config; configs are Python files, or YAML or JSON with datasets.')
    if source.kind == 'task':
        from rolecall.compat.lm_eval.load_tasks import describe_tasks

        config = describe_tasks(arguments.config)
    elif source.kind == 'benchmark' and ':' not in arguments.config:
        from rolecall.compat.benchmarks.load_benchmarks import describe_benchmarks

        config = describe_benchmarks(load_source(source, {'emulate': arguments.emulate}))
    else:
        config = mask_config(load_source(source, {}))
    print(printable(format_config(config, style=style)))
    return 0
