"""Options read with their types and bounds: `rolecall.checking`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from rolecall.checking import OptionReader, Problems, argument_problems, expected, is_number, is_whole
from rolecall.errors import ConfigError, Problem


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ('method', 'value', 'bounds', 'read', 'problem'),
    [
        ('text', 'a', {}, 'a', None),
        ('text', '', {}, None, None),
        ('text', 5, {}, None, 'expected a string, got 5.'),
        ('texts', 'a', {}, ('a',), None),
        ('texts', ['a', 'b'], {}, ('a', 'b'), None),
        ('texts', ['a', 5], {}, None, 'expected a string or a list of strings, got list.'),
        ('texts', {'secret': 1}, {}, None, 'expected a string or a list of strings, got dict.'),
        ('texts', '', {}, ('',), None),
        ('whole', '', {}, None, "expected a whole number, got ''."),
        ('whole', 0, {}, 0, None),
        ('whole', True, {}, None, 'expected a whole number, got True.'),
        ('whole', 2.0, {}, None, 'expected a whole number, got 2.0.'),
        ('whole', 0, {'least': 1}, None, 'expected a whole number of at least 1, got 0.'),
        ('number', math.nan, {}, None, 'expected a number, got nan.'),
        ('number', '1', {}, None, "expected a number, got '1'."),
        ('number', 5, {'least': 0, 'most': 1}, None, 'expected a number from 0 to 1, got 5.'),
        ('limit', 0, {}, None, None),
        ('limit', 2.5, {}, 2.5, None),
        ('limit', -1, {}, None, None),
        ('flag', False, {}, False, None),
        ('flag', 1, {}, None, 'expected True or False, got 1.'),
        ('mapping', {'a': 1}, {}, {'a': 1}, None),
        ('mapping', ['a'], {}, {}, 'expected a dict, got list.'),
        ('text', deep(100_000), {}, None, 'expected a string, got something of type list.'),
    ],
)
def test_an_option_is_read_with_its_type_or_refused_with_what_was_there(
    method: str, value: Any, bounds: dict[str, Any], read: Any, problem: str | None
) -> None:
    reader = OptionReader({'option': value}, 'entry')
    assert getattr(reader, method)('option', **bounds) == read
    assert [(one.where, one.what) for one in reader.problems] == ([('entry.option', problem)] if problem else [])


def test_a_number_of_thousands_of_digits_is_refused_without_being_printed() -> None:
    reader = OptionReader({'option': -(10**5000)})
    assert reader.whole('option', least=0) is None
    assert reader.problems[0].what == 'expected a whole number of at least 0, got something of type int.'


def test_the_first_name_that_is_set_counts_and_is_the_one_reported() -> None:
    reader = OptionReader({'key': None, 'api_key': '', 'token': 5})
    assert reader.text('key', 'api_key', 'token') is None
    assert [problem.where for problem in reader.problems] == ['token']


def test_all_problems_are_raised_at_once_and_none_when_all_is_well() -> None:
    reader = OptionReader({'a': 1, 'mode': 'fst'}, 'entry')
    reader.raise_problems()
    reader.text('a')
    reader.one_of('mode', ('fast', 'exact'))
    reader.refuse('b', 'is missing.')
    with pytest.raises(ConfigError) as raised:
        reader.raise_problems()
    assert [problem.where for problem in raised.value.problems] == ['entry.a', 'entry.mode', 'entry.b']
    assert raised.value.problems[1].remedy == "Did you mean 'fast'?"


def test_a_slip_is_refused_and_what_another_reader_may_take_is_not() -> None:
    reader = OptionReader({'temperatur': 0, 'whatever': 1})
    reader.refuse_misspelt(('temperature', 'top_p'))
    assert reader.problems == [Problem('temperatur', 'unknown option.', "Did you mean 'temperature'?")]


def test_readers_can_share_one_list_of_problems() -> None:
    problems = Problems()
    OptionReader({'a': 1}, 'first', problems=problems).text('a')
    OptionReader({'b': 1}, 'second', problems=problems).flag('b')
    assert [problem.where for problem in problems.items] == ['first.a', 'second.b']


def test_a_collector_places_what_a_part_raises_and_carries_on() -> None:
    problems = Problems()
    with problems.inside('datasets[0]'):
        raise ConfigError([Problem('reader_cfg', 'wrong.'), Problem('[1]', 'wrong too.')])
    assert problems.mapping('models', 5) == {}
    problems.unknown_keys('infer_cfg', {'retriver': 1}, ('retriever',))
    problems.misspelt_keys('infer_cfg', {'retriver': 1, 'other': 1}, ('retriever',))
    assert [problem.where for problem in problems.items] == [
        'datasets[0].reader_cfg',
        'datasets[0][1]',
        'models',
        'infer_cfg',
        'infer_cfg',
    ]


def test_options_are_compared_with_the_parameters_of_what_they_are_for() -> None:
    class Cut:
        def __init__(self, length: int, *, side: str = 'left') -> None: ...

    def takes_any(text: str, **rest: Any) -> None: ...

    assert argument_problems(Cut, {'length': 5}) == []
    assert [problem.what for problem in argument_problems(Cut, {'sde': 1})] == [
        "Cut has no option 'sde'.",
        "Cut needs the option 'length'.",
    ]
    assert argument_problems(takes_any, {'anything': 1}, skip=1) == []
    assert [problem.what for problem in argument_problems(takes_any, {}, name='own')] == [
        "own needs the option 'text'.",
    ]


def test_a_value_that_may_be_secret_is_shown_by_its_type() -> None:
    assert expected('key', 'a string', dict).what == 'expected a string, got dict.'


@pytest.mark.parametrize(('value', 'whole', 'number'), [(1, True, True), (1.5, False, True), (math.inf, False, False)])
def test_numbers_are_told_from_what_only_looks_like_one(value: float, whole: bool, number: bool) -> None:
    assert (is_whole(value), is_number(value)) == (whole, number)
