"""Retrieval by embedding: vectors of all training rows in memory, test rows in blocks, exact search.

Top-k takes the nearest rows; DPP those that also differ, vote-k those that represent many, MDL those that help most.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, ClassVar, TypeAlias

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.encoders import Encoder, SentenceEncoder, encode
from rolecall.sources.retrievers.pool import Pool, ProgressCounter, RetrieverSettings, numpy, search_text, top_indexes
from rolecall.sources.retrievers.retriever import Picked

Score: TypeAlias = Callable[[Row, Sequence[Row], 'Sequence[Any] | None'], Sequence[float]]
"""Given the test row, the shots and the labels, how probable each label is (any positive numbers in proportion)."""
NOTHING = 1e-10
Embedding: TypeAlias = Callable[[Iterable[str]], Iterator[Any]]

BLOCK_SCORES = 2**24  # test rows × training rows scored at a time: 64 MiB
BLOCK_ROWS = 512
SLACK, DECIMALS = 1e-4, 12


@dataclass(frozen=True, slots=True)
class DenseSettings(RetrieverSettings):
    """The settings of every retriever that embeds rows.

    `encoder` is any callable from texts to vectors; without one, the named sentence-transformers model is loaded.
    Vectors of a model, or of an encoder with a `name`, are kept on disk under `cache_dir`. `tokenizer_name` is
    accepted because configs have it; the encoder's own tokenizer is used.
    """

    ice_num: int = 1
    sentence_transformers_model_name: str = 'all-mpnet-base-v2'
    tokenizer_name: str = 'gpt2-xl'
    batch_size: int = 1
    encoder: Encoder | None = None
    cache_dir: str | os.PathLike[str] | None = None
    passes: ClassVar[int] = 1

    def problems(self) -> Iterator[Problem]:
        yield from RetrieverSettings.problems(self)
        if self.encoder is not None and not callable(self.encoder):
            yield Problem('encoder', f'{self.encoder!r} is not callable with a list of strings.')

    def check_pool(self, pool: Pool) -> None:
        numpy()
        pool.require_rows(self.ice_num)

    def embedding(self) -> Embedding:
        """What embeds texts, chunk by chunk."""
        encoder = self.encoder or SentenceEncoder(self.sentence_transformers_model_name, self.batch_size)
        return partial(encode, encoder=encoder, cache_dir=self.cache_dir)


@dataclass(frozen=True, slots=True)
class TopkRetriever(DenseSettings):
    """The `ice_num` training rows whose vectors have the largest inner product with the test row's, best first."""

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        for nearest in find_nearest(self, pool, test, self.ice_num, meter):
            yield pool.pick(nearest.ids, self.ice_num, nearest.position, nearest.row)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """A test row, its vector, and the training rows nearest to it: those wanted and those that may be skipped."""

    position: int
    row: Row
    ids: list[int]
    vector: Any
    vectors: Any  # of all training rows


def find_nearest(
    settings: DenseSettings, pool: Pool, test: Iterable[Row], wanted: int, meter: ProgressCounter
) -> Iterator[Neighbours]:
    """Every test row with at least the `wanted` nearest training rows that may be shown to it."""
    embedding = settings.embedding()
    vectors = training_vectors(embedding, pool, meter)
    longest = float(lengths_of(vectors).max())
    rows = enumerate(test)
    while block := list(islice(rows, block_size(len(vectors)))):
        texts = (search_text(row, position, 'test', pool.reader) for position, row in block)
        queries = numpy().concatenate(list(embedding(texts)))
        for (position, row), query, scores in zip(block, queries, queries @ vectors.T, strict=True):
            count = wanted + pool.spare(position, row)
            ids = best_exactly(scores, query, vectors, count, longest)
            meter.add()
            yield Neighbours(position, row, ids, query, vectors)


def training_vectors(embedding: Embedding, pool: Pool, meter: ProgressCounter) -> Any:
    parts = []
    for part in embedding(pool.texts()):
        parts.append(part)
        meter.add(len(part))
    return numpy().concatenate(parts)


def candidates_for(
    settings: DenseSettings, pool: Pool, test: Iterable[Row], count: int, meter: ProgressCounter
) -> Iterator[tuple[Neighbours, Picked]]:
    """Every test row with the `count` nearest training rows that may be shown to it, or all there are."""
    for nearest in find_nearest(settings, pool, test, count, meter):
        yield nearest, pool.pick(nearest.ids, count, nearest.position, nearest.row)


def too_few_candidates(candidate_num: int, ice_num: int) -> Iterator[Problem]:
    if type(candidate_num) is type(ice_num) is int and candidate_num < ice_num:
        yield Problem(
            'candidate_num',
            f'{ice_num} examples cannot be chosen from {candidate_num} candidates.',
            f'Set it to at least {ice_num}.',
        )


def block_size(training_rows: int) -> int:
    """How many test rows to score at a time."""
    return max(1, min(BLOCK_ROWS, BLOCK_SCORES // max(1, training_rows)))


def lengths_of(vectors: Any) -> Any:
    np = numpy()
    return np.sqrt(np.einsum('ij,ij->i', vectors, vectors))


def unit_length(vectors: Any) -> Any:
    lengths = lengths_of(vectors)
    return vectors / numpy().where(lengths > 0, lengths, 1)[:, None]


def best_exactly(scores: Any, query: Any, vectors: Any, count: int, longest: float) -> list[int]:
    """The best rows by double precision, among those whose single-precision score comes near enough.

    A block product may round differently with another block size, so near ties are decided here.
    """
    np = numpy()
    scale = longest * float(np.linalg.norm(query)) or 1.0
    near = np.sort(top_indexes(scores, count, slack=SLACK * scale))
    exact = np.round((vectors[near].astype(float) @ query.astype(float)) / scale, DECIMALS)
    return [int(index) for index in near[top_indexes(exact, count)]]


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


@dataclass(frozen=True, slots=True)
class VotekRetriever(DenseSettings):
    """Every training row votes for its `votek_k` nearest others (by cosine); the rows with most votes are taken.

    A row whose voters all voted for one row ranked before it is passed over. What is missing at the end is drawn
    by `seed`.
    """

    votek_k: int = 3
    seed: int = 1
    fixed: ClassVar[bool] = True
    passes: ClassVar[int] = 2

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

    def check_pool(self, pool: Pool) -> None:
        if self.score is None:
            raise ConfigError(
                Problem(
                    'score',
                    'MDLRetriever needs a model to compare examples with; none is specified.',
                    'Pass score=..., a callable from (row, shots, labels) to the probabilities of the labels.',
                )
            )
        DenseSettings.check_pool(self, pool)

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        generator = numpy().random.RandomState(self.seed)
        for nearest, near in candidates_for(self, pool, test, self.candidate_num, meter):
            draws = [near.ids[: self.ice_num]]
            for _ in range(self.select_time - 1 if near.ids else 0):
                order = generator.permutation(len(near.ids))[: self.ice_num]
                draws.append(tuple(near.ids[place] for place in order))
            yield Picked(self.pick_surest(draws, nearest.row, pool.train), near.skipped)

    def pick_surest(self, draws: Sequence[tuple[int, ...]], row: Row, train: Rows) -> tuple[int, ...]:
        score = self.score
        if len(draws) == 1 or score is None:
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
