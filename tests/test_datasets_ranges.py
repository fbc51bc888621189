"""Ranges, samples and limits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import DataError
from rolecall.sources.datasets import ListRows, Rows, apply_range, limit, sample, select


def numbers(count: int) -> Rows:
    return ListRows([{'n': n} for n in range(count)])


def picked(rows: Rows) -> list[int]:
    assert [rows[index] for index in range(len(rows))] == list(rows)
    return [row['n'] for row in rows]


@pytest.mark.parametrize(
    ('range_', 'expected'),
    [
        (None, [*range(10)]),
        ('[0:3]', [0, 1, 2]),
        ('[ 0 : 3 ]', [0, 1, 2]),
        ('[0: 3]', [0, 1, 2]),
        ('[::4]', [0, 4, 8]),
        ('[:8][3:5]', [3, 4]),
        ('[::-1][:2]', [9, 8]),
        ('[-2:]', [8, 9]),
        ('[:]', [*range(10)]),
        ('[8:100]', [8, 9]),
        ('[100:]', []),
        ('[5]', [5]),
        ('[-1]', [9]),
        ('[2:][1]', [3]),
        # The picks of the reference, which seeds the shuffle with the number of rows wanted.
        (3, [1, 5, 6]),
        (4, [8, 2, 0, 7]),
        (0.3, [1, 5, 6]),
        (0, [*range(10)]),
        (-2, [*range(10)]),
        (10, [*range(10)]),
        (99, [*range(10)]),
        (-0.5, [*range(10)]),
        (0.05, []),
    ],
)
def test_a_range_picks_the_rows_of_the_reference(range_: Any, expected: list[int]) -> None:
    assert picked(apply_range(numbers(10), range_)) == expected


@pytest.mark.parametrize(
    'range_',
    ['', ' ', '[', '[0:5', '0:5', '[0:5]x', '[a:b]', '[1,2]', '[0:1:2:3]', '[]', '[1.5:]', '100[0:50]', '[:1] + [print(2)]', '[__import__("os")]'],
)  # fmt: skip
def test_a_string_that_is_no_slice_is_an_error_that_shows_it(range_: str) -> None:
    with pytest.raises(DataError) as caught:
        apply_range(numbers(10), range_)
    assert repr(range_) in str(caught.value)


@pytest.mark.parametrize(
    ('range_', 'message'),
    [
        ('[::0]', 'step'),
        ('[10]', 'selects row 10, but the data has 10 rows'),
        (3.0, 'below 1; for a number of rows use 3'),
        (1.0, 'below 1'),
        (float('nan'), 'below 1'),
        (float('inf'), 'below 1'),
        (True, 'True is not a range'),
        ([0, 1], r'\[0, 1\] is not a range'),
    ],
)
def test_other_things_are_no_ranges(range_: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        apply_range(numbers(10), range_)


slices = st.builds(slice, *[st.none() | st.integers(-12, 12)] * 2, st.none() | st.integers(-4, 4).filter(bool))


@given(st.integers(0, 12), st.lists(slices, min_size=1, max_size=3))
def test_chained_slices_are_what_python_makes_of_them(count: int, parts: list[slice]) -> None:
    text = ''.join(f'[{":".join("" if b is None else str(b) for b in (p.start, p.stop, p.step))}]' for p in parts)
    expected = [*range(count)]
    for part in parts:
        expected = expected[part]
    assert picked(apply_range(numbers(count), text)) == expected


@given(st.integers(0, 60), st.integers(-5, 70))
def test_a_number_picks_that_many_different_rows(count: int, wanted: int) -> None:
    got = picked(apply_range(numbers(count), wanted))
    assert len(set(got)) == len(got) == (count if wanted <= 0 else min(wanted, count))


def test_everything_is_the_same_object_and_nothing_is_copied() -> None:
    rows = numbers(10)
    assert apply_range(rows, None) is rows
    assert apply_range(rows, '[:]') is rows
    assert apply_range(rows, 10) is rows
    assert limit(rows, None) is limit(rows, 10) is rows
    assert select(rows, [3])[0] is rows[3]


def test_a_sample_depends_on_its_seed_alone_and_keeps_the_order() -> None:
    rows = numbers(1000)
    assert picked(sample(rows, 5, seed=1)) == picked(sample(rows, 5, seed=1)) == sorted(picked(sample(rows, 5, seed=1)))
    assert picked(sample(rows, 5, seed=1)) != picked(sample(rows, 5, seed=2))
    assert sample(rows, 1000, seed=1) is rows


def test_a_limit_takes_the_first_rows() -> None:
    assert picked(limit(numbers(10), 3)) == [0, 1, 2]
    assert picked(limit(numbers(10), 0)) == []


@pytest.mark.parametrize('part', [lambda rows: limit(rows, -1), lambda rows: sample(rows, -1, seed=0)])
def test_a_negative_number_of_rows_is_an_error(part: Any) -> None:
    with pytest.raises(DataError, match='must not be negative, got -1'):
        part(numbers(3))
