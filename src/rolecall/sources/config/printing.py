"""Prints a config so that it can be read, compared and loaded again: as Python, or as JSON with dotted names."""

from __future__ import annotations

import json
import keyword
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rolecall.sources.config.reference import Call, Reference, dotted_name

WIDTH = 100
STEP = '    '


def format_config(config: Mapping[str, Any], *, style: Literal['python', 'json'] = 'python') -> str:
    """The config as text. Names keep the order of the file, so two outputs can be compared line by line.

    As Python it is itself a config file: names from other packages are imported at the top. Functions that the
    config defines for itself cannot be written down; they are named, and JSON gives every class and function by its
    dotted name.

    >>> from rolecall.sources.config.reference import Reference
    >>> model = dict(type=Reference('opencompass.models.OpenAI'), path='gpt', stop=['a'])
    >>> print(format_config(dict(models=[model])))
    from opencompass.models import OpenAI
    <BLANKLINE>
    models = [dict(type=OpenAI, path='gpt', stop=['a'])]
    >>> print(format_config(dict(models=[model]), style='json'))
    {"models": [{"type": "opencompass.models.OpenAI", "path": "gpt", "stop": ["a"]}]}
    """
    return _as_json(config) if style == 'json' else _as_python(config)


@dataclass(frozen=True, slots=True)
class _Group:
    """Brackets around parts, each with its prefix (`key=`); laid out on one line or several."""

    opening: str
    closing: str
    parts: tuple[tuple[str, _Node], ...]
    comma: str = ','
    """The text after a part at the end of a line; after the last part too, unless `last_comma` is off."""
    last_comma: bool = True
    length: int = field(init=False)

    def __post_init__(self) -> None:
        glue = 2 * max(len(self.parts) - 1, 0)
        inner = sum(len(before) + (len(part) if isinstance(part, str) else part.length) for before, part in self.parts)
        object.__setattr__(self, 'length', len(self.opening) + inner + glue + len(self.closing))


_Node = str | _Group


def _lay_out(node: _Node, indent: str, used: int) -> str:
    """A node as text whose first line starts at column `used`."""
    if isinstance(node, str):
        return node
    if used + node.length <= WIDTH and node.comma:
        return _on_one_line(node)
    deeper = indent + STEP
    if node.comma and all(isinstance(part, str) and not before for before, part in node.parts):
        lines = _fill_lines([str(part) for _, part in node.parts], len(deeper))
    else:
        lines = [before + _lay_out(part, deeper, len(deeper) + len(before) + 1) for before, part in node.parts]
    ends = [node.comma] * len(lines)
    if lines and not node.last_comma:
        ends[-1] = ''
    body = ''.join(f'{deeper}{line}{end}\n' for line, end in zip(lines, ends, strict=True))
    return f'{node.opening}\n{body}{indent}{node.closing}'


def _on_one_line(node: _Node) -> str:
    if isinstance(node, str):
        return node
    glue = f'{node.comma} '
    return node.opening + glue.join(before + _on_one_line(part) for before, part in node.parts) + node.closing


def _fill_lines(words: Iterable[str], indent: int) -> list[str]:
    """Short values side by side, as many as fit on a line."""
    lines: list[str] = []
    for word in words:
        if lines and indent + len(lines[-1]) + len(word) + 3 <= WIDTH:
            lines[-1] += f', {word}'
        else:
            lines.append(word)
    return lines


def _as_python(config: Mapping[str, Any]) -> str:
    writer = _Python(taken=set(config))
    nodes = {name: writer.make_node(value, ()) for name, value in config.items()}
    blocks = [f'{name} = {_lay_out(node, "", len(name) + 3)}' for name, node in nodes.items()]
    path = getattr(config, 'path', None)
    heading = [f'# {path}'] if path else []
    imports = ['\n'.join(writer.import_lines())] if writer.imports else []
    return '\n\n'.join([*heading, *imports, *blocks])


