"""Samples the rows of a large run for its page: evenly over all rows, with more of the wrong ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from heapq import merge

from rolecall.runs.store.results import Result, SettledRows
from rolecall.ui.report.counts import Pair


class RowSample:
    """Up to `most` rows of each dataset × model: half spread over all of its rows, half over those that are not right.

    >>> sample = RowSample(4)
    >>> for row in range(100):
    ...     sample.add(Result('d', 'm', row, 'ok', correct=row % 10 != 3))
    >>> list(sample.rows()), sample.left_out
    ([('d', 'm', 0), ('d', 'm', 3), ('d', 'm', 64), ('d', 'm', 83)], Counter({('d', 'm'): 96}))
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._all: dict[Pair, _Spread] = {}
        self._wrong: dict[Pair, _Spread] = {}
        self._totals: Counter[Pair] = Counter()

    def add(self, result: Result | SettledRows) -> None:
        """See a row, or many."""
        pair = (result.dataset, result.model)
        if isinstance(result, SettledRows):
            wrong = [row for row, right in zip(result.rows, result.correct, strict=True) if right == 0]
            self._see(pair, result.rows, wrong)
        else:
            self._see(pair, [result.row], [result.row] if result.correct is False or result.outcome != 'ok' else [])

    def _see(self, pair: Pair, rows: Sequence[int], wrong: Sequence[int]) -> None:
        self._totals[pair] += len(rows)
        self._all.setdefault(pair, _Spread(self._most)).see(rows)
        self._wrong.setdefault(pair, _Spread(self._most // 2)).see(wrong)

    @property
    def left_out(self) -> Counter[Pair]:
        """How many rows of each dataset × model are not shown."""
        included = Counter((dataset, model) for dataset, model, _ in self.rows())
        return Counter({pair: total - included[pair] for pair, total in self._totals.items() if total > included[pair]})

    def rows(self) -> Iterator[tuple[str, str, int]]:
        """The rows to show, in order."""
        for pair, total in self._totals.items():
            if total <= self._most:
                chosen = self._all[pair].rows
            else:
                half = self._most - self._most // 2
                spread = self._all[pair].rows
                evenly = spread[:: -(-len(spread) // half)]
                chosen = list(dict.fromkeys(merge(evenly, self._wrong[pair].rows)))
            yield from ((*pair, row) for row in chosen)


class _Spread:
    """Keeps at most `most` of the numbers it sees, evenly spread: every one, every second, every fourth, …"""

    def __init__(self, most: int) -> None:
        self._most = most
        self._step = 1
        self._count = 0
        self.rows: list[int] = []

    def see(self, rows: Sequence[int]) -> None:
        self.rows += rows[-self._count % self._step :: self._step]
        self._count += len(rows)
        while len(self.rows) > self._most:
            self.rows = self.rows[::2]
            self._step *= 2
