"""A Jinja environment for templates by strangers: they say what transformers lets them say, and pay for it.

jinja2's sandbox keeps a template away from the machine, but not from its time and memory. Here the parsed
template is rewritten so that each turn of a loop, each macro and each growing value is charged to a meter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from types import BuiltinMethodType, CodeType, GeneratorType
from typing import Any, NoReturn, cast

from jinja2 import nodes, pass_context
from jinja2.exceptions import SecurityError, TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from rolecall.render import metering
from rolecall.render.metering import METER, Meter, WorkExceededError, spend

__all__ = ['ENVIRONMENT', 'RefusedError', 'compile_template', 'metered']

MAX_SOURCE = 1 << 17
MAX_NODES = 20_000

# Names that no template can write. Reached as text (through `map`, say) they only charge.
TICK = ' tick'
TEXT = ' text'
COPY = ' copy'
LOOK = ' look'
SCAN = ' scan'

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
_LAZY_FILTERS = frozenset({'map', 'select', 'reject', 'selectattr', 'rejectattr'})
_OPERATIONS_PER_STEP = 8
_LETTERS_PER_STEP = 16
_STEPS_PER_CALL = 8


class RefusedError(TemplateError):
    """The template called raise_exception."""


@contextmanager
def metered(max_steps: int, max_chars: int) -> Iterator[None]:
    """Count what is done inside against these bounds."""
    token = METER.set(Meter(max_steps, max_chars))
    try:
        yield
    finally:
        METER.reset(token)


# --- what a template calls ---------------------------------------------------


def raise_exception(message: object) -> NoReturn:
    raise RefusedError(str(message))


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as chat templates expect it: letters as they are, nothing escaped for HTML.

    >>> with metered(1000, 1000):
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
    settled = tuple(map(metering.settled, args))
    spend(sum(map(metering.size, settled)) + metering.NODE_CHARS * len(kwargs))
    return dict(*settled, **kwargs)


class CountedNamespace(Namespace):
    """A namespace that pays when it is printed, since namespaces can hold each other."""

    def __repr__(self) -> str:
        spend(metering.PART_CHARS, _STEPS_PER_CALL)
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


def _charged_sum(first: Any, *rest: Any) -> Any:
    """`a + b + c` at once: texts are joined, anything else is added one by one."""
    try:
        text = ''.join((first, *rest)) if type(first) is str else None
    except TypeError:
        text = None
    if text is None:
        return reduce(_charged_addition, rest, first)
    return _charged_text(text)


def _charged_addition(left: Any, right: Any) -> Any:
    return ENVIRONMENT.add(left, right)


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
    def charged(*args: Any, **kwargs: Any) -> Any:
        before, given = args[:leading], list(args[leading:])
        if given and name in _CONSUMING_FILTERS:
            given[0] = metering.settled(given[0])
        metering.charge_filter(name, given, kwargs)
        dots = sum(word.count('.') for word in (*given[1:], *kwargs.values()) if type(word) is str)
        if given and given[0] and name in _LAZY_FILTERS:
            given[0] = metering.counted(given[0], _STEPS_PER_CALL * (1 + dots))
        elif dots:
            spend(0, _STEPS_PER_CALL * dots * metering.breadth(given[0]))
        result = original(*before, *given, **kwargs)
        return metering.counted(result) if type(result) is GeneratorType else result

    return charged


def _charged_test(original: Callable[..., Any]) -> Callable[..., Any]:
    leading = 1 if hasattr(original, 'jinja_pass_arg') else 0

    @wraps(original)
    def charged(*args: Any, **kwargs: Any) -> Any:
        spend(0, 1 + sum(map(metering.size, args[leading:])) // _LETTERS_PER_STEP)
        return original(*args, **kwargs)

    return charged


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
        if type(left) is str and operator == '+':
            spend(len(left) + (len(right) if type(right) is str else 1))
            return left + right
        spend(_cost_of_operator(operator, left, right))
        result = self.binop_table[operator](left, right)
        if isinstance(result, int) and result.bit_length() > metering.MAX_BITS:
            raise WorkExceededError(f'it computes a number of more than {metering.MAX_BITS:,} bits')
        return result

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        owner = getattr(__obj, '__self__', None)
        if isinstance(__obj, BuiltinMethodType) or isinstance(owner, (str, LoopContext)):
            args = tuple(map(metering.settled, args))
            metering.charge_method(owner, __obj.__name__, args, _own_arguments(kwargs))
        else:
            spend(metering.NODE_CHARS * (len(args) + len(kwargs)), _STEPS_PER_CALL)
        return super().call(__context, __obj, *args, **kwargs)

    def getitem(self, obj: Any, argument: Any) -> Any:
        if type(argument) is tuple:
            spend(metering.size(argument))
        return super().getitem(obj, argument)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        fill = super().wrap_str_format(value)
        if fill is None:
            return None
        pattern = value.__self__

        def charged(*args: Any, **kwargs: Any) -> str:
            spend(metering.cost_of_format(pattern, (*args, *kwargs.values())))
            return fill(*args, **kwargs)

        return charged


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


def _environment() -> MeteredEnvironment:
    env = MeteredEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[GenerationBlock, loopcontrols],
        finalize=_charged_text,
    )
    env.filters = {name: _charged_filter(name, original) for name, original in env.filters.items()}
    env.filters |= {
        TICK: _tick,
        TEXT: _charged_text,
        COPY: _charged_copy,
        LOOK: _charged_look,
        SCAN: _charged_scan,
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


# --- the rewriting -----------------------------------------------------------


_SMALL = (nodes.Const, nodes.Compare, nodes.Test, nodes.Not)


def put_charges_in(tree: nodes.Template) -> None:
    """Add a charge wherever a template repeats itself or makes a value grow without an operator."""
    for node in list(tree.find_all(tuple(_CHARGES))):
        _CHARGES[type(node)](node)


def _charge_loop(node: nodes.For) -> None:
    if node.test is not None:
        node.test = nodes.And(_tick_expression([node.test], node.lineno), node.test, lineno=node.lineno)
    _charge_body(node)


def _charge_body(node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block) -> None:
    node.body.insert(0, nodes.ExprStmt(_tick_expression(node.body, node.lineno), lineno=node.lineno))


def _charge_concatenation(node: nodes.Concat) -> None:
    node.nodes = [_charged(TEXT, part) for part in node.nodes]


def _charge_slice(node: nodes.Getitem) -> None:
    if isinstance(node.arg, nodes.Slice):
        node.node = _charged(COPY, node.node)


def _charge_keys(node: nodes.Dict) -> None:
    for pair in node.items:
        pair.key = _charged(TEXT, pair.key)


def _charge_comparison(node: nodes.Compare) -> None:
    """Next to a constant a comparison ends at once; a search goes along the items; the rest looks into them."""
    constant = len(node.ops) == 1 and isinstance(node.expr, nodes.Const)
    for operand in node.ops:
        searched = operand.op in ('in', 'notin')
        if searched and constant:
            operand.expr = _charged(SCAN, operand.expr)
        elif (searched and not _is_list_of_constants(operand.expr)) or not (constant or _is_constant(operand.expr)):
            node.expr = _charged(LOOK, node.expr)
            operand.expr = _charged(LOOK, operand.expr)


def _is_constant(value: nodes.Expr) -> bool:
    return isinstance(value, nodes.Const) or _is_list_of_constants(value)


def _is_list_of_constants(value: nodes.Expr) -> bool:
    return isinstance(value, (nodes.List, nodes.Tuple)) and all(isinstance(item, nodes.Const) for item in value.items)


_CHARGES: dict[type[nodes.Node], Callable[[Any], None]] = {
    nodes.For: _charge_loop,
    nodes.Macro: _charge_body,
    nodes.CallBlock: _charge_body,
    nodes.Block: _charge_body,
    nodes.Concat: _charge_concatenation,
    nodes.Getitem: _charge_slice,
    nodes.Dict: _charge_keys,
    nodes.Compare: _charge_comparison,
}


def _charged(name: str, value: nodes.Expr) -> nodes.Expr:
    if isinstance(value, _SMALL) or (isinstance(value, nodes.Filter) and value.name == name):
        return value
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


def _tick_expression(body: Sequence[nodes.Node], line: int) -> nodes.Filter:
    """A charge for one turn: the steps the body takes, and the characters of its own that it prints."""
    operations = chars = 0
    for node in _everything_in(body):
        operations += _STEPS_PER_CALL * _OPERATIONS_PER_STEP if isinstance(node, nodes.For) else 1
        chars += len(node.data) if isinstance(node, nodes.TemplateData) else 0
    steps = nodes.Const(operations // _OPERATIONS_PER_STEP)
    return nodes.Filter(steps, TICK, [nodes.Const(chars)], [], None, None, lineno=line)


def _everything_in(body: Sequence[nodes.Node]) -> Iterator[nodes.Node]:
    waiting = list(body)
    while waiting:
        yield (node := waiting.pop())
        waiting.extend(node.iter_child_nodes())


ENVIRONMENT = _environment()


def compile_template(source: str) -> CodeType:
    """The code of a template, with the charges in it."""
    if len(source) > MAX_SOURCE:
        raise WorkExceededError(f'it is longer than {MAX_SOURCE:,} characters')
    tree = ENVIRONMENT.parse(source)
    if sum(1 for _ in _everything_in([tree])) > MAX_NODES:
        raise WorkExceededError(f'it has more than {MAX_NODES:,} expressions')
    put_charges_in(tree)
    return ENVIRONMENT.compile(tree)
