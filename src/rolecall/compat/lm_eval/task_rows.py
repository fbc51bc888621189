"""The rows of a task: the splits that its file names, through `process_docs`, and the choice of its examples."""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from rolecall.compat.lm_eval.functions import call_function, seed_generators
from rolecall.compat.lm_eval.stand_ins import RowTable
from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import Function
from rolecall.errors import ConfigError, DataError, Problem, RolecallError, did_you_mean
from rolecall.sources.datasets import EMPTY, Dataset, FileOptions, ListRows, Reader, Rows, open_file
from rolecall.sources.datasets.folders import find_all, open_files, open_path
from rolecall.sources.datasets.rows import Splits
from rolecall.sources.retrievers import Picked
from rolecall.strings import count_noun

_FORMATS = ('json', 'csv', 'parquet', 'text')


@dataclass(frozen=True)
class LmRows:
    """Opens a task's rows."""

    task: LmTask
    _first: list[Any] = field(default_factory=list, repr=False, compare=False)

    def describe_part(self) -> dict[str, Any]:
        """Where the rows come from, to compare it with others."""
        return self.task.describe_keys(
            'dataset_path', 'dataset_name', 'dataset_kwargs', 'test_split', 'validation_split', 'process_docs'
        )

    @property
    def first_row(self) -> Row | None:
        """The first test row, once the rows are open: lm-eval interprets the fields by it."""
        return self._first[0] if self._first else None

    def open_dataset(self, *, base: Path | None, data: Mapping[str, Any] | None) -> Dataset:
        """The test rows, and the rows that examples come from."""
        task = self.task
        if task.eval_split is None:
            raise DataError(f'{task.name}: neither test_split nor validation_split is set in {task.file.path.name}.')
        for split in self._needed_splits() if data else ():
            if split not in (data or {}):
                raise DataError(self._missing(split, f'given are {", ".join(map(repr, data or ()))}.'))
        with _seeded():  # examples first, as lm-eval does: functions draw from one generator
            train = self._shot_pool(base, data) if task.num_fewshot else EMPTY
            if not task.num_fewshot and task.options.emulate:
                self._draw_for_pool(base, data)
            if task.num_fewshot and self._pool_is_test_split:
                test = train
            else:
                test = self._process(self._split(task.eval_split, base, data), task.get('process_docs'))
        self._first[:] = [next(iter(test), None)]
        reader = Reader(train_split=task.shot_split or 'train', test_split=task.eval_split)
        return Dataset(train, test, reader, task.name)

    @property
    def _pool_is_test_split(self) -> bool:
        """Whether examples come from the test rows, processed by the same function: then they are processed once."""
        config = self.task.fewshot_config
        return self.task.shot_split == self.task.eval_split and config['process_docs'] == self.task.get('process_docs')

    def _draw_for_pool(self, base: Path | None, data: Mapping[str, Any] | None) -> None:
        """Run the function of the examples for its random draws, as lm-eval does even without examples."""
        if self.task.fewshot_config['process_docs'] is not None and not self._pool_is_test_split:
            with suppress(RolecallError):  # rows that are not needed may be missing
                self._shot_pool(base, data)

    def _shot_pool(self, base: Path | None, data: Mapping[str, Any] | None) -> Rows:
        config, split = self.task.fewshot_config, self.task.shot_split
        if split is not None:
            return self._process(self._split(split, base, data), config['process_docs'])
        samples = config['samples']
        rows = call_function(samples) if isinstance(samples, Function) else samples
        if not isinstance(rows, list):
            raise DataError(f'{self.task.place("fewshot_config")}: samples must be a list of rows.')
        return ListRows.from_items(rows, 'fewshot_config.samples')

    def _split(self, name: str, base: Path | None, data: Mapping[str, Any] | None) -> Rows:
        if data:
            rows = data[name]
            if isinstance(rows, str | Path):
                return open_file(Path(rows))
            return ListRows.from_items(rows, f'data[{name!r}]')
        splits = self._splits(base)
        if splits is None:
            if hint := (self.task.get('metadata') or {}).get('rows_from'):
                raise DataError(str(hint))
            where = f'{self.task.get("dataset_path")!r} is not a folder here'
            raise DataError(self._missing(name, f'{where}, and nothing is downloaded unasked.'))
        if name not in splits:
            raise DataError(self._missing(name, f'there are {", ".join(map(repr, splits))}.'))
        return splits[name]

    def _splits(self, base: Path | None) -> Splits | None:
        """The splits of local files: those of a folder, or files named in `dataset_kwargs`; the hub's if asked for."""
        task = self.task
        path, kwargs = str(task.get('dataset_path') or ''), dict(task.get('dataset_kwargs') or {})
        if isinstance(custom := task.get('custom_dataset'), Function):
            return self._make_splits(custom, {**(task.get('metadata') or {}), **kwargs})
        files = kwargs.get('data_files')
        if path in _FORMATS and files:
            options = FileOptions(fallback=path)
            named = files if isinstance(files, dict) else {'train': files}
            by_split = {
                split: [patterns] if isinstance(patterns, str) else patterns for split, patterns in named.items()
            }
            return {
                split: open_files([place for file in patterns for place in find_all(file, base)], options)
                for split, patterns in by_split.items()
            }
        local = Path(base or '', path)
        if path and local.exists():
            return open_path([local / str(task.get('dataset_name') or '')])
        if not task.options.hub:
            return None
        from rolecall.sources.datasets.arrow import open_hub

        name = task.get('dataset_name')
        return open_hub(path, {**kwargs, **({'name': name} if name else {})})

    def _make_splits(self, custom: Function, options: Mapping[str, Any]) -> Splits:
        """The splits that a task's own function builds from its metadata and `dataset_kwargs`."""
        splits = call_function(custom, **options)
        if not isinstance(splits, Mapping):
            raise DataError(f'{custom.place}: {custom.name} returned {type(splits).__name__}, not splits by name.')
        return {str(name): ListRows.from_items(rows, f'{custom.name}()') for name, rows in splits.items()}

    def _needed_splits(self) -> list[str]:
        named = (self.task.eval_split, self.task.shot_split if self.task.num_fewshot else None)
        return list(dict.fromkeys(split for split in named if split is not None))

    def _missing(self, name: str, why: str) -> str:
        files = ' '.join(f'{split}=FILE' for split in self._needed_splits())
        remedy = f'Give them with --data {files}, or let them be downloaded with --hub.'
        return f'{self.task.name}: no rows of the split {name!r}: {why} {remedy}'

    def _process(self, rows: Rows, function: Function | None) -> Rows:
        if function is None:
            return rows
        if not self.task.options.emulate:
            seed_generators()  # rows that are asked about do not depend on whether there are examples
        processed = call_function(function, RowTable(rows))
        if not isinstance(processed, Iterable):
            raise DataError(f'{function.place}: {function.name} returned {type(processed).__name__}, not rows.')
        return ListRows.from_items(processed, f'{function.name}()')


