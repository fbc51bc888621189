"""Write a run as one file that another person can open.

Pack a run into one file: requests, replies, scores, config, rows and examples. `report`, `compare`, `explain` and
`runs reproduce` open it like a run directory. API keys are never in a run.

  rolecall export bundle runs/first -o first.rolecall
  rolecall runs reproduce first.rolecall
  rolecall compare first.rolecall runs/mine
"""

from __future__ import annotations

import argparse
import sys

from rolecall.ui.cli.output import print_lines


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.insight.reproduction import export_bundle
    from rolecall.runs.store.directory import SUFFIX

    target = arguments.output or f'{Path(arguments.directory).resolve().name}{SUFFIX}'
    if not target.endswith(SUFFIX):
        target += SUFFIX
    lines = export_bundle(
        arguments.directory,
        target,
        config=arguments.config,
        media=arguments.media,
        keep_secrets=arguments.keep_secrets,
    )
    print_lines((*lines, f'Wrote {target}'), to=sys.stderr)
    return 0
