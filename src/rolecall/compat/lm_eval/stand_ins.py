"""Stand-ins for imports of task functions: the part of `datasets` that they use, and lm-eval's folders."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from rolecall.errors import import_extra


class RowTable(Sequence[dict[str, Any]]):
    """Rows, as `datasets.Dataset` has them: every row has every column, None where it is missing.

    >>> table = RowTable([{'a': 1}, {'a': 2, 'b': 'x'}])
    >>> table[0], table['a'], table.column_names
    ({'a': 1, 'b': None}, [1, 2], ['a', 'b'])
    >>> table.map(lambda row: {'c': row['a'] * 2}).filter(lambda row: row['c'] > 2)[0]
    {'a': 2, 'b': 'x', 'c': 4}
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        records = [dict(row) for row in rows]
        columns = dict.fromkeys(column for row in records for column in row)
        whole = all(len(row) == len(columns) for row in records)
        self._rows = records if whole else [{column: row.get(column) for column in columns} for row in records]
        self.column_names = list(columns)

    @classmethod
    def from_list(cls, rows: Iterable[Mapping[str, Any]], *_: Any, **__: Any) -> RowTable:
        return cls(rows)

    @classmethod
    def from_dict(cls, columns: Mapping[str, Sequence[Any]], *_: Any, **__: Any) -> RowTable:
        return cls(dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))

    @classmethod
    def from_generator(cls, generate: Callable[..., Iterable[Mapping[str, Any]]], **options: Any) -> RowTable:
        return cls(generate(**(options.get('gen_kwargs') or {})))

    @classmethod
    def from_pandas(cls, frame: Any, *_: Any, **__: Any) -> RowTable:
        return cls(frame.to_dict(orient='records'))

    @property
    def features(self) -> dict[str, None]:
        return dict.fromkeys(self.column_names)

    @property
    def num_rows(self) -> int:
        return len(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(row) for row in self._rows)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self._rows]
        if isinstance(key, slice):
            return {column: [row[column] for row in self._rows[key]] for column in self.column_names}
        if isinstance(key, int):
            return dict(self._rows[key])
        return {column: [self._rows[i][column] for i in key] for column in self.column_names}

    def map(
        self,
        function: Callable[..., Any] | None = None,
        with_indices: bool = False,
        batched: bool = False,
        batch_size: int | None = 1000,
        remove_columns: str | Sequence[str] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        input_columns: str | Sequence[str] | None = None,
        **_: Any,
    ) -> RowTable:
        dropped = {remove_columns} if isinstance(remove_columns, str) else set(remove_columns or ())
        options = dict(fn_kwargs or {})
        if function is None:
            return self
        if batched:
            return self._map_batches(function, batch_size or max(len(self), 1), dropped, options)
        mapped = []
        for i, row in enumerate(self._rows):
            arguments = _arguments(row, input_columns)
            result = function(*arguments, *((i,) if with_indices else ()), **options)
            others = {column: value for column, value in row.items() if column not in dropped}
            mapped.append({**others, **{key: _plain(value) for key, value in (result or {}).items()}})
        return RowTable(mapped)

    def _map_batches(
        self, function: Callable[..., Any], size: int, dropped: set[str], options: dict[str, Any]
    ) -> RowTable:
        mapped: list[dict[str, Any]] = []
        for start in range(0, len(self), size):
            batch = self[start : start + size]
            others = {key: value for key, value in batch.items() if key not in dropped}
            mapped += RowTable.from_dict(_plain({**others, **function(batch, **options)}))._rows
        return RowTable(mapped)

    def filter(
        self,
        function: Callable[..., Any],
        with_indices: bool = False,
        input_columns: str | Sequence[str] | None = None,
        fn_kwargs: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> RowTable:
        options = dict(fn_kwargs or {})
        passing = [
            row
            for i, row in enumerate(self._rows)
            if function(*_arguments(row, input_columns), *((i,) if with_indices else ()), **options)
        ]
        return self._with(passing)

    def select(self, indices: Iterable[int], **_: Any) -> RowTable:
        return self._with([self._rows[i] for i in indices])

    def take(self, count: int) -> RowTable:
        return self._with(self._rows[:count])

    def skip(self, count: int) -> RowTable:
        return self._with(self._rows[count:])

    def shuffle(self, seed: int | None = None, **_: Any) -> RowTable:
        numpy = import_extra('numpy', extra='retrieve', purpose='to shuffle rows as `datasets` does')
        return self.select(numpy.random.default_rng(seed).permutation(len(self)).tolist())

    def train_test_split(
        self, test_size: float | None = None, seed: int | None = None, shuffle: bool = True, **_: Any
    ) -> dict[str, RowTable]:
        count = len(self)
        size = 0.25 if test_size is None else test_size
        testing = size if isinstance(size, int) else -int(-count * size // 1)
        if not shuffle:
            return {'train': self.take(count - testing), 'test': self.skip(count - testing)}
        numpy = import_extra('numpy', extra='retrieve', purpose='to split rows as `datasets` does')
        drawn = numpy.random.default_rng(seed).permutation(count).tolist()
        return {'train': self.select(drawn[testing:]), 'test': self.select(drawn[:testing])}

    def sort(self, column_names: str | Sequence[str], reverse: bool = False, **_: Any) -> RowTable:
        columns = [column_names] if isinstance(column_names, str) else list(column_names)
        return self._with(sorted(self._rows, key=lambda row: [row[column] for column in columns], reverse=reverse))

    def unique(self, column: str) -> list[Any]:
        return list(dict.fromkeys(self[column]))

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> RowTable:
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: Mapping[str, str], **_: Any) -> RowTable:
        return RowTable({column_mapping.get(key, key): value for key, value in row.items()} for row in self._rows)

    def remove_columns(self, column_names: str | Sequence[str], **_: Any) -> RowTable:
        dropped = {column_names} if isinstance(column_names, str) else set(column_names)
        return RowTable({key: value for key, value in row.items() if key not in dropped} for row in self._rows)

    def select_columns(self, column_names: str | Sequence[str], **_: Any) -> RowTable:
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        return RowTable({key: row[key] for key in names} for row in self._rows)

    def add_column(self, name: str, column: Sequence[Any], **_: Any) -> RowTable:
        return RowTable({**row, name: value} for row, value in zip(self._rows, column, strict=True))

    def to_list(self) -> list[dict[str, Any]]:
        return list(self)

    def to_dict(self) -> dict[str, list[Any]]:
        return {column: self[column] for column in self.column_names}

    def to_pandas(self) -> Any:
        return import_extra('pandas', extra='data', purpose='for to_pandas()').DataFrame(self._rows)

    def _with(self, rows: list[dict[str, Any]]) -> RowTable:
        """The same columns with other rows, even with none."""
        table = RowTable()
        table._rows, table.column_names = rows, self.column_names
        return table


def _arguments(row: dict[str, Any], columns: str | Sequence[str] | None) -> tuple[Any, ...]:
    if columns is None:
        return (dict(row),)
    return tuple(row[column] for column in ([columns] if isinstance(columns, str) else columns))


def _plain(value: Any) -> Any:
    """A value as a table returns it: tuples become lists, numpy numbers Python numbers."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if type(value).__module__ == 'numpy':
        return _plain(value.tolist())
    return value


def _concatenate(tables: Iterable[RowTable], **_: Any) -> RowTable:
    return RowTable(row for table in tables for row in table)


def _refuse_loading(*_: Any, **__: Any) -> Any:
    raise OSError('this function loads a dataset of its own, which is not done here: give its rows with --data')


def _datasets_module() -> ModuleType:
    module = ModuleType('datasets')
    names = {
        'Dataset': RowTable,
        'DatasetDict': dict,
        'IterableDataset': RowTable,
        'concatenate_datasets': _concatenate,
        'load_dataset': _refuse_loading,
        'Value': str,
        'Features': dict,
        'Sequence': list,
    }
    vars(module).update({**names, '__version__': '4.0.0'})
    return module


def _weighted_f1_score(items: Iterable[tuple[Any, Any]]) -> Any:
    metrics = import_extra('sklearn.metrics', extra='score', purpose='for weighted F1 scores')
    golds, predictions = zip(*items, strict=True)
    return metrics.f1_score(golds, predictions, average='weighted')


_DETACHED = re.compile(r" (?=n't|\))|(?<=\() |(?<=\") | (?=\")| (?=['.,])")


def _join_tokens(text: str) -> str:
    """Words and punctuation without the spaces that a tokenizer put between them.

    >>> _join_tokens("He did n't , ( I think ) .")
    "He didn't, (I think)."
    """
    return _DETACHED.sub('', text)


@contextmanager
def importable(file: Path, *, installed: bool = False) -> Iterator[None]:
    """While a file beside a task runs: `datasets` is the stand-in, and `lm_eval.tasks` the folders it lies in.

    With `installed`, `datasets` is the installed package, which others like `evaluate` are built on. Modules of the
    task's own folder are forgotten afterwards, so that another task's `utils` is another module.
    """
    before = dict(sys.modules)
    _put_in_place(file, installed=installed)
    try:
        yield
    finally:
        exempt = ('datasets',) if installed else ()
        for name in [name for name, module in sys.modules.items() if _is_local(name, module, before, file.parent)]:
            if name.partition('.')[0] not in exempt:
                del sys.modules[name]
        sys.modules.update({name: module for name, module in before.items() if name not in sys.modules})


def _put_in_place(file: Path, *, installed: bool) -> None:
    replaced = ('lm_eval',) if installed else ('datasets', 'lm_eval')
    for name in [name for name in sys.modules if name.partition('.')[0] in replaced]:
        del sys.modules[name]
    if not installed:
        sys.modules['datasets'] = _datasets_module()
    root = next((folder for folder in file.parents if folder.name == 'tasks' and folder.parent.name == 'lm_eval'), None)
    if root is None:
        return
    for name, folder in (('lm_eval', root.parent), ('lm_eval.tasks', root)):
        package = sys.modules[name] = ModuleType(name)
        package.__path__ = [str(folder)]
    sys.modules['lm_eval'].tasks = sys.modules['lm_eval.tasks']  # type: ignore[attr-defined]  # as a package has it
    utils = sys.modules['lm_eval.utils'] = ModuleType('lm_eval.utils')
    vars(utils).update(weighted_f1_score=_weighted_f1_score, general_detokenize=_join_tokens)


def _is_local(name: str, module: object, before: Mapping[str, ModuleType], folder: Path) -> bool:
    if before.get(name) is module:
        return False
    if name.partition('.')[0] in ('datasets', 'lm_eval'):
        return True
    file = getattr(module, '__file__', None)
    return isinstance(file, str) and Path(file).parent == folder and name != file