@contextmanager
def _seeded() -> Iterator[None]:
    """Seed the generators that functions use, so that shuffled choices are reproducible."""
    numpy = sys.modules.get('numpy')
    before, of_numpy = random.getstate(), numpy.random.get_state() if numpy else None
    seed_generators()
    try:
        yield
    finally:
        random.setstate(before)
        if numpy:
            numpy.random.set_state(of_numpy)


_SAMPLERS = ('default', 'first_n')


@dataclass(frozen=True)
class ShotSampler:
    """A task's sampler. By default a row's examples depend on that row and the seed alone.

    With `emulate='lm-eval'` they are drawn as lm-eval draws them: by one generator for all rows in order, so that they
    depend on the rows before, and without leaving out the row itself unless the splits have the same name.
    """

    task: LmTask
    ice_separator: str = ''
    ice_eos_token: str = ''

    def __post_init__(self) -> None:
        sampler = self.task.fewshot_config['sampler']
        if sampler not in _SAMPLERS:
            where = f'{self.task.place("fewshot_config")}: fewshot_config.sampler'
            raise ConfigError(Problem(where, f'unknown sampler {sampler!r:.60}.', did_you_mean(sampler, _SAMPLERS)))

    def describe_part(self) -> dict[str, Any]:
        """What the choice of examples depends on, for its digest."""
        options = self.task.options
        own = {'num_fewshot': self.ice_num, 'seed': options.fewshot_seed, 'emulate': options.emulate}
        return {**self.task.describe_keys('fewshot_config', 'fewshot_split', 'training_split'), **own}

    @property
    def ice_num(self) -> int:
        """How many examples a row asks for."""
        return self.task.num_fewshot

    @property
    def fixed(self) -> bool:
        """Whether every row gets the same examples."""
        return self.ice_num == 0

    def retrieve(
        self,
        train: Sequence[Row],
        test: Iterable[Row],
        *,
        reader: Any = None,
        same_split: bool = False,
        progress: Any = None,
    ) -> Iterator[Picked]:
        """The examples of each row."""
        if self.ice_num == 0:
            return (Picked(()) for _ in test)
        pool = _Pool(train)
        if self.task.options.emulate == 'lm-eval':
            return self._retrieve_as_lm_eval(pool, test)
        return (self._pick(pool, row) for row in test)

    def _pick(self, pool: _Pool, row: Row) -> Picked:
        skipped = pool.equal_to(row)
        candidates = [i for i in range(len(pool.rows)) if i not in skipped] if skipped else range(len(pool.rows))
        self._check(len(candidates))
        if self.task.fewshot_config['sampler'] == 'first_n':
            return Picked(tuple(candidates[: self.ice_num]), tuple(sorted(skipped)))
        seed = f'{self.task.options.fewshot_seed} {_digest(row)}'
        return Picked(tuple(Random(seed).sample(candidates, self.ice_num)), tuple(sorted(skipped)))

    def _retrieve_as_lm_eval(self, pool: _Pool, test: Iterable[Row]) -> Iterator[Picked]:
        generator = Random(self.task.options.fewshot_seed)
        leaves_out = self.task.fewshot_config['split'] == self.task.get('test_split')
        everything = range(len(pool.rows))
        for row in test:
            equal = pool.equal_to(row) if leaves_out else frozenset()
            others = [i for i in everything if i not in equal]
            if self.task.fewshot_config['sampler'] == 'first_n':
                self._check(len(others))
                yield Picked(tuple(others[: self.ice_num]))
                continue
            count = self.ice_num + (1 if leaves_out and row else 0)
            self._check(len(pool.rows), count)
            drawn = [i for i in generator.sample(everything, count) if i not in equal][: self.ice_num]
            if len(drawn) < self.ice_num:
                self._check(len(others))
                drawn = generator.sample(others, self.ice_num)
            yield Picked(tuple(drawn))

    def _check(self, there: int, wanted: int | None = None) -> None:
        if there < (wanted or self.ice_num):
            split = self.task.shot_split
            source = f'the split {split!r}' if split else 'fewshot_config.samples'
            what = (
                f'{self.task.name} asks for {count_noun(wanted or self.ice_num, "example")}, and {source} has {there}.'
            )
            raise ConfigError(Problem(self.task.place('num_fewshot'), what))


class _Pool:
    """The rows that may be examples, and which of them equal a row."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = rows
        self._by_digest: dict[str, set[int]] | None = None

    def equal_to(self, row: Row) -> frozenset[int]:
        if self._by_digest is None:
            self._by_digest = {}
            for i in range(len(self.rows)):
                self._by_digest.setdefault(_digest(self.rows[i]), set()).add(i)
        return frozenset(self._by_digest.get(_digest(row), ()))


def _digest(row: Row) -> str:
    text = json.dumps(row, sort_keys=True, default=repr, ensure_ascii=False)
    return hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()
