"""`rolecall export labels`: what people decided about the rows of a run."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from rolecall.ui.cli.options import declare_command


def add_labels(exports: Any) -> None:
    """Declare `rolecall export labels`."""
    parser = declare_command(
        exports,
        'labels',
        'write what people decided about the rows of a run',
        'Write the labels and answers of people, one record for each person and row, with the reply, the gold answer '
        "and the run's own reading and score.",
        '  rolecall export labels runs/first -o labels.csv\n  rolecall export labels runs/first | jq .label',
    )
    parser.set_defaults(run=_labels)
    parser.add_argument('directory', metavar='RUN', help='a run directory')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='default: -, which is stdout; .csv for CSV')


def _labels(arguments: argparse.Namespace) -> int:
    from rolecall.runs.atomic import write_atomically
    from rolecall.runs.result_files import csv_lines, json_lines, label_objects

    to_lines = csv_lines if arguments.output.lower().endswith('.csv') else json_lines
    lines = (f'{line}\n' for line in to_lines(label_objects(arguments.directory)))
    if arguments.output == '-':
        sys.stdout.writelines(lines)
        return 0
    with write_atomically(arguments.output) as part, open(part, 'w', encoding='utf-8', newline='') as stream:
        stream.writelines(lines)
    return 0
