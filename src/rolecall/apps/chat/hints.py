"""Type hints to JSON Schema for the model, and JSON values back to the hinted types."""

from __future__ import annotations

import dataclasses
import datetime
import inspect
import itertools
import math
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

from rolecall.apps.chat.module_errors import ModuleError

_PLAIN: Mapping[Any, str] = {
    str: 'string', int: 'integer', float: 'number', bool: 'boolean', type(None): 'null', None: 'null'
}  # fmt: skip
_TEXTS: Mapping[Any, tuple[Mapping[str, str], Callable[[str], Any]]] = {
    datetime.datetime: ({'format': 'date-time'}, lambda text: datetime.datetime.fromisoformat(_spell_out_utc(text))),
    datetime.date: ({'format': 'date'}, datetime.date.fromisoformat),
    datetime.time: ({'format': 'time'}, lambda text: datetime.time.fromisoformat(_spell_out_utc(text))),
    UUID: ({'format': 'uuid'}, UUID),
    Decimal: ({}, Decimal),
    Path: ({}, Path),
}
"""Types that are strings in JSON: what their schema adds, and how they are read."""
_LISTS = ('list', 'Sequence', 'Iterable', 'Collection', 'MutableSequence')
_SETS = ('set', 'frozenset', 'Set', 'AbstractSet')
_DICTS = ('dict', 'Mapping', 'MutableMapping')


class BadValueError(ValueError):
    """A value that does not fit its parameter. The message is sent to the model."""


