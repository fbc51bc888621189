"""Values of a config's entries as the editor takes them: texts and roles with their paths, and parts as Python source.

Source is read as literals, with `dict(…)` for mappings. Nothing in it is executed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import bare_name, part_name
from rolecall.sources.config.printing import format_config

ValuePath = tuple[str | int, ...]
_TEXTS = ('template', 'prompt', 'content', 'begin', 'end', 'ice_separator', 'ice_eos_token')
_NOT_SENT = ('type', 'role', 'api_role', 'fallback_role', 'ice_token', 'sep_token')
_LITERALS = (str, int, float, bool, type(None))


def texts_of(value: Any, path: ValuePath = (), role: str = '') -> Iterator[tuple[ValuePath, str, str]]:
    """Every text that a template sends: where it is, the role that speaks it, and the text.

    >>> list(texts_of({'round': [{'role': 'HUMAN', 'prompt': '{q}'}]}))
    [(('round', 0, 'prompt'), 'HUMAN', '{q}')]
    """
    if isinstance(value, str):
        if path and (path[-1] in _TEXTS or isinstance(path[-1], int)):
            yield path, role, value
    elif isinstance(value, Mapping):
        speaker = str(value.get('role', role) or role)
        for key, inner in value.items():
            if key not in _NOT_SENT:
                is_label = path and path[-1] == 'template' and isinstance(inner, str) and key not in _TEXTS
                yield from ([((*path, key), speaker, inner)] if is_label else texts_of(inner, (*path, key), speaker))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts_of(inner, (*path, number), role)


def write_path(path: Sequence[str | int]) -> str:
    """A path as it follows a name in a config.

    >>> write_path(('round', 0, 'prompt'))
    '.round[0].prompt'
    """
    return ''.join(f'[{step}]' if isinstance(step, int) else f'.{step}' for step in path)


def format_source(value: Any) -> str | None:
    """A part of an entry as Python source; None if it holds objects that cannot be written down.

    >>> format_source({'type': 'PromptTemplate', 'template': '{q}'})
    "dict(type='PromptTemplate', template='{q}')"
    """
    try:
        return format_config({'part': _simplify(value)}).removeprefix('part = ')
    except ValueError:
        return None


def _simplify(value: Any) -> Any:
    """The value with types by name."""
    if isinstance(value, Mapping):
        return {
            key: part_name(inner) if key == 'type' and not isinstance(inner, str) else _simplify(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(map(_simplify, value))
    if not isinstance(value, _LITERALS):
        raise ValueError(value)
    return str(value) if isinstance(value, str) else value


def parse_source(text: str, before: Any, *, where: str) -> Any:
    """The value of some source. A type may be a built-in's name, or one that stood there before; no other is imported.

    >>> parse_source("dict(type='PromptTemplate', template={'round': [-1]})", {}, where='')
    {'type': 'PromptTemplate', 'template': {'round': [-1]}}
    """
    try:
        value = ast.literal_eval(_Literals().visit(ast.parse(text.strip(), mode='eval')))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, 'lineno', None)
        at = f' (line {line})' if isinstance(line, int) else ''
        what = getattr(error, 'msg', None) or str(error) or type(error).__name__
        raise ConfigError(Problem(where, f'cannot be read: {what}{at}.', 'Write values and dict(…) only.')) from error
    return _restore_types(value, {part_name(type_): type_ for type_ in _types_of(before)}, where)


class _Literals(ast.NodeTransformer):
    """Writes `dict(key=value)` as `{'key': value}`, so that only literals are left."""

    def visit_Call(self, node: ast.Call) -> ast.expr:  # the name that ast looks for
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name) or node.func.id != 'dict' or node.args:
            raise SyntaxError(f'{ast.unparse(node):.60} is not a value', (None, node.lineno, None, None))
        words = [word for word in node.keywords if word.arg]
        return ast.Dict([ast.Constant(word.arg) for word in words], [word.value for word in words])


def _types_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        if 'type' in value:
            yield value['type']
        for inner in value.values():
            yield from _types_of(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _types_of(inner)


def _restore_types(value: Any, types: Mapping[str, Any], where: str) -> Any:
    if isinstance(value, Mapping):
        return {
            key: _find_type(inner, types, where) if key == 'type' else _restore_types(inner, types, where)
            for key, inner in value.items()
        }
    return (
        type(value)(_restore_types(item, types, where) for item in value) if isinstance(value, list | tuple) else value
    )


def _find_type(name: Any, types: Mapping[str, Any], where: str) -> Any:
    if not isinstance(name, str):
        return name
    if part_name(name) in types and (name == part_name(name) or types[part_name(name)] == name):
        return types[part_name(name)]
    if bare_name(name) != name:
        raise ConfigError(Problem(f'{where}.type', f'{name!r:.60} is not the name of a built-in part.'))
    return name
