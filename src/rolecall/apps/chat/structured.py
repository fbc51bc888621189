"""Answers as values: the type asked for as a JSON Schema, and the answer's text as a value of that type."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from rolecall.apps.chat.hints import (
    BadValueError,
    check_names,
    choose_value,
    find_undescribed,
    first_that_fits,
    hoist_definitions,
    schema_of,
    value_of,
)
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.checking import is_number
from rolecall.models.http.body import check_depth, parse_json

_ONLY = 'answer'
_HALF_PAIR = re.compile(r'\\u[dD][89abAB]..\Z')
_FENCED = re.compile(r'```(?:json)?[^\S\n]*\n(.*?)```', re.DOTALL)


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
    """What is sent. Services insist on an object, so any other value is the only field of one."""
    wraps: bool = False

    @classmethod
    def of(cls, returns: Any) -> AnswerType:
        """The type that `returns=` names."""
        if isinstance(returns, Mapping):
            return cls._of_schema(returns)
        try:
            schema, undescribed = schema_of(returns), find_undescribed(returns)
        except (NameError, TypeError, AttributeError, SyntaxError, RecursionError) as error:
            raise ModuleError(f'returns: {returns!r:.60} cannot be described to a model: {error}.') from None
        if not schema or undescribed is not None:
            what = returns if undescribed is None else undescribed
            remedy = 'Give a pydantic model, a dataclass, a TypedDict, a type such as list[int], or a JSON Schema.'
            raise ModuleError(f'returns: {what!r:.60} says nothing about the answer. {remedy}')
        closed = _close_objects(hoist_definitions(schema))
        wraps = closed.get('type') != 'object'
        return cls(returns, _wrap(closed) if wraps else closed, wraps)

    @classmethod
    def _of_schema(cls, schema: Mapping[str, Any]) -> AnswerType:
        try:
            references = _REFERENCE.findall(json.dumps(schema))
        except (TypeError, ValueError, RecursionError) as error:
            raise ModuleError(f'returns: the JSON Schema cannot be written as JSON: {error}.') from None
        wraps = schema.get('type') != 'object' and all(reference.startswith('#/$defs/') for reference in references)
        return cls(Any, _wrap(schema) if wraps else schema, wraps)

    def read(self, text: str) -> Any:
        """The value in an answer; `BadValueError` if there is none, or it does not fit."""
        value = _read_json(text)
        if self.wraps and isinstance(value, dict) and set(value) == {_ONLY}:
            value = value[_ONLY]
        if self.hint is not Any:
            return value_of(value, self.hint, 'the answer')
        _check(value, self.schema['properties'][_ONLY] if self.wraps else self.schema, 'the answer', self.schema)
        return value

    def unwrap(self, value: Any) -> Any:
        """The value itself, where it was sent as the field of an object; None while that is empty."""
        return value.get(_ONLY) if self.wraps and isinstance(value, dict) else value

    def complaint(self, why: str) -> str:
        """What a model is told whose answer does not fit."""
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f'This answer cannot be used: {why}. Reply again, with nothing but JSON that fits this schema: {schema}'


class GrowingJson:
    """JSON while it is generated, as the value it has come to so far. Text before it is skipped.

    >>> growing = GrowingJson()
    >>> [growing.take(piece) for piece in ('{"name": "A', 'da", "ye', 'ars": [1', '8, 3')]
    [{'name': 'A'}, {'name': 'Ada'}, {'name': 'Ada', 'years': []}, {'name': 'Ada', 'years': [18]}]
    """

    def __init__(self) -> None:
        self._text = ''
        self._open: list[str] = []
        self._complete, self._closing = 0, ''
        """How much of the text can be read, and what closes it."""
        self._state = 'value'
        self._escaped = 0

    def take(self, piece: str) -> Any:
        """The value after a further piece; None before it has begun."""
        for character in piece:
            if self._open or character in '{[':
                if not self._open:
                    self._text, self._state = '', 'value'
                self._text += character
                self._read(character)
        if not self._complete:
            return None
        return json.loads(self._text[: self._complete] + self._closing)

    def _read(self, character: str) -> None:
        if self._state in ('string', 'key'):
            self._read_string(character)
        elif character == '"':
            is_key = self._open[-1] == '}' and self._state != 'after colon'
            self._state = 'key' if is_key else 'string'
        elif character in '{[':
            self._open.append('}' if character == '{' else ']')
            self._state = 'value'
            self._note(len(self._text))
        elif character in ',]}':
            if self._state != 'ended':
                self._note(len(self._text) - 1)  # a number or a word ends here
            self._state = 'value'
            if character != ',':
                self._open.pop()
                self._state = 'ended'
                self._note(len(self._text))
        elif character == ':':
            self._state = 'after colon'

    def _read_string(self, character: str) -> None:
        if self._escaped:
            self._escaped = 4 if character == 'u' else self._escaped - 1
        elif character == '\\':
            self._escaped = 1
        elif character == '"':
            is_key, self._state = self._state == 'key', 'ended'
            if not is_key:
                self._note(len(self._text))
            return
        if self._state == 'string' and not self._escaped and not _HALF_PAIR.search(self._text[-6:]):
            self._note(len(self._text), '"')

    def _note(self, end: int, quote: str = '') -> None:
        self._complete, self._closing = end, quote + ''.join(reversed(self._open))


def _read_json(text: str) -> Any:
    """The value of a text, or of the fenced block in it."""
    fenced = _FENCED.search(text)
    try:
        value = parse_json((fenced[1] if fenced else text).strip().encode('utf-8', 'replace'))
        check_depth(value)
    except (ValueError, RecursionError) as error:
        raise BadValueError(f'the answer is not JSON: {error}') from None
    return value


def _wrap(schema: Mapping[str, Any]) -> dict[str, Any]:
    inner = {key: part for key, part in schema.items() if key != '$defs'}
    whole = {'type': 'object', 'properties': {_ONLY: inner}, 'required': [_ONLY], 'additionalProperties': False}
    return {**whole, '$defs': schema['$defs']} if '$defs' in schema else whole


_REFERENCE = re.compile(r'"\$ref": "([^"]*)"')
_KINDS: Mapping[str, tuple[type, ...]] = {
    'object': (dict,), 'array': (list,), 'string': (str,), 'integer': (int,), 'number': (int, float),
    'boolean': (bool,), 'null': (type(None),),
}  # fmt: skip


_Limit = tuple[Callable[[Any], Any], Callable[[Any, Any], bool], str]
_LIMITS: Mapping[type, Mapping[str, _Limit]] = {
    float: {
        'minimum': (float, operator.ge, 'must be at least'),
        'maximum': (float, operator.le, 'must be at most'),
        'exclusiveMinimum': (float, operator.gt, 'must be above'),
        'exclusiveMaximum': (float, operator.lt, 'must be below'),
    },
    str: {
        'minLength': (len, operator.ge, 'must have at least this many characters:'),
        'maxLength': (len, operator.le, 'must have at most this many characters:'),
    },
    list: {
        'minItems': (len, operator.ge, 'must have at least this many items:'),
        'maxItems': (len, operator.le, 'must have at most this many items:'),
    },
}


def check_value(value: Any, schema: Mapping[str, Any], what: str) -> None:
    """Raise BadValueError unless a value fits a JSON Schema."""
    _check(value, schema, what, schema)


def _check(value: Any, schema: Any, where: str, document: Mapping[str, Any]) -> None:
    """Whether a value fits a JSON Schema, by the keywords that schemas of answers use."""
    if not isinstance(schema, Mapping):
        return
    if isinstance(reference := schema.get('$ref'), str):
        target: Any = document
        for step in reference.removeprefix('#').split('/')[1:]:
            target = target.get(step, {}) if isinstance(target, Mapping) else {}
        _check(value, target, where, document)
    if isinstance(kinds := schema.get('type'), (str, list)):
        names = [kinds] if isinstance(kinds, str) else kinds
        if not any(_is_a(value, name) for name in names):
            raise BadValueError(f'{where} must be {" or ".join(map(str, names))}, got {value!r:.60}')
    allowed = [schema['const']] if 'const' in schema else schema.get('enum')
    if allowed is not None:
        choose_value(value, allowed, where)
    if alternatives := schema.get('anyOf') or schema.get('oneOf'):
        first_that_fits(lambda alternative: _check(value, alternative, where, document), alternatives)
    for alternative in schema.get('allOf') or ():
        _check(value, alternative, where, document)
    _check_limits(value, schema, where)
    if isinstance(value, dict):
        fields, rest = schema.get('properties') or {}, schema.get('additionalProperties')
        check_names(value, schema.get('required', ()), fields if rest is False else value, where)
        for name, item in value.items():
            _check(item, fields.get(name, rest), f'{where}.{name}', document)
    if isinstance(value, list):
        first = list(schema.get('prefixItems') or ())
        for number, item in enumerate(value):
            _check(item, first[number] if number < len(first) else schema.get('items'), f'{where}[{number}]', document)


def _check_limits(value: Any, schema: Mapping[str, Any], where: str) -> None:
    kind = float if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value)
    for name, (measure, holds, what) in _LIMITS.get(kind, {}).items():
        limit = schema.get(name)
        if is_number(limit) and not holds(measure(value), limit):
            raise BadValueError(f'{where} {what} {limit}, got {value!r:.60}')
    pattern = schema.get('pattern')
    if isinstance(value, str) and isinstance(pattern, str):
        try:
            fits = re.search(pattern, value) is not None
        except re.error:  # a pattern of another dialect: only the server can tell
            return
        if not fits:
            raise BadValueError(f'{where} must match {pattern!r}, got {value!r:.60}')


def _is_a(value: Any, kind: str) -> bool:
    return isinstance(value, _KINDS.get(kind, (object,))) and (isinstance(value, bool) <= (kind == 'boolean'))


def _close_objects(schema: Any) -> Any:
    """The schema with objects that take no fields beyond their own, as the types behind them do."""
    if isinstance(schema, list):
        return [_close_objects(part) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {key: _close_objects(part) for key, part in schema.items()}
    if 'properties' in closed and isinstance(closed['properties'], Mapping):
        closed['properties'] = {name: _close_objects(part) for name, part in schema['properties'].items()}
        closed.setdefault('additionalProperties', False)
    return closed
