"""Vote-k: training rows that represent many others, without overlap; the same for every test row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.dense import DenseSettings, best_exactly, block_size, training_vectors, unit_length
from rolecall.sources.retrievers.pool import Pool
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, ProgressCounter, pick_nothing
from rolecall.sources.retrievers.top_scores import numpy


@dataclass(frozen=True, slots=True)
class VotekRetriever(DenseSettings):
    """Every training row votes for its `votek_k` nearest others (by cosine); the rows with most votes are taken.

    A row whose voters all voted for one row ranked before it is passed over. What is missing at the end is drawn
    by `seed`.
    """

    votek_k: int = 3
    seed: int = 1
    fixed: ClassVar[bool] = True

    def retrieve(
        self,
        train: Rows,
        test: Iterable[Row],
        *,
        reader: ColumnReader,
        same_split: bool = False,
        progress: Progress | None = None,
    ) -> Iterator[Picked]:
        if self.ice_num == 0:
            return pick_nothing(test, progress)
        pool = self.pool(train, reader, same_split)
        return self.search(pool, test, ProgressCounter(progress, train, train, test))

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        vectors = training_vectors(self.embedding(), pool, meter)
        votes = voters_by_row(vectors, self.votek_k, meter)
        rank_rows = list(islice(self.rank_rows(votes, len(vectors)), self.ice_num + pool.most_spare))
        ids, substitutes = rank_rows[: self.ice_num], rank_rows[self.ice_num :]
        yield from meter.track(pool.pick_the_same(ids, lambda: substitutes, test))

    def rank_rows(self, votes: Mapping[int, Sequence[int]], size: int) -> Iterator[int]:
        """Every training row once, the best first."""
        taken: set[int] = set()
        for index in not_overshadowed(votes):
            taken.add(index)
            yield index
        drawn = numpy().random.RandomState(self.seed).permutation(size)
        yield from (index for index in drawn.tolist() if index not in taken)


def voters_by_row(vectors: Any, k: int, meter: ProgressCounter) -> dict[int, list[int]]:
    """Who voted for each row that got a vote, in the order of the first vote."""
    unit = unit_length(vectors)
    size = block_size(len(unit))
    votes: dict[int, list[int]] = {}
    for start in range(0, len(unit), size):
        for voter, scores in enumerate(unit[start : start + size] @ unit.T, start):
            near = best_exactly(scores, unit[voter], unit, k + 1, longest=1.0)
            for index in reversed([index for index in near if index != voter][:k]):
                votes.setdefault(index, []).append(voter)
            meter.add()
    return votes


def not_overshadowed(votes: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """Rows by number of votes, without those whose voters all voted for one row that ranks before.

    >>> list(not_overshadowed({0: [1, 2], 3: [1, 2, 4], 5: [4, 6]}))
    [3, 5]
    """
    order = sorted(votes, key=lambda index: -len(votes[index]))
    rank = {index: place for place, index in enumerate(order)}
    voters = {index: frozenset(by) for index, by in votes.items()}
    choices: dict[int, list[int]] = {}
    for index, by in votes.items():
        for voter in by:
            choices.setdefault(voter, []).append(index)
    for index in order:
        rivals = choices[votes[index][0]]  # a row with all of its voters has its first voter
        if not any(rank[rival] < rank[index] and voters[index] <= voters[rival] for rival in rivals):
            yield index
