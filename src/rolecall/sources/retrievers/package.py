"""A retriever of OpenCompass or AISBench, used as it is: a class made with a dataset, whose `retrieve()` lists ids."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from rolecall.checking import argument_problems, expected, is_whole
from rolecall.core.prompts.values import describe_value
from rolecall.errors import ConfigError, Problem
from rolecall.sources.datasets.arrow import as_hub_dataset
from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.pool import Pool
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, ProgressCounter
from rolecall.usercode import user_code


@dataclass(frozen=True, slots=True)
class PackageRetriever:
    """Asks a class of another package which training rows to show. A test row still never sees its own answer."""

    kind: type[Any]
    options: Mapping[str, Any]

    def __post_init__(self) -> None:
        problems = argument_problems(self.kind, self.options, skip=1)
        if not is_whole(self._setting('ice_num', 1), least=0):
            problems.append(expected('ice_num', 'a whole number', self.options.get('ice_num')))
        if problems:
            raise ConfigError(problems)

    @property
    def ice_num(self) -> int:
        return int(self._setting('ice_num', 1))

    @property
    def ice_separator(self) -> str:
        return str(self._setting('ice_separator', '\n'))

    @property
    def ice_eos_token(self) -> str:
        return str(self._setting('ice_eos_token', '\n'))

    @property
    def fixed(self) -> bool:
        return False

    def _setting(self, name: str, otherwise: Any) -> Any:
        """A setting as the config gives it, or the class's own default."""
        parameter = inspect.signature(self.kind).parameters.get(name)
        default = otherwise if parameter is None or parameter.default is parameter.empty else parameter.default
        return self.options.get(name, default)

    def retrieve(
        self,
        train: Rows,
        test: Iterable[Row],
        *,
        reader: ColumnReader,
        same_split: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Picked]:
        rows = list(test)
        pool = Pool(train, reader, same_split)
        dataset = SimpleNamespace(train=as_hub_dataset(train), test=as_hub_dataset(rows), reader=reader)
        with user_code(f'the retriever {self.kind.__name__}'):
            found = self.kind(dataset, **self.options).retrieve()
        ids = self._check_ids(found, len(rows), len(train))
        picks = (pool.pick(one, len(one), number, row) for number, (one, row) in enumerate(zip(ids, rows, strict=True)))
        return ProgressCounter(progress, rows).track(picks)

    def _check_ids(self, found: Any, rows: int, train: int) -> Sequence[Sequence[int]]:
        try:
            ids = [[int(one) for one in row] for row in found]
        except (TypeError, ValueError):
            ids = []
        if len(ids) != rows or any(not 0 <= one < train for row in ids for one in row):
            name = self.kind.__name__
            what = f'{name}.retrieve() must return a list of training row numbers for each of {rows} test rows'
            raise ConfigError(Problem('type', f'{what}, got {describe_value(found)}.'))
        return ids
