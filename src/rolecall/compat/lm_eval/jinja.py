"""Jinja templates of task files, rendered in the sandbox for one row, with the origin of every character."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

from jinja2 import ChainableUndefined, StrictUndefined, Template, nodes
from jinja2.filters import FILTERS

from rolecall.core.prompts.pieces import Origin, Text
from rolecall.core.render.chat_program import TEMPLATE_FAULTS, make_environment, parse_template
from rolecall.core.render.metering import WorkExceededError, WorkMeter, spend
from rolecall.errors import RenderError
from rolecall.patterns import substitute

_ORIGIN = 'rolecall_origin'
_MAX_STEPS = 2_000_000
_MAX_CHARS = 200_000_000


class _Value(str):
    """The value of an expression and the columns it depends on. `str()` leaves it as it is."""

    __slots__ = ('columns',)
    columns: str

    def __str__(self) -> str:
        return self


def _mark(value: Any, columns: str) -> _Value:
    marked = _Value(value if type(value) is str else str(value))
    marked.columns = columns
    return marked


def _regex_replace(text: str, pattern: str, repl: str, count: int = 0) -> str:
    spend(len(text))
    return substitute(pattern, repl, text, count)


_ENVIRONMENT = make_environment(undefined=StrictUndefined, keep_trailing_newline=True)
_ENVIRONMENT.filters |= {_ORIGIN: _mark, 'regex_replace': _regex_replace, 'tojson': FILTERS['tojson']}
_LENIENT = _ENVIRONMENT.overlay(undefined=ChainableUndefined)


class JinjaTemplate:
    """One template.

    >>> template = row_template('Q: {{question}}\\nA:', 'task.yaml:3')
    >>> template.render({'question': '1+1=?'})
    'Q: 1+1=?\\nA:'
    >>> [(piece.text, piece.origin.kind, piece.origin.name) for piece in template.pieces({'question': '1+1=?'})]
    [('Q: ', 'text', ''), ('1+1=?', 'field', 'question'), ('\\nA:', 'text', '')]
    """

    __slots__ = ('_template', 'place')

    def __init__(self, source: str, place: str = '', *, lenient: bool = False) -> None:
        self.place = place
        environment = _LENIENT if lenient else _ENVIRONMENT
        try:
            with WorkMeter(_MAX_STEPS, _MAX_CHARS):
                tree = parse_template(source, environment)
                _mark_expressions(tree)
                code = environment.compile(tree)
        except TEMPLATE_FAULTS as fault:
            raise RenderError(self._describe(fault)) from fault
        self._template = Template.from_code(environment, code, environment.make_globals(None))

    def render(self, row: Mapping[str, Any]) -> str:
        """The text for a row."""
        return ''.join(self._chunks(row))

    def pieces(self, row: Mapping[str, Any]) -> list[Text]:
        """The text for a row, in pieces: the template's own text, and values."""
        literal = Origin('text', source=self.place)
        pieces: list[Text] = []
        for chunk in self._chunks(row):
            columns = chunk.columns if isinstance(chunk, _Value) else None
            origin = literal if columns is None else Origin('field', columns, source=self.place)
            if chunk and pieces and pieces[-1].origin == origin:
                pieces[-1] = replace(pieces[-1], text=pieces[-1].text + chunk)
            elif chunk:
                pieces.append(Text(''.join(chunk), origin))
        return pieces

    def _chunks(self, row: Mapping[str, Any]) -> list[str]:
        try:
            with WorkMeter(_MAX_STEPS, _MAX_CHARS):
                return list(self._template.root_render_func(self._template.new_context(dict(row))))
        except TEMPLATE_FAULTS as fault:
            raise RenderError(self._describe(fault)) from fault

    def _describe(self, fault: BaseException) -> str:
        at = f'{self.place}: ' if self.place else ''
        if isinstance(fault, WorkExceededError):
            return f'{at}the template was stopped: {fault}.'
        return f'{at}the template raised {type(fault).__name__}: {fault}'


@lru_cache(maxsize=4096)
def row_template(source: str, place: str = '', *, lenient: bool = False) -> JinjaTemplate:
    """The template of a source, compiled once; `lenient` words names that are missing as nothing."""
    return JinjaTemplate(source, place, lenient=lenient)


def _mark_expressions(tree: nodes.Template) -> None:
    """Make every printed expression record the columns it reads."""
    for output in tree.find_all(nodes.Output):
        output.nodes = [
            node if isinstance(node, nodes.TemplateData) else _mark_expression(node) for node in output.nodes
        ]


def _mark_expression(node: nodes.Expr) -> nodes.Filter:
    columns = ', '.join(dict.fromkeys(_names_in(node)))
    return nodes.Filter(node, _ORIGIN, [nodes.Const(columns)], [], None, None, lineno=node.lineno)


def _names_in(node: nodes.Node) -> Iterator[str]:
    if isinstance(node, nodes.Name):
        yield node.name
    for child in node.iter_child_nodes():
        yield from _names_in(child)