def schema_of(hint: Any, *, inside: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The JSON Schema of a type hint. `Any` allows everything.

    >>> schema_of(list[int] | None)
    {'anyOf': [{'type': 'array', 'items': {'type': 'integer'}}, {'type': 'null'}]}
    >>> schema_of(Literal['C', 'F'])
    {'enum': ['C', 'F'], 'type': 'string'}
    """
    if _is_plain(hint):
        return {'type': _PLAIN[hint]}
    if _is_text(hint):
        return {'type': 'string', **_TEXTS[hint][0]}
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        described = [note for note in arguments[1:] if isinstance(note, str)]
        return schema_of(arguments[0], inside=inside) | ({'description': described[0]} if described else {})
    if origin is Literal:
        return _choice(arguments)
    if origin in (Union, types.UnionType):
        return {'anyOf': [schema_of(argument, inside=inside) for argument in arguments]}
    if is_pydantic(hint):
        schema: dict[str, Any] = hint.model_json_schema()
        return schema
    if hint in inside:
        return {'type': 'object'}
    if (fields := _fields_of(hint)) is not None:
        return {
            'type': 'object',
            'properties': {name: schema_of(kind, inside=(*inside, hint)) for name, (kind, _) in fields.items()},
            'required': [name for name, (_, needed) in fields.items() if needed],
        }
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(tuple(member.value for member in hint))
    return _container(getattr(origin or hint, '__name__', ''), arguments, inside)


def _is_plain(hint: Any) -> bool:
    return (hint is None or isinstance(hint, type)) and hint in _PLAIN


def _is_text(hint: Any) -> bool:
    return isinstance(hint, type) and hint in _TEXTS


def _spell_out_utc(text: str) -> str:
    """A time with `+00:00` for `Z`, which Python 3.10 does not read."""
    return f'{text[:-1]}+00:00' if text.endswith('Z') else text


def find_undescribed(hint: Any, *, inside: tuple[Any, ...] = ()) -> Any:
    """The first type in a hint that JSON has no form for, so that no value of it could be made; None if there is none.

    >>> find_undescribed(list[bytes]), find_undescribed(dict[str, list[int]])
    (<class 'bytes'>, None)
    """
    if is_pydantic(hint) or get_origin(hint) is Literal or hint in inside:
        return None
    fields = _fields_of(hint)
    kinds = get_args(hint) if fields is None else tuple(kind for kind, _ in fields.values())
    if get_origin(hint) is Annotated:
        kinds = kinds[:1]
    if fields is None and not kinds:
        return hint if isinstance(hint, type) and hint is not object and not schema_of(hint) else None
    undescribed = (find_undescribed(kind, inside=(*inside, hint)) for kind in kinds)
    return next((kind_without_form for kind_without_form in undescribed if kind_without_form is not None), None)


def _choice(values: tuple[Any, ...]) -> dict[str, Any]:
    kinds = {_PLAIN.get(type(value)) for value in values}
    kind = kinds.pop() if len(kinds) == 1 else None
    return {'enum': list(values), **({'type': kind} if kind else {})}


def _container(name: str, arguments: tuple[Any, ...], inside: tuple[Any, ...]) -> dict[str, Any]:
    if name == 'tuple' and arguments and arguments[-1] is not Ellipsis:
        items = [schema_of(argument, inside=inside) for argument in arguments]
        return {'type': 'array', 'prefixItems': items, 'minItems': len(items), 'maxItems': len(items)}
    if name in (*_LISTS, *_SETS, 'tuple'):
        of = {'items': schema_of(arguments[0], inside=inside)} if arguments else {}
        return {'type': 'array', **of, **({'uniqueItems': True} if name in _SETS else {})}
    if name in _DICTS:
        of = {'additionalProperties': schema_of(arguments[1], inside=inside)} if len(arguments) == 2 else {}
        return {'type': 'object', **of}
    return {}


def _fields_of(hint: Any) -> dict[str, tuple[Any, bool]] | None:
    """The fields of a dataclass or TypedDict: the type of each, and whether it must be given."""
    if is_typeddict(hint):
        return {name: (kind, name in hint.__required_keys__) for name, kind in get_type_hints(hint).items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        kinds = get_type_hints(hint, include_extras=True)
        missing = dataclasses.MISSING
        return {
            field.name: (kinds[field.name], field.default is missing and field.default_factory is missing)
            for field in dataclasses.fields(hint)
            if field.init
        }
    return None


def value_of(value: Any, hint: Any, where: str) -> Any:
    """A JSON value converted to its hint; `BadValueError` if it does not fit.

    >>> value_of({'x': 1}, dict[str, float], 'point')
    {'x': 1.0}
    >>> value_of('many', int, 'count')
    Traceback (most recent call last):
    rolecall.apps.chat.hints.BadValueError: count must be integer, got 'many'
    """
    if _is_plain(hint):
        return _plain(value, hint, where)
    if _is_text(hint):
        return _read_text(value, hint, where)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return value_of(value, arguments[0], where)
    if origin is Literal:
        return choose_value(value, arguments, where)
    if origin in (Union, types.UnionType):
        own_first = sorted(arguments, key=lambda kind: kind is not type(value))  # 1 stays 1 for `float | int`
        return first_that_fits(lambda kind: value_of(value, kind, where), own_first)
    if is_pydantic(hint):
        return _validate(value, hint, where)
    if (fields := _fields_of(hint)) is not None:
        return _record(value, hint, fields, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(choose_value(value, [member.value for member in hint], where))
    return _container_value(value, getattr(origin or hint, '__name__', ''), arguments, where)


def is_pydantic(hint: Any) -> bool:
    """Whether a type is a pydantic model."""
    return isinstance(hint, type) and hasattr(hint, 'model_json_schema') and hasattr(hint, 'model_validate')


def _validate(value: Any, hint: Any, where: str) -> Any:
    try:
        return hint.model_validate(value)
    except ValueError as error:  # pydantic's ValidationError is one
        problems = error.errors() if hasattr(error, 'errors') else [{'loc': (), 'msg': str(error)}]
        sentences = (f'{".".join(map(str, (where, *problem["loc"])))}: {problem["msg"]}' for problem in problems)
        raise BadValueError('; '.join(sentences)) from None


def plain_value(value: Any) -> Any:
    """A value as JSON has it: pydantic models, dataclasses, enums, sets and the like become plain data.

    >>> plain_value({'day': datetime.date(2026, 1, 31), 'sizes': {3}})
    {'day': '2026-01-31', 'sizes': [3]}
    """
    if is_pydantic(type(value)):
        return value.model_dump(mode='json')
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: plain_value(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return plain_value(value.value)
    if isinstance(value, Mapping):
        return {key: plain_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted(map(plain_value, value), key=repr)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return str(value) if isinstance(value, (Decimal, Path, UUID)) else value


def hoist_definitions(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with all `$defs` at its root, where `#/$defs/…` looks for them.

    >>> hoist_definitions({'items': {'$ref': '#/$defs/A', '$defs': {'A': {'type': 'null'}}}})
    {'items': {'$ref': '#/$defs/A'}, '$defs': {'A': {'type': 'null'}}}
    """
    definitions: dict[str, Any] = {}
    lifted = _lift(schema, definitions)
    return {**lifted, '$defs': definitions} if definitions else lifted


def _lift(schema: Any, definitions: dict[str, Any]) -> Any:
    """The schema without its `$defs`, which go to `definitions`. Two that share a name get different ones."""
    if isinstance(schema, list):
        return [_lift(part, definitions) for part in schema]
    if not isinstance(schema, dict):
        return schema
    own = schema.get('$defs')
    if isinstance(own, dict):
        names = {name: _free_name(name, part, definitions) for name, part in own.items()}
        renamed = _rename(schema, {name: new for name, new in names.items() if new != name})
        own, schema = renamed['$defs'], {key: part for key, part in renamed.items() if key != '$defs'}
        definitions |= {names[name]: part for name, part in own.items()}
    return {key: _lift(part, definitions) for key, part in schema.items()}


def _free_name(name: str, definition: Any, taken: Mapping[str, Any]) -> str:
    candidates = (name if number == 1 else f'{name}{number}' for number in itertools.count(1))
    return next(candidate for candidate in candidates if candidate not in taken or taken[candidate] == definition)


def _rename(schema: Any, names: Mapping[str, str]) -> Any:
    """The schema with references to renamed definitions."""
    if isinstance(schema, list):
        return [_rename(part, names) for part in schema]
    if not isinstance(schema, dict):
        return schema
    renamed = {key: _rename(part, names) for key, part in schema.items()}
    reference = schema.get('$ref')
    if isinstance(reference, str) and (new := names.get(reference.removeprefix('#/$defs/'))):
        renamed['$ref'] = f'#/$defs/{new}'
    return renamed


def _plain(value: Any, kind: Any, where: str) -> Any:
    if kind in (None, type(None)) and value is None:
        return None
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind is int and is_number and math.isfinite(value) and value == int(value):
        return int(value)
    if kind is float and is_number:
        return float(value)
    if kind in (str, bool) and isinstance(value, kind):
        return value
    raise BadValueError(f'{where} must be {_PLAIN[kind]}, got {value!r:.60}')


def _read_text(value: Any, kind: Any, where: str) -> Any:
    if kind is Decimal and isinstance(value, (int, float)) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        try:
            return _TEXTS[kind][1](value)
        except (ValueError, ArithmeticError):
            pass
    raise BadValueError(f'{where} must be a {kind.__name__} as a string, got {value!r:.60}')


def choose_value(value: Any, choices: Sequence[Any], where: str) -> Any:
    """The choice that a value is; `BadValueError` if it is none. True is not 1."""
    matches = [choice for choice in choices if choice == value and isinstance(choice, bool) == isinstance(value, bool)]
    if not matches:
        raise BadValueError(f'{where} must be one of {", ".join(map(repr, choices))}; got {value!r:.60}')
    return matches[0]


def first_that_fits(read: Callable[[Any], Any], alternatives: Iterable[Any]) -> Any:
    """What `read` makes of the first alternative that it does not object to; all objections if there is none."""
    objections = []
    for alternative in alternatives:
        try:
            return read(alternative)
        except BadValueError as error:
            objections.append(str(error))
    raise BadValueError(' or '.join(objections))


def check_names(value: Mapping[str, Any], needed: Iterable[str], allowed: Collection[str], where: str) -> None:
    """Raise `BadValueError` if an object lacks a field, or has one that it must not have."""
    if (missing := next((name for name in needed if name not in value), None)) is not None:
        raise BadValueError(f'{where} lacks {missing!r}')
    if (unknown := next((name for name in value if name not in allowed), None)) is not None:
        raise BadValueError(f'{where} has an unknown field {unknown!r:.60}')


def _record(value: Any, hint: Any, fields: Mapping[str, tuple[Any, bool]], where: str) -> Any:
    if not isinstance(value, Mapping):
        raise BadValueError(f'{where} must be an object, got {value!r:.60}')
    check_names(value, [name for name, (_, needed) in fields.items() if needed], fields, where)
    values = {name: value_of(item, fields[name][0], f'{where}.{name}') for name, item in value.items()}
    try:
        return hint(**values)
    except (ValueError, TypeError, ArithmeticError) as error:  # what a type's own checks raise
        raise BadValueError(f'{where}: {error}') from error


def _container_value(value: Any, name: str, arguments: tuple[Any, ...], where: str) -> Any:
    make: Callable[[Any], Any] | None = tuple if name == 'tuple' else list if name in _LISTS else None
    if name in _SETS:
        make = frozenset if name == 'frozenset' else set
    if make is not None:
        if not isinstance(value, list):
            raise BadValueError(f'{where} must be a list, got {value!r:.60}')
        hints = _hints_of_items(name, arguments, len(value), where)
        return make(
            value_of(item, hint, f'{where}[{i}]') for i, (item, hint) in enumerate(zip(value, hints, strict=True))
        )
    if name in _DICTS:
        if not isinstance(value, Mapping):
            raise BadValueError(f'{where} must be an object, got {value!r:.60}')
        named, hint = arguments if len(arguments) == 2 else (Any, Any)
        return {_read_key(key, named, where): value_of(item, hint, f'{where}.{key}') for key, item in value.items()}
    return value


def _read_key(key: str, hint: Any, where: str) -> Any:
    """The key of an object as its hint has it. JSON writes numbers as strings there."""
    is_number = hint is int and key.removeprefix('-').isdecimal()
    return value_of(int(key) if is_number else key, hint, f'a key of {where}')


def _hints_of_items(name: str, arguments: tuple[Any, ...], count: int, where: str) -> list[Any]:
    if name == 'tuple' and arguments and arguments[-1] is not Ellipsis:
        if len(arguments) != count:
            raise BadValueError(f'{where} must have {len(arguments)} items, got {count}')
        return list(arguments)
    return [arguments[0] if arguments else Any] * count


def hints_of(function: Callable[..., Any], name: str) -> dict[str, Any]:
    """The type hints of a function's parameters."""
    is_function = inspect.isroutine(function) or isinstance(function, type)
    try:
        hints = get_type_hints(function if is_function else type(function).__call__, include_extras=True)
        for hint in hints.values():
            schema_of(hint)
    except (NameError, SyntaxError, AttributeError, TypeError) as error:
        raise ModuleError(f'the tool {name} has an unsupported type hint: {error}.') from None
    return hints
