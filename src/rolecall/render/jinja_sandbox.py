"""A sandboxed Jinja environment for untrusted chat templates: transformers' features, with metered work.

jinja2's sandbox keeps a template away from the machine, but does not bound its time and memory. Here the parsed
template is rewritten so that every turn of a loop, every call and every growing value is charged to a meter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial, reduce, wraps
from types import BuiltinMethodType, CodeType, GeneratorType
from typing import Any, NoReturn, cast

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext, Macro
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEscapeFormatter, SandboxedFormatter
from jinja2.utils import Namespace
from markupsafe import Markup

from rolecall.render.charging import (
    COPY,
    ESCAPED,
    LOOK,
    SCAN,
    STEPS_PER_CALL,
    SUM,
    SUM_TO_READ,
    TEXT,
    TICK,
    everything_in,
    put_charges_in,
)
from rolecall.render.metering import (
    METER,
    NODE_CHARS,
    WorkExceededError,
    breadth_of,
    charge_each,
    check_number,
    materialize,
    measure,
    size_of,
    spend,
)
from rolecall.render.pricing import charge_filter, charge_method, charge_operator, reach_of, width_in

__all__ = [
    'ENVIRONMENT',
    'MeteredEnvironment',
    'TemplateRefusedError',
    'compile_template',
    'make_environment',
    'parse_template',
]

MAX_SOURCE = 1 << 17
MAX_NODES = 20_000

_CONSTANT_TIME_TESTS = frozenset(
    [
        'boolean',
        'callable',
        'defined',
        'escaped',
        'false',
        'filter',
        'float',
        'integer',
        'iterable',
        'mapping',
        'none',
        'number',
        'sameas',
        'sequence',
        'string',
        'test',
        'true',
        'undefined',
    ]
)
_CONSUMING_FILTERS = frozenset(
    {'batch', 'groupby', 'join', 'list', 'max', 'min', 'reverse', 'slice', 'sort', 'sum', 'unique'}
)
_FILTERS_OF_A_TEXT = frozenset({'capitalize', 'count', 'length', 'lower', 'safe', 'string', 'trim', 'upper'})
_LAZY_FILTERS = frozenset({'map', 'select', 'reject', 'selectattr', 'rejectattr'})
_LETTERS_PER_STEP = 64
_LETTERS_OF_AN_ESCAPE = 6
_MANY_CHARS = 1 << 20


class TemplateRefusedError(TemplateError):
    """The template called raise_exception."""


# --- functions that templates call --------------------------------------------


def raise_exception(message: object) -> NoReturn:
    raise TemplateRefusedError(str(message))


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: not ASCII-escaped, not HTML-escaped.

    >>> from rolecall.render.metering import WorkMeter
    >>> with WorkMeter(1000, 1000):
    ...     to_json({'größe': '<3>'})
    '{"größe": "<3>"}'
    """
    chars, depth = measure(value)
    steps = 1 + (chars >> 3)
    if chars > _MANY_CHARS:
        chars *= 2 * _LETTERS_OF_AN_ESCAPE if ensure_ascii else _LETTERS_OF_AN_ESCAPE
    chars += (chars // NODE_CHARS + 1) * (size_of(separators) + depth * reach_of(indent))
    before = METER.get().chars
    spend(chars, steps)
    return cast(
        'str',
        _charge_result(
            json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys),
            before,
        ),
    )


def make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """`dict` as a function: the class itself would hand out `dict.update`, which changes the caller's values."""
    given = tuple(map(materialize, args))
    spend(sum(map(size_of, given)) + NODE_CHARS * len(kwargs))
    return dict(*given, **kwargs)


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
    spend(_LETTERS_OF_AN_ESCAPE * size_of(value))
    return value


def _charge_sum(*parts: Any) -> Any:
    """`a + b + c` at once: strings are joined, anything else is added one by one."""
    if set(map(type, parts)) != {str}:
        return reduce(partial(_run_operator, '+'), parts)
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


def _run_operator(symbol: str, left: Any, right: Any) -> Any:
    before = METER.get().chars
    charge_operator(symbol, left, right)
    return _charge_result(MeteredEnvironment.default_binop_table[symbol](left, right), before)


def _charge_result(result: Any, before: int) -> Any:
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


