"""Compare two expressions as numbers, sets or formulas, with `math-verify`."""

from __future__ import annotations

import logging
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from typing import Any

from rolecall.errors import import_extra
from rolecall.scoring.metrics.metric import Metric, mark_by
from rolecall.scoring.readers.expressions import final_expression
from rolecall.scoring.readers.numbers import amount_of, number_of
from rolecall.scoring.texts import alternatives, strip_text

_SECONDS, _AGAIN = 3.0, 0.5
"""Seconds of CPU time, and how soon to stop again what catches every exception."""
_LONGEST = 2000
_EXPLOSIVE = re.compile(
    r'\^\s*\{?[^{}^]*\^|(?<=[\w)}])\*\*[^*]*(?<=[\w)}])\*\*|\^\s*\{?\s*-?\d{4,}|\*\*\s*-?\d{4,}|\d{3}\s*!|!\s*!|\)\s*!|\d{300,}'
    r'|![^^*]*(?:\^|\*\*)|(?:\^|\*\*)[^!]*!|(?:%[^%]*){30}'
)
"""Towers of powers, huge exponents, large factorials, chains of remainders: too expensive, so compared as text."""
_RAISED = str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789')


def _write_matrix(rows: list[str]) -> str:
    return r'\begin{pmatrix}' + r'\\'.join(row.replace(',', '&') for row in rows) + r'\end{pmatrix}'


_TYPED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r'(?<![\d./])(\d+)\s+(\d+)/(\d+)(?![\d/])'), r'\1\\frac{\2}{\3}'),
    (re.compile(r'√\s*(?:\(([^()]{1,40})\)|(\w{1,20}))'), r'\\sqrt{\1\2}'),
    (re.compile(r'(?<![a-zA-Z\\])sqrt\s?\(([^()]{1,40})\)'), r'\\sqrt{\1}'),
    (re.compile(r'(?<![a-zA-Z\\])(pi|sin|cos|tan|ln|log|exp)(?![a-zA-Z])'), r'\\\1'),
    (re.compile('[⁻⁰¹²³⁴-⁹]+'), lambda power: f'^{{{power[0].translate(_RAISED)}}}'),
    (re.compile(r'\*\*'), '^'),
    (re.compile(r'\A\](?=.*[,;])'), '('),
    (re.compile(r'(?<=.)(?<![\[(])\[\Z'), ')'),
    (re.compile(r'(?<=[\d\w])\s?;\s?(?=[^;]*[)\]]\Z)'), ','),
    (re.compile('·'), r'\\cdot '),
    (re.compile(r'∞|(?<![a-zA-Z\\])(?:infinity|unendlich|infini)(?![a-z])|无穷大?'), r'\\infty'),
    (
        re.compile(r'\[\s*(\[[^\[\]]+\](?:\s*,\s*\[[^\[\]]+\])+)\s*\]'),
        lambda matrix: _write_matrix(re.findall(r'\[([^\[\]]+)\]', matrix[1])),
    ),
    (re.compile(r'\\varnothing(?![a-zA-Z])|∅'), r'\\emptyset'),
    (re.compile(r'(?<=[\d)])!=(?=\s*\d)'), '! ='),
    (re.compile(r'\A(?:approximately|about|roughly|around|≈|\\approx)\s*(?=[-\d])', re.IGNORECASE), ''),
)
"""What people type, and how TeX writes it."""
_ONE_EQUATION = re.compile(r'[^=<>,;]+(?:=[^=<>,;]+)+')
_SEVERAL = re.compile(r'\\text|\b(?:or|and)\b|\\(?:quad|lor|vee)')
_REPEATING = re.compile(r'(?<![\d.])(\d{1,9})\.(\d{0,9})\\overline\{(\d{1,9})\}')
_BASE = re.compile(r'\d_\{?(\d{1,2})\}?\$?\Z')
_COMMA = re.compile(r'-?\d+,\d{1,2}(?:\s?\\?%)?')
_MONOMIAL = r'(?=[\da-z])(\d{1,9}(?:\.\d{1,20})?)?((?:[aknpquvxyz](?:\^(?:\d|\{\d{1,3}\}))?){0,6})'
_TERM = re.compile(rf'(-?)\s*{_MONOMIAL}')
_SUM = re.compile(rf'(\$?)-?{_MONOMIAL}(?:\s*[-+]\s*{_MONOMIAL}){{0,9}}\1')
"""Sums of terms in letters of which the library takes none for a unit, e or i."""
_FORMULA = re.compile(r'\$|\\boxed|\\\(|\\\[')


def same_expression(version: str = 'v2') -> Metric:
    r"""The share of rows whose expression equals the gold one: `\frac12`, `0.5` and `1/2` are the same."""
    import_extra('math_verify', extra='score', purpose='to compare mathematical answers')
    return Metric('accuracy', mark_by(equals_a_gold_expression))


def equals_a_gold_expression(prediction: Any, gold: Any) -> bool:
    """Whether an expression equals one of the accepted ones."""
    return any(equal_expressions(prediction, answer) for answer in alternatives(gold))


