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
