"""`in_one`: a table of cases as one test."""

from __future__ import annotations

import pytest

from tables import in_one


def test_every_failing_case_of_a_table_is_listed() -> None:
    @in_one
    @pytest.mark.parametrize('factor', [1, 10])
    @pytest.mark.parametrize(('number', 'most'), [(1, 5), (9, 5), pytest.param(3, 40)])
    def check(number: int, most: int, factor: int) -> None:
        assert number * factor <= most

    with pytest.raises(AssertionError, match=r'^3 of 6 cases failed:\n') as failed:
        check()
    assert str(failed.value).count('factor=10') == 2


def test_a_table_without_cases_fails() -> None:
    @in_one
    @pytest.mark.parametrize('number', [])
    def check(number: int) -> None:
        assert number

    with pytest.raises(AssertionError, match='without cases'):
        check()
