r"""Numbers in replies, as people write them.

`70,000`, `70 000` and `70.000,00` have thousands separators, `12,5` a decimal comma; `3.2 × 10^5`, `1/2` and `3 1/2`
are one number each. `1,2,3` is a list, `10 - 3` a difference, and `- 3` at the start of a line an item of a list.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator

from rolecall.scoring.texts import after_reasoning, cut_next_problem, last_boxed, narrow_digits

__all__ = [
    'first_number_postprocess',
    'gsm8k_dataset_postprocess',
    'gsm8k_postprocess',
    'last_number',
    'number_of',
]

_SIGN = (
    r'(?:(?<![^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])(?<![.)])'
    r'(?P<sign>[-−–+]|(?<![\d)]\ )(?<!^)[-−+][ \t]|(?<![\d)]\ )(?:[Mm]inus|[Nn]egative)\ ))?[$€£¥]?'
)
_GROUPED = r"(?<!\d)\d{1,3}(?:(?:,|\{,\}|,\\!|\\,|[ '’_\u00a0\u2009\u202f])\d{3})+(?!\d)(?:\.\d+)?"
_DIGITS = rf'(?P<digits>{_GROUPED}|\d+(?:\.\d+)?|(?<!\w)\.\d+)'
_POWER = r'(?P<power>[eE][-+]?\d+(?!\w)|\s?(?:×|x|\*|\\times|\\cdot)\s?10(?:\^\{?[-−]?\d{1,3}\}?|[⁻⁰¹²³⁴-⁹]{1,4}))?'
_COMMA = (
    r'(?P<comma>(?<!\d)\d{1,3}(?:\.\d{3})+,\d{1,2}(?!\d)'
    r'|(?<![\d,(\[{.])\d+,\d{1,2}(?![\d,.)\]}]*[\d,)\]}]|\ ?(?:and|or|&|和|或)|\ \d))'
)
_FRACTION = (
    r'(?:(?P<whole>(?<![\d./,])\d+)\ )?(?<![\d./^,])(?P<over>\d+)/(?P<under>\d*[1-9]\d*)(?![\d/]|\.\d)'
    r'|\\[dt]?frac\{?(?P<above>\d+)\}?\{?(?P<below>\d*[1-9]\d*)\}?'
)
_NUMBER = re.compile(_SIGN + _DIGITS + _POWER, re.MULTILINE)
_WRITTEN = re.compile(rf'{_SIGN}(?:{_FRACTION}|{_COMMA}|{_DIGITS}{_POWER})', re.MULTILINE)
_RAISED = str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789')


def first_number_postprocess(text: str) -> float | None:
    """The first number of the reply.

    >>> first_number_postprocess('It costs $1,250.50, or 3 a day')
    1250.5
    """
    found = next(_find_numbers(text), None)
    return float(_format_written(found)) if found else None


def gsm8k_postprocess(text: str) -> str:
    r"""The number after `####`, or in the last `\boxed{…}`, or else the last number before a next question.

    >>> gsm8k_postprocess('3 + 4 = 7 eggs, so $1,234.50.\n\nQuestion: How old is 55?')
    '1234.50'
    """
    own = cut_next_problem(after_reasoning(text).partition('Question:')[0])
    _, marked, after = own.rpartition('####')
    final = last_number(after.strip().partition('\n')[0]) if marked else ''
    return final or last_number(last_boxed(own)) or last_number(own)


def gsm8k_dataset_postprocess(text: str) -> str:
    """The text after `####` in GSM8K's solutions, without thousands separators.

    >>> gsm8k_dataset_postprocess('They ate 1,000.\\n#### 1,200')
    '1200'
    """
    return text.rpartition('####')[2].strip().replace(',', '')


def last_number(text: str) -> str:
    """The last number, in a form `float` accepts; empty if there is none.

    >>> [last_number(text) for text in ('from 12 to -3,000.', '70 000', '12,5 m', '3.2 × 10^5', '3 1/2', '10 - 3')]
    ['-3000', '70000', '12.5', '3.2e5', '3.5', '3']
    """
    found = deque(_find_numbers(text), maxlen=1)
    return _format_written(found[0]) if found else ''


def number_of(value: object) -> float | None:
    """The value as a number: `'$1,200'`, `'70%'`, `' 5.0 '` and `5` are numbers, `'five'` and `'3 eggs'` are not.

    >>> number_of('$1,200.'), number_of('3 eggs')
    (1200.0, None)
    """
    found = _NUMBER.fullmatch(str(value).strip().rstrip('.%'))
    return float(_format_number(found)) if found else None


def _find_numbers(text: str) -> Iterator[re.Match[str]]:
    return _WRITTEN.finditer(narrow_digits(text))


def _format_written(found: re.Match[str]) -> str:
    over, under = found['over'] or found['above'], found['under'] or found['below']
    if over:
        return _format_sign(found) + f'{int(found["whole"] or 0) + int(over) / int(under):.15g}'
    if found['comma']:
        return _format_sign(found) + found['comma'].replace('.', '').replace(',', '.')
    return _format_number(found)


def _format_number(found: re.Match[str]) -> str:
    power = (found['power'] or '').translate(_RAISED)
    if '10' in power and power[0] not in 'eE':
        power = 'e' + re.sub(r'\A.*?10|[\s^{}]', '', power).replace('−', '-')
    return _format_sign(found) + re.sub(r'[^\d.]', '', found['digits']) + power


def _format_sign(found: re.Match[str]) -> str:
    return '' if found['sign'] is None or found['sign'].strip() == '+' else '-'
