"""DPP: of the training rows near the test row, those that are both near and different from each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from rolecall.errors import Problem
from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.dense import DenseSettings, candidates_for, too_few_candidates, unit_length
from rolecall.sources.retrievers.pool import Pool
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, ProgressCounter, pick_nothing
from rolecall.sources.retrievers.top_scores import numpy

NOTHING = 1e-10


@dataclass(frozen=True, slots=True)
class DPPRetriever(DenseSettings):
    """Chooses `ice_num` of the `candidate_num` nearest rows by greedy inference on a determinantal point process.

    A smaller `scale_factor` weighs nearness more. The chosen rows are ordered by nearness. (`seed` is accepted
    because configs have it; nothing is random here.)
    """

    candidate_num: int = 1
    seed: int = 1
    scale_factor: float = 0.1

    def problems(self) -> Iterator[Problem]:
        yield from DenseSettings.problems(self)
        yield from too_few_candidates(self.candidate_num, self.ice_num)
        if isinstance(self.scale_factor, (int, float)) and self.scale_factor <= 0:
            yield Problem('scale_factor', f'must be greater than 0, got {self.scale_factor}.')

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
        return self.search(pool, test, ProgressCounter(progress, train, test))

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        for nearest, near in candidates_for(self, pool, test, self.candidate_num, meter):
            kernel = self.kernel(nearest.vector, nearest.vectors[list(near.ids)])
            chosen = sorted(most_spread(kernel, self.ice_num), key=lambda place: (-kernel[place, place], place))
            yield Picked(tuple(near.ids[place] for place in chosen), near.skipped)

    def kernel(self, query: Any, vectors: Any) -> Any:
        """How near each candidate is to the test row, times how alike candidates are; all from 0 to 1."""
        np = numpy()
        unit = unit_length(vectors.astype(float))
        nearness = (unit @ unit_length(query[None].astype(float))[0] + 1) / 2
        weight = np.exp((nearness - nearness.max(initial=0)) / (2 * self.scale_factor))
        return weight[:, None] * (unit @ unit.T + 1) / 2 * weight


def most_spread(kernel: Any, count: int) -> list[int]:
    """Places of items whose submatrix has a large determinant, found greedily, in the order found.

    Where nothing independent is left, the first of the remaining places are taken.

    >>> import numpy
    >>> most_spread(numpy.array([[1.0, 0.99, 0.1], [0.99, 0.98, 0.1], [0.1, 0.1, 0.5]]), 2)
    [0, 2]
    """
    np = numpy()
    gain = kernel.diagonal().copy()
    factors = np.zeros((count, len(gain)))
    chosen: list[int] = []
    while len(chosen) < min(count, len(gain)):
        place = int(gain.argmax())
        if gain[place] < NOTHING:
            return chosen + [other for other in range(len(gain)) if other not in chosen][: count - len(chosen)]
        done = len(chosen)
        factors[done] = (kernel[place] - factors[:done, place] @ factors[:done]) / math.sqrt(gain[place])
        gain -= factors[done] ** 2
        gain[place] = -math.inf
        chosen.append(place)
    return chosen
