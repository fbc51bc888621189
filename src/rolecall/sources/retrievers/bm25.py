"""BM25: the training rows whose words best match the test row.

Okapi's formula with the negative-idf floor of `rank_bm25`. Weights are precomputed in a sparse matrix; a query sums
the columns of its terms.

Terms need no downloaded data. English follows the Penn Treebank conventions (those of `nltk.word_tokenize`), case kept.
Scripts written without spaces (Chinese, Japanese, Thai, …) become overlapping pairs of characters, the usual search
terms for them.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

from rolecall.errors import Problem
from rolecall.sources.datasets.rows import Row
from rolecall.sources.retrievers.pool import Pool, ProgressCounter, RetrieverSettings, search_text, top_indexes
from rolecall.sources.retrievers.retriever import Picked, import_extra

UNSPACED = (
    '\u0e00-\u0eff'  # Thai, Lao
    '\u1000-\u109f'  # Myanmar
    '\u1780-\u17ff'  # Khmer
    '\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff'  # kana and iteration marks
    '\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd'  # Han
)
MARKS = (
    r'\[\](){}<>;@#$%&?!"*'
    '“”‘’„«»–—'
    '\u3001-\u3004\u3008-\u301f\u3030\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65'  # wide punctuation
)
ABBREVIATIONS = (
    'Adm|Ave|Bros|Capt|Co|Col|Corp|Dr|Gen|Gov|Inc|Jr|Lt|Ltd|Maj|Messrs|Mr|Mrs|Ms|Mt|Prof|Rep|Rev|Sen|Sgt|Sr|St|vs|'
    'Jan|Feb|Aug|Sept|Sep|Oct|Nov|Dec|Mon|Tues|Wed|Fri'
)
TERM = re.compile(
    r'[A-Za-z]{2,}(?=\s)'  # most words
    rf'|[{UNSPACED}]+'
    r'|\.{2,}|--'
    rf'|(?<![\w’])(?:{ABBREVIATIONS}|[A-Za-z](?:\.[A-Za-z])*)\.(?=\s+\S)'
    rf'|(?:[^\s{MARKS}{UNSPACED},:.\-]+|[,:](?=\d)|\.(?=[^\s.{MARKS}{UNSPACED}\'])|-(?!-))+'
    rf'|[{MARKS},:.]'
)
ENCLITIC = re.compile(rf"(?<=[^\s'])(n't|'(?:s|m|d|ll|re|ve)?)(?=[\s{MARKS},:.\-]|$)", re.IGNORECASE)
CANNOT = re.compile(r'\bcannot\b')
OPENING = re.compile(r"(?:(?<=\s)|^)'(?=\w)")
RUN = re.compile(rf'[{UNSPACED}]{{2,}}')


def words(text: str) -> list[str]:
    """The search terms of a text, in order, repetitions kept.

    >>> words("She didn't eat 3,000 eggs. Mr. Smith's cat did!")
    ['She', 'did', "n't", 'eat', '3,000', 'eggs', '.', 'Mr.', 'Smith', "'s", 'cat', 'did', '!']
    >>> words('小明有3个苹果。')
    ['小明', '明有', '3', '个苹', '苹果', '。']
    """
    if 'annot' in text:
        text = CANNOT.sub('can not', text)
    if "'" in text:
        text = ENCLITIC.sub(r' \1', OPENING.sub("' ", text))
    return TERM.findall(text if text.isascii() else RUN.sub(overlapping_pairs, text))


def overlapping_pairs(run: re.Match[str]) -> str:
    return f' {" ".join(map("".join, pairwise(run[0])))} '


@dataclass(frozen=True, slots=True)
class BM25Retriever(RetrieverSettings):
    """The `ice_num` training rows with the highest BM25 score, the best first.

    `tokenizer` turns a text into its terms; `words` unless another is given.
    """

    ice_num: int = 1
    tokenizer: Callable[[str], Iterable[str]] = words
    k1: float = 1.5
    b: float = 0.75
    epsilon: float = 0.25
    passes: ClassVar[int] = 1

    def problems(self) -> Iterator[Problem]:
        yield from RetrieverSettings.problems(self)
        if not callable(self.tokenizer):
            yield Problem('tokenizer', f'{self.tokenizer!r} is not callable with a string.')

    def check_pool(self, pool: Pool) -> None:
        import_extra('scipy.sparse', purpose='to search with BM25')
        pool.require_rows(self.ice_num)

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        index = Okapi(self.training_terms(pool, meter), k1=self.k1, b=self.b, epsilon=self.epsilon)
        for position, row in enumerate(test):
            terms = self.tokenizer(search_text(row, position, 'test', pool.reader))
            ranked = top_indexes(index.scores(terms), self.ice_num + pool.spare(position, row))
            meter.add()
            yield pool.pick(ranked.tolist(), self.ice_num, position, row)

    def training_terms(self, pool: Pool, meter: ProgressCounter) -> Iterator[Iterable[str]]:
        for text in pool.texts():
            yield self.tokenizer(text)
            meter.add()


class Okapi:
    """An index of documents: the weight of each term in each document.

    >>> index = Okapi([['a', 'cat'], ['a', 'dog'], ['a', 'red', 'dog']])
    >>> index.scores(['red', 'dog', 'zebra']).argmax().item()
    2
    """

    def __init__(
        self, documents: Iterable[Iterable[str]], *, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25
    ) -> None:
        np = import_extra('numpy', purpose='to search with BM25')
        sparse = import_extra('scipy.sparse', purpose='to search with BM25')
        self.numbers: dict[str, int] = {}
        numbers = self.numbers
        terms, lengths = array('i'), array('q')
        for document in documents:
            term_ids = [numbers.setdefault(term, len(numbers)) for term in document]
            terms.extend(term_ids)
            lengths.append(len(term_ids))
        starts = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
        counts = sparse.csr_array(
            (np.ones(len(terms)), np.array(terms, dtype=np.int32), starts), shape=(len(lengths), len(numbers))
        )
        counts.sum_duplicates()
        self.weights = okapi_weights(counts.tocsc(), np.array(lengths), k1=k1, b=b, epsilon=epsilon)

    def scores(self, query: Iterable[str]) -> Any:
        """The score of every document; a term that stands twice in the query counts twice."""
        np = import_extra('numpy', purpose='to search with BM25')
        counts = Counter(self.numbers[term] for term in query if term in self.numbers)
        return self.weights[:, list(counts)] @ np.fromiter(counts.values(), dtype=float, count=len(counts))


def okapi_weights(counts: Any, lengths: Any, *, k1: float, b: float, epsilon: float) -> Any:
    """Term counts (documents in rows, terms in columns) made into what each term adds to each document's score."""
    np = import_extra('numpy', purpose='to search with BM25')
    documents = counts.shape[0]
    frequency = np.diff(counts.indptr)
    idf = np.log(documents - frequency + 0.5) - np.log(frequency + 0.5)
    if len(idf):
        idf[idf < 0] = epsilon * idf.mean()
    length = lengths / max(lengths.mean(), 1e-300) if documents else lengths
    count = counts.data
    saturation = k1 * (1 - b + b * length[counts.indices])
    counts.data = np.repeat(idf, frequency) * (count * (k1 + 1) / (count + saturation))
    return counts
