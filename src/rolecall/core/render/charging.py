"""Rewrites a parsed chat template so that its work is charged: in each body that may run again, and around each value
that can grow without an operator that the sandbox intercepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jinja2 import nodes

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
        elif (searched and not _is_list_of_constants(operand.expr)) or not (constant or _is_constant(operand.expr)):
            node.expr = _wrap_in_charge(LOOK, node.expr)
            operand.expr = _wrap_in_charge(LOOK, operand.expr)


def _is_constant(value: nodes.Expr) -> bool:
    return isinstance(value, nodes.Const) or _is_list_of_constants(value)


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
