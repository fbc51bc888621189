"""Training rows as candidates, the rule that a test row never sees its own answer, and what all searches share."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

from rolecall.errors import ConfigError, DataError, Problem
from rolecall.sources.datasets.rows import Row, Rows, list_names
from rolecall.sources.retrievers.retriever import ColumnReader, Picked, Progress, import_extra
from rolecall.strings import count_noun

FIELD = re.compile(r'\{([^{}]*)\}')
OPENING, OPENING_READ = 12, 64


@dataclass
class Pool:
    """The training rows, able to recognise a test row among them.

    Two rows are the same question when their input columns are equal after Unicode normalisation (NFKC), case
    folding and collapsing white space. Identities are computed when first asked for, and kept.
    """

    train: Rows
    reader: ColumnReader
    same_split: bool
    identities: dict[int, bytes] = field(default_factory=dict)

    def texts(self) -> Iterator[str]:
        """The searchable text of every training row. Identities are computed in the same pass: rows are read once."""
        for index, row in enumerate(self.train):
            if self.reader.input_columns:
                self.identities[index] = hash_question(join_inputs(row, index, 'training', self.reader))
            yield search_text(row, index, 'training', self.reader)

    def pick(self, candidates: Iterable[int], wanted: int, position: int, row: Row) -> Picked:
        """The first `wanted` candidates that are not the test row and do not ask the same question."""
        itself = position if self.same_split else None
        identity = self.test_identity(position, row) if wanted else None
        ids: list[int] = []
        skipped: list[int] = []
        for index in candidates:
            if len(ids) == wanted:
                break
            twin = index == itself or (identity is not None and self.identity(index) == identity)
            (skipped if twin else ids).append(index)
        return Picked(tuple(ids), tuple(skipped))

    def pick_the_same(
        self, ids: Sequence[int], substitutes: Callable[[], Iterable[int]], test: Iterable[Row]
    ) -> Iterator[Picked]:
        """`ids` for every test row; a row that is, or asks the same as, one of them gets a substitute."""
        usual = Picked(tuple(ids))
        itself = frozenset(ids) if self.same_split else frozenset()
        openings = self.openings(ids)
        for position, row in enumerate(test):
            if position in itself or (openings and self.may_ask(openings, position, row)):
                yield self.pick(chain(ids, substitutes()), len(ids), position, row)
            else:
                yield usual

    def openings(self, ids: Iterable[int]) -> frozenset[str]:
        if not self.reader.input_columns:
            return frozenset()
        texts = (join_inputs(self.train[index], index, 'training', self.reader) for index in ids)
        return frozenset(opening_of(plain(text)) for text in texts)

    def may_ask(self, openings: frozenset[str], position: int, row: Row) -> bool:
        """A cheap test: False only if the test row cannot be one of the questions with these openings."""
        text = join_inputs(row, position, 'test', self.reader)
        opening = opening_of(text[:OPENING_READ].lower())
        cut_short = len(opening) < OPENING and len(text) > OPENING_READ
        return opening in openings or cut_short or not text.isascii()

    def spare(self, position: int, row: Row) -> int:
        """How many candidates `pick` may have to skip for this test row."""
        identity = self.test_identity(position, row)
        return self.same_split + (self.copies[identity] if identity is not None else 0)

    @property
    def most_spare(self) -> int:
        """The largest `spare` that any test row can have."""
        return self.same_split + max(self.copies.values(), default=0)

    @cached_property
    def copies(self) -> Counter[bytes]:
        """How many training rows ask each question."""
        return Counter(map(self.identity, range(len(self.train)))) if self.reader.input_columns else Counter()

    def identity(self, index: int) -> bytes:
        if index not in self.identities:
            self.identities[index] = hash_question(join_inputs(self.train[index], index, 'training', self.reader))
        return self.identities[index]

    def test_identity(self, position: int, row: Row) -> bytes | None:
        """The identity that training rows are compared with; empty if there are no input columns."""
        if not self.reader.input_columns:
            return None
        return hash_question(join_inputs(row, position, 'test', self.reader))

    def require_rows(self, wanted: int, *, name: str = 'ice_num') -> None:
        """Raise if there are fewer training rows than one prompt needs."""
        if wanted > len(self.train):
            there = count_noun(len(self.train), 'row')
            raise ConfigError(
                Problem(
                    name,
                    f'{count_noun(wanted, "example")} requested, but the training set has {there}.',
                    'Request fewer, or widen train_split or train_range.',
                )
            )


def hash_question(text: str) -> bytes:
    """Equal for texts that differ only in case, white space or Unicode form.

    >>> hash_question('What is  １+1?') == hash_question('what is 1+1?\\n')
    True
    """
    return hashlib.blake2b(plain(text).encode('utf-8', 'surrogatepass'), digest_size=16).digest()


def plain(text: str) -> str:
    return ' '.join(unicodedata.normalize('NFKC', text).casefold().split())


def opening_of(text: str) -> str:
    """The first few characters of a text that are not white space."""
    return ''.join(text.split())[:OPENING]


def join_inputs(row: Row, index: int, split: str, reader: ColumnReader) -> str:
    """The input columns of a row, joined with a space."""
    try:
        return ' '.join([str(row[column]) for column in reader.input_columns])
    except KeyError as missing:
        raise DataError(
            f'{split} row {index} has no column {missing}, which input_columns names. '
            f'Its columns: {list_names(map(repr, row))}.'
        ) from None


def search_text(row: Row, index: int, split: str, reader: ColumnReader) -> str:
    """The text of a row that a search compares."""
    template = getattr(reader, 'input_template', None)
    if template is None:
        return join_inputs(row, index, split, reader)
    if callable(template):
        return str(template(row))
    wording = template['template'] if isinstance(template, Mapping) else template
    return FIELD.sub(lambda match: str(row.get(match[1], match[0])), str(wording))


class ProgressCounter:
    """Count finished rows and report progress; the total is None if any part has no length."""

    def __init__(self, progress: Progress | None, *parts: Iterable[Any]) -> None:
        self.progress = progress
        self.done = 0
        sizes = [len(part) for part in parts if isinstance(part, Sized)]
        self.total = sum(sizes) if len(sizes) == len(parts) else None

    def add(self, amount: int = 1) -> None:
        self.done += amount
        if self.progress is not None and amount:
            self.progress(self.done, self.total)

    def track(self, picks: Iterable[Picked]) -> Iterator[Picked]:
        for picked in picks:
            self.add()
            yield picked


class PoolSearch:
    """A retriever that picks from a pool: what is left to write is `search`."""

    __slots__ = ()
    ice_num: int
    passes: ClassVar[int] = 0
    """How often the training rows are read to index them, for the progress."""

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
            return ProgressCounter(progress, test).track(Picked(()) for _ in test)
        pool = Pool(train, reader, same_split)
        self.check_pool(pool)
        return self.search(pool, test, ProgressCounter(progress, *[train] * self.passes, test))

    def check_pool(self, pool: Pool) -> None:
        """Raise if the settings do not fit the training set, or a package is missing."""
        pool.require_rows(self.ice_num)

    def search(self, pool: Pool, test: Iterable[Row], meter: ProgressCounter) -> Iterator[Picked]:
        """One `Picked` for each test row."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class RetrieverSettings(PoolSearch):
    """Settings common to all retrievers, with type checks for numbers and strings."""

    ice_separator: str = field(default='\n', kw_only=True)
    ice_eos_token: str = field(default='\n', kw_only=True)
    fixed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        problems = tuple(self.problems())
        if problems:
            raise ConfigError(problems)

    def problems(self) -> Iterator[Problem]:
        """Problems that can be found without data."""
        for setting in fields(self):
            value = getattr(self, setting.name)
            if setting.type == 'str' and not isinstance(value, str):
                yield Problem(setting.name, f'{value!r} is not a string.')
            if setting.type == 'float' and not isinstance(value, (int, float)):
                yield Problem(setting.name, f'{value!r} is not a number.')
            if setting.type == 'int' and (type(value) is not int or not 0 <= value < 2**32):
                yield Problem(setting.name, f'{value!r} is not a whole number from 0 to 4294967295.')


