"""Frozen dataclasses as JSON records and back. A field at its default is left out; `inline` fields are flattened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar('T')

_NUMBERS: Mapping[type, tuple[type, ...]] = {float: (int, float), int: (int,)}


def write_record(value: Any) -> dict[str, Any]:
    """A dataclass as plain JSON data."""
    record: dict[str, Any] = {}
    for field in fields(value):
        content = getattr(value, field.name)
        if field.metadata.get('stored', True) and (field.default is MISSING or content != field.default):
            record |= write_record(content) if _is_inline(field) else {_key(field): _plain(content)}
    return record


def read_record(kind: type[T], record: Any) -> T:
    """The dataclass that a record describes. Keys it does not know are ignored; a value of another type is an error."""
    if not isinstance(record, Mapping):
        raise TypeError(f'expected a {kind.__name__}, got {record!r:.60}.')
    dataclass: Any = kind
    hints = _hints_of(dataclass)
    values: dict[str, Any] = {}
    for field in fields(dataclass):
        if _is_inline(field):
            inner: Any = next(hint for hint in get_args(hints[field.name]) if is_dataclass(hint))
            if any(_key(part) in record for part in fields(inner)):
                values[field.name] = read_record(inner, record)
        elif field.metadata.get('stored', True) and _key(field) in record:
            values[field.name] = _read(hints[field.name], record[_key(field)], _key(field))
    return kind(**values)


@cache
def _hints_of(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _is_inline(field: Field[Any]) -> bool:
    return bool(field.metadata.get('inline'))


def _key(field: Field[Any]) -> str:
    return str(field.metadata.get('key', field.name))


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return write_record(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _read(hint: Any, value: Any, key: str) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is UnionType:
        return None if value is None else _read(next(part for part in parts if part is not NoneType), value, key)
    if is_dataclass(hint):
        kind: Any = hint
        return read_record(kind, value)
    if origin is Mapping and isinstance(value, Mapping):
        return {str(name): _read(parts[1], item, key) for name, item in value.items()}
    if origin is tuple and isinstance(value, (list, tuple)) and (parts[-1] is ... or len(parts) == len(value)):
        return tuple(_read(parts[0], item, key) for item in value)
    if hint is Any or (isinstance(hint, type) and isinstance(value, _NUMBERS.get(hint, (hint,)))):
        return value
    raise TypeError(f'{key}: unexpected {value!r:.60}.')
