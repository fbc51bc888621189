"""Rows, and views of rows. A row is a mapping; views choose, join or change rows without copying them."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, islice
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rolecall.errors import DataError
from rolecall.strings import count_noun
from rolecall.usercode import user_code

Row: TypeAlias = Mapping[str, Any]
RowFunction: TypeAlias = Callable[[Row, int], Row]


@runtime_checkable
class Rows(Protocol):
    """A source of rows: length, indexing and iteration."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Row: ...

    def __iter__(self) -> Iterator[Row]: ...


WHOLE = '*'
"""The key of rows that belong to no named split: they are used for any split."""

Splits: TypeAlias = dict[str, Rows]


@dataclass(frozen=True, slots=True, eq=False)
class ListRows:
    """Rows in memory.

    >>> rows = ListRows([{'question': '1+1=?'}, {'question': '2+2=?'}])
    >>> len(rows), rows[-1]['question']
    (2, '2+2=?')
    """

    rows: Sequence[Row]
    skipped: int = 0

    @classmethod
    def from_items(cls, items: Iterable[Any], where: str) -> ListRows:
        """Rows from any iterable; `where` names the source in errors."""
        return cls([check_row(item, f'{where}[{index}]') for index, item in enumerate(items)])

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int, /) -> Row:
        return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)


EMPTY: Rows = ListRows(())


class _View:
    """What changes or chooses other rows: as many of those as of these were malformed."""

    __slots__ = ()
    rows: Rows

    @property
    def skipped(self) -> int:
        return count_skipped(self.rows)

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows(_View):
    """Some rows of others, by index: a view, nothing is copied."""

    rows: Rows
    indexes: Sequence[int]

    def __len__(self) -> int:
        return len(self.indexes)

    def __getitem__(self, index: int, /) -> Row:
        return self.rows[self.indexes[index]]

    def __iter__(self) -> Iterator[Row]:
        match self.indexes:
            case range(start=0, step=1, stop=stop):  # the first rows: a stream serves them without an index
                return islice(self.rows, stop)
            case indexes:
                return (self.rows[index] for index in indexes)


def select(rows: Rows, indexes: Sequence[int]) -> Rows:
    """The rows at these indexes, in this order, without copying.

    >>> letters = ListRows([{'is': letter} for letter in 'abc'])
    >>> [row['is'] for row in select(letters, [2, 0])]
    ['c', 'a']
    """
    return SelectedRows(rows, indexes)


@dataclass(slots=True, eq=False)
class JoinedRows:
    """Several sources as one, in order (several files of one split)."""

    parts: Sequence[Rows]
    _ends: list[int] | None = field(default=None, init=False, repr=False)

    @property
    def skipped(self) -> int:
        return sum(map(count_skipped, self.parts))

    def __len__(self) -> int:
        ends = self._part_ends()
        return ends[-1] if ends else 0

    def __getitem__(self, index: int, /) -> Row:
        index = resolve_index(index, len(self))
        ends = self._part_ends()
        part = bisect_right(ends, index)
        return self.parts[part][index - (ends[part - 1] if part else 0)]

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(self.parts)

    def _part_ends(self) -> list[int]:
        if self._ends is None:
            self._ends = list(accumulate(map(len, self.parts)))
        return self._ends


_UNEXPECTED = (LookupError, TypeError, ValueError, AttributeError, SyntaxError)
"""What a function raises for a row with an unexpected layout."""


def _describe_layout(where: str, row: Row, index: int, error: Exception) -> DataError:
    what = f'{where}: row {index} has an unexpected layout ({type(error).__name__}: {error}).'
    return DataError(f'{what}\n  Its columns: {list_names(row)}.')


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows(_View):
    """Each row replaced by `change(row, index)`, lazily.

    >>> [row for row in MappedRows(ListRows([{'n': 1}]), lambda row, index: {'n': row['n'] + 1}, 'demo')]
    [{'n': 2}]
    """

    rows: Rows
    change: RowFunction
    where: str

    def __getitem__(self, index: int, /) -> Row:
        index = resolve_index(index, len(self.rows))
        return self._apply_change(self.rows[index], index)

    def __iter__(self) -> Iterator[Row]:
        return (self._apply_change(row, index) for index, row in enumerate(self.rows))

    def _apply_change(self, row: Row, index: int) -> Row:
        try:
            return self.change(row, index)
        except _UNEXPECTED as error:
            raise _describe_layout(self.where, row, index, error) from error


