"""How values that are not strings are written in a prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from decimal import Decimal
from typing import Any

from rolecall.errors import RenderError

_REMEDY = 'Convert it to a string in the dataset.'


def text_of(value: object) -> str:
    """The text form of a row's value.

    | value                        | text                                   |
    |------------------------------|----------------------------------------|
    | string                       | itself                                 |
    | None                         | the empty string                       |
    | True, False                  | True, False                            |
    | whole number, float, Decimal | its shortest exact form: 3, 0.1, 1e+16 |
    | list, tuple, dict            | JSON, order kept, not ASCII-escaped    |
    | date, time                   | ISO 8601                               |
    | numpy scalar or array        | as the Python value it holds           |

    Any other type is an error, rather than a Python repr in the prompt.

    >>> text_of(['a', 'ü', None]), text_of(None), text_of(0.10)
    ('["a", "ü", null]', '', '0.1')
    """
    if isinstance(value, str):
        return str.__str__(value)  # str subclasses (enums) may define another __str__
    if value is None:
        return ''
    if isinstance(value, (bool, int, float, Decimal)):
        return _number(value)
    if isinstance(value, (list, tuple, Mapping)):
        return _json(value)
    if isinstance(value, (date, time)):
        return value.isoformat()
    if hasattr(value, 'tolist'):
        return text_of(value.tolist())
    raise RenderError(
        f'a value of type {type(value).__name__} has no text form: {value!r:.80}. '
        'Convert it to a string, number, list or dict first.'
    )


def _number(value: float | Decimal) -> str:
    try:
        return str(value)
    except ValueError:
        raise RenderError(f'an integer has too many digits to write out. {_REMEDY}') from None


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=_inside_json)
    except RecursionError:
        raise RenderError(f'a {type(value).__name__} is nested too deeply to write as JSON. {_REMEDY}') from None
    except (ValueError, TypeError) as error:  # a cycle, an integer with too many digits, a key that is not a string
        raise RenderError(f'a {type(value).__name__} cannot be written as JSON: {error}. {_REMEDY}') from None


def _inside_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, 'tolist'):
        return value.tolist()
    return text_of(value)


def describe_value(value: object) -> str:
    """A value's type and the beginning of its repr, for error messages."""
    return 'None' if value is None else f'{type(value).__name__} {value!r:.60}'
