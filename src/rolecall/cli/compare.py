"""`rolecall compare`: two runs, row by row."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.cli.options import declare_command, whole_number

__all__ = ['add_compare']


def add_compare(commands: Any) -> None:
    """Declare `rolecall compare`."""
    parser = declare_command(
        commands,
        'compare',
        'compare two runs, row by row',
        'Compare two runs on the rows both have scored: differences with intervals and p-values, and the rows whose '
        'verdict changed.',
        '  rolecall compare runs/old runs/new\n  rolecall compare runs/old runs/new --json | jq .differences',
    )
    parser.set_defaults(run=_compare)
    parser.add_argument('left', metavar='RUN_A', help='the baseline')
    parser.add_argument('right', metavar='RUN_B', help='the run to compare with it')
    parser.add_argument(
        '--flips', metavar='N', type=whole_number, default=10, help='changed rows shown per dataset (default: 10)'
    )
    parser.add_argument('--json', action='store_true', help='print one JSON object')


def _compare(arguments: argparse.Namespace) -> int:
    from rolecall.report import StoredRun
    from rolecall.report.comparison import compare_runs, comparison_as_json
    from rolecall.report.comparison_view import print_comparison
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.views.jsonl import json_line
    from rolecall.views.terminal import make_console

    with RunReader(arguments.left) as one, RunReader(arguments.right) as other:
        left, right = StoredRun(one), StoredRun(other)
        comparison = compare_runs(left, right)
        if arguments.json:
            print(json_line(comparison_as_json(comparison, left=left, right=right)))
        else:
            print_comparison(comparison, make_console(sys.stdout), left=left, right=right, flips=arguments.flips)
    return 0
