"""What chat templates call, metered: filters, tests, functions and operators, each charged with its work and text."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial, reduce, wraps
from types import GeneratorType
from typing import Any, NoReturn, cast

from jinja2 import pass_context
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.utils import Namespace

from rolecall.core.render.metering import (
    COPY,
    ESCAPED,
    LOOK,
    METER,
    NODE_CHARS,
    SCAN,
    STEPS_PER_CALL,
    SUM,
    SUM_TO_READ,
    TEXT,
    TICK,
    breadth_of,
    charge_each,
    check_number,
    materialize,
    measure,
    size_of,
    spend,
)
from rolecall.core.render.pricing import charge_filter, charge_operator, reach_of

_CONSTANT_TIME_TESTS = frozenset(
    (
        *('boolean', 'callable', 'defined', 'escaped', 'false', 'filter', 'float', 'integer', 'iterable'),
        *('mapping', 'none', 'number', 'sameas', 'sequence', 'string', 'test', 'true', 'undefined'),
    )
)
_CONSUMING_FILTERS = frozenset(
    {'batch', 'groupby', 'join', 'list', 'max', 'min', 'reverse', 'slice', 'sort', 'sum', 'unique'}
)
_FILTERS_OF_A_TEXT = frozenset({'capitalize', 'count', 'length', 'lower', 'safe', 'string', 'trim', 'upper'})
_LAZY_FILTERS = frozenset({'map', 'select', 'reject', 'selectattr', 'rejectattr'})
_LETTERS_PER_STEP = 64
LETTERS_OF_AN_ESCAPE = 6
_MANY_CHARS = 1 << 20


class TemplateRefusedError(TemplateError):
    """The template called raise_exception."""


def raise_exception(message: object) -> NoReturn:
    """Called by a template to refuse a conversation."""
    raise TemplateRefusedError(str(message))


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: not ASCII-escaped, not HTML-escaped.

    >>> from rolecall.core.render.metering import WorkMeter
    >>> with WorkMeter(1000, 1000):
    ...     to_json({'größe': '<3>'})
    '{"größe": "<3>"}'
    """
    chars, depth = measure(value)
    steps = 1 + (chars >> 3)
    if chars > _MANY_CHARS:
        chars *= 2 * LETTERS_OF_AN_ESCAPE if ensure_ascii else LETTERS_OF_AN_ESCAPE
    chars += (chars // NODE_CHARS + 1) * (size_of(separators) + depth * reach_of(indent))
    before = METER.get().chars
    spend(chars, steps)
    return cast(
        'str',
        charge_result(
            json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys),
            before,
        ),
    )


def make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """`dict` as a function: the class itself would hand out `dict.update`, which changes the caller's values."""
    values = tuple(map(materialize, args))
    spend(sum(map(size_of, values)) + NODE_CHARS * len(kwargs))
    return dict(*values, **kwargs)


def make_namespace(*args: Any, **kwargs: Any) -> Namespace:
    """`namespace` as a function that charges what it copies."""
    return Namespace(make_dict(*args, **kwargs))


