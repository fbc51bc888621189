"""The rows of a benchmark, declared as columns of its records: `*, -id, label = label | letter(AB)`.

- `question` is copied, `*` copies all columns, `**translation` the columns of a nested record; `fact1?` may be absent;
- `-id` removes a column;
- `name = path` goes into nested values: `question.stem`, `turns.0.content`, `choices.*.text` of each choice, `.` is the
  record itself; operations follow after `|`;
- `name = "…"` is a text with `{columns}` filled in, `name = {a, b}` a nested record, `name = [a, *b]` a list of values,
  `name = 0` a number;
- `(ABCD) = options` puts the items of a list under letters, `(first second)` under names; `(ABCDEFG?)` allows any
  number of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeAlias

from rolecall.sources.datasets.rows import Row

LETTERS = 'ABCDEFGHIJKLMNOP'
PASSAGES = ('context', 'passage', 'document', 'article', 'story', 'paragraph', 'text', '上下文', '材料', '文章')
"""Columns that hold the passage a question refers to."""
OPTION_LISTS = ('choices', 'options', '选项')
"""Columns that list the options of their row."""
_KEYS = (('label', 'key', 'id', 'letter'), ('text', 'content', 'value', 'option'))
"""What an option's label and its text are called."""
_LABEL = re.compile(r'(?:opt?|option|choice)?[ _]?(?:[A-Za-z]|\d{1,2})', re.IGNORECASE)
_OPTION_COLUMN = re.compile(r'((?:.*\.)?(?i:opt?|option|choice)[ _]?)([A-Pa-p]|\d{1,2})|((?:.*\.)?)([A-P])')
OPTION_LINES = 'option_lines'
"""The column of `choices_from` with the row's options on a line each."""


def drop_columns(row: Row, *columns: str) -> dict[str, Any]:
    """A copy of the row without these columns.

    >>> drop_columns({'a': 1, 'b': 2}, 'b', 'c')
    {'a': 1}
    """
    return {key: value for key, value in row.items() if key not in columns}


def label_options(options: list[Any]) -> dict[str, Any]:
    """Four options under their letters.

    >>> label_options(['w', 'x', 'y', 'z'])
    {'A': 'w', 'B': 'x', 'C': 'y', 'D': 'z'}
    """
    return dict(zip('ABCD', options, strict=True))


def label_lines(options: Any) -> str:
    """Options on a line each, after their labels or letters.

    >>> label_lines(['x', 'y']) == label_lines({'A': 'x', 'B': 'y'}) == 'A. x\\nB. y\\n'
    True
    """
    labelled = options.items() if isinstance(options, Mapping) else zip(LETTERS, options, strict=False)
    return ''.join(f'{label}. {option}\n' for label, option in labelled)


def read_options(value: Any) -> dict[str, Any] | None:
    """The options of a question by their labels, in any of the usual forms; None if there are none.

    >>> read_options(['x', 'y']), read_options({'text': ['x', 'y'], 'label': ['1', '2']})
    ({'A': 'x', 'B': 'y'}, {'1': 'x', '2': 'y'})
    >>> read_options([{'label': 'A', 'text': 'x'}, {'label': 'B', 'text': 'y'}]), read_options({'A': 'x', 'B': 'y'})
    ({'A': 'x', 'B': 'y'}, {'A': 'x', 'B': 'y'})
    """
    labels: Any = LETTERS
    if isinstance(value, Mapping) and isinstance(value.get('text'), list | tuple):
        labels, value = value.get('label') or LETTERS, value['text']
    elif isinstance(value, list | tuple) and value and all(isinstance(option, Mapping) for option in value):
        by_kind = [[next((option[key] for key in keys if key in option), None) for option in value] for keys in _KEYS]
        labels, value = by_kind[0] if None not in by_kind[0] else LETTERS, by_kind[1]
    elif isinstance(value, Mapping):
        labels, value = list(value), list(value.values())
        if not all(_LABEL.fullmatch(str(label)) for label in labels):
            return None
    if not isinstance(value, list | tuple) or len(value) < 2:
        return None
    if any(isinstance(option, Mapping | list | tuple) or option is None for option in value):
        return None
    return dict(zip(map(str, labels), value, strict=False))


