"""The meter of a rendering: how much work, memory and time a chat template has left, how large its values are, and
where a parsed template is charged: in each body that may run again, and around each value that can grow.

A step is about the time of a short expression, a character about the memory it leaves. Operations are charged before
they run, so one that is too large never starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain
from types import BuiltinFunctionType, FunctionType, GeneratorType, MethodType
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateRuntimeError
from jinja2.utils import Namespace

# Filters with names that no template can write. Reached by name (through `map`, say) they only charge.
TICK = ' tick'
TEXT = ' text'
ESCAPED = ' escaped'
COPY = ' copy'
LOOK = ' look'
SCAN = ' scan'
SUM = ' sum'
SUM_TO_READ = ' sum to read'

STEPS_PER_CALL = 8
_OPERATIONS_PER_STEP = 8

_SMALL = (nodes.Const, nodes.TemplateData, nodes.Compare, nodes.Test, nodes.Not)
MAX_SECONDS = 20
"""The wall-clock guard behind the meter: nothing legitimate comes near it."""
MAX_DEPTH = 100
MAX_DIGITS = 4_200  # Python prints up to 4,300
MAX_BITS = MAX_DIGITS * 10 // 3
NODE_CHARS = 8
PART_CHARS = 64
STEPS_PER_NODE = 2

_STEPS_BETWEEN_CHECKS = 1 << 14
_ATOMS = frozenset({str, bytes, int, float, bool, type(None), range})
_ADDRESSED = (FunctionType, BuiltinFunctionType, MethodType, GeneratorType)


class WorkExceededError(TemplateRuntimeError):
    """A template exceeded its budget."""


class WorkMeter:
    """The budget of one rendering: everything inside `with WorkMeter(…):` is charged to it.

    `steps` is a small advance on the steps that are left; whenever it is used up, `settle` looks at the clock and hands
    out the next one.
    """

    __slots__ = ('_deadline', '_outer', '_reserve', 'chars', 'max_chars', 'max_steps', 'steps')

    def __init__(self, max_steps: int, max_chars: int, *, max_seconds: float = MAX_SECONDS) -> None:
        self.max_steps = max_steps
        self.chars = self.max_chars = max_chars
        self.steps = max_steps if max_steps < _STEPS_BETWEEN_CHECKS else _STEPS_BETWEEN_CHECKS
        self._reserve = max_steps - self.steps
        self._deadline = time.monotonic() + max_seconds

    def __enter__(self) -> None:
        self._outer = METER.set(self)

    def __exit__(self, *_: object) -> None:
        METER.reset(self._outer)

    def spend(self, chars: int, steps: int) -> None:
        """Charge characters and steps, or raise."""
        self.chars -= chars
        self.steps -= steps + (chars >> 6)
        if self.chars < 0 or self.steps < 0:
            self.settle()

    def settle(self) -> None:
        """Raise if the budget is exceeded; otherwise take the next advance."""
        if self.chars < 0:
            self._stop(f'it makes more than {self.max_chars:,} characters')
        if self.steps_left < 0:
            self._stop(f'it takes more than {self.max_steps:,} steps')
        if time.monotonic() > self._deadline:
            self._stop('it runs for too long')
        advance = min(self._reserve, _STEPS_BETWEEN_CHECKS - self.steps)
        self.steps += advance
        self._reserve -= advance

    def _stop(self, why: str) -> NoReturn:
        raise WorkExceededError(why)

    @property
    def steps_left(self) -> int:
        """The steps that may still be taken."""
        return self.steps + self._reserve


METER: ContextVar[WorkMeter] = ContextVar('meter')


def spend(chars: int, steps: int = 2) -> None:
    """Charge the current rendering."""
    METER.get().spend(chars, steps)


def check_number(value: Any) -> Any:
    """The value itself; raise if it is a number with too many digits to print."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise WorkExceededError(f'it computes a number of more than {MAX_DIGITS:,} digits')
    return value


