"""Answers as values: the type asked for as a JSON Schema, and the answer's text as a value of that type."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.chat.hints import BadValueError, schema_of, value_of
from rolecall.chat.module_errors import ModuleError
from rolecall.models.http.body import check_depth, parse_json

__all__ = ['AnswerType']

_FENCED = re.compile(r'```(?:json)?\s*\n(.*?)```', re.DOTALL)


@dataclass(frozen=True, slots=True)
class AnswerType:
    """What an answer has to be: a pydantic model, a dataclass, a TypedDict, any other type hint, or a JSON Schema.

    >>> AnswerType.of(list[int]).read('[1, 2]')
    [1, 2]
    >>> AnswerType.of({'type': 'object', 'required': ['n']}).read('{"n": 3}')
    {'n': 3}
    """

    hint: Any
    schema: Mapping[str, Any]

    @classmethod
    def of(cls, given: Any) -> AnswerType:
        """The type that `returns=` names."""
        if isinstance(given, Mapping):
            return cls(Any, given)
        try:
            schema = schema_of(given)
        except (NameError, TypeError, AttributeError, SyntaxError, RecursionError) as error:
            raise ModuleError(f'returns: {given!r:.60} cannot be described to a model: {error}.') from None
        if not schema:
            remedy = 'Give a pydantic model, a dataclass, a TypedDict, a type such as list[int], or a JSON Schema.'
            raise ModuleError(f'returns: {given!r:.60} says nothing about the answer. {remedy}')
        return cls(given, _close_objects(schema))

    def read(self, text: str) -> Any:
        """The value in an answer; `BadValueError` if there is none, or it does not fit."""
        fenced = _FENCED.search(text)
        try:
            value = parse_json((fenced[1] if fenced else text).strip().encode())
            check_depth(value)
        except (ValueError, RecursionError) as error:
            raise BadValueError(f'the answer is not JSON: {error}') from None
        if self.hint is Any:
            _check(value, self.schema, 'the answer', self.schema)
            return value
        return value_of(value, self.hint, 'the answer')

    def complaint(self, error: BadValueError) -> str:
        """What a model is told whose answer does not fit."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return (
            f'This answer cannot be used: {error}. Reply again, with nothing but JSON that fits this schema: {schema}'
        )


_KINDS: Mapping[str, tuple[type, ...]] = {
    'object': (dict,), 'array': (list,), 'string': (str,), 'integer': (int,), 'number': (int, float),
    'boolean': (bool,), 'null': (type(None),),
}  # fmt: skip


def _check(value: Any, schema: Any, where: str, document: Mapping[str, Any]) -> None:
    """Whether a value fits a JSON Schema, by the keywords that a grammar of answers knows as well."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(reference := schema.get('$ref'), str):
        found: Any = document
        for step in reference.removeprefix('#').split('/')[1:]:
            found = found.get(step, {}) if isinstance(found, Mapping) else {}
        _check(value, found, where, document)
    if isinstance(kinds := schema.get('type'), (str, list)):
        names = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is_a(value, name) for name in names):
            raise BadValueError(f'{where} must be {" or ".join(map(str, names))}, got {value!r:.60}')
    allowed = [schema['const']] if 'const' in schema else schema.get('enum')
    if allowed is not None and value not in allowed:
        raise BadValueError(f'{where} must be one of {", ".join(map(repr, allowed))}; got {value!r:.60}')
    if alternatives := schema.get('anyOf') or schema.get('oneOf'):
        _check_any(value, alternatives, where, document)
    if isinstance(value, dict):
        _check_fields(value, schema, where, document)
    if isinstance(value, list):
        for number, item in enumerate(value):
            _check(item, schema.get('items'), f'{where}[{number}]', document)


def _is_a(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS.get(kind, (object,))) and (isinstance(value, bool) <= (kind == 'boolean'))


def _check_any(value: Any, schemas: list[Any], where: str, document: Mapping[str, Any]) -> None:
    said = []
    for one in schemas:
        try:
            return _check(value, one, where, document)
        except BadValueError as error:
            said.append(str(error))
    raise BadValueError(' or '.join(said))


def _check_fields(value: dict[str, Any], schema: Mapping[str, Any], where: str, document: Mapping[str, Any]) -> None:
    fields = schema.get('properties') or {}
    missing = [name for name in schema.get('required', ()) if name not in value]
    unknown = [name for name in value if name not in fields and schema.get('additionalProperties') is False]
    if missing or unknown:
        what = f'lacks {missing[0]!r}' if missing else f'has an unknown field {unknown[0]!r:.60}'
        raise BadValueError(f'{where} {what}')
    for name, item in value.items():
        _check(item, fields.get(name, schema.get('additionalProperties')), f'{where}.{name}', document)


def _close_objects(schema: Any) -> Any:
    """The schema with objects that take no fields beyond their own, as the types behind them do."""
    if isinstance(schema, list):
        return [_close_objects(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {key: _close_objects(one) for key, one in schema.items()}
    if 'properties' in closed and isinstance(closed['properties'], Mapping):
        closed['properties'] = {name: _close_objects(one) for name, one in schema['properties'].items()}
        closed.setdefault('additionalProperties', False)
    return closed
