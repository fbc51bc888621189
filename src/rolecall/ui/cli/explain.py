"""Say why two numbers differ, cause by cause.

Say why two scores differ. Stored replies are read and scored as on the other side, so reader, metric, denominator,
rows, failures and cut answers get their exact share without a model. A and B are run directories, logs of lm-eval,
Inspect, OpenCompass or AISBench, configs, or a published number.

  rolecall explain runs/mine runs/theirs
  rolecall explain results/lm-eval-log runs/mine --html why.html
  rolecall explain config.py results/lm-eval-log
  rolecall explain runs/mine 62.4
  rolecall explain runs/mine runs/theirs --ladder --dry-run      what asking would cost
  rolecall explain config.py other.py --ladder --rows 200
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.ui.cli.output import print_json, terminal, write_page


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.insight.cause_shares import FLIPS, explain

    if arguments.ladder:
        return _climb(arguments)
    if given := [name for name in ('rows', 'dry_run', 'out') if getattr(arguments, name)]:
        raise ConfigError(Problem(f'--{given[0].replace("_", "-")}', 'applies to --ladder.'))
    explanations = explain(
        arguments.left,
        arguments.right,
        dataset=arguments.dataset,
        model=arguments.model,
        configs=arguments.config,
        flips=max(FLIPS, arguments.flips),
    )
    return _show(explanations, arguments)


def _climb(arguments: argparse.Namespace) -> int:
    """Print what asking takes, ask, and explain."""
    from contextlib import ExitStack
    from pathlib import Path

    from rolecall.insight.ladder import build_ladders
    from rolecall.ui.views.run_progress import progress_for

    names = '-'.join(Path(side).stem for side in (arguments.left, arguments.right))
    with ExitStack() as stack:
        ladders = list(
            build_ladders(
                arguments.left,
                arguments.right,
                stack,
                out=arguments.out or Path('runs') / f'explain-{names}',
                dataset=arguments.dataset,
                model=arguments.model,
                configs=arguments.config,
                rows=arguments.rows,
            )
        )
        for ladder, _ in ladders:
            print(ladder.plan(), file=sys.stderr)
        if arguments.dry_run:
            return 0
        progress = progress_for(quiet=True)
        for ladder, _ in ladders:
            ladder.ask(progress)
        return _show([ladder.explain(explanation) for ladder, explanation in ladders], arguments)


def _show(explanations: Any, arguments: argparse.Namespace) -> int:
    from rolecall.ui.report.explanation_view import explanation_page, print_explanation

    if arguments.html:
        write_page(arguments.html, explanation_page(explanations))
    for explanation in explanations:
        if arguments.json:
            print_json(explanation.as_json())
        else:
            print_explanation(explanation, terminal(), flips=arguments.flips)
    return 0
