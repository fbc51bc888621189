r"""Write every row of a run.

Write one record per row of a run: prediction, gold answer, score, outcome, and the row's own fields.

  rolecall export results runs/first | jq -c "select(.outcome != \"ok\")"
  rolecall export results runs/first --prompts --format parquet -o rows.parquet
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from rolecall.ui.cli.output import print_note

if TYPE_CHECKING:
    from rolecall.runs.result_files import Format


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument('directory', metavar='RUN', help='a run directory')
    parser.add_argument(
        '--format', choices=('jsonl', 'csv', 'parquet'), help='default: by the ending of FILE, or jsonl'
    )
    parser.add_argument('--prompts', action='store_true', help='add the requests that were sent')
    parser.add_argument('--labels', action='store_true', help='write what people decided about rows instead')
    parser.add_argument('--dataset', metavar='PATTERN', help='only datasets whose abbr matches, e.g. "bbh-*"')
    parser.add_argument('--model', metavar='PATTERN', help='only models whose abbr matches')
    parser.add_argument('-o', '--output', metavar='FILE', default='-', help='default: -, which is stdout')


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.runs.result_files import export_results

    to = sys.stdout if arguments.output == '-' else arguments.output
    export_results(
        arguments.directory,
        to,
        format=arguments.format or _find_format(arguments.output),
        dataset=arguments.dataset,
        model=arguments.model,
        prompts=arguments.prompts,
        labels=arguments.labels,
        on_damage=print_note,
    )
    return 0


def _find_format(output: str) -> Format:
    """The format that a file's name promises; JSON lines without such a promise."""
    ending = output.lower().rpartition('.')[2]
    return 'csv' if ending == 'csv' else 'parquet' if ending == 'parquet' else 'jsonl'