def find_option_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns that hold one option each, in their order: `A`, `B`, …, `option_a`, `choice1`.

    >>> find_option_columns(['question', 'opa', 'opb', 'answer']), find_option_columns(['a', 'b'])
    (('opa', 'opb'), ())
    """
    groups: dict[str, list[tuple[str, int]]] = {}
    for column in columns:
        if match := _OPTION_COLUMN.fullmatch(column):
            stem, label = (match[1], match[2]) if match[2] else (match[3], match[4])
            groups.setdefault(stem, []).append((column, int(label) if label.isdecimal() else ord(label)))
    for group in groups.values():
        names, places = zip(*group, strict=True)
        if (
            len(names) > 1
            and places[0] in (0, 1, ord('A'), ord('a'))
            and places == tuple(range(places[0], places[0] + len(places)))
        ):
            return names
    return ()


def options_of(row: Row, columns: str | Sequence[str]) -> dict[str, Any] | None:
    """The options of a row by their labels, from the column that lists them or the columns that hold one each."""
    if isinstance(columns, str):
        return read_options(row.get(columns))
    return read_options([row[column] for column in columns if row.get(column) not in (None, '')])


def spread_choices(row: Row, columns: str | Sequence[str], answer: str | None) -> dict[str, Any]:
    """A row with its options under their letters and as lines, and as its answer the letter of the option it names.

    The options stand in one column, or in a column each; the answer is a label, an index or the text of an option.

    >>> spread_choices({'q': 'Which?', 'choices': ['x', 'y'], 'answer': 1}, 'choices', 'answer')
    {'q': 'Which?', 'choices': ['x', 'y'], 'answer': 'B', 'A': 'x', 'B': 'y', 'option_lines': 'A. x\\nB. y'}
    """
    options = options_of(row, columns)
    if options is None:
        return dict(row)
    gold = row.get(answer) if answer is not None else None
    letter = _find_letter(gold, list(options), list(options.values()))
    return {
        **row,
        **({answer: letter} if answer is not None and answer in row else {}),
        **dict(zip(LETTERS, options.values(), strict=False)),
        OPTION_LINES: label_lines(list(options.values())).rstrip(),
    }


def _find_letter(gold: Any, labels: list[str], texts: list[Any]) -> Any:
    """The letter of the option that an answer names by its label, index or text; the answer itself if it names none."""
    own_labels = labels != list(LETTERS[: len(labels)])
    if own_labels and str(gold).strip() in labels:
        return LETTERS[labels.index(str(gold).strip())]
    index = int(gold) if isinstance(gold, str) and gold.strip().isdecimal() and gold not in texts else gold
    if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < len(texts):
        return LETTERS[index]
    return LETTERS[texts.index(gold)] if gold in texts else gold


def flatten(row: Row) -> dict[str, Any]:
    """The row with the values inside nested objects as columns of their own.

    >>> flatten({'id': 1, 'input': {'question': 'Why?', 'from': {'page': 7}}})['input.from.page']
    7
    """
    flat = dict(row)
    nested = [(name, value) for name, value in row.items() if isinstance(value, Mapping)]
    for name, inside in nested:  # grows while it is walked
        for key, value in inside.items():
            flat.setdefault(f'{name}.{key}', value)
            if isinstance(value, Mapping):
                nested.append((f'{name}.{key}', value))
    return flat


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{…}` in a solution, or None.

    >>> last_boxed(r'first \boxed{1}, so \boxed{\frac{1}{2}}.')
    '\\frac{1}{2}'
    """
    _, command, rest = text.rpartition('\\boxed')
    depth = 0
    for place, character in enumerate(rest if command and rest.startswith('{') else ''):
        depth += {'{': 1, '}': -1}.get(character, 0)
        if depth == 0:
            return rest[1:place]
    return None


_Read: TypeAlias = Callable[[Any], Any]

