"""Retrievers that ignore the text: none, fixed rows, random rows, the preceding rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import ClassVar

from rolecall.errors import ConfigError, Problem
from rolecall.sources.datasets.rows import Row
from rolecall.sources.retrievers.pool import Pool, ProgressCounter, RetrieverSettings
from rolecall.sources.retrievers.retriever import Picked, import_extra
from rolecall.strings import count_noun


@dataclass(frozen=True, slots=True)
class ZeroRetriever(RetrieverSettings):
    """No examples.

    >>> ZeroRetriever().ice_num
    0
    """

    ice_eos_token: str = ''
    ice_num: int = field(default=0, init=False, repr=False)
    fixed: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class FixKRetriever(RetrieverSettings):
    """The same training rows for every test row, in the order listed.

    A listed row that is, or equals, the test row gives way to the rows after the highest one listed.

    >>> FixKRetriever([0, 4, 2]).ice_num
    3
    """

    fix_id_list: Sequence[int]
    ice_num: int = 0  # as many as are listed
    fixed: ClassVar[bool] = True

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        object.__setattr__(self, 'fix_id_list', tuple(self.fix_id_list))
        object.__setattr__(self, 'ice_num', len(self.fix_id_list))

    def problems(self) -> Iterator[Problem]:
        yield from RetrieverSettings.problems(self)
        ids = self.fix_id_list
        if isinstance(ids, str) or not isinstance(ids, Sequence) or not all(type(index) is int for index in ids):
            yield Problem('fix_id_list', f'{ids!r} is not a list of row numbers.', 'Write it as [0, 1, 2].')
        else:
            yield from check_ice_num(self.ice_num, len(ids), 'fix_id_list')

    def check_pool(self, pool: Pool) -> None:
        size = len(pool.train)
        outside = [index for index in self.fix_id_list if not 0 <= index < size]
        if outside:
            raise ConfigError(
                Problem(
                    'fix_id_list',
                    f'no training row {", ".join(map(str, outside))}: the training set has {count_noun(size, "row")}.',
                    f'Rows are numbered from 0 to {size - 1}.' if size else '',
                )
            )

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        picks = pool.pick_the_same(self.fix_id_list, lambda: self.substitutes(len(pool.train)), test)
        return meter.track(picks)

    def substitutes(self, size: int) -> Iterator[int]:
        fixed = set(self.fix_id_list)
        after = max(fixed, default=-1) + 1
        return (index for index in chain(range(after, size), range(after)) if index not in fixed)


@dataclass(frozen=True, slots=True)
class RandomRetriever(RetrieverSettings):
    """Training rows drawn for each test row, without replacement, by one seeded stream."""

    ice_num: int = 1
    seed: int = 43

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        # The legacy generator is frozen by numpy, and its draws are those of the reference.
        generator = import_extra('numpy', purpose='to draw examples at random').random.RandomState(self.seed)
        return meter.track(
            pool.pick(map(int, generator.permutation(len(pool.train))), self.ice_num, position, row)
            for position, row in enumerate(test)
        )


@dataclass(frozen=True, slots=True)
class XiezhiRetriever(RetrieverSettings):
    """The first training rows that share a label with the test row, by the order of its `labels`."""

    ice_num: int = 1

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        by_label: dict[str, list[int]] = {}
        for index, row in enumerate(pool.train):
            for label in row.get('labels') or ():
                by_label.setdefault(label, []).append(index)
        return meter.track(
            pool.pick(
                dict.fromkeys(index for label in row.get('labels') or () for index in by_label.get(label, ())),
                self.ice_num,
                position,
                row,
            )
            for position, row in enumerate(test)
        )


@dataclass(frozen=True, slots=True)
class SlidingWindowRetriever(RetrieverSettings):
    """For test row i the k training rows just before row i, counted round the end of the training set.

    >>> SlidingWindowRetriever(k=3).ice_num
    3
    """

    k: int
    ice_num: int = 0  # k

    def __post_init__(self) -> None:
        RetrieverSettings.__post_init__(self)
        object.__setattr__(self, 'ice_num', self.k)

    def problems(self) -> Iterator[Problem]:
        yield from RetrieverSettings.problems(self)
        yield from check_ice_num(self.ice_num, self.k, 'k')

    def check_pool(self, pool: Pool) -> None:
        pool.require_rows(self.k, name='k')

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        return meter.track(
            nearest_last(pool.pick(rows_before(position, len(pool.train)), self.k, position, row))
            for position, row in enumerate(test)
        )


def rows_before(position: int, size: int) -> Iterator[int]:
    """Every row once, going back from the one before `position`.

    >>> list(rows_before(1, 4))
    [0, 3, 2, 1]
    """
    return (index % size for index in range(position - 1, position - 1 - size, -1))


def nearest_last(picked: Picked) -> Picked:
    return Picked(picked.ids[::-1], picked.skipped)


def check_ice_num(ice_num: int, actual: int, name: str) -> Iterator[Problem]:
    if ice_num not in (0, actual):
        yield Problem(
            'ice_num',
            f'{count_noun(ice_num, "example")} requested, but {name} gives {actual}.',
            f'Omit ice_num: {name} determines the number of examples.',
        )