def size_of(value: object, *, printed: bool = True) -> int:
    """About how many characters the text of a value takes. Each item inside it costs a step.

    Raises where that text would contain a memory address, unless the value is not `printed` but only looked at.

    >>> with WorkMeter(1000, 1000):
    ...     size_of('four'), size_of(['four', {'a': 1}])
    (4, 46)
    """
    if isinstance(value, (str, bytes)):
        return len(value)
    if isinstance(value, range):
        spend(0, STEPS_PER_NODE * len(value))
        return NODE_CHARS * len(value)
    if value is None or isinstance(value, (bool, float)):
        return 1
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if printed:
        _check_printable(value)
    inner = _items_of(value)
    return 1 if inner is None else _measure_items(inner, printed=printed)[0]


def measure(value: object) -> tuple[int, int]:
    """The size of a printed value, and how many levels of containers it has."""
    if type(value) in _ATOMS or (inner := _items_of(value)) is None:
        return size_of(value), 0
    _check_printable(value)
    return _measure_items(inner, printed=True)


def _items_of(value: object) -> Iterator[object] | None:
    """The values inside a container, keys included; None if it is not a container."""
    if isinstance(value, (list, tuple)):
        return iter(value)
    if type(value) in _ATOMS:
        return None
    if isinstance(value, Namespace):
        return chain.from_iterable(value._Namespace__attrs.items())
    if isinstance(value, Mapping):
        return chain.from_iterable(value.items())
    return iter(value) if isinstance(value, Collection) and not isinstance(value, (str, bytes)) else None


def _measure_items(first: Iterator[object], *, printed: bool) -> tuple[int, int]:
    meter = METER.get()
    total, nodes, most = NODE_CHARS, 0, meter.steps_left // STEPS_PER_NODE
    levels, depth = [first], 1
    while levels and nodes <= most and total <= meter.chars:
        for value in levels[-1]:
            nodes += 1
            if type(value) is str:
                total += NODE_CHARS + len(value)
            elif type(value) in _ATOMS:
                total += NODE_CHARS + breadth_of(value)
            else:
                if printed:
                    _check_printable(value)
                total += NODE_CHARS
                if (inner := _items_of(value)) is None:
                    total += breadth_of(value)
                    continue
                levels.append(inner)
                break
        else:
            levels.pop()
        depth = max(depth, len(levels))
        if depth > MAX_DEPTH:
            raise WorkExceededError(f'it nests values more than {MAX_DEPTH} deep')
    meter.spend(0, STEPS_PER_NODE * nodes)
    return total, depth


def _check_printable(value: object) -> None:
    """Raise if the text of a value contains its memory address, which differs from run to run."""
    kind = type(value)
    if isinstance(value, _ADDRESSED) or (kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__):
        raise SecurityError(f'it prints a {kind.__name__}, whose text is a memory address')


def breadth_of(value: object) -> int:
    """How many items or characters a value has, without looking inside the items."""
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    try:
        return len(value)  # type: ignore[arg-type]  # a value without a length counts as one
    except TypeError:
        return 1


def charge_each(items: Iterable[Any], steps: int = 2) -> Iterator[Any]:
    """The same items, each charged when it is taken."""
    meter = METER.get()
    for item in items:
        meter.spend(NODE_CHARS, steps)
        yield item


def materialize(items: Any) -> Any:
    """A list in place of an iterator, whose length is unknown."""
    return list(charge_each(items)) if isinstance(items, Iterator) else items


def put_charges_in(tree: nodes.Template) -> None:
    """Add a charge wherever a template repeats work or makes a value grow without an operator."""
    everything = list(everything_in([tree]))
    text = ESCAPED if any(isinstance(node, nodes.EvalContextModifier) for node in everything) else TEXT
    for node in reversed(everything):
        for name, value in list(node.iter_fields()):
            setattr(node, name, list(map(_sum_at_once, value)) if isinstance(value, list) else _sum_at_once(value))
    for node in everything:
        if isinstance(node, (nodes.Concat, nodes.Output)):
            node.nodes = [_wrap_in_charge(text, part) for part in node.nodes]
        elif charge := _CHARGES.get(type(node)):
            charge(node)


