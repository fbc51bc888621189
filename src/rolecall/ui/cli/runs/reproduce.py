"""Word a run again, ask a few rows again, and name what has changed.

Word every request of a run again and compare it with what was sent: identical, or the first character that differs
with its origin. Score the stored replies again. Ask a few rows again where the model can be reached. Name what has
changed: packages, data, tokenizer, weights. Exit code 1 if a request or the score differs, 3 if that cannot be told.

  rolecall runs reproduce runs/first
  rolecall runs reproduce runs/first --config config.py --ask 20
  rolecall runs reproduce shared.rolecall --ask 0
"""

from __future__ import annotations

import argparse

from rolecall.ui.cli.output import print_json, print_lines


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.insight.reproduction import reproduce
    from rolecall.ui.views.run_progress import progress_for

    progress = progress_for(quiet=True)
    reproduction = reproduce(arguments.directory, config=arguments.config, ask=arguments.ask, progress=progress)
    if arguments.json:
        print_json(reproduction.as_json())
    else:
        print_lines(reproduction.lines())
    return reproduction.exit_code
