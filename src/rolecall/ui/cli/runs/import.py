# ruff: noqa: N999  # a file is the command you type
# a file is the command you type
"""Open a log of another harness as a run.

Turn a log of another harness into a run directory that report, compare, export and web open: prompts, replies,
answers, scores and settings as the log has them. What it lacks is "not recorded".

  rolecall runs import lm-eval results/my-model --out runs/theirs
  rolecall runs import inspect logs/2026-01-01_gsm8k.eval
  rolecall runs import opencompass outputs/default/20260101_120000
  rolecall compare runs/theirs runs/ours
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.output import print_lines

_SHOWN = 5


def execute(arguments: argparse.Namespace) -> int:
    from pathlib import Path

    from rolecall.runs.logs.readers import read_log
    from rolecall.strings import count_noun

    source = Path(arguments.source)
    source = source.resolve() if source.is_symlink() else source  # the user's own link; links inside are refused
    out = Path(arguments.out or Path('runs') / source.absolute().name.split('.')[0])
    logs, left_out = read_log(arguments.harness, source, out)
    rows = sum(len(log.rows) for log in logs)
    made_by = f'{logs[0].harness}, version {logs[0].version}'
    print_lines([f'{count_noun(rows, "row")} of {count_noun(len(logs), "log")} ({made_by}) in {out}.'])
    if left_out:
        names = f'{", ".join(left_out[:_SHOWN])}{", …" if len(left_out) > _SHOWN else ""}'
        print_lines([f'Left out, since a newer log has them: {names}.'])
    if not rows:
        print_lines(['The log has scores but no rows: prompts, replies and answers are not recorded.'])
    print_lines([f'Show them: rolecall report {out}'])
    return 0