@dataclass(slots=True, eq=False)
class FilteredRows(_View):
    """The rows for which `keep(row)` holds. Iterating streams; counting or indexing looks at every row once."""

    rows: Rows
    keep: Callable[[Row], bool]
    where: str
    _passing: array[int] | None = field(default=None, init=False, repr=False)

    def __len__(self) -> int:
        return len(self._passing_indexes())

    def __getitem__(self, index: int, /) -> Row:
        return self.rows[self._passing_indexes()[index]]

    def __iter__(self) -> Iterator[Row]:
        return (row for index, row in enumerate(self.rows) if self._passes(row, index))

    def _passing_indexes(self) -> array[int]:
        if self._passing is None:
            self._passing = array('Q', (index for index, row in enumerate(self.rows) if self._passes(row, index)))
        return self._passing

    def _passes(self, row: Row, index: int) -> bool:
        try:
            return self.keep(row)
        except _UNEXPECTED as error:
            raise _describe_layout(self.where, row, index, error) from error


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows(_View):
    """Rows with labels from a second file, line by line, in the column `label`."""

    rows: Rows
    labels: Rows
    where: str

    def __len__(self) -> int:
        if len(self.rows) != len(self.labels):
            raise DataError(
                f'{self.where}: {count_noun(len(self.rows), "row")} but {count_noun(len(self.labels), "label")}.'
            )
        return len(self.rows)

    def __getitem__(self, index: int, /) -> Row:
        index = resolve_index(index, len(self))
        return {**self.rows[index], 'label': self.labels[index]['text']}

    def __iter__(self) -> Iterator[Row]:
        len(self)
        return ({**row, 'label': label['text']} for row, label in zip(self.rows, self.labels, strict=True))


@dataclass(frozen=True, slots=True)
class OwnRows:
    """Rows from user code; exceptions are reported as a problem of the loader."""

    rows: Rows
    where: str

    def __len__(self) -> int:
        with user_code(self.where):
            return len(self.rows)

    def __getitem__(self, index: int, /) -> Row:
        with user_code(self.where):
            return self.rows[index]

    def __iter__(self) -> Iterator[Row]:
        with user_code(self.where):
            rows = iter(self.rows)
        while (row := self._next(rows)) is not None:
            yield row

    def _next(self, rows: Iterator[Row]) -> Row | None:
        with user_code(self.where):
            return next(rows, None)


def count_skipped(rows: Rows) -> int:
    """The number of malformed records skipped in these rows (only with `on_error='skip'`)."""
    count: int = getattr(rows, 'skipped', 0)
    return count


def resolve_index(index: int, length: int) -> int:
    """An index counted from the start; IndexError outside the rows."""
    position = index + length if index < 0 else index
    if not 0 <= position < length:
        raise IndexError(f'row {index} of {length}')
    return position


def check_row(item: Any, where: str) -> Row:
    """Return the item if it is a mapping with string keys, else raise.

    >>> check_row(['a'], 'test[0]')
    Traceback (most recent call last):
    rolecall.errors.DataError: test[0]: a row must be a mapping of columns to values, got list.
    """
    if not isinstance(item, Mapping):
        raise DataError(f'{where}: a row must be a mapping of columns to values, got {type(item).__name__}.')
    for key in item:
        if not isinstance(key, str):
            raise DataError(f'{where}: a column name must be a string, got {key!r}.')
    return item


def list_names(names: Iterable[object], most: int = 30) -> str:
    """Names for a message, cut off after `most`.

    >>> list_names(['a', 'b']), list_names(range(100), most=2)
    ('a, b', '0, 1, … (100 in all)')
    """
    texts = [str(name) for name in names]
    return ', '.join(texts) if len(texts) <= most else f'{", ".join(texts[:most])}, … ({len(texts):,} in all)'
