"""`reader_cfg`, and the subsets of rows that it names; range strings are parsed, never evaluated."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import islice
from random import Random
from typing import Any, TypeAlias

from rolecall.errors import ConfigError, DataError, Problem, did_you_mean
from rolecall.sources.datasets.rows import Row, Rows, select
from rolecall.strings import count_noun

Range: TypeAlias = str | int | float | None

_DIGITS = r'([+-]?\d{1,1000})'  # Python reads no more than some thousand
_NUMBER = rf'\s*{_DIGITS}?\s*'
_PART = re.compile(rf'\s*\[(?:{_NUMBER}:{_NUMBER}(?::{_NUMBER})?|\s*{_DIGITS}\s*)\]\s*')


def apply_range(rows: Rows, range_: Range) -> Rows:
    """The part of the rows that a `train_range` or `test_range` names.

    A string is a slice, or several one after another; an integer n is a sample of n rows drawn with the seed
    n; a fraction is such a sample of that share. None, zero, negative numbers and n >= len mean everything.

    >>> from rolecall.sources.datasets import ListRows
    >>> rows = ListRows([{'n': n} for n in range(10)])
    >>> [row['n'] for row in apply_range(rows, '[:6][::2]')]
    [0, 2, 4]
    >>> [row['n'] for row in apply_range(rows, 3)]
    [1, 5, 6]
    """
    check_range(range_)
    if range_ is None:
        return rows
    if isinstance(range_, str):
        return _apply_slices(rows, range_)
    total = len(rows)
    if range_ <= 0 or range_ >= total:
        return rows
    size = int(range_ * total) if range_ < 1 else int(range_)
    order = array('Q', range(total))
    # An array is shuffled exactly as a list is; the annotation of `shuffle` knows only sequences.
    Random(size).shuffle(order)
    return select(rows, order[:size])


def check_range(range_: object) -> None:
    """Raise DataError unless this is a range."""
    if isinstance(range_, str):
        parse_range(range_)
    elif isinstance(range_, bool) or not (range_ is None or isinstance(range_, int | float)):
        raise DataError(f'{range_!r} is not a range: use a slice such as "[0:10]", a number of rows, or a fraction.')
    elif isinstance(range_, float) and not range_ < 1:
        raise DataError(
            f'{range_!r} is not a range: a fraction must be below 1; for a number of rows use {range_:.0f}.'
        )


def parse_range(text: str) -> list[slice | int]:
    """The slices and indexes of a range string.

    >>> parse_range('[:100][3:5]')
    [slice(None, 100, None), slice(3, 5, None)]
    >>> parse_range('[0:5')
    Traceback (most recent call last):
    rolecall.errors.DataError: '[0:5' is not a range: write slices such as '[0:10]', '[::2]' or '[:100][3:5]'.
    """
    parts: list[slice | int] = []
    end = 0
    while end < len(text) and (match := _PART.match(text, end)):
        *bounds, index = (None if number is None else int(number) for number in match.groups())
        parts.append(slice(*bounds) if index is None else index)
        end = match.end()
    if not parts or end < len(text):
        raise DataError(f"{text!r} is not a range: write slices such as '[0:10]', '[::2]' or '[:100][3:5]'.")
    if any(isinstance(part, slice) and part.step == 0 for part in parts):
        raise DataError(f'{text!r} is not a range: the step of a slice cannot be zero.')
    return parts


def _apply_slices(rows: Rows, text: str) -> Rows:
    indexes: Sequence[int] = range(len(rows))
    for part in parse_range(text):
        if isinstance(part, slice):
            indexes = indexes[part]
            continue
        try:
            indexes = (indexes[part],)
        except IndexError:
            raise DataError(
                f'{text!r} selects row {part}, but the data has {count_noun(len(indexes), "row")}.'
            ) from None
    return rows if indexes == range(len(rows)) else select(rows, indexes)


def sample(rows: Rows, n: int, seed: int) -> Rows:
    """`n` rows drawn with a seed, each at most once, in the order they have in the data.

    >>> from rolecall.sources.datasets import ListRows
    >>> [row['n'] for row in sample(ListRows([{'n': n} for n in range(100)]), 3, seed=7)]
    [19, 41, 50]
    """
    _check_count(n)
    total = len(rows)
    return rows if n >= total else select(rows, array('Q', sorted(Random(seed).sample(range(total), n))))


def limit(rows: Rows, n: int | None) -> Rows:
    """The first `n` rows; None means all.

    >>> from rolecall.sources.datasets import ListRows
    >>> len(limit(ListRows([{}, {}, {}]), 2))
    2
    """
    if n is None:
        return rows
    _check_count(n)
    return rows if n >= len(rows) else select(rows, range(n))


def first(rows: Iterable[Row], n: int | None) -> Iterator[Row]:
    """The first `n` rows as a stream, without counting them all; None means all, and n may be any size.

    >>> len(list(first(iter([{}, {}, {}]), 2))), len(list(first([{}], 10**20)))
    (2, 1)
    """
    if n is not None:
        _check_count(n)
    return islice(rows, None if n is None else min(n, sys.maxsize))


def _check_count(n: int) -> None:
    if n < 0:
        raise DataError(f'the number of rows must not be negative, got {n}.')


@dataclass(frozen=True, slots=True)
class Reader:
    """Columns, splits and ranges of a dataset.

    >>> Reader.from_config({'input_columns': 'question choices', 'output_column': 'answer'}).input_columns
    ('question', 'choices')
    """

    input_columns: tuple[str, ...] = ()
    output_column: str | None = None
    train_split: str = 'train'
    test_split: str = 'test'
    train_range: Range = None
    test_range: Range = None
    input_template: Any = None
    output_template: Any = None

    @classmethod
    def from_config(cls, cfg: Mapping[str, Any]) -> Reader:
        """A reader from a config's `reader_cfg`; all its problems are reported at once.

        >>> Reader.from_config({'input_colums': ['question'], 'test_range': '[0:5'})
        Traceback (most recent call last):
        rolecall.errors.ConfigError: input_colums
          unknown key.
          Did you mean 'input_columns'?
        test_range
          '[0:5' is not a range: write slices such as '[0:10]', '[::2]' or '[:100][3:5]'.
        """
        if not isinstance(cfg, Mapping):
            raise ConfigError(Problem('', f'reader_cfg must be a mapping, got {type(cfg).__name__}.'))
        allowed = [field.name for field in fields(cls)]
        problems = [Problem(str(key), 'unknown key.', did_you_mean(key, allowed)) for key in cfg if key not in allowed]
        values = {key: value for key, value in cfg.items() if key in allowed}
        for key, value in values.items():
            if wrong := _describe_problem(key, value):
                problems.append(Problem(key, wrong))
        if problems:
            raise ConfigError(problems)
        columns = values.get('input_columns') or ()
        values['input_columns'] = tuple(columns.split() if isinstance(columns, str) else columns)
        values['output_column'] = values.get('output_column') or None
        return cls(**values)


def _describe_problem(key: str, value: Any) -> str:
    match key:
        case 'input_columns' if not (value is None or isinstance(value, str | list | tuple)):
            return f'must be a list of column names or one string, got {type(value).__name__}.'
        case 'input_columns' if not all(isinstance(name, str) for name in value or ()):
            return f'column names must be strings, got {value!r}.'
        case 'output_column' if not (value is None or isinstance(value, str)):
            return f'must be a column name or None, got {value!r}.'
        case 'train_split' | 'test_split' if not isinstance(value, str):
            return f'must be the name of a split, got {value!r}.'
        case 'train_range' | 'test_range':
            try:
                check_range(value)
            except DataError as error:
                return str(error)
    return ''
