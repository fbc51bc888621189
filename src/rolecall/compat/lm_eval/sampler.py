"""Chooses the example rows: drawn by a seed, or the first ones, and never the test row itself."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.sources.retrievers import Picked
from rolecall.strings import count_noun

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
