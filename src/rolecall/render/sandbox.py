"""A Jinja environment for templates by strangers: they say what transformers lets them say, and pay for it.

jinja2's sandbox keeps a template away from the machine, but not from its time and memory. Here the parsed
template is rewritten so that each turn of a loop, each macro and each growing value is charged to a meter.
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
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from rolecall.render import metering
from rolecall.render.charging import (
    COPY,
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
from rolecall.render.metering import METER, WorkExceededError, spend

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
    {
        'boolean',
        'callable',
        'defined',
        'divisibleby',
        'escaped',
        'even',
        'false',
        'filter',
        'float',
        'integer',
        'iterable',
    }
    | {'mapping', 'none', 'number', 'odd', 'sameas', 'sequence', 'string', 'test', 'true', 'undefined'}
)
_CONSUMING_FILTERS = frozenset(
    {'batch', 'groupby', 'join', 'list', 'max', 'min', 'reverse', 'slice', 'sort', 'sum', 'unique'}
)
_FILTERS_OF_A_TEXT = frozenset({'capitalize', 'count', 'length', 'lower', 'safe', 'string', 'trim', 'upper'})
_LAZY_FILTERS = frozenset({'map', 'select', 'reject', 'selectattr', 'rejectattr'})
_LETTERS_PER_STEP = 64


class TemplateRefusedError(TemplateError):
    """The template called raise_exception."""


# --- what a template calls ---------------------------------------------------


def raise_exception(message: object) -> NoReturn:
    raise TemplateRefusedError(str(message))


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: letters as they are, nothing escaped for HTML.

    >>> from rolecall.render.metering import WorkMeter
    >>> with WorkMeter(1000, 1000):
    ...     to_json({'größe': '<3>'})
    '{"größe": "<3>"}'
    """
    chars = metering.size(value)
    if indent is not None or separators is not None:
        chars *= 1 + metering.size(separators) + metering.MAX_DEPTH * metering.reach(indent)
    spend(chars, 1 + (chars >> 3))
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def make_dict(*args: Any, **kwargs: Any) -> dict[Any, Any]:
    """`dict` as a function: the class itself would hand out `dict.update`, which changes the caller's values."""
    as_list = tuple(map(metering.as_list, args))
    spend(sum(map(metering.size, as_list)) + metering.NODE_CHARS * len(kwargs))
    return dict(*as_list, **kwargs)


class CountedNamespace(Namespace):
    """A namespace that pays when it is printed, since namespaces can hold each other."""

    def __repr__(self) -> str:
        spend(metering.PART_CHARS, STEPS_PER_CALL)
        return super().__repr__()


