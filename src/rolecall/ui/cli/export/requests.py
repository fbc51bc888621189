"""Write every request as an OpenAI batch file.

Write every request as one line of an OpenAI batch file.

  rolecall export requests config.py -o requests.jsonl
  rolecall export requests config.py --model gpt --limit 100 -o requests.jsonl.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rolecall.ui.cli.options import (
    add_config_options,
    add_options,
    add_source_options,
    open_experiment,
)
from rolecall.ui.cli.output import print_note

if TYPE_CHECKING:
    from rolecall.errors import RolecallError
    from rolecall.experiment.experiment import Experiment
    from rolecall.experiment.opening.tasks import TaskEntry


def declare(parser: argparse.ArgumentParser) -> None:
    add_config_options(parser)
    add_options(parser, 'export requests')
    add_source_options(parser)


def execute(arguments: argparse.Namespace) -> int:
    from rolecall.errors import ConfigError, Problem
    from rolecall.ui.cli.export.writing import write_with_progress

    experiment = open_experiment(arguments, arguments.config)
    if not experiment.models:
        raise ConfigError(Problem('models', 'the config has no models.', 'Requests are written for a model: add one.'))
    _refuse_repeated_names(experiment)
    write_with_progress(_entries(experiment, arguments.limit), arguments.output, 'request')
    return 0


def _entries(experiment: Experiment, limit: int | None) -> Iterator[dict[str, Any]]:
    from collections import Counter

    from rolecall.models.http.media import MediaReader
    from rolecall.ui.cli.export.batch import batch_entries, batch_notes, fit_notes
    from rolecall.ui.cli.selection import open_pairs

    for pair in open_pairs(experiment, on_failure=_refuse):
        for note in batch_notes(pair):
            print_note(note)
        if pair.model_entry is not None:
            fits: Counter[str] = Counter()
            media = MediaReader(experiment.media_folders)
            yield from batch_entries(pair, pair.model_entry, limit=limit, media=media, fits=fits)
            for note in fit_notes(pair, fits):
                print_note(note)


def _refuse(task: TaskEntry, error: RolecallError) -> None:
    raise error


def _refuse_repeated_names(experiment: Experiment) -> None:
    """Refuse repeated abbrs: requests are identified by those of dataset and model."""
    from collections import Counter

    from rolecall.errors import ConfigError, Problem

    datasets = Counter(task.abbr for task in experiment.tasks)
    models = Counter(model.abbr for model in experiment.models)
    if repeated := [abbr for counts in (datasets, models) for abbr, count in counts.items() if count > 1]:
        what = f'used more than once: {", ".join(repeated)}. Requests could not be told apart.'
        raise ConfigError(Problem('abbr', what, 'Give each dataset and each model an abbr of its own.'))
