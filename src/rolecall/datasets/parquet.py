"""Rows from Parquet files: one row group in memory at a time. Needs the extra `[data]`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

from rolecall.datasets.plain import extra_module, plain_path
from rolecall.datasets.rows import Row, position
from rolecall.errors import DataError

__all__ = ['ParquetRows']

_BATCH = 1024


class ParquetRows:
    """The rows of one Parquet file; values are plain Python values."""

    __slots__ = ('__weakref__', '_ends', '_group', '_plain', 'path')

    def __init__(self, path: Path) -> None:
        self.path = path
        self._plain = plain_path(path, self)
        self._group: tuple[int, Any] = (-1, None)
        with self._opened() as file:
            groups = (file.metadata.row_group(number).num_rows for number in range(file.num_row_groups))
            self._ends = list(accumulate(groups))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __getitem__(self, index: int, /) -> Row:
        index = position(index, len(self))
        number = bisect_right(self._ends, index)
        start = self._ends[number - 1] if number else 0
        row: Row = self._row_group(number).slice(index - start, 1).to_pylist()[0]
        return row

    def __iter__(self) -> Iterator[Row]:
        with self._opened() as file:
            for batch in file.iter_batches(_BATCH):
                yield from batch.to_pylist()

    def _row_group(self, number: int) -> Any:
        held, table = self._group
        if held != number:
            with self._opened() as file:
                table = file.read_row_group(number)
            self._group = (number, table)
        return table

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        pyarrow = extra_module('pyarrow', purpose='to read Parquet files')
        parquet = extra_module('pyarrow.parquet', purpose='to read Parquet files')
        try:
            with parquet.ParquetFile(self._plain) as file:
                yield file
        except (OSError, pyarrow.ArrowException) as error:
            raise DataError(f'{self.path}: cannot be read as Parquet: {error}') from error
