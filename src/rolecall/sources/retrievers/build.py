"""A retriever from its entry in a config."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

from rolecall.checking import argument_problems, expected, is_whole
from rolecall.core.prompts.pieces import describe_value
from rolecall.errors import ConfigError, Problem
from rolecall.registry import Registry, is_reference_class
from rolecall.sources.datasets.arrow import as_hub_dataset
from rolecall.sources.datasets.rows import Row
from rolecall.sources.retrievers.pool import Pool, PoolSearch, ProgressCounter
from rolecall.sources.retrievers.retriever import Picked, Retriever
from rolecall.usercode import user_code


@dataclass(frozen=True, slots=True)
class PackageRetriever(PoolSearch):
    """Delegates the choice of training rows to another package's class. A test row still never sees its own answer."""

    kind: type[Any]
    options: Mapping[str, Any]
    ice_num: int = field(init=False)
    ice_separator: str = field(init=False)
    ice_eos_token: str = field(init=False)
    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = argument_problems(self.kind, self.options, skip=1)
        parameters = inspect.signature(self.kind).parameters
        for name, usual in {'ice_num': 1, 'ice_separator': '\n', 'ice_eos_token': '\n'}.items():
            parameter = parameters.get(name)
            default = usual if parameter is None or parameter.default is parameter.empty else parameter.default
            object.__setattr__(self, name, self.options.get(name, default))
        if not is_whole(self.ice_num, least=0):
            problems.append(expected('ice_num', 'a whole number', self.options.get('ice_num')))
        if problems:
            raise ConfigError(problems)

    def check_pool(self, pool: Pool) -> None:
        """The package's class checks it."""

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        rows = list(test)
        dataset = SimpleNamespace(train=as_hub_dataset(pool.train), test=as_hub_dataset(rows), reader=pool.reader)
        with user_code(f'the retriever {self.kind.__name__}'):
            picked = self.kind(dataset, **self.options).retrieve()
        ids = self._check_ids(picked, len(rows), len(pool.train))
        return meter.track(
            pool.pick(shot_ids, len(shot_ids), number, row)
            for number, (shot_ids, row) in enumerate(zip(ids, rows, strict=True))
        )

    def _check_ids(self, picked: Any, rows: int, train: int) -> Sequence[Sequence[int]]:
        try:
            ids = [[int(shot_id) for shot_id in row] for row in picked]
        except (TypeError, ValueError):
            ids = []
        if len(ids) != rows or any(not 0 <= shot_id < train for row in ids for shot_id in row):
            name = self.kind.__name__
            what = f'{name}.retrieve() must return a list of training row numbers for each of {rows} test rows'
            raise ConfigError(Problem('type', f'{what}, got {describe_value(picked)}.'))
        return ids


_BUILTINS = {
    'ZeroRetriever': 'rolecall.sources.retrievers.simple:ZeroRetriever',
    'FixKRetriever': 'rolecall.sources.retrievers.simple:FixKRetriever',
    'RandomRetriever': 'rolecall.sources.retrievers.simple:RandomRetriever',
    'BM25Retriever': 'rolecall.sources.retrievers.bm25:BM25Retriever',
    'TopkRetriever': 'rolecall.sources.retrievers.dense:TopkRetriever',
    'VotekRetriever': 'rolecall.sources.retrievers.dense:VotekRetriever',
    'DPPRetriever': 'rolecall.sources.retrievers.dense:DPPRetriever',
    'MDLRetriever': 'rolecall.sources.retrievers.dense:MDLRetriever',
    'XiezhiRetriever': 'rolecall.sources.retrievers.simple:XiezhiRetriever',
    'SlidingWindowRetriever': 'rolecall.sources.retrievers.simple:SlidingWindowRetriever',
}
RETRIEVERS: Registry[type[Any]] = Registry('retriever', _BUILTINS, is_ours=lambda name: name in _BUILTINS)
PROTOCOL = ('ice_num', 'ice_separator', 'ice_eos_token', 'fixed', 'retrieve')


def build_retriever(source: object) -> Retriever:
    """The retriever that a config asks for: an object, or a `type` (class, name or dotted path) with its settings.

    A class of an installed OpenCompass or AISBench that is not one of ours is used as it is. All problems come at once.

    >>> build_retriever({'type': 'FixKRetriever', 'fix_id_list': [0, 1]}).ice_num
    2
    >>> build_retriever({'type': 'RandomRetriever', 'ice_nun': 3})
    Traceback (most recent call last):
        ...
    rolecall.errors.ConfigError: ice_nun
      RandomRetriever has no option 'ice_nun'.
      Did you mean 'ice_num'?
    """
    entry = source if isinstance(source, Mapping) else {'type': source}
    kind = entry.get('type')
    if is_reference_class(kind) and RETRIEVERS.builtin_name(kind) is None:
        return PackageRetriever(kind, {key: value for key, value in entry.items() if key != 'type'})
    retriever: Retriever = RETRIEVERS.build(source, protocol=PROTOCOL)
    return retriever
