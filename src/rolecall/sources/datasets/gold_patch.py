"""A patch of gold answers: JSON lines that name a dataset, the digest of its rows, a row, and another gold answer."""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rolecall.errors import DataError
from rolecall.sources.datasets.dataset import Dataset
from rolecall.sources.datasets.digest import checksum_rows
from rolecall.sources.datasets.formats import open_file
from rolecall.sources.datasets.rows import MappedRows, Row
from rolecall.strings import count_noun


@dataclass(frozen=True, slots=True)
class DoubtedRow:
    """A row whose gold answer is in doubt."""

    dataset: str
    digest: str | None
    """Of the rows of the dataset: the patch is for these and no others."""
    row: int
    gold: str
    proposed: str
    votes: Mapping[str, str] = field(default_factory=dict)
    """The answer of each strong model that gave one."""


def write_gold_patch(rows: list[DoubtedRow]) -> str:
    """The text of a patch."""
    return ''.join(json.dumps(asdict(row)) + '\n' for row in rows)


def read_gold_patch(file: str | Path) -> list[DoubtedRow]:
    """The rows of a patch."""
    names = {item.name for item in fields(DoubtedRow)}
    advice = 'rolecall score RUN --doubted --patch FILE writes one.'
    rows = []
    for number, record in enumerate(open_file(file), start=1):
        try:
            row = DoubtedRow(**{name: record[name] for name in names & record.keys()})
        except TypeError as error:
            what = 'is not a patch of gold answers: each line needs dataset, digest, row, gold and proposed.'
            raise DataError(f'{file}: {what} {advice}') from error
        if type(row.row) is not int or not isinstance(row.proposed, str):
            what = f'line {number}: expected a whole number as row and a text as proposed'
            raise DataError(f'{file}: {what}, got {row.row!r:.40} and {row.proposed!r:.40}.')
        rows.append(row)
    if not rows:
        raise DataError(f'{file}: is empty. {advice}')
    return rows


def patch_gold(data: Dataset, file: str | Path, dataset: str) -> Dataset:
    """The dataset with the gold answers of a patch. Its rows must be those that the patch was written for."""
    rows = [row for row in read_gold_patch(file) if row.dataset == dataset]
    proposed = {row.row: row.proposed for row in rows}
    check_patch(rows, file, checksum_rows(data.test), range(len(data.test)))
    column = data.reader.output_column
    if column is None:
        raise DataError(f'{file}: {dataset} names no column of gold answers (reader_cfg.output_column) to patch.')

    def patch(row: Row, number: int) -> Row:
        return {**row, column: _convert(proposed[number], row.get(column))} if number in proposed else row

    note = f'{count_noun(len(proposed), "gold answer")} replaced by {Path(file).name}'
    return replace(data, test=MappedRows(data.test, patch, f'{dataset}.gold_patch'), note=note)


def check_patch(rows: Sequence[DoubtedRow], file: str | Path, digest: str | None, numbers: Container[int]) -> None:
    """Refuse the lines of a patch for one dataset that were written for other rows than these."""
    for row in rows:
        if row.digest != digest:
            what = f'is for rows of {row.dataset} with the digest {row.digest}, but its rows have {digest}.'
            raise DataError(f'{file}: {what} Write a patch of these rows: rolecall score RUN --doubted --patch FILE')
        if row.row not in numbers:
            raise DataError(f'{file}: {row.dataset} has no row {row.row}.')


def _convert(proposed: str, gold: Any) -> Any:
    """The proposed answer in the form of the gold one: a number, a list of accepted answers, or text.

    >>> _convert('49', 48), _convert('49', ['48', 'forty-eight']), _convert('49', '48')
    (49, ['49'], '49')
    """
    if isinstance(gold, list | tuple):
        return [proposed]
    return type(gold)(proposed) if isinstance(gold, int | float) and not isinstance(gold, bool) else proposed
