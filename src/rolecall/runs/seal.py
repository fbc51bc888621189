"""A sealed run: what is to be measured, and how it will be analysed, is written down before the first request."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import Pairs, describe_rows_of, pairs_of, parts_of
from rolecall.strings import join_words

_ANALYSIS = 'paired test on the rows that both have, with 95 % intervals; rows count as eval_cfg says'


def make_seal(manifest: Mapping[str, Any], margin: float) -> dict[str, Any]:
    """What a run plans: the margin, the analysis, and of each dataset × model its rows and the digests of its parts."""
    return {'margin': margin, 'analysis': _ANALYSIS, 'pairs': manifest['pairs']}


def refuse_late_seal(before: Pairs, directory: object) -> None:
    """A seal comes before the first request."""
    if before:
        what = f'{directory} has results already: a seal is written before the first request.'
        raise ConfigError(Problem('--seal', what, 'Name another directory with --out, or leave --seal out.'))


def read_seal(reader: RunReader) -> tuple[str, Mapping[str, Any]] | None:
    """The seal of a run with the time it was written; None if it was not sealed."""
    for started, manifest, _ in reader.starts():
        try:
            seal = json.loads(manifest).get('seal')
        except (ValueError, AttributeError):  # damaged
            continue
        if isinstance(seal, Mapping):
            return str(started), seal
    return None


def read_stored_seal(directory: Path) -> tuple[str, Mapping[str, Any]] | None:
    """The seal of a run directory; None if it has none, or no run yet."""
    try:
        with RunReader(directory) as reader:
            return read_seal(reader)
    except RunError:
        return None


def describe_seal(reader: RunReader) -> str:
    """Whether a sealed run went as planned, or what was changed afterwards; nothing if it was not sealed."""
    seal = read_seal(reader)
    if seal is None:
        return ''
    started, planned = seal
    changes = list(_find_changes(planned, pairs_of(reader)))
    head = f'Sealed {started}, margin {planned.get("margin", 0):g}'
    return f'{head}: as planned.' if not changes else f'{head}; changed afterwards: {"; ".join(changes)}.'


def _find_changes(planned: Mapping[str, Any], now: Pairs) -> Iterator[str]:
    before = {(pair['dataset'], pair['model']): pair for pair in planned.get('pairs', ()) if isinstance(pair, Mapping)}
    for names, pair in before.items():
        if names not in now:
            yield f'{" × ".join(names)} is missing'
            continue
        differing = parts_of(pair).find_differing(parts_of(now[names]))
        rows = [describe_rows_of(each) for each in (pair, now[names])]
        if differing:
            yield f'{join_words(differing)} of {" × ".join(names)}'
        if rows[0] != rows[1]:
            yield f'{" × ".join(names)} on {rows[1]} instead of {rows[0]}'
    if added := [' × '.join(names) for names in now if names not in before]:
        yield f'{join_words(added)} added'
