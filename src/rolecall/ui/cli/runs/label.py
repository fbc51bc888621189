"""Add people's labels to a run, and correct its scores by them.

Join ratings and verdicts of people with the rows of a run, by row number or by content, and compare them with the
run's verdicts: agreement, kappa, precision and recall, and the score corrected for their errors. Without FILE, the
labels that the run has. Exit code 1 if a line of FILE fits no row.

  rolecall runs label runs/qa --todo 30 > todo.csv
  rolecall runs label runs/qa ratings.csv
  rolecall runs label runs/qa votes.jsonl --label ann bob --on question,reply
  rolecall runs label runs/qa stars.csv --correct-from 4 --model gpt-4.1
  rolecall runs label runs/new --calibration runs/old
  rolecall web runs/qa                                   label rows in the page
"""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress

from rolecall.ui.cli.output import print_json, print_lines, print_note


def execute(arguments: argparse.Namespace) -> int:
    from dataclasses import asdict, fields

    from rolecall.insight.calibration import calibrate, carry_calibration
    from rolecall.insight.label_files import LabelColumns, join_labels, rows_to_label, select_pairs
    from rolecall.runs.result_files import csv_lines
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report.calibration_text import describe_calibration, describe_carried

    joined, to = None, sys.stderr if arguments.json or arguments.todo else sys.stdout
    if arguments.file is not None:
        columns = LabelColumns(**{field.name: getattr(arguments, field.name) for field in fields(LabelColumns)})
        joined = join_labels(arguments.directory, arguments.file, columns)
        print_lines(joined.lines(), to=to)
    code = 1 if joined is not None and joined.problems else 0
    with RunReader(arguments.directory) as run:
        pairs = select_pairs(run, arguments.dataset, arguments.model)
        if arguments.todo:
            todo = [*rows_to_label(run, arguments.todo, pairs)]
            print(*csv_lines(todo), sep='\n') if todo else print_note('Every row with a verdict is labelled.')
            return code
        calibrations = [(asdict(entry), describe_calibration(entry)) for entry in calibrate(run)]
        source = arguments.calibration
        for entry, why in carry_calibration(run, source) if source else ():
            record = {**asdict(entry), 'carried_from': source, 'stale': why}
            calibrations.append((record, iter([describe_carried(entry, why, source)])))
        calibrations = [entry for entry in calibrations if (entry[0]['dataset'], entry[0]['model']) in pairs]
        for record, lines in calibrations:
            print_json(record) if arguments.json else print_lines(lines)
    if not calibrations:
        name = arguments.directory
        add = f'No labels yet. Add some: rolecall runs label {name} FILE, or rolecall web {name}'
        print_note('No labelled row has a verdict yet.' if joined is not None and joined.labels else add)
    return code


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(',')]


def _pairs(text: str) -> dict[str, str]:
    pairs = [word.partition('=') for word in _words(text)]
    if not all(sign for _, sign, _ in pairs):
        raise argparse.ArgumentTypeError(f'expected X=LABEL, several separated by commas, got {text!r}.')
    return {name: label for name, _, label in pairs}


def _scale(text: str) -> tuple[float, float]:
    with suppress(ValueError):
        low, high = map(float, text.split(':'))
        if low < high:
            return low, high
    raise argparse.ArgumentTypeError(f'expected LOW:HIGH, such as 1:5, got {text!r}.')
