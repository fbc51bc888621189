"""Options and nested values of rows, in any of the usual forms, as columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rolecall.sources.datasets.rows import Row

LETTERS = 'ABCDEFGHIJKLMNOP'
PASSAGES = ('context', 'passage', 'document', 'article', 'story', 'paragraph', 'text', '上下文', '材料', '文章')
"""Columns that hold the passage a question refers to."""
OPTION_LISTS = ('choices', 'options', '选项')
"""Columns that list the options of their row."""
_KEYS = (('label', 'key', 'id', 'letter'), ('text', 'content', 'value', 'option'))
"""What an option's label and its text are called."""
_LABEL = re.compile(r'(?:opt?|option|choice)?[ _]?(?:[A-Za-z]|\d{1,2})', re.IGNORECASE)


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


def spread_choices(row: Row, column: str, answer: str | None) -> dict[str, Any]:
    """The options of a column under their letters, and an answer that is a label, an index or an option as its letter.

    >>> spread_choices({'q': 'Which?', 'choices': ['x', 'y'], 'answer': 1}, 'choices', 'answer')
    {'q': 'Which?', 'choices': ['x', 'y'], 'answer': 'B', 'A': 'x', 'B': 'y'}
    """
    options = read_options(row.get(column))
    if options is None:
        return dict(row)
    gold = row.get(answer) if answer is not None else None
    letter = _find_letter(gold, list(options), list(options.values()))
    return {
        **row,
        **({answer: letter} if answer is not None and answer in row else {}),
        **dict(zip(LETTERS, options.values(), strict=False)),
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
