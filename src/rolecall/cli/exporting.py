"""Export to files, with progress where somebody watches; `rolecall export requests` puts every request into one."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall.cli.batch import batch_entries, remarks, write_lines
from rolecall.cli.picking import Chosen, opened
from rolecall.cli.sources import Source
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.pairs.pair import Pair
from rolecall.pairs.tasks import Task
from rolecall.views.facts import counted

__all__ = ['export_requests', 'write_watched']


def export_requests(
    source: Source, chosen: Chosen, output: str, *, limit: int | None = None, data: Mapping[str, str] | None = None
) -> int:
    """Write the requests of the chosen datasets and models and say how many there were."""
    _refuse_without_models(chosen)
    _refuse_same_names(chosen)
    return write_watched(_entries(source, chosen, limit, data), output, 'request')


def write_watched(entries: Iterable[Mapping[str, Any]], output: str, noun: str) -> int:
    """Write entries to a file (`-` is stdout), tell a terminal how far it is, and say how many there were."""
    to = sys.stdout if output == '-' else Path(output)
    watched = _watch(noun) if sys.stderr.isatty() and output != '-' else None
    try:
        count = write_lines(entries, to, heard=watched)
    finally:
        if watched is not None:
            print('\r\x1b[K', end='', file=sys.stderr)
    print(f'{counted(count, noun)}{"" if output == "-" else f" in {output}"}', file=sys.stderr)
    return count


def _entries(
    source: Source, chosen: Chosen, limit: int | None, data: Mapping[str, str] | None
) -> Iterator[dict[str, Any]]:
    pairs: Iterator[Pair] = opened(chosen, base=source.base, data=data or None, failed=_refuse)
    for pair in pairs:
        for remark in remarks(pair):
            print(f'rolecall: {remark}', file=sys.stderr)
        if pair.model_entry is not None:
            yield from batch_entries(pair, pair.model_entry, limit=limit)


def _refuse(task: Task, error: RolecallError) -> None:
    raise error


def _refuse_without_models(chosen: Chosen) -> None:
    if None in chosen.model_entries:
        raise ConfigError(Problem('models', 'the config has no models, so there is nobody to send to.'))


def _refuse_same_names(chosen: Chosen) -> None:
    """Requests are told apart by the abbrs of dataset and model."""
    datasets = Counter(task.abbr for task in chosen.tasks)
    models = Counter(model_entry.abbr for model_entry in chosen.model_entries if model_entry is not None)
    if twice := [abbr for counts in (datasets, models) for abbr, count in counts.items() if count > 1]:
        what = f'the same abbr twice ({", ".join(twice)}), so requests could not be told apart.'
        raise ConfigError(Problem('abbr', what, 'Give each dataset and each model an abbr of its own.'))


def _watch(noun: str) -> Callable[[int], None]:
    """Says how many there are so far, a few times a second."""
    told = time.monotonic()

    def heard(count: int) -> None:
        nonlocal told
        now = time.monotonic()
        if now - told > 0.2:
            told = now
            print(f'\r{counted(count, noun)}', end='', file=sys.stderr, flush=True)

    return heard
