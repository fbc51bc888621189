"""What kind of answers a column holds, and so how replies are read and compared where nothing else is said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from rolecall.scoring.readers.mentions import PAIRS
from rolecall.scoring.readers.numbers import number_of

_LETTERS = re.compile(r'[A-J](?:(?:\s?[,，、;/&]\s?|\s)?[A-J])*')
_DATE = re.compile(r'\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}')
_FORMULA = re.compile(r'\\[a-zA-Z]{2}|\$[^$]+\$|\^')
_LONG = 12
"""Words from which an answer is a text of its own."""


class GoldKind(NamedTuple):
    """A kind of answers: its name, the metric for it, and what a reply chooses from."""

    name: str
    metric: str
    choices: tuple[str, ...] = ()
    several: bool = False
    """Whether an answer may be several of the choices (`BD`)."""


def kind_of_golds(golds: Sequence[Any]) -> GoldKind:
    """The kind of the answers of a column, by its first rows.

    >>> [kind_of_golds(golds).name for golds in ([3, '1,200'], ['B', 'A'], ['Yes', 'No'], ['Paris', '4'])]
    ['numbers', 'letters', 'yes or no', 'short texts']
    >>> kind_of_golds(['B', 'A']).choices, kind_of_golds(['Yes', 'No']).choices
    (('A', 'B', 'C', 'D'), ('Yes', 'No'))
    >>> kind_of_golds(['B', 'A,C', 'BD']).name, kind_of_golds(['BAD', 'A']).name
    ('sets of letters', 'short texts')
    """
    if any(isinstance(gold, (list, tuple)) for gold in golds):
        return GoldKind('lists of accepted answers', 'exact')
    texts = [str(gold).strip() for gold in golds]
    distinct = set(texts)
    if not texts:
        return GoldKind('short texts', 'exact')
    if not any(isinstance(gold, bool) for gold in golds) and all(number_of(text) is not None for text in texts):
        return GoldKind('numbers', 'number')
    if all(_LETTERS.fullmatch(text) and _is_ordered(text) for text in texts):
        several = any(len(text) > 1 for text in texts)
        last = max('D', *(text[-1] for text in texts))
        letters = tuple(chr(code) for code in range(ord('A'), ord(last) + 1))
        return GoldKind('sets of letters' if several else 'letters', 'accuracy', letters, several)
    if len(distinct) <= 2 and any({text.lower() for text in distinct} <= set(pair) for pair in PAIRS):
        pair = next(pair for pair in PAIRS if {text.lower() for text in distinct} <= set(pair))
        written = {text.lower(): text for text in texts}
        return GoldKind('yes or no', 'accuracy', tuple(written.get(word, word) for word in pair))
    if all(_DATE.fullmatch(text) for text in texts):
        return GoldKind('dates', 'exact')
    if sum(_FORMULA.search(text) is not None for text in texts) * 2 > len(texts):
        return GoldKind('formulas', 'math')
    long = sum(len(text.split()) > _LONG or len(text) > 10 * _LONG for text in texts) * 2 > len(texts)
    return GoldKind('long texts', 'f1') if long else GoldKind('short texts', 'exact')


def _is_ordered(text: str) -> bool:
    """Whether letters stand in order, each once: `BD` is a set, `BAD` a word."""
    letters = re.findall('[A-J]', text)
    return letters == sorted(set(letters))