def _unpredictable(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise SecurityError(f'{name} gives a different text each time')

    return refuse


@pass_context
def _tick(_: Context, steps: int, chars: int = 0) -> bool:
    """Charge one turn of a loop or one call with the work and the text of its body. Always true."""
    meter = METER.get()
    meter.chars -= abs(chars)
    meter.steps -= 1 + abs(steps)
    if meter.chars < 0 or meter.steps < 0:
        meter.settle()
    return True


def _charge_text(value: Any) -> Any:
    """The value itself, charged with the length of its text."""
    chars = len(value) if type(value) is str else size_of(value)
    meter = METER.get()
    meter.chars -= chars
    meter.steps -= 1 + (chars >> 6)
    if meter.chars < 0 or meter.steps < 0:
        meter.settle()
    return value


def _charge_escaped(value: Any) -> Any:
    """The value itself, charged with the length of its text when every letter is escaped."""
    spend(LETTERS_OF_AN_ESCAPE * size_of(value))
    return value


def _charge_sum(*parts: Any) -> Any:
    """`a + b + c` at once: strings are joined, anything else is added one by one."""
    if set(map(type, parts)) != {str}:
        return reduce(partial(run_operator, '+'), parts)
    chars = sum(map(len, parts))
    meter = METER.get()
    meter.chars -= chars
    meter.steps -= 1 + (chars >> 6)
    if meter.chars < 0 or meter.steps < 0:
        meter.settle()
    return ''.join(parts)


def _charge_sum_to_read(*parts: Any) -> Any:
    """The same, when the result is printed or inspected; a string was charged when it was made."""
    total = _charge_sum(*parts)
    return total if type(total) is str else _charge_text(total)


def run_operator(symbol: str, left: Any, right: Any) -> Any:
    """The result of a binary operator, charged before it is computed."""
    before = METER.get().chars
    charge_operator(symbol, left, right)
    return charge_result(SandboxedEnvironment.default_binop_table[symbol](left, right), before)


def charge_result(result: Any, before: int) -> Any:
    """The result itself: numbers have a limit, and text that is longer than what was charged for it is charged too."""
    if isinstance(result, str):
        meter = METER.get()
        unpaid = len(result) - (before - meter.chars)
        if unpaid > 0:
            meter.spend(unpaid, 0)
        return result
    return check_number(result)


def _charge_copy(value: Any) -> Any:
    """The value itself, charged with its length."""
    spend(len(value) if isinstance(value, str) else NODE_CHARS * breadth_of(value))
    return value


def _charge_look(value: Any) -> Any:
    """The value itself, charged with the time it takes to look through it."""
    spend(0, 1 + size_of(value, printed=False) // _LETTERS_PER_STEP)
    return value


def _charge_scan(value: Any) -> Any:
    """The value itself, charged with the time it takes to go along it without looking into its items."""
    spend(0, 1 + breadth_of(value) // (_LETTERS_PER_STEP if isinstance(value, str) else 2))
    return value


def meter_filter(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The filter, charged before it runs, and afterwards for text that is longer than foreseen."""
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def run_filter(*args: Any, **kwargs: Any) -> Any:
        if name in _FILTERS_OF_A_TEXT and len(args) == leading + 1 and type(args[leading]) is str and not kwargs:
            spend(len(args[leading]))
            return original(*args)
        before, inputs = args[:leading], list(args[leading:])
        if inputs and name in _CONSUMING_FILTERS:
            inputs[0] = materialize(inputs[0])
        chars_before = METER.get().chars
        charge_filter(name, inputs, kwargs)
        dots = sum(word.count('.') for word in (*inputs[1:], *kwargs.values()) if type(word) is str)
        if inputs and inputs[0] and name in _LAZY_FILTERS:
            inputs[0] = charge_each(inputs[0], STEPS_PER_CALL * (1 + dots))
        elif dots:
            spend(0, STEPS_PER_CALL * dots * breadth_of(inputs[0]))
        result = original(*before, *inputs, **kwargs)
        return charge_each(result) if type(result) is GeneratorType else charge_result(result, chars_before)

    return run_filter


def meter_test(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    """The test, charged with the time it takes to look through its arguments."""
    if name in _CONSTANT_TIME_TESTS:
        return original
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def run_test(*args: Any, **kwargs: Any) -> Any:
        spend(0, 1 + sum(size_of(value, printed=False) for value in args[leading:]) // _LETTERS_PER_STEP)
        return original(*args, **kwargs)

    return run_test


FILTERS: Mapping[str, Callable[..., Any]] = {
    TICK: _tick,
    TEXT: _charge_text,
    ESCAPED: _charge_escaped,
    COPY: _charge_copy,
    LOOK: _charge_look,
    SCAN: _charge_scan,
    SUM: _charge_sum,
    SUM_TO_READ: _charge_sum_to_read,
    'tojson': to_json,
    'random': _unpredictable('the filter random'),
}
TESTS: Mapping[str, Callable[..., Any]] = {
    'divisibleby': lambda value, number: run_operator('%', value, number) == 0,
    'even': lambda value: run_operator('%', value, 2) == 0,
    'odd': lambda value: run_operator('%', value, 2) == 1,
}
GLOBALS: Mapping[str, Callable[..., Any]] = {
    'dict': make_dict,
    'namespace': make_namespace,
    'lipsum': _unpredictable('lipsum()'),
    'raise_exception': raise_exception,
}
