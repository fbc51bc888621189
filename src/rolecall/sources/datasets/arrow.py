"""Rows through the extra `[data]`: Parquet files, hub datasets, and folders saved by the `datasets` package."""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from rolecall.errors import DataError, import_extra
from rolecall.sources.datasets.compression import plain_path
from rolecall.sources.datasets.rows import WHOLE, Row, Splits, resolve_index

_BATCH = 1024
_SAVED = ('dataset_dict.json', 'state.json')


def as_hub_dataset(rows: Iterable[Row]) -> Any:
    """Rows in the form that OpenCompass and AISBench expect: a `datasets.Dataset` if that package is loaded."""
    records = [dict(row) for row in rows]
    datasets = sys.modules.get('datasets')
    return records if datasets is None else datasets.Dataset.from_list(records)


class ParquetRows:
    """The rows of one Parquet file; values are plain Python values."""

    __slots__ = ('__weakref__', '_ends', '_group', '_plain', 'path')

    def __init__(self, path: Path) -> None:
        self.path = path
        self._plain = plain_path(path, self)
        self._group: tuple[int, Any] = (-1, None)
        with self._open_parquet() as file:
            groups = (file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
            self._ends = list(accumulate(groups))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Row:
        index = resolve_index(index, len(self))
        number = bisect_right(self._ends, index)
        start = self._ends[number - 1] if number else 0
        row: Row = self._row_group(number).slice(index - start, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[Row]:
        with self._open_parquet() as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()

    def _row_group(self, number: int) -> Any:
        loaded, table = self._group
        if loaded != number:
            with self._open_parquet() as file:
                table = file.read_row_group(number)
            self._group = (number, table)
        return table

    @contextmanager
    def _open_parquet(self) -> Iterator[Any]:
        pyarrow = import_extra('pyarrow', extra='data', purpose='to read Parquet files')
        parquet = import_extra('pyarrow.parquet', extra='data', purpose='to read Parquet files')
        try:
            with parquet.ParquetFile(self._plain) as file:
                yield file
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f'{self.path}: not a readable Parquet file: {error}') from error


@dataclass(frozen=True, slots=True, eq=False)
class HubRows:
    """The rows of a `datasets.Dataset`, which keeps them on disk."""

    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int, /) -> Row:
        row: Row = self.table[resolve_index(index, len(self.table))]
        return row

    def __iter__(self) -> Iterator[Row]:
        return iter(self.table)


def open_hub(path: str, options: Mapping[str, Any]) -> Splits:
    """The splits of a hub dataset, or of a local folder. `options` go to `datasets.load_dataset`."""
    datasets = import_extra('datasets', extra='data', purpose=f'to load {path!r}')
    try:
        if any(Path(path, name).is_file() for name in _SAVED):
            loaded = datasets.load_from_disk(path)
            if 'split' in options and isinstance(loaded, datasets.DatasetDict):
                loaded = loaded[options['split']]
        else:
            loaded = datasets.load_dataset(path, **options)
    except (OSError, LookupError, ValueError, TypeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(_describe_failure(path, error)) from error
    if isinstance(loaded, datasets.Dataset):
        return {WHOLE: HubRows(loaded)}
    return {str(split): HubRows(table) for split, table in loaded.items()}


def _describe_failure(path: str, error: Exception) -> str:
    """The package's message and cause; for a download, also what to check and what to do instead."""
    message = ': '.join(
        f'{type(cause).__name__}: {cause}'.rstrip() for cause in (error, error.__cause__) if cause is not None
    )
    what = f'{path}: the datasets package failed to load it.\n  {message}'
    if Path(path).exists():
        return what
    return (
        f'{what}\n  A download needs a reachable hub (HF_ENDPOINT); a gated dataset also needs a token (HF_TOKEN).\n'
        '  Or fetch the files another way, and say where they are with --data.'
    )