def equal_expressions(prediction: Any, gold: Any) -> bool:
    r"""Whether two expressions are equal as numbers, sets or formulas.

    >>> equal_expressions('0.5', r'\frac{1}{2}')
    True
    """
    ours, right = _plain(final_expression(strip_text(prediction))), _plain(gold)
    if number_of(right.replace(r'\%', '%')) is not None:
        ours = amount_of(ours) or ours
        ours = ours.replace(',', '.') if _COMMA.fullmatch(ours) else ours
    if '=' not in right and _ONE_EQUATION.fullmatch(ours) and not _SEVERAL.search(ours):  # `f(x) = 2x` gives 2x
        ours = ours.rpartition('=')[2]
    if _squeeze(ours) == _squeeze(right):
        return bool(ours)
    if (number := number_of(ours.replace(r'\%', '%'))) is not None and number == number_of(right.replace(r'\%', '%')):
        return True
    bases = [base[1] for text in (ours, right) if (base := _BASE.search(text))]
    if len(set(bases)) > 1:
        return False
    if any(len(text) > _LONGEST or _is_explosive(text) for text in (ours, right)):
        return False
    if {_bracket_of(ours), _bracket_of(right)} == {'set', 'tuple'}:
        return False
    golds, answers = _read(right), _read(ours)
    with limit_work():  # `x > 3` is the interval from 3 on
        return bool(math_library().verify(golds, answers, allow_set_relation_comp=True, timeout_seconds=None))
    return False


def value_of(text: str) -> float | None:
    r"""The real number that an expression is; None if it is none.

    >>> value_of(r'\frac{1}{2}'), value_of('2x')
    (0.5, None)
    """
    if len(text) > _LONGEST or _is_explosive(text):
        return None
    values = _read(text)
    with limit_work():
        for value in values:
            with suppress(TypeError, ValueError, AttributeError):
                return float(value)
    return None


def _is_explosive(text: str) -> bool:
    """Whether an expression may take too long to evaluate; `e^{x^2}` does not."""
    return _EXPLOSIVE.search(re.sub(r'(?<=[a-z])\^\{?\d\}?(?!\d)', '', text)) is not None


def _plain(value: Any) -> str:
    """Without signs of currency; mixed numbers (`3 1/2`), roots and repeating decimals as TeX writes them."""
    text = strip_text(value).replace(r'\$', '').replace('−', '-')
    for pattern, tex in _TYPED:
        text = pattern.sub(tex, text)
    return _REPEATING.sub(_write_fraction, text)


def _write_fraction(decimal: re.Match[str]) -> str:
    whole, fixed, repeated = decimal.groups()
    below = (10 ** len(repeated) - 1) * 10 ** len(fixed)
    return rf'\frac{{{int(whole + fixed + repeated) - int(whole + fixed)}}}{{{below}}}'


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
    if _SUM.fullmatch(text):
        return [_read_sum(bare := text.strip('$')), bare]
    with limit_work():
        return math_library().parse(text if _FORMULA.search(text) else f'${text}$', parsing_timeout=None)
    return []


def _read_sum(text: str) -> Any:
    """The library's object for a sum such as `x^2 - 3xy + 0.5`, in a twentieth of its time."""
    sympy = import_extra('sympy', extra='score', purpose='to compare mathematical answers')
    terms = []
    for sign, number, powers in _TERM.findall(text):
        factors = [sympy.Float(number) if '.' in number else sympy.Integer(number)] if number else []
        for letter, power in re.findall(r'([a-z])(?:\^\{?(\d+))?', powers):
            symbol = sympy.Symbol(letter, real=True)
            factors.append(sympy.Pow(symbol, sympy.Integer(power), evaluate=False) if power else symbol)
        if sign == '-':
            factors = [-factors[0]] if number and not powers else [sympy.Integer(-1), *factors]
        terms.append(sympy.Mul(*factors, evaluate=False))
    return sympy.Add(*terms, evaluate=False)


@cache
def math_library() -> Any:
    """The package `math-verify`, ready for use."""
    library = import_extra('math_verify', extra='score', purpose='to compare mathematical answers')
    for name in ('math_verify.parser', 'math_verify.grader', 'math_verify.utils'):
        logging.getLogger(name).setLevel(logging.ERROR)
    library.parse('$1$', parsing_timeout=None)  # loads what it needs, which is not the first expression's work
    return library


class _TooMuchWorkError(Exception):
    """An expression took too long to evaluate."""


@contextmanager
def limit_work() -> Iterator[None]:
    """End the block after some seconds of CPU time: a verdict must not depend on how busy the machine is.

    Only the main thread receives signals; elsewhere the block has no limit.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, 'setitimer'):
        yield
        return
    math_library()
    before = signal.signal(signal.SIGPROF, _stop_work)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS, _AGAIN)
    try:
        yield
    except _TooMuchWorkError:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _stop_work(number: int, frame: object) -> None:
    raise _TooMuchWorkError


def _squeeze(text: str) -> str:
    return re.sub(r'\s|\\[,;! ]', '', text.strip('$')).rstrip('.')
