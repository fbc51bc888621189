"""Numbers in replies."""

from __future__ import annotations

import re
from collections import deque

__all__ = [
    'first_number_postprocess',
    'gsm8k_dataset_postprocess',
    'gsm8k_postprocess',
    'last_number',
    'number_of',
]

_NUMBER = re.compile(
    r'(?:(?<![^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])(?<![.)])(?P<sign>[-−+])[ \t]?)?[$€£¥]?'
    r'(?P<digits>\d{1,3}(?:(?:,|\{,\}|,\\!|\\,|[\u2009\u202f])\d{3})+(?![\d])(?:\.\d+)?|\d+(?:\.\d+)?|(?<!\d)\.\d+)(?P<power>[eE][-+]?\d+(?!\w))?'
)


def first_number_postprocess(text: str) -> float | None:
    """The first number of the reply.

    >>> first_number_postprocess('It costs $1,250.50, or 3 a day')
    1250.5
    """
    found = _NUMBER.search(text)
    return float(_format_number(found)) if found else None


def gsm8k_postprocess(text: str) -> str:
    """The number after `####`, or else the last number before a next `Question:`.

    >>> gsm8k_postprocess('3 + 4 = 7 eggs, so $1,234.50.\\n\\nQuestion: How old is 55?')
    '1234.50'
    """
    own = text.split('Question:')[0]
    _, marked, after = own.rpartition('####')
    return (last_number(after.strip().partition('\n')[0]) if marked else '') or last_number(own)


def gsm8k_dataset_postprocess(text: str) -> str:
    """The text after `####` in GSM8K's solutions, without thousands separators.

    >>> gsm8k_dataset_postprocess('They ate 1,000.\\n#### 1,200')
    '1200'
    """
    return text.rpartition('####')[2].strip().replace(',', '')


def last_number(text: str) -> str:
    """The last number, in a form `float` accepts; empty if there is none.

    >>> last_number('from 12 to -3,000.')
    '-3000'
    """
    found = deque(_NUMBER.finditer(text), maxlen=1)
    return _format_number(found[0]) if found else ''


def number_of(value: object) -> float | None:
    """The value as a number: `'$1,200'`, `'70%'`, `' 5.0 '` and `5` are numbers, `'five'` and `'3 eggs'` are not.

    >>> number_of('$1,200.'), number_of('3 eggs')
    (1200.0, None)
    """
    found = _NUMBER.fullmatch(str(value).strip().rstrip('.%'))
    return float(_format_number(found)) if found else None


def _format_number(found: re.Match[str]) -> str:
    sign = '-' if found['sign'] in ('-', '−') else ''
    return sign + re.sub(r'[^\d.]', '', found['digits']) + (found['power'] or '')
