"""Rows drawn at random: which ones follows from a seed, and a larger draw holds every smaller one."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping, Sequence
from heapq import merge
from operator import itemgetter

from rolecall.scoring.groups import DatasetGroup
from rolecall.strings import count_noun


class RowDraw:
    """The rows of some datasets in a random order, dealt in turn so that each has its share of every beginning.

    Asked about are those from `begin` to `end` of each pool: the datasets whose rows are drawn together.

    >>> draw = RowDraw([{'easy': 40, 'hard': 20}], end=6, seed=1)
    >>> [len(draw.numbers(dataset)) for dataset in ('easy', 'hard')], draw.size
    ([4, 2], 60)
    >>> larger = RowDraw([{'easy': 40, 'hard': 20}], end=30, seed=1)
    >>> set(draw.numbers('hard')) <= set(larger.numbers('hard'))
    True
    """

    def __init__(
        self,
        pools: Sequence[Mapping[str, int]],
        *,
        end: int | None = None,
        seed: int = 0,
        rows: Sequence[int] | None = None,
    ) -> None:
        """With `rows`, those of each dataset that have these numbers, and no others."""
        self.seed = seed
        self._chosen = rows is not None
        self.begin = 0
        self.end = end
        self.totals = {dataset: total for pool in pools for dataset, total in pool.items()}
        self._orders = [
            _deal(pool, seed)
            if rows is None
            else [(name, row) for name, total in pool.items() for row in rows if row < total]
            for pool in pools
        ]

    @property
    def size(self) -> int:
        """How many rows there are to draw from, in the largest pool."""
        return max(map(len, self._orders), default=0)

    def numbers(self, dataset: str) -> array[int]:
        """The rows of a dataset that are asked about, ascending."""
        places = (place for order in self._orders for place in order[self.begin : self.end])
        return array('Q', sorted(number for name, number in places if name == dataset))

    def describe(self, dataset: str, rows: int) -> str:
        """What the rows of a dataset are."""
        how = 'by number' if self._chosen else f'drawn at random (seed {self.seed})'
        return f'{rows:,} of {count_noun(self.totals[dataset], "row")}, {how}'

    def share_left(self, dataset: str, rows: int) -> float:
        """The share of a dataset's rows that is not among these."""
        return 1 - rows / max(self.totals[dataset], 1)


def _deal(pool: Mapping[str, int], seed: int) -> list[tuple[str, int]]:
    """The rows of all datasets, each dataset shuffled and spread evenly over the whole."""
    return [place for _, place in merge(*(_spread(*dataset, seed) for dataset in pool.items()), key=itemgetter(0))]


def _spread(dataset: str, total: int, seed: int) -> list[tuple[float, tuple[str, int]]]:
    chance = random.Random(f'{seed} {total}')  # not by name: variants of a dataset are asked about the same rows
    numbers = list(range(total))
    chance.shuffle(numbers)
    start = chance.random()
    return [((place + start) / total, (dataset, number)) for place, number in enumerate(numbers)]


def pool_by_groups(totals: Mapping[str, int], groups: Sequence[DatasetGroup]) -> list[dict[str, int]]:
    """Datasets of one group, however deep it is nested, share a draw; others have one each.

    >>> from rolecall.scoring.groups import read_groups
    >>> pool_by_groups({'a': 5, 'b': 6, 'c': 7}, read_groups({'groups': {'all': ['inner'], 'inner': ['a', 'b']}}))
    [{'a': 5, 'b': 6}, {'c': 7}]
    """
    members = {group.name: [member.name for member in group.members] for group in groups}
    inner = {name for names in members.values() for name in names}

    def expand(name: str) -> list[str]:
        return [dataset for member in members[name] for dataset in expand(member)] if name in members else [name]

    pools: list[dict[str, int]] = []
    left = dict(totals)
    for name in members:
        pool = {dataset: left.pop(dataset) for dataset in expand(name) if name not in inner and dataset in left}
        pools += [pool] if pool else []
    return [*pools, *({dataset: total} for dataset, total in left.items())]