def _meter_filter(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def run_filter(*args: Any, **kwargs: Any) -> Any:
        if name in _FILTERS_OF_A_TEXT and len(args) == leading + 1 and type(args[leading]) is str and not kwargs:
            spend(len(args[leading]))
            return original(*args)
        before, given = args[:leading], list(args[leading:])
        if given and name in _CONSUMING_FILTERS:
            given[0] = materialize(given[0])
        held = METER.get().chars
        charge_filter(name, given, kwargs)
        dots = sum(word.count('.') for word in (*given[1:], *kwargs.values()) if type(word) is str)
        if given and given[0] and name in _LAZY_FILTERS:
            given[0] = charge_each(given[0], STEPS_PER_CALL * (1 + dots))
        elif dots:
            spend(0, STEPS_PER_CALL * dots * breadth_of(given[0]))
        result = original(*before, *given, **kwargs)
        return charge_each(result) if type(result) is GeneratorType else _charge_result(result, held)

    return run_filter


def _meter_test(original: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def run_test(*args: Any, **kwargs: Any) -> Any:
        spend(0, 1 + sum(size_of(value, printed=False) for value in args[leading:]) // _LETTERS_PER_STEP)
        return original(*args, **kwargs)

    return run_test


def _is_divisible(value: Any, number: Any) -> bool:
    return bool(_run_operator('%', value, number) == 0)


def _is_even(value: Any) -> bool:
    return bool(_run_operator('%', value, 2) == 0)


def _is_odd(value: Any) -> bool:
    return bool(_run_operator('%', value, 2) == 1)


# --- the environment ----------------------------------------------------------


class GenerationBlock(Extension):
    """`{% generation %} … {% endgeneration %}` marks the model's text for training; here it only prints its body."""

    tags = {'generation'}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class _Formatter(SandboxedFormatter):
    """`str.format` that charges each field before it is written."""

    growth = 1

    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion is not None:
            spend(_LETTERS_OF_AN_ESCAPE * size_of(value))
        return super().convert_field(value, conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        spend(self.growth * size_of(value) + width_in(format_spec), STEPS_PER_CALL)
        return cast('str', super().format_field(value, format_spec))


class _EscapeFormatter(_Formatter, SandboxedEscapeFormatter):
    """The same for text that is marked safe, in which values are escaped."""

    growth = _LETTERS_OF_AN_ESCAPE


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox, in which operators, calls and formats are charged before they run."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _run_operator(operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if type(__obj) is Macro:
            METER.get().spend(NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
            return __context.call(__obj, *args, **kwargs)
        owner = getattr(__obj, '__self__', None)
        before = METER.get().chars
        if isinstance(owner, LoopContext):
            spend(sum(map(size_of, args)))
        elif isinstance(__obj, BuiltinMethodType) or isinstance(owner, str):
            args = tuple(map(materialize, args))
            if __obj.__name__ not in ('format', 'format_map') or not isinstance(owner, str):
                charge_method(owner, __obj.__name__, args, _own_arguments(kwargs))
        else:
            spend(NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
        return _charge_result(super().call(__context, __obj, *args, **kwargs), before)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        if super().wrap_str_format(value) is None:
            return None
        pattern: str = value.__self__
        escape = getattr(pattern, 'escape', None)
        formatter = _EscapeFormatter(self, escape=escape) if isinstance(pattern, Markup) else _Formatter(self)

        def write(*args: Any, **kwargs: Any) -> str:
            spend(len(pattern), STEPS_PER_CALL)
            if value.__name__ == 'format':
                return type(pattern)(formatter.vformat(pattern, args, kwargs))
            (values,) = args
            return type(pattern)(formatter.vformat(pattern, (), values))

        return write


def _own_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Without the arguments that jinja2 adds to a call inside a loop or block."""
    return {name: value for name, value in kwargs.items() if name not in ('_loop_vars', '_block_vars')}


def make_environment(**options: Any) -> MeteredEnvironment:
    """A sandbox in which all work is metered. `options` are jinja2's."""
    env = MeteredEnvironment(**options)
    env.filters = {name: _meter_filter(name, original) for name, original in env.filters.items()}
    env.filters |= {
        TICK: _tick,
        TEXT: _charge_text,
        ESCAPED: _charge_escaped,
        COPY: _charge_copy,
        LOOK: _charge_look,
        SCAN: _charge_scan,
        SUM: _charge_sum,
        SUM_TO_READ: _charge_sum_to_read,
        'tojson': to_json,
    }
    env.filters['random'] = _unpredictable('the filter random')
    tests = cast('dict[str, Callable[..., Any]]', env.tests)
    env.tests = {name: test if name in _CONSTANT_TIME_TESTS else _meter_test(test) for name, test in tests.items()}
    env.tests |= {'divisibleby': _is_divisible, 'even': _is_even, 'odd': _is_odd}
    env.globals |= {
        'dict': make_dict,
        'namespace': make_namespace,
        'lipsum': _unpredictable('lipsum()'),
        'raise_exception': raise_exception,
    }
    return env


ENVIRONMENT = make_environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])


def compile_template(source: str) -> CodeType:
    """Compile a chat template with charges in it. Constants are folded here, so this is metered too."""
    return ENVIRONMENT.compile(parse_template(source, ENVIRONMENT))


def parse_template(source: str, environment: MeteredEnvironment) -> nodes.Template:
    """Parse a template and put charges into its tree."""
    if len(source) > MAX_SOURCE:
        raise WorkExceededError(f'it is longer than {MAX_SOURCE:,} characters')
    tree = environment.parse(source)
    if sum(1 for _ in everything_in([tree])) > MAX_NODES:
        raise WorkExceededError(f'it has more than {MAX_NODES:,} expressions')
    for constant in tree.find_all(nodes.Const):
        check_number(constant.value)
    put_charges_in(tree)
    return tree