GROUP = 64


def numpy() -> Any:
    return import_extra('numpy', purpose='to rank training rows')


def top_indexes(scores: Any, count: int, *, slack: float = 0.0) -> Any:
    """Indexes of the `count` highest scores, the highest first; of equal scores the later row comes first.

    With `slack`, at least all indexes whose score is within it of the last one taken: for a second, exact ranking.

    >>> import numpy
    >>> top_indexes(numpy.array([1.0, 3.0, 2.0, 3.0]), 3).tolist()
    [3, 1, 2]
    """
    np = numpy()
    count = min(count, len(scores))
    if count == 0:
        return np.empty(0, dtype=np.intp)
    last = lower_bound(scores, count)
    candidates = np.flatnonzero(scores >= last - slack)
    ordered = candidates[np.lexsort((candidates, scores[candidates]))][::-1]
    return ordered if slack else ordered[:count]


def lower_bound(scores: Any, count: int) -> Any:
    """A value that at least `count` scores reach, close to the highest such value.

    The count-th highest of the maxima of many groups is one: each of those maxima is a score.
    """
    np = numpy()
    groups = len(scores) // GROUP
    values = scores[: GROUP * groups].reshape(GROUP, groups).max(axis=0) if groups >= 4 * count else scores
    return np.partition(values, len(values) - count)[len(values) - count]
