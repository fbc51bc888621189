"""Retrieval by embedding: vectors of all training rows in memory, test rows in blocks, exact search."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from rolecall.errors import Problem
from rolecall.sources.datasets.rows import Row, Rows
from rolecall.sources.retrievers.encoders import Encoder, SentenceEncoder, encode
from rolecall.sources.retrievers.pool import Pool, search_text
from rolecall.sources.retrievers.retriever import (
    ColumnReader,
    Picked,
    Progress,
    ProgressCounter,
    RetrieverSettings,
    pick_nothing,
)
from rolecall.sources.retrievers.top_scores import numpy, top_indexes

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

    def problems(self) -> Iterator[Problem]:
        yield from RetrieverSettings.problems(self)
        if self.encoder is not None and not callable(self.encoder):
            yield Problem('encoder', f'{self.encoder!r} is not callable with a list of strings.')

    def pool(self, train: Rows, reader: ColumnReader, same_split: bool) -> Pool:
        """The training rows to pick from, if they are enough."""
        numpy()
        pool = Pool(train, reader, same_split)
        pool.require_rows(self.ice_num)
        return pool

    def embedding(self) -> Embedding:
        """What embeds texts, chunk by chunk."""
        encoder = self.encoder or SentenceEncoder(self.sentence_transformers_model_name, self.batch_size)
        return partial(encode, encoder=encoder, cache_dir=self.cache_dir)


@dataclass(frozen=True, slots=True)
class TopkRetriever(DenseSettings):
    """The `ice_num` training rows whose vectors have the largest inner product with the test row's, best first."""

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
        return (
            pool.pick(nearest.ids, self.ice_num, nearest.position, nearest.row)
            for nearest in find_nearest(self, pool, test, self.ice_num, ProgressCounter(progress, train, test))
        )


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