def _sum_at_once(value: Any) -> Any:
    """A chain of additions as one operation; the operands were rewritten before."""
    if not isinstance(value, nodes.Add):
        return value
    left = value.left
    if isinstance(left, nodes.Filter) and left.name == SUM:
        return nodes.Filter(left.node, SUM, [*left.args, value.right], [], None, None, lineno=value.lineno)
    return nodes.Filter(left, SUM, [value.right], [], None, None, lineno=value.lineno)


def _charge_loop(node: nodes.For) -> None:
    if node.test is not None:
        node.test = nodes.And(_tick_expression([node.test], node.lineno), node.test, lineno=node.lineno)
    _charge_body(node)


def _charge_body(node: nodes.For | nodes.Macro | nodes.CallBlock | nodes.Block) -> None:
    node.body.insert(0, nodes.ExprStmt(_tick_expression(node.body, node.lineno), lineno=node.lineno))


def _charge_subscript(node: nodes.Getitem) -> None:
    if isinstance(node.arg, nodes.Slice):
        node.node = _wrap_in_charge(COPY, node.node)
    else:
        node.arg = _wrap_in_charge(LOOK, node.arg)


def _charge_keys(node: nodes.Dict) -> None:
    for pair in node.items:
        pair.key = _wrap_in_charge(TEXT, pair.key)


def _charge_comparison(node: nodes.Compare) -> None:
    """A comparison with a constant ends at once; a search goes along the items; anything else looks into them."""
    constant = len(node.ops) == 1 and isinstance(node.expr, nodes.Const)
    for operand in node.ops:
        searched = operand.op in ('in', 'notin')
        if searched and constant:
            operand.expr = _wrap_in_charge(SCAN, operand.expr)
        elif (searched and not _is_list_of_constants(operand.expr)) or not (
            constant or isinstance(operand.expr, nodes.Const) or _is_list_of_constants(operand.expr)
        ):
            node.expr = _wrap_in_charge(LOOK, node.expr)
            operand.expr = _wrap_in_charge(LOOK, operand.expr)


def _is_list_of_constants(value: nodes.Expr) -> bool:
    return isinstance(value, (nodes.List, nodes.Tuple)) and all(isinstance(item, nodes.Const) for item in value.items)


_CHARGES: dict[type[nodes.Node], Callable[[Any], None]] = {
    nodes.For: _charge_loop,
    nodes.Macro: _charge_body,
    nodes.CallBlock: _charge_body,
    nodes.Block: _charge_body,
    nodes.Getitem: _charge_subscript,
    nodes.Dict: _charge_keys,
    nodes.Compare: _charge_comparison,
}


def _wrap_in_charge(name: str, value: nodes.Expr) -> nodes.Expr:
    """The value inside a charging filter, unless its own filter charges as much."""
    if isinstance(value, _SMALL):
        return value
    if isinstance(value, nodes.Filter) and value.name == SUM and name not in (COPY, ESCAPED):
        value.name = SUM_TO_READ
    if isinstance(value, nodes.Filter) and (value.name == name or (value.name == SUM_TO_READ and name != ESCAPED)):
        return value
    return nodes.Filter(value, name, [], [], None, None, lineno=value.lineno)


def _tick_expression(body: Sequence[nodes.Node], line: int) -> nodes.Filter:
    """A charge for one turn: the steps of the body, and the characters of template text that it prints."""
    operations = chars = 0
    for node in everything_in(body):
        operations += STEPS_PER_CALL * _OPERATIONS_PER_STEP if isinstance(node, nodes.For) else 1
        chars += len(node.data) if isinstance(node, nodes.TemplateData) else 0
    steps = nodes.Const(operations // _OPERATIONS_PER_STEP)
    return nodes.Filter(steps, TICK, [nodes.Const(chars)], [], None, None, lineno=line)


def everything_in(body: Sequence[nodes.Node]) -> Iterator[nodes.Node]:
    waiting = list(body)
    while waiting:
        yield (node := waiting.pop())
        waiting.extend(node.iter_child_nodes())
