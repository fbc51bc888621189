"""BM25 and dense retrieval: 2,000 test rows against 10,000 and 100,000 training rows.

    python benchmarks/retrievers.py [--reference-python PATH] [--rows N ...] [--queries N]

With the path of a Python that has `rank_bm25`, the same terms are searched with it too, a few queries in the same
run, and the ratio and the equality of the picks are printed. (Its time for all queries is extrapolated.)
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import resource
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rolecall.sources.retrievers import BM25Retriever, Picked, TopkRetriever, words

SHOTS = 8
REFERENCE = """
import json, sys, time
import numpy as np
from rank_bm25 import BM25Okapi
given = json.load(open(sys.argv[1]))
began = time.perf_counter()
index = BM25Okapi(given['train'])
built = time.perf_counter()
picks = [np.argsort(index.get_scores(query))[::-1][:given['shots']].tolist() for query in given['queries']]
print(json.dumps({'index': built - began, 'queries': time.perf_counter() - built, 'picks': picks}))
"""


@dataclass(frozen=True)
class Columns:
    input_columns: tuple[str, ...] = ('question',)
    output_column: str | None = None


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument('--rows', type=int, nargs='*', default=[10_000, 100_000])
    options.add_argument('--queries', type=int, default=2_000)
    options.add_argument('--reference-python')
    options.add_argument('--reference-queries', type=int, default=5)
    chosen = options.parse_args()
    for rows in chosen.rows:
        train, test = questions(rows, seed=1), questions(chosen.queries, seed=2)
        print(f'{rows:,} training rows × {len(test):,} test rows, {SHOTS} examples each')
        picks, seconds = timed(BM25Retriever(SHOTS), train, test)
        if chosen.reference_python:
            compare(chosen.reference_python, train, test, picks, seconds, chosen.reference_queries)
        timed(TopkRetriever(SHOTS, encoder=random_vectors()), train, test)


def timed(retriever: Any, train: list[dict[str, str]], test: list[dict[str, str]]) -> tuple[list[Picked], float]:
    began = time.perf_counter()
    picks = retriever.retrieve(train, test, reader=Columns())
    first = next(picks)
    indexed = time.perf_counter()
    rest = list(picks)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f'  {type(retriever).__name__:15} index {indexed - began:6.2f} s, rows {ended - indexed:6.2f} s, '
        f'together {ended - began:6.2f} s; peak memory so far {peak:,.0f} MiB'
    )
    return [first, *rest], ended - began


def compare(
    python: str, train: list[dict[str, str]], test: list[dict[str, str]], picks: list[Picked], seconds: float, few: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        given = Path(folder, 'given.json')
        terms = {
            'train': [words(row['question']) for row in train],
            'queries': [words(row['question']) for row in test[:few]],
            'shots': SHOTS,
        }
        given.write_text(json.dumps(terms))
        done = subprocess.run([python, '-c', REFERENCE, str(given)], capture_output=True, text=True, check=True)
    reference = json.loads(done.stdout)
    whole = reference['index'] + reference['queries'] / few * len(test)
    same = sum(list(ours.ids) == theirs for ours, theirs in zip(picks, reference['picks'], strict=False))
    print(
        f'  rank_bm25       index {reference["index"]:6.2f} s, {reference["queries"] / few:.3f} s a query: '
        f'{whole:,.0f} s for all (extrapolated), {whole / seconds:,.0f} times as long (and without making terms); '
        f'same {SHOTS} picks in {same} of {few} queries'
    )


def questions(count: int, *, seed: int) -> list[dict[str, str]]:
    """Rows of 60 words with the frequencies of a language (Zipf), from 30,000 words."""
    letters = 'bcdfghjklmnprstvwz'
    syllables = [consonant + vowel for consonant in letters for vowel in 'aeiou']
    vocabulary = [''.join(parts) for parts in itertools.islice(itertools.product(syllables, repeat=3), 30_000)]
    random.Random(0).shuffle(vocabulary)
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(vocabulary) + 1)))
    draw = random.Random(seed)
    return [{'question': ' '.join(draw.choices(vocabulary, cum_weights=weights, k=60))} for _ in range(count)]


def random_vectors(dimensions: int = 384) -> Any:
    stream = np.random.default_rng(0)

    def encode(texts: list[str]) -> Any:
        return stream.standard_normal((len(texts), dimensions), dtype=np.float32)

    return encode


if __name__ == '__main__':
    main()
