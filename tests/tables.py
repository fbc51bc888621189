"""Many quick cases in one test: a table costs a loop instead of a thousand test items, and every failure is listed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

_MOST_SHOWN = 20


def in_one(test: Callable[..., None]) -> Callable[[], None]:
    """Run the cases of the `parametrize` marks below in one test, and report all that fail.

    >>> @in_one
    ... @pytest.mark.parametrize('number', [1, 2, 3])
    ... def test_numbers_are_small(number):
    ...     assert number < 2
    >>> test_numbers_are_small()
    Traceback (most recent call last):
    AssertionError: 2 of 3 cases failed:
    number=2: AssertionError:...
    number=3: AssertionError:...
    """
    marks = [mark for mark in test.pytestmark if mark.name == 'parametrize']  # type: ignore[attr-defined]
    others = [mark for mark in test.pytestmark if mark.name != 'parametrize']  # type: ignore[attr-defined]

    def run() -> None:
        failures, count = [], 0
        for case in _cases(marks):
            count += 1
            try:
                test(**case)
            except pytest.skip.Exception:
                continue
            except Exception as error:
                words = ', '.join(f'{name}={value!r:.120}' for name, value in case.items())
                failures.append(f'{words}: {type(error).__name__}: {error!s:.300}')
        listed = '\n'.join(failures[:_MOST_SHOWN])
        assert not failures, f'{len(failures)} of {count} cases failed:\n{listed}'
        assert count, 'a table without cases'

    run.__name__, run.__doc__, run.__module__ = test.__name__, test.__doc__, test.__module__
    run.pytestmark = others  # type: ignore[attr-defined]
    return run


def _cases(marks: list[pytest.Mark]) -> Iterator[dict[str, Any]]:
    for choice in itertools.product(*(list(mark.args[1]) for mark in marks)):
        case: dict[str, Any] = {}
        for mark, values in zip(marks, choice, strict=True):
            names = mark.args[0].split(',') if isinstance(mark.args[0], str) else list(mark.args[0])
            is_param = type(values).__name__ == 'ParameterSet'
            row = values.values if is_param else values if len(names) > 1 else [values]
            case.update(zip(map(str.strip, names), row, strict=True))
        yield case
