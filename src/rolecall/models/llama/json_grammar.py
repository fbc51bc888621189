"""Converts a JSON Schema to a llama.cpp grammar (GBNF), so that every answer is JSON that fits the schema.

Fields come in the order of the schema. What a grammar cannot say (a pattern, a wide range of numbers, uniqueness) is
checked when the answer is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.checking import is_whole
from rolecall.models.protocol import ModelError

_BASIC = {
    'space': '| " " | "\\n"{1,2} [ \\t]{0,20}',
    'character': r'[^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4})',
    'string': r'"\"" character* "\""',
    'number': '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    'integer': '"-"? ("0" | [1-9] [0-9]{0,17})',
    'boolean': '"true" | "false"',
    'null': '"null"',
    'value': 'object | array | string | number | boolean | null',
    'object': '"{" space (string ":" space value ("," space string ":" space value)*)? space "}"',
    'array': '"[" space (value ("," space value)*)? space "]"',
}
_TYPES = ('string', 'number', 'integer', 'boolean', 'null')
_DAY = r'[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [12] [0-9] | "3" [01])'
_TIME = r'([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9]'
_FORMATS = {
    'date': rf'"\"" {_DAY} "\""',
    'time': rf'"\"" {_TIME} "\""',
    'date-time': rf'"\"" {_DAY} "T" {_TIME} "\""',
    'uuid': r'"\"" [0-9a-f]{8} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{4} "-" [0-9a-f]{12} "\""',
}
"""Strings of a `format`. The days of a month are left to the reader."""
_DEEPEST = 64
_MOST_RULES = 2000
_MOST_INTEGERS = 200
"""A range of at most this many integers is written out, number by number. (1,000 make a token ten times as slow.)"""
_MOST_REPEATS = 1000


def json_grammar(schema: Any) -> str:
    """The grammar of the JSON texts that fit a schema.

    >>> print(json_grammar({'enum': ['yes', 'no']}).splitlines()[0])
    root ::= "\\"yes\\"" | "\\"no\\""
    """
    writer = _Writer(schema)
    root = writer.expression(schema, 0)
    rules = {'root': root, **writer.rules, **_BASIC, **_FORMATS}
    return '\n'.join(f'{name} ::= {body}' for name, body in rules.items())


class _Writer:
    """Collects the rules of one schema."""

    def __init__(self, schema: Any) -> None:
        self.rules: dict[str, str] = {}
        self._document = schema
        self._references: dict[str, str] = {}

    def expression(self, schema: Any, depth: int) -> str:
        """The grammar expression for a schema."""
        if depth > _DEEPEST or len(self.rules) > _MOST_RULES:
            raise ModelError('the JSON schema is nested too deeply, or too long.')
        if schema is True or schema == {}:
            return 'value'
        if not isinstance(schema, Mapping):
            raise ModelError(f'a JSON schema must be an object, got {schema!r:.60}.')
        if '$ref' in schema:
            return self._refer(schema['$ref'], depth)
        if 'const' in schema:
            return _literal(json.dumps(schema['const'], ensure_ascii=False))
        if 'enum' in schema:
            return ' | '.join(_literal(json.dumps(option, ensure_ascii=False)) for option in schema['enum'])
        for key in ('anyOf', 'oneOf'):
            if key in schema:
                return ' | '.join(self._rule(option, depth) for option in schema[key])
        if len(schema.get('allOf', ())) == 1:
            return self.expression(schema['allOf'][0], depth + 1)
        return self._typed(schema, schema.get('type'), depth)

    def _typed(self, schema: Mapping[str, Any], kind: Any, depth: int) -> str:
        if isinstance(kind, list):
            return ' | '.join(self._rule({**schema, 'type': type_}, depth) for type_ in kind)
        if kind == 'object' or (kind is None and 'properties' in schema):
            return self._object(schema, depth)
        if kind == 'array' or (kind is None and ('items' in schema or 'prefixItems' in schema)):
            return self._array(schema, depth)
        if kind is None:
            return 'value'
        if kind not in _TYPES:
            raise ModelError(f'unknown type in a JSON schema: {kind!r:.60}.')
        if kind == 'string':
            return _string(schema)
        return _integer(schema) if kind == 'integer' else str(kind)

    def _object(self, schema: Mapping[str, Any], depth: int) -> str:
        fields: Mapping[str, Any] = schema.get('properties') or {}
        if not fields:
            of = schema.get('additionalProperties', True)
            if of is False:
                return '"{" space "}"'
            pair = f'string ":" space {self._rule(of, depth)}'
            return f'"{{" space ({pair} ("," space {pair})*)? space "}}"'
        required = set(schema.get('required', ()))
        pairs = [
            (f'{_literal(json.dumps(name, ensure_ascii=False))} ":" space {self._rule(of, depth)}', name in required)
            for name, of in fields.items()
        ]
        return f'"{{" space {self._fields(pairs)} space "}}"'

    def _fields(self, pairs: Sequence[tuple[str, bool]]) -> str:
        """Fields in order. Each has a rule for the rest of the object: as its first field, or after a comma."""
        first = after = '""'
        for pair, needed in reversed(pairs):
            begun, more = self._name(f'{pair} {after}'), self._name(f'"," space {pair} {after}')
            first = begun if needed else self._name(f'{begun} | {first}')
            after = more if needed else self._name(f'{more} | {after}')
        return first

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        if 'prefixItems' in schema:
            items = ' "," space '.join(self._rule(entry, depth) for entry in schema['prefixItems'])
            return f'"[" space {items} space "]"'
        item = self._rule(schema.get('items', True), depth)
        least, most = _bounds(schema, 'minItems', 'maxItems')
        if most == 0:
            return '"[" space "]"'
        more = f'("," space {item}){_times(max(0, least - 1), None if most is None else most - 1)}'
        some = f'{item} {more}'
        return f'"[" space {some if least else f"({some})?"} space "]"'

    def _refer(self, reference: Any, depth: int) -> str:
        if not isinstance(reference, str) or not reference.startswith('#'):
            raise ModelError(f'a JSON schema may only refer to itself (#/…), got {reference!r:.60}.')
        if reference not in self._references:
            target = self._document
            for step in reference.removeprefix('#').split('/')[1:]:
                if not isinstance(target, Mapping) or step not in target:
                    raise ModelError(f'the JSON schema has no {reference!r:.60}.')
                target = target[step]
            name = self._references[reference] = f'ref-{len(self._references)}'
            self.rules[name] = self.expression(target, depth + 1)
        return self._references[reference]

    def _rule(self, schema: Any, depth: int) -> str:
        """The name of a rule for a schema; a single word needs none."""
        body = self.expression(schema, depth + 1)
        return body if body in _BASIC or body in _FORMATS or body in self.rules else self._name(body)

    def _name(self, body: str) -> str:
        name = f'rule-{len(self.rules)}'
        self.rules[name] = body
        return name


def _bounds(schema: Mapping[str, Any], least: str, most: str) -> tuple[int, int | None]:
    for key in (least, most):
        if schema.get(key) is not None and not is_whole(schema[key], least=0):
            raise ModelError(f'{key} in a JSON schema must be a whole number of at least 0, got {schema[key]!r:.60}.')
    return schema.get(least) or 0, schema.get(most)


def _times(least: int, most: int | None) -> str:
    """How often something is repeated. llama.cpp refuses large numbers, so those are left out."""
    return f'{{{min(least, _MOST_REPEATS)},{most if most is not None and most <= _MOST_REPEATS else ""}}}'


def _string(schema: Mapping[str, Any]) -> str:
    """A string of its format, or of its length.

    >>> print(_string({'maxLength': 40}))
    "\\"" character{0,40} "\\""
    """
    if schema.get('format') in _FORMATS:
        return str(schema['format'])
    least, most = _bounds(schema, 'minLength', 'maxLength')
    return f'"\\"" character{_times(least, most)} "\\""' if least or most is not None else 'string'


def _integer(schema: Mapping[str, Any]) -> str:
    """An integer; one of a narrow range is written out.

    >>> _integer({'minimum': 1, 'exclusiveMaximum': 4}), _integer({'minimum': 1})
    ('"1" | "2" | "3"', 'integer')
    """
    least = [schema.get('minimum'), _add(schema.get('exclusiveMinimum'), 1)]
    most = [schema.get('maximum'), _add(schema.get('exclusiveMaximum'), -1)]
    lower, upper = (list(filter(is_whole, bounds)) for bounds in (least, most))
    if not lower or not upper or not 0 <= min(upper) - max(lower) < _MOST_INTEGERS:
        return 'integer'
    return ' | '.join(f'"{number}"' for number in range(max(lower), min(upper) + 1))


def _add(limit: Any, step: int) -> Any:
    return limit + step if is_whole(limit) else None


def _literal(text: str) -> str:
    r"""A text in quotes, as a grammar writes it.

    >>> print(_literal('"a\\n"'))
    "\"a\\n\""
    """
    escaped = text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n').replace('\r', '\\r')
    return f'"{escaped}"'
