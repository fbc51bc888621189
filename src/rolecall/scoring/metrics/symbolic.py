"""Compare two expressions as numbers, sets or formulas, with `math-verify`."""

from __future__ import annotations

import logging
import re
import threading
from functools import lru_cache
from typing import Any

from rolecall.errors import needed
from rolecall.scoring.metrics.metric import Metric, mark_by
from rolecall.scoring.texts import alternatives, strip_text

__all__ = ['equal_expressions', 'same_expression']

_SECONDS = 3
_LONGEST = 2000
_EXPLOSIVE = re.compile(r'\^\s*\{?[^{}^]*\^|\*\*[^*]*\*\*|\^\s*\{?\s*-?\d{4,}|\*\*\s*-?\d{4,}|\d\s*!|\d{300,}')
"""Towers of powers, huge exponents, factorials: too expensive to evaluate, so they are compared as text."""
_FORMULA = re.compile(r'\$|\\boxed|\\\(|\\\[')


def same_expression(version: str = 'v2') -> Metric:
    r"""The share of rows whose expression equals the gold one: `\frac12`, `0.5` and `1/2` are the same."""
    needed('math_verify', extra='score', purpose='to compare mathematical answers')
    return Metric(
        'accuracy',
        mark_by(lambda prediction, gold: any(equal_expressions(prediction, one) for one in alternatives(gold))),
    )


def equal_expressions(prediction: Any, gold: Any) -> bool:
    r"""Whether two expressions are equal as numbers, sets or formulas.

    >>> equal_expressions('0.5', r'\frac{1}{2}')
    True
    """
    ours, right = _drop_currency(prediction), _drop_currency(gold)
    if _squeeze(ours) == _squeeze(right):
        return bool(ours)
    if any(len(text) > _LONGEST or _EXPLOSIVE.search(text) for text in (ours, right)):
        return False
    if {_bracket_of(ours), _bracket_of(right)} == {'set', 'tuple'}:
        return False
    library = needed('math_verify', extra='score', purpose='to compare mathematical answers')
    return bool(library.verify(_read(right), _read(ours), timeout_seconds=_time_limit()))


def _drop_currency(value: Any) -> str:
    return strip_text(value).replace(r'\$', '')


def _bracket_of(text: str) -> str:
    """Whether an expression is written as a set or as a tuple: `\\{1,2\\}` or `(1,2)`."""
    bare = re.sub(r'\\(?:left|right|boxed)(?![a-zA-Z])|\s', '', text).strip('$')
    if bare.startswith('{') and bare.endswith('}') and not bare.startswith(r'{\{'):
        bare = bare[1:-1]
    if bare.startswith((r'\{', r'\lbrace')):
        return 'set'
    return 'tuple' if re.fullmatch(r'[(\[].*,.*[)\]]', bare) else ''


@lru_cache(maxsize=10_000)
def _read(text: str) -> Any:
    library = needed('math_verify', extra='score', purpose='to compare mathematical answers')
    for name in ('math_verify.parser', 'math_verify.grader'):
        logging.getLogger(name).setLevel(logging.ERROR)
    return library.parse(text if _FORMULA.search(text) else f'${text}$', parsing_timeout=_time_limit())


def _time_limit() -> int | None:
    """The library's time limit uses signals, which only the main thread receives."""
    return _SECONDS if threading.current_thread() is threading.main_thread() else None


def _squeeze(text: str) -> str:
    return re.sub(r'\s|\\[,;! ]', '', text.strip('$')).rstrip('.')
