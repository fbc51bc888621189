"""Packing a run for another person: database, rows and examples; media and secrets as wanted."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.errors import RunError
from rolecall.insight.claims import Claim, ClaimSource
from rolecall.redaction import Redactor, environment_secrets
from rolecall.runs.store.bundle_file import write_bundle
from rolecall.strings import count_noun


def export_bundle(
    directory: str | Path,
    target: str | Path,
    *,
    config: Any = None,
    media: bool = False,
    keep_secrets: bool = False,
) -> list[str]:
    """Pack a run into one file; what was packed and what was not, as lines.

    `config` is needed where the dataset is code of the run. Rows that hold a secret of this environment are an error,
    unless `keep_secrets`.
    """
    rows: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    files: dict[str, Path] = {}
    lines = []
    with ExitStack() as stack:
        source, reader = ClaimSource.of_run(directory, stack, config)
        for dataset, model in source.pairs():
            if (dataset, 'test') not in rows:
                claim = source.claim(dataset, model)
                rows |= {(dataset, split): some for split, some in _rows_of(claim).items()}
                files |= dict(_find_media(claim, rows)) if media else {}
                if claim.pair is None:
                    lines.append(f'{dataset}: its data are not here; the rows that the run has kept are packed.')
        if not keep_secrets:
            _refuse_secrets(rows)
        write_bundle(reader.directory, Path(target), rows, files)
    count = count_noun(sum(map(len, rows.values())), 'row')
    return [*lines, f'{count} of {count_noun(len(rows), "split")} and {count_noun(len(files), "media file")} packed.']


def _rows_of(claim: Claim) -> dict[str, list[Mapping[str, Any]]]:
    """The rows up to the last that was asked, and the examples' rows if there are examples."""
    last = max((row.result.row for row in claim.rows), default=-1)
    if claim.pair is None:
        by_number = {row.result.row: row.fields for row in claim.rows}
        return {'test': [by_number.get(number, {}) for number in range(last + 1)]}
    task, data = claim.pair.task, claim.pair.data
    shows = task.retriever.ice_num or getattr(task.retriever, 'fix_id_list', None)
    train = {'train': list(data.train)} if shows else {}
    return {'test': list(islice(data.test, last + 1)), **train}


def _find_media(claim: Claim, rows: Mapping[tuple[str, str], list[Mapping[str, Any]]]) -> Iterator[tuple[str, Path]]:
    """The files that rows name by a relative path."""
    base = (claim.experiment.base if claim.experiment is not None else None) or Path()
    values = (value for some in rows.values() for row in some for value in row.values() if isinstance(value, str))
    for value in values:
        path = Path(value) if 0 < len(value) < 255 and '\n' not in value else Path()
        if path.name and not path.is_absolute() and '..' not in path.parts and (base / path).is_file():
            yield path.as_posix(), base / path


def _refuse_secrets(rows: Mapping[tuple[str, str], list[Mapping[str, Any]]]) -> None:
    redactor = Redactor(environment_secrets())
    for (dataset, split), some in rows.items():
        for number, row in enumerate(some):
            if redactor.secrets and not redactor.is_clean(json.dumps(row, default=str)):
                raise RunError(
                    f'{dataset}, {split} row {number}: holds a secret of this environment. '
                    'Take it out of the data, or pack it all the same with --keep-secrets.'
                )
