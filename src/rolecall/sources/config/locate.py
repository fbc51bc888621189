"""Finds the line of a config value by running the files again, with every list and dict recording its line.

A container is matched by identity, wherever it ends up; a plain value by the key or index it was first stored under,
unless it was replaced since. Other places have no answer.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any

from rolecall.errors import ConfigError
from rolecall.sources.config.execute import Namespace, Runner, Settings
from rolecall.sources.config.reference import Resolve

Place = tuple[str, int]

_STEP = re.compile(r"\.?(?P<name>[^.\[\]]+)|\[(?P<index>-?\d+)\]|\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]")
_NOTE = '__rolecall_note__'


@dataclass(frozen=True, slots=True)
class _Display:
    """An expression that builds a container: where it stands, and the lines of the parts it spells out."""

    file: str
    line: int
    parts: Mapping[Hashable, int]


@dataclass(frozen=True, slots=True)
class _Built:
    """One container that an expression built, with its initial items."""

    value: Any
    display: _Display
    items: Mapping[Hashable, Any]


@dataclass(slots=True)
class LineTrace:
    """A second run of a config file, and where each container in it was built."""

    names: Namespace = field(default_factory=dict)
    assigned: dict[str, Place] = field(default_factory=dict)
    built: dict[int, _Built] = field(default_factory=dict)

    def find(self, place: str, loaded: Mapping[str, Any]) -> Place | None:
        """The file and line of a value, if this run holds the same value there as the one that was loaded."""
        steps = split_place(place)
        if not steps or steps[0] not in self.names:
            return None
        value, original = self.names, loaded
        owner: Any = None
        for step in steps:
            try:
                owner, value, original = value, value[step], original[step]  # type: ignore[index]  # any container
            except (KeyError, IndexError, TypeError):
                return None
        if not _same(value, original):
            return None
        return self._line_of_container(value) or self._line_of_value(owner, steps)

    def _line_of_container(self, value: object) -> Place | None:
        record = self.built.get(id(value))
        return (record.display.file, record.display.line) if record else None

    def _line_of_value(self, owner: object, steps: Sequence[str | int]) -> Place | None:
        last = steps[-1]
        if len(steps) == 1:
            return self.assigned.get(str(last))
        record = self.built.get(id(owner))
        if record is None or last not in record.display.parts or last not in record.items:
            return None
        now = owner[last] if isinstance(owner, dict | list) else None  # type: ignore[index]  # the step fits the owner
        return (record.display.file, record.display.parts[last]) if record.items[last] is now else None


@dataclass(slots=True)
class Retrace:
    """The second run, made once, on first use."""

    path: str
    resolve: Resolve
    roots: tuple[str, ...]
    lines: LineTrace | None = None

    def __call__(self) -> LineTrace:
        if self.lines is None:
            self.lines = trace(self.path, self.resolve, self.roots)
        return self.lines

    def __reduce__(self) -> tuple[type[Retrace], tuple[str, Resolve, tuple[str, ...]]]:
        return Retrace, (self.path, self.resolve, self.roots)


def trace(path: str, resolve: Resolve, roots: Sequence[str]) -> LineTrace:
    """Runs a config file again and remembers where its values were written; empty if it no longer runs."""
    lines = LineTrace()
    displays: list[_Display] = []

    def note(number: int, value: Any) -> Any:
        if type(value) is dict:
            value = Settings(value)  # what an importing file would get anyway: now it keeps its identity
        items = dict(enumerate(value)) if isinstance(value, list) else dict(value)
        lines.built[id(value)] = _Built(value, displays[number], items)
        return value

    @functools.cache
    def compile_noting(file: str) -> CodeType:
        with open(file, 'rb') as source:
            tree = ast.parse(source.read(), file)
        if file == path:
            lines.assigned.update({name: (file, line) for name, line in _assigned_once(tree).items()})
        noting = ast.fix_missing_locations(_Noting(file, displays).visit(tree))
        return compile(noting, file, 'exec', dont_inherit=True)

    silent: dict[str, Callable[..., Any]] = {_NOTE: note, 'print': lambda *_, **__: None}
    try:
        lines.names.update(Runner(resolve, roots, compile_noting, silent).run(path))
    except (ConfigError, OSError, SyntaxError):
        return LineTrace()
    return lines


def split_place(place: str) -> list[str | int]:
    """The steps of a path inside a config; empty where it cannot be read.

    >>> split_place("datasets[0].infer_cfg['a b']")
    ['datasets', 0, 'infer_cfg', 'a b']
    """
    steps: list[str | int] = []
    end = 0
    for match in _STEP.finditer(place):
        if match.start() != end:
            return []
        end = match.end()
        index = match['index']
        steps.append(match['name'] or match['key'] or '' if index is None else int(index))
    return steps if end == len(place) else []


class _Noting(ast.NodeTransformer):
    """Wraps every expression that builds a dict or list, to record its line."""

    def __init__(self, file: str, displays: list[_Display]) -> None:
        self.file = file
        self.displays = displays

    def visit_Dict(self, node: ast.Dict) -> ast.AST:
        lines: dict[Hashable, int] = {}
        for key in node.keys:
            if isinstance(key, ast.Constant):
                lines[key.value] = key.lineno
            else:  # `**others` or a computed key may have replaced any key before it
                lines.clear()
        return self._note_display(node, lines)

    def visit_List(self, node: ast.List) -> ast.AST:
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        plain = [not isinstance(element, ast.Starred) for element in node.elts]
        first_star = plain.index(False) if False in plain else len(plain)
        return self._note_display(node, {index: node.elts[index].lineno for index in range(first_star)})

    def visit_ListComp(self, node: ast.ListComp) -> ast.AST:
        return self._note_display(node, {})

    def visit_DictComp(self, node: ast.DictComp) -> ast.AST:
        return self._note_display(node, {})

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if isinstance(node.func, ast.Name) and node.func.id == 'dict':
            return self._note_display(node, {word.arg: word.lineno for word in node.keywords if word.arg})
        return self.generic_visit(node)

    def _note_display(self, node: ast.expr, lines: Mapping[Hashable, int]) -> ast.AST:
        self.displays.append(_Display(self.file, node.lineno, lines))
        number = ast.Constant(len(self.displays) - 1)
        inner = self.generic_visit(node)
        call = ast.Call(ast.Name(_NOTE, ast.Load()), [number, inner], [])  # type: ignore[list-item]  # an expression
        return ast.copy_location(call, node)


def _assigned_once(tree: ast.Module) -> dict[str, int]:
    """The names a file binds in one place only, by a plain assignment, and the line of each."""
    bound: dict[str, list[int]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.setdefault(node.id, []).append(node.lineno)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                bound.setdefault(alias.asname or alias.name, []).extend((0, 0))
    plain = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    return {name: lines[0] for name, lines in bound.items() if len(lines) == 1 and name in plain and '*' not in bound}


def _same(left: Any, right: Any) -> bool:
    """Whether two runs gave the same value; functions are the same if they have the same code."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and type(left) is type(right):
        return len(left) == len(right) and all(map(_same, left, right))
    if isinstance(left, FunctionType) and isinstance(right, FunctionType):
        return left.__qualname__ == right.__qualname__ and left.__code__.co_firstlineno == right.__code__.co_firstlineno
    return bool(left == right)