def _unpredictable(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise SecurityError(f'{name} gives another text each time')

    return refuse


@pass_context
def _tick(_: Context, steps: int, chars: int = 0) -> bool:
    """One turn of a loop or one call: how much its body does, how much it prints. Always true."""
    meter = METER.get()
    meter.chars -= abs(chars)
    meter.steps -= 1 + abs(steps)
    if meter.chars < 0 or meter.steps < 0:
        meter.refuse()
    return True


def _charged_text(value: Any) -> Any:
    """The value itself, charged with the length of its text."""
    chars = len(value) if type(value) is str else metering.size(value)
    meter = METER.get()
    meter.chars -= chars
    meter.steps -= 1 + (chars >> 6)
    if meter.chars < 0 or meter.steps < 0:
        meter.refuse()
    return value


def _charged_sum(*parts: Any) -> Any:
    """`a + b + c` at once: texts are joined, anything else is added one by one."""
    if set(map(type, parts)) != {str}:
        return reduce(partial(_charged_operation, '+'), parts)
    chars = sum(map(len, parts))
    meter = METER.get()
    meter.chars -= chars
    meter.steps -= 1 + (chars >> 6)
    if meter.chars < 0 or meter.steps < 0:
        meter.refuse()
    return ''.join(parts)


def _charged_sum_to_read(*parts: Any) -> Any:
    """The same, when the result is printed or looked into; a text was paid for when it was made."""
    total = _charged_sum(*parts)
    return total if type(total) is str else _charged_text(total)


def _charged_operation(symbol: str, left: Any, right: Any) -> Any:
    spend(_cost_of_operator(symbol, left, right))
    result = MeteredEnvironment.default_binop_table[symbol](left, right)
    if isinstance(result, int) and result.bit_length() > metering.MAX_BITS:
        raise WorkExceededError(f'it computes a number of more than {metering.MAX_BITS:,} bits')
    return result


def _charged_copy(value: Any) -> Any:
    """The value itself, charged with its length."""
    spend(len(value) if isinstance(value, str) else metering.NODE_CHARS * metering.breadth(value))
    return value


def _charged_look(value: Any) -> Any:
    """The value itself, charged with the time it takes to look through it."""
    spend(0, 1 + metering.size(value) // _LETTERS_PER_STEP)
    return value


def _charged_scan(value: Any) -> Any:
    """The value itself, charged with the time it takes to go along it, not looking into its items."""
    spend(0, 1 + metering.breadth(value) // (_LETTERS_PER_STEP if isinstance(value, str) else 2))
    return value


def _charged_filter(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def call_charged(*args: Any, **kwargs: Any) -> Any:
        if name in _FILTERS_OF_A_TEXT and len(args) == leading + 1 and type(args[leading]) is str and not kwargs:
            spend(len(args[leading]))
            return original(*args)
        before, given = args[:leading], list(args[leading:])
        if given and name in _CONSUMING_FILTERS:
            given[0] = metering.as_list(given[0])
        metering.charge_filter(name, given, kwargs)
        dots = sum(word.count('.') for word in (*given[1:], *kwargs.values()) if type(word) is str)
        if given and given[0] and name in _LAZY_FILTERS:
            given[0] = metering.charge_each(given[0], STEPS_PER_CALL * (1 + dots))
        elif dots:
            spend(0, STEPS_PER_CALL * dots * metering.breadth(given[0]))
        result = original(*before, *given, **kwargs)
        return metering.charge_each(result) if type(result) is GeneratorType else result

    return call_charged


def _charged_test(original: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def call_charged(*args: Any, **kwargs: Any) -> Any:
        spend(0, 1 + sum(map(metering.size, args[leading:])) // _LETTERS_PER_STEP)
        return original(*args, **kwargs)

    return call_charged


# --- the environment ---------------------------------------------------------


class GenerationBlock(Extension):
    """`{% generation %} … {% endgeneration %}` marks what the model says; here it only prints its body."""

    tags = {'generation'}  # noqa: RUF012  # as jinja2 declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(('name:endgeneration',), drop_needle=True)
        return nodes.Scope(body, lineno=line)


class MeteredEnvironment(ImmutableSandboxedEnvironment):
    """jinja2's immutable sandbox in which operators, calls and formats are charged before they happen."""

    intercepted_binops = frozenset(ImmutableSandboxedEnvironment.default_binop_table)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return _charged_operation(operator, left, right)

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        if type(__obj) is Macro:
            METER.get().spend(metering.NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
            return __context.call(__obj, *args, **kwargs)
        owner = getattr(__obj, '__self__', None)
        if isinstance(owner, LoopContext):
            spend(sum(map(metering.size, args)))
        elif isinstance(__obj, BuiltinMethodType) or isinstance(owner, str):
            args = tuple(map(metering.as_list, args))
            metering.charge_method(owner, __obj.__name__, args, _own_arguments(kwargs))
        else:
            spend(metering.NODE_CHARS * (len(args) + len(kwargs)), STEPS_PER_CALL)
        return super().call(__context, __obj, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        fill = super().wrap_str_format(value)
        if fill is None:
            return None
        pattern = value.__self__

        def call_charged(*args: Any, **kwargs: Any) -> str:
            spend(metering.cost_of_format(pattern, (*args, *kwargs.values())))
            return fill(*args, **kwargs)

        return call_charged


def _own_arguments(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Without those that jinja2 adds to a call inside a loop or block."""
    return {name: value for name, value in kwargs.items() if name not in ('_loop_vars', '_block_vars')}


def _cost_of_operator(symbol: str, left: Any, right: Any) -> int:
    if isinstance(left, int) and isinstance(right, int):
        if symbol == '**' and left.bit_length() * max(right, 1) > metering.MAX_BITS:
            raise WorkExceededError(f'it computes a number of more than {metering.MAX_BITS:,} bits')
        if max(left.bit_length(), right.bit_length()) > metering.MAX_BITS:
            raise WorkExceededError(f'it computes with a number of more than {metering.MAX_BITS:,} bits')
        return 0
    if symbol == '%' and isinstance(left, (str, bytes)):
        return metering.cost_of_percent(left if isinstance(left, str) else repr(left), right)
    if symbol == '*':
        return metering.NODE_CHARS * (metering.breadth(left) * _times(right) + metering.breadth(right) * _times(left))
    return metering.NODE_CHARS * (metering.breadth(left) + metering.breadth(right))


def _times(factor: Any) -> int:
    return max(factor, 0) if isinstance(factor, int) else 0


def make_environment(**options: Any) -> MeteredEnvironment:
    """A sandbox whose templates pay for their work. `options` are jinja2's."""
    env = MeteredEnvironment(**options)
    env.filters = {name: _charged_filter(name, original) for name, original in env.filters.items()}
    env.filters |= {
        TICK: _tick,
        TEXT: _charged_text,
        COPY: _charged_copy,
        LOOK: _charged_look,
        SCAN: _charged_scan,
        SUM: _charged_sum,
        SUM_TO_READ: _charged_sum_to_read,
        'tojson': to_json,
    }
    env.filters['random'] = _unpredictable('the filter random')
    tests = cast('dict[str, Callable[..., Any]]', env.tests)
    env.tests = {name: test if name in _CONSTANT_TIME_TESTS else _charged_test(test) for name, test in tests.items()}
    env.globals |= {
        'dict': make_dict,
        'namespace': CountedNamespace,
        'lipsum': _unpredictable('lipsum()'),
        'raise_exception': raise_exception,
    }
    return env


ENVIRONMENT = make_environment(trim_blocks=True, lstrip_blocks=True, extensions=[GenerationBlock, loopcontrols])


def compile_template(source: str) -> CodeType:
    """The code of a chat template, with the charges in it."""
    return ENVIRONMENT.compile(parse_template(source, ENVIRONMENT))


def parse_template(source: str, environment: MeteredEnvironment) -> nodes.Template:
    """The tree of a template, with the charges in it."""
    if len(source) > MAX_SOURCE:
        raise WorkExceededError(f'it is longer than {MAX_SOURCE:,} characters')
    tree = environment.parse(source)
    if sum(1 for _ in everything_in([tree])) > MAX_NODES:
        raise WorkExceededError(f'it has more than {MAX_NODES:,} expressions')
    put_charges_in(tree)
    return tree