@dataclass(slots=True)
class _Python:
    """Turns values into Python expressions and collects the imports they need."""

    taken: set[str]
    imports: dict[str, str] = field(default_factory=dict)

    def make_node(self, value: Any, inside: tuple[int, ...]) -> _Node:
        if id(value) in inside:
            return '...'
        within = (*inside, id(value))
        if isinstance(value, Mapping):
            return self._mapping(value, within)
        if isinstance(value, list | tuple | set | frozenset):
            return self._sequence(value, within)
        if isinstance(value, str):
            return _string(value)
        if isinstance(value, Call):
            words = [(f'{key}=', self.make_node(part, within)) for key, part in value.kwargs.items()]
            called = _on_one_line(self.make_node(value.target, within))
            return _Group(f'{called}(', ')', (*(('', self.make_node(part, within)) for part in value.args), *words))
        dotted = dotted_name(value)
        if dotted is None:
            return repr(value)
        importable = isinstance(value, Reference) or getattr(value, '__module__', '') in sys.modules
        return self._import_name(dotted) if importable else dotted.rpartition('.')[2]

    def _mapping(self, value: Mapping[Any, Any], within: tuple[int, ...]) -> _Node:
        parts = [(key, self.make_node(part, within)) for key, part in value.items()]
        if all(isinstance(key, str) and key.isidentifier() and not keyword.iskeyword(key) for key in value):
            return _Group('dict(', ')', tuple((f'{key}=', part) for key, part in parts))
        keys = [_on_one_line(self.make_node(key, within)) for key in value]
        return _Group('{', '}', tuple((f'{key}: ', part) for key, (_, part) in zip(keys, parts, strict=True)))

    def _sequence(self, value: Iterable[Any], within: tuple[int, ...]) -> _Node:
        ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        parts = tuple(('', self.make_node(part, within)) for part in ordered)
        if isinstance(value, list):
            return _Group('[', ']', parts)
        if isinstance(value, tuple):
            return _Group('(', ',)' if len(parts) == 1 else ')', parts, last_comma=len(parts) > 1)
        opening, closing = ('frozenset({', '})') if isinstance(value, frozenset) else ('{', '}')
        return _Group(opening, closing, parts) if parts else f'{type(value).__name__}()'

    def _import_name(self, dotted: str) -> str:
        module, _, name = dotted.rpartition('.')
        if module == 'builtins':
            return name
        if not module or not dotted.replace('.', '').isidentifier():
            return dotted
        if dotted not in self.imports:
            number, free = 1, name
            while free in self.taken:
                number, free = number + 1, f'{name}_{number + 1}'
            self.taken.add(free)
            self.imports[dotted] = free
        return self.imports[dotted]

    def import_lines(self) -> list[str]:
        wanted: dict[str, list[str]] = {}
        for dotted, short in sorted(self.imports.items()):
            module, _, name = dotted.rpartition('.')
            wanted.setdefault(module, []).append(name if name == short else f'{name} as {short}')
        return [f'from {module} import {", ".join(names)}' for module, names in wanted.items()]


def _string(value: str) -> _Node:
    """A string; one with several lines is written line by line where it does not fit on one."""
    lines = value.splitlines(keepends=True)
    if len(lines) < 2 or len(repr(value)) <= WIDTH // 2:
        return repr(value)
    return _Group('(', ')', tuple(('', repr(line)) for line in lines), comma='')


def _as_json(config: Mapping[str, Any]) -> str:
    return _lay_out(_json_node(config, ()), '', 0)


def _json_node(value: Any, inside: tuple[int, ...]) -> _Node:
    if id(value) in inside:
        return '"..."'
    within = (*inside, id(value))
    if isinstance(value, Mapping):
        keys = [key if isinstance(key, str) else repr(key) for key in value]
        parts = [_json_node(part, within) for part in value.values()]
        named = tuple((f'{_quoted(key)}: ', part) for key, part in zip(keys, parts, strict=True))
        return _Group('{', '}', named, last_comma=False)
    if isinstance(value, list | tuple | set | frozenset):
        ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
        return _Group('[', ']', tuple(('', _json_node(part, within)) for part in ordered), last_comma=False)
    if isinstance(value, Call):
        return _json_node({'call': value.target, 'args': value.args, 'kwargs': value.kwargs}, within)
    if value is None or isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    return _quoted(value if isinstance(value, str) else dotted_name(value) or repr(value))


_quoted: Callable[[str], str] = json.JSONEncoder(ensure_ascii=False).encode
