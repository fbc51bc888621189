"""The rows of a benchmark, declared as columns of its records: `*, -id, label = label | letter(AB)`.

- `question` is copied, `*` copies all columns, `**translation` the columns of a nested record; `fact1?` may be absent;
- `-id` removes a column;
- `name = path` goes into nested values: `question.stem`, `turns.0.content`, `choices.*.text` of each choice, `.` is the
  record itself; operations follow after `|`;
- `name = "…"` is a text with `{columns}` filled in, `name = {a, b}` a nested record;
- `(ABCD) = options` puts the items of a list under letters; `(ABCDEFG?)` allows any number of them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from rolecall.sources.datasets.conversions import LETTERS, last_boxed
from rolecall.sources.datasets.rows import Row

_Read: TypeAlias = Callable[[Any], Any]

_OPERATIONS: Mapping[str, Callable[[str], _Read]] = {
    'after': lambda mark: lambda text: text.partition(mark)[2],
    'boxed': lambda _: last_boxed,
    'capital': lambda _: lambda text: text[:1].upper() + text[1:],
    'first': lambda _: itemgetter(0),
    'int': lambda _: int,
    'is_true': lambda _: lambda value: int(str(value).lower() == 'true'),
    'join': lambda mark: mark.join,
    'letter': lambda letters: lambda number: (letters or LETTERS)[int(number)],
    'lines': lambda _: '\n'.join,
    'literal': lambda _: ast.literal_eval,
    'lower': lambda _: lambda value: str(value).lower(),
    'named': lambda names: dict(name.split(':') for name in names.split()).__getitem__,
    'replace': lambda words: lambda text: text.replace(*words.split(' ')),
    'strip': lambda _: str.strip,
    'skip': lambda times: lambda text: text.split(': ', int(times))[-1],
}


def make_shape(declaration: str) -> Callable[[Row], Row]:
    """A function from a record to a row.

    >>> make_shape('text = passage.text, (AB) = choices.*.text, label = gold | letter(AB)')(
    ...     {'passage': {'text': 'Sky.'}, 'choices': [{'text': 'blue'}, {'text': 'red'}], 'gold': '1'}
    ... )
    {'text': 'Sky.', 'A': 'blue', 'B': 'red', 'label': 'B'}
    """
    steps = [_read_column(column) for column in _split(declaration, ',')]

    def shape(record: Row) -> Row:
        row: dict[str, Any] = {}
        for name, step in steps:
            if name:
                row[name] = step(record)
            else:
                step(row, record)
        return row

    return shape


def _split(text: str, mark: str) -> list[str]:
    """Split at a mark that is not inside quotes or brackets."""
    pieces, depth, quoted = [''], 0, False
    for character in text:
        quoted ^= character == '"'
        depth += 0 if quoted else (character in '{(') - (character in '})')
        if character == mark and not depth and not quoted:
            pieces.append('')
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces]


def _read_column(column: str) -> tuple[str, Callable[..., Any]]:
    """A column's name and what reads it from a record; without a name, what changes the row otherwise."""
    name, _, value = map(str.strip, column.partition('='))
    if column == '*':
        return '', dict.update
    if column.startswith('**'):
        inner = _read_value(column[2:])
        return '', lambda row, record: row.update(inner(record))
    if column.startswith('-'):
        return '', lambda row, record: row.pop(column[1:], None)
    if column.endswith('?'):
        return '', lambda row, record: row.update({column[:-1]: record[column[:-1]]} if column[:-1] in record else {})
    read = _read_value(value or name)
    if name.startswith('('):
        letters, strict = name.strip('(?)'), '?' not in name
        return '', lambda row, record: row.update(zip(letters, read(record), strict=strict))
    return name, read


def _read_value(value: str) -> _Read:
    start, *operations = _split(value, '|')
    read: _Read
    if start.startswith('"'):
        read = start[1:-1].format_map
    elif start.startswith('{'):
        read = make_shape(start[1:-1])
    else:
        path = [step for step in start.split('.') if step]
        read = itemgetter(path[0]) if len(path) == 1 else partial(_follow, path=path)
    for operation in operations:
        name, _, argument = operation.removesuffix(')').partition('(')
        read = _chain(read, _OPERATIONS[name](argument))
    return read


def _chain(read: _Read, operate: _Read) -> _Read:
    return lambda record: operate(read(record))


def _follow(value: Any, path: Sequence[str]) -> Any:
    for place, step in enumerate(path, start=1):
        if step == '*':
            return [_follow(item, path[place:]) for item in value]
        value = value[int(step) if isinstance(value, list) else step]
    return value
