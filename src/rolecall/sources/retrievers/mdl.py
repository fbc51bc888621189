"""MDL: draws several sets of near training rows and keeps the one that makes the model most certain of a label."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.dense import DenseSettings, candidates_for, too_few_candidates
from rolecall.sources.retrievers.pool import Pool
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, ProgressCounter, pick_nothing
from rolecall.sources.retrievers.top_scores import numpy

Score: TypeAlias = Callable[[Row, Sequence[Row], 'Sequence[Any] | None'], Sequence[float]]
"""Given the test row, the shots and the labels, how probable each label is (any positive numbers in proportion)."""


@dataclass(frozen=True, slots=True)
class MDLRetriever(DenseSettings):
    """Tries `select_time` sets of examples and keeps the one with the lowest entropy over the labels.

    The first set is the `ice_num` nearest rows, the others are drawn by `seed` from the `candidate_num` nearest.
    `score` is the model. Which model and templates a config names (`ce_model_name`, `ice_template`,
    `prompt_template`) is ignored; the `score` decides.
    """

    candidate_num: int = 1
    ce_model_name: str = 'gpt2-xl'
    select_time: int = 5
    ice_template: Any = None
    prompt_template: Any = None
    labels: Sequence[Any] | None = None
    seed: int = 1
    score: Score | None = None

    def problems(self) -> Iterator[Problem]:
        yield from DenseSettings.problems(self)
        yield from too_few_candidates(self.candidate_num, self.ice_num)
        if self.select_time == 0:
            yield Problem('select_time', 'must be at least 1.')

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
        if self.score is None:
            raise ConfigError(
                Problem(
                    'score',
                    'MDLRetriever needs a model to compare examples with; none is specified.',
                    'Pass score=..., a callable from (row, shots, labels) to the probabilities of the labels.',
                )
            )
        pool = self.pool(train, reader, same_split)
        return self.search(self.score, pool, test, ProgressCounter(progress, train, test))

    def search(self, score: Score, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        generator = numpy().random.RandomState(self.seed)
        for nearest, near in candidates_for(self, pool, test, self.candidate_num, meter):
            draws = [near.ids[: self.ice_num]]
            for _ in range(self.select_time - 1 if near.ids else 0):
                order = generator.permutation(len(near.ids))[: self.ice_num]
                draws.append(tuple(near.ids[place] for place in order))
            yield Picked(self.pick_surest(draws, nearest.row, pool.train, score), near.skipped)

    def pick_surest(self, draws: Sequence[tuple[int, ...]], row: Row, train: Rows, score: Score) -> tuple[int, ...]:
        if len(draws) == 1:
            return draws[0]
        return min(draws, key=lambda ids: entropy(score(row, [train[index] for index in ids], self.labels)))


def entropy(weights: Sequence[float]) -> float:
    """How undecided a distribution is; the weights need not add up to 1.

    >>> entropy([1, 1]) > entropy([3, 1]) > entropy([1, 0]) == 0
    True
    """
    total = math.fsum(weights)
    if not 0 < total < math.inf:
        raise DataError(f'the score of MDLRetriever returned {list(weights)}; expected probabilities.')
    return -math.fsum(weight / total * math.log(weight / total) for weight in weights if weight > 0) + 0.0