_OPERATIONS: Mapping[str, Callable[[str], _Read]] = {
    'after': lambda mark: lambda text: text.partition(mark)[2],
    'boxed': lambda _: last_boxed,
    'cell': lambda place: lambda line: line.strip().split('\t')[int(place)],
    'capital': lambda _: lambda text: text[:1].upper() + text[1:],
    'either': lambda names: lambda record: next((record[name] for name in names.split() if record.get(name)), None),
    'else': lambda default: lambda value: default if value is None else value,
    'fill': lambda mark: lambda pair: pair[0].replace(mark, pair[1]),
    'find': lambda pattern: lambda text: re.findall(pattern, text)[0],
    'first': lambda _: itemgetter(0),
    'get': lambda name: lambda record: record.get(name),
    'if': lambda names: lambda value: dict(name.split(':') for name in names.split()).get(str(value), ''),
    'int': lambda _: int,
    'is_true': lambda _: lambda value: int(str(value).lower() == 'true'),
    'item': lambda place: itemgetter(int(place)),
    'join': lambda mark: mark.join,
    'last': lambda mark: lambda text: text.rpartition(mark)[2],
    'labelled': lambda _: label_lines,
    'letter': lambda letters: lambda number: (letters or LETTERS)[int(number)],
    'lines': lambda _: '\n'.join,
    'literal': lambda _: ast.literal_eval,
    'lower': lambda _: lambda value: str(value).lower(),
    'named': lambda names: dict(name.split(':') for name in names.split()).__getitem__,
    'place': lambda _: lambda pair: pair[0].index(pair[1]),
    'present': lambda _: lambda values: list(filter(None, values)),
    'replace': lambda words: lambda text: text.replace(*words.replace('\\n', '\n').split(' ')),
    'strip': lambda _: str.strip,
    'skip': lambda times: lambda text: text.split(': ', int(times))[-1],
    'spaced': lambda _: lambda text: text.replace('_', ' '),
    'text': lambda _: str,
    'unique': lambda _: lambda values: list(dict.fromkeys(values)),
    'words': lambda _: lambda text: len(text.split()),
}


def make_shape(declaration: str) -> Callable[[Row], Row]:
    """A function from a record to a row.

    >>> make_shape('text = passage.text, (AB) = choices.*.text, label = gold | letter(AB)')(
    ...     {'passage': {'text': 'Sky.'}, 'choices': [{'text': 'blue'}, {'text': 'red'}], 'gold': '1'}
    ... )
    {'text': 'Sky.', 'A': 'blue', 'B': 'red', 'label': 'B'}
    >>> make_shape('answer = [choices, right] | place | letter, question = [question, *choices] | lines')(
    ...     {'question': 'Which?', 'choices': ['blue', 'red'], 'right': 'red'}
    ... )
    {'answer': 'B', 'question': 'Which?\\nblue\\nred'}
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
        depth += 0 if quoted else (character in '{([') - (character in '])}')
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
        names = letters.split() if ' ' in letters else letters
        return '', lambda row, record: row.update(zip(names, read(record), strict=strict))
    return name, read


def _read_value(value: str) -> _Read:
    start, *operations = _split(value, '|')
    read: _Read
    if start.startswith('"'):
        read = start[1:-1].format_map
    elif start.startswith('{'):
        read = make_shape(start[1:-1])
    elif start.startswith('['):
        items = [(item.startswith('*'), _read_value(item.lstrip('*'))) for item in _split(start[1:-1], ',')]
        read = partial(_list, items)
    elif start.isdecimal():
        read = partial(_give, int(start))
    else:
        path = [step for step in start.split('.') if step]
        read = itemgetter(path[0]) if len(path) == 1 else partial(_follow, path=path)
    for operation in operations:
        name, _, argument = operation.removesuffix(')').partition('(')
        read = _chain(read, _OPERATIONS[name](argument))
    return read


def _give(number: int, record: Row) -> int:
    return number


def _list(items: Sequence[tuple[bool, _Read]], record: Row) -> list[Any]:
    return [value for spread, read in items for value in (read(record) if spread else [read(record)])]


def _chain(read: _Read, operate: _Read) -> _Read:
    return lambda record: operate(read(record))


def _follow(value: Any, path: Sequence[str]) -> Any:
    for place, step in enumerate(path, start=1):
        if step == '*':
            return [_follow(item, path[place:]) for item in value]
        value = value[int(step) if isinstance(value, list) else step]
    return value
