"""Put the runs of several processes together.

Merge run directories into one, each request and each row once. Exit code 1 if runs contradict each other.

  rolecall run config.py --out runs/big --workers 0/2     on one machine
  rolecall run config.py --out runs/big --workers 1/2     on another
  rolecall runs merge runs/big runs/big/rank-*
  rolecall run config.py --out runs/big                     asks for what is missing, and scores
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.output import print_lines


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.store.copies import merge_runs

    merged = merge_runs(arguments.out, arguments.runs)
    print_lines((*merged.lines(), f'Scores: run the config with --out {arguments.out}; only what is missing is asked.'))
    return 0 if merged.is_clean else 1
