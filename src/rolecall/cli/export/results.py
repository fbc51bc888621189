"""`rolecall export results`: every row of a run."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.cli.options import add_pattern_options, declare_command

__all__ = ['add_results']


def add_results(exports: Any) -> None:
    """Declare `rolecall export results`."""
    parser = declare_command(
        exports,
        'results',
        'write every row of a run',
        'Write one record per row of a run: prediction, gold answer, score and outcome.',
        '  rolecall export results runs/first | jq -c "select(.outcome != \\"ok\\")"\n'
        '  rolecall export results runs/first --format parquet -o rows.parquet',
    )
    parser.set_defaults(run=_results)
    parser.add_argument('directory', metavar='RUN', help='a run directory')
    parser.add_argument('--format', choices=('jsonl', 'csv', 'parquet'), default='jsonl', help='default: jsonl')
    add_pattern_options(parser)
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='default: -, which is stdout')


def _results(arguments: argparse.Namespace) -> int:
    from rolecall.runs.result_files import export_results

    to = sys.stdout if arguments.output == '-' else arguments.output
    export_results(arguments.directory, to, format=arguments.format, dataset=arguments.dataset, model=arguments.model)
    return 0
