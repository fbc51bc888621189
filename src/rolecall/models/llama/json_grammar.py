"""A JSON Schema as a grammar of llama.cpp (GBNF), so that an answer cannot be anything but JSON that fits.

Fields come in the order of the schema. What a grammar cannot say (a pattern, a range of numbers, uniqueness) is left
to whoever reads the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.models.protocol import ModelError

__all__ = ['json_grammar']

_BASIC = {
    'space': '| " " | "\\n"{1,2} [ \\t]{0,20}',
    'string': r'"\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\""',
    'number': '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,3})?',
    'integer': '"-"? ("0" | [1-9] [0-9]{0,17})',
    'boolean': '"true" | "false"',
    'null': '"null"',
    'value': 'object | array | string | number | boolean | null',
    'object': '"{" space (string ":" space value ("," space string ":" space value)*)? space "}"',
    'array': '"[" space (value ("," space value)*)? space "]"',
}
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
        """What stands for a schema in a rule."""
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
            return ' | '.join(_literal(json.dumps(one, ensure_ascii=False)) for one in schema['enum'])
        for key in ('anyOf', 'oneOf'):
            if key in schema:
                return ' | '.join(self._rule(one, depth) for one in schema[key])
        if len(schema.get('allOf', ())) == 1:
            return self.expression(schema['allOf'][0], depth + 1)
        return self._typed(schema, schema.get('type'), depth)

    def _typed(self, schema: Mapping[str, Any], kind: Any, depth: int) -> str:
        if isinstance(kind, list):
            return ' | '.join(self._rule({**schema, 'type': one}, depth) for one in kind)
        if kind == 'object' or (kind is None and 'properties' in schema):
            return self._object(schema, depth)
        if kind == 'array' or (kind is None and ('items' in schema or 'prefixItems' in schema)):
            return self._array(schema, depth)
        if kind is None:
            return 'value'
        if kind not in _BASIC:
            raise ModelError(f'unknown type in a JSON schema: {kind!r:.60}.')
        return str(schema['format']) if kind == 'string' and schema.get('format') in _FORMATS else str(kind)

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
        """Fields in their order; a rule for each says how the rest goes on, first in its object or after a comma."""
        first = after = '""'
        for pair, needed in reversed(pairs):
            begun, more = self._name(f'{pair} {after}'), self._name(f'"," space {pair} {after}')
            first = begun if needed else self._name(f'{begun} | {first}')
            after = more if needed else self._name(f'{more} | {after}')
        return first

    def _array(self, schema: Mapping[str, Any], depth: int) -> str:
        if 'prefixItems' in schema:
            items = ' "," space '.join(self._rule(one, depth) for one in schema['prefixItems'])
            return f'"[" space {items} space "]"'
        item = self._rule(schema.get('items', True), depth)
        least, most = schema.get('minItems', 0), schema.get('maxItems')
        if most == 0:
            return '"[" space "]"'
        more = f'("," space {item}){{{max(0, least - 1)},{"" if most is None else most - 1}}}'
        some = f'{item} {more}'
        return f'"[" space {some if least else f"({some})?"} space "]"'

    def _refer(self, reference: Any, depth: int) -> str:
        if not isinstance(reference, str) or not reference.startswith('#'):
            raise ModelError(f'a JSON schema may only refer to itself (#/…), got {reference!r:.60}.')
        if reference not in self._references:
            found = self._document
            for step in reference.removeprefix('#').split('/')[1:]:
                if not isinstance(found, Mapping) or step not in found:
                    raise ModelError(f'the JSON schema has no {reference!r:.60}.')
                found = found[step]
            name = self._references[reference] = f'ref-{len(self._references)}'
            self.rules[name] = self.expression(found, depth + 1)
        return self._references[reference]

    def _rule(self, schema: Any, depth: int) -> str:
        """The name of a rule for a schema; a single word needs none."""
        body = self.expression(schema, depth + 1)
        return body if body in _BASIC or body in _FORMATS or body in self.rules else self._name(body)

    def _name(self, body: str) -> str:
        name = f'rule-{len(self.rules)}'
        self.rules[name] = body
        return name


def _literal(text: str) -> str:
    r"""A text in quotes, as a grammar writes it.

    >>> print(_literal('"a\\n"'))
    "\"a\\n\""
    """
    escaped = text.replace('\\', '\\\\').replace('"', '\\"').replace('\n', '\\n').replace('\r', '\\r')
    return f'"{escaped}"'
