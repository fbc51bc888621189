"""Rows that the package reasoning-gym generates: as many as wanted, the same for the same seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rolecall.checking import is_whole
from rolecall.errors import ConfigError, DataError, Problem, did_you_mean, import_extra
from rolecall.sources.datasets.layouts import Entry
from rolecall.sources.datasets.rows import ListRows, Splits


def open_reasoning_gym(entry: Entry, base: Path | None) -> Splits:
    """Generated rows of the task `name`: `size` of them, made with `seed`; `options` go to the task."""
    problems = [
        Problem(key, f'must be a whole number from {least}, got {entry[key]!r:.60}.')
        for key, least in (('size', 1), ('seed', 0))
        if key in entry and not is_whole(entry[key], least=least)
    ]
    if problems:
        raise ConfigError(problems)
    library = import_extra('reasoning_gym', extra='generate', purpose='to generate rows')
    name = str(entry.get('name'))
    known = import_extra('reasoning_gym.factory', extra='generate', purpose='to generate rows').DATASETS
    if name not in known:
        raise DataError(f'reasoning-gym has no task {name!r}. {did_you_mean(name, sorted(known))[:300]}')
    try:
        made = library.create_dataset(
            name, size=entry.get('size', 100), seed=entry.get('seed', 42), **(entry.get('options') or {})
        )
        rows: list[dict[str, Any]] = [dict(made[number]) for number in range(len(made))]
    except Exception as error:  # a generator of the package may raise anything
        raise DataError(f'reasoning-gym: the task {name!r} failed: {error}') from error
    return {'test': ListRows(rows)}
