"""Datasets of a hub, or folders saved by it, through the `datasets` package. Needs the extra `[data]`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.datasets.folders import WHOLE, Splits
from rolecall.datasets.plain import extra_module
from rolecall.datasets.rows import Row, position
from rolecall.errors import DataError

__all__ = ['HubRows', 'open_hub']

_SAVED = ('dataset_dict.json', 'state.json')


@dataclass(frozen=True, slots=True, eq=False)
class HubRows:
    """The rows of a `datasets.Dataset`, which keeps them on disk."""

    table: Any

    def __len__(self) -> int:
        return len(self.table)

    def __getitem__(self, index: int, /) -> Row:
        row: Row = self.table[position(index, len(self.table))]
        return row

    def __iter__(self) -> Iterator[Row]:
        return iter(self.table)


def open_hub(path: str, options: Mapping[str, Any]) -> Splits:
    """The splits of a hub dataset, or of a local folder. `options` go to `datasets.load_dataset`."""
    datasets = extra_module('datasets', purpose=f'to load {path!r}')
    try:
        if any(Path(path, name).is_file() for name in _SAVED):
            loaded = datasets.load_from_disk(path)
            if 'split' in options and isinstance(loaded, datasets.DatasetDict):
                loaded = loaded[options['split']]
        else:
            loaded = datasets.load_dataset(path, **options)
    except (OSError, LookupError, ValueError, TypeError, datasets.exceptions.DatasetsError) as error:
        raise DataError(f'{path}: the datasets package cannot load it: {error}') from error
    if isinstance(loaded, datasets.Dataset):
        return {WHOLE: HubRows(loaded)}
    return {str(split): HubRows(table) for split, table in loaded.items()}
