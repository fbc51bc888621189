"""Pause a run under way, or change its concurrency.

Tell a run under way what is wanted of it. It looks between rows; rows under way are finished.

  rolecall runs control runs/first --pause
  rolecall runs control runs/first --resume --concurrency 8
  rolecall runs control runs/first --drop gpt-4.1-mini     what it answered is kept
"""

from __future__ import annotations

import argparse


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.runs.brake import change_control

    changes = {name: getattr(arguments, name) for name in ('paused', 'concurrency')}
    wanted = {name: value for name, value in changes.items() if value is not None}
    print(change_control(Path(arguments.out), drop=arguments.drop or (), **wanted))
    return 0
