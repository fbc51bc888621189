"""Numbers in words: `twenty-five`, `two dozen`, `fünfundzwanzig`, `三万五千`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.reading import Candidate

_NOT_A_COUNT = re.compile(
    r'\b(?:no|any|every|some|each|this|that|which|other|another|first|last|(?:the|this|that|an?)'
    r'(?:\s+(?!is\b|are\b|was\b|were\b|be\b|by\b|of\b|to\b|in\b|equals?\b)\w+){0,2})\s+\Z'
)
"""Before a `one` that is a pronoun: `the smallest one`."""
_PRONOUN = re.compile(r'\s+(?:of|another|can|could|may|must|might|should|would|will|has|is|was|who|that)\b')
_BARE = '(?:hundert|tausend|mille?|cien(?:to)?)(?![a-z])'
"""Scales that are a number without one before them."""
_CHINESE = {digit: number for number, digit in enumerate('零一二三四五六七八九')} | {'〇': 0, '两': 2}
_CHINESE_NUMBER = re.compile(
    '(?:百分之)?(?<![第零〇一二两三四五六七八九十百千万亿])负?[零〇一二两三四五六七八九十百千万亿]{1,20}(?:分之[零〇一二两三四五六七八九十百千万亿]{1,20})?'
)


@lru_cache(maxsize=1)
def find_scales() -> dict[str, int]:
    """The words for powers of ten, with their values."""
    return {word: int(number) for line in CUES.words('scale') for word, number in [line.rsplit(' ', 1)]}


@lru_cache(maxsize=1)
def _numerals() -> tuple[dict[str, Fraction], dict[str, int], re.Pattern[str], re.Pattern[str]]:
    words = {word: Fraction(number) for line in CUES.words('numeral') for word, number in [line.rsplit(' ', 1)]}
    parts = {word: int(number) for line in CUES.words('part') for word, number in [line.rsplit(' ', 1)]}
    scales = '|'.join(
        sorted((word for word in find_scales() if word.isascii() and len(word) > 2), key=len, reverse=True)
    )
    word = '|'.join(sorted(words, key=len, reverse=True))
    part = '|'.join(sorted(parts, key=len, reverse=True))
    more = rf'(?:(?:\s+and\s+|\s+y\s+|und|[\s-]+|)(?:{word}|{scales})){{0,12}}'
    amount = rf'(?P<amount>(?:(?:half\s+)?an?\s+(?:{scales})|{_BARE}|{word}){more})'
    pattern = rf'(?<![a-zà-ÿ])(?P<sign>(?:minus|negative)\s+)?{amount}'
    return (
        words,
        parts,
        re.compile(
            rf'{pattern}(?:\s+(?:point|komma|virgule|coma|punto)\s+(?P<digits>(?:{word})(?:\s+(?:{word})){{0,9}})'
            rf'|[\s-]+(?:and\s+a\s+(?P<more>half|quarter)|(?P<part>{part})))?(?![a-zà-ÿ])'
        ),
        re.compile(rf'und|{word}|{scales}|half|\ban?\b'),
    )


def spell_out(low: str, start: int = 0, end: int | None = None) -> Iterator[Candidate]:
    """Numbers in words: `twenty-five`, `two dozen`, `三万五千`.

    >>> [number.value for number in spell_out('half a million, one hundred and five, 二十五, no one')]
    ['500000', '105', '25']
    """
    end = len(low) if end is None else end
    words, parts, pattern, tokens = _numerals()
    for match in pattern.finditer(low, start, end):
        amount = tokens.findall(match['amount'])
        alone = amount == ['one'] and not match['part']
        if alone and (
            _NOT_A_COUNT.search(low, max(start, match.start() - 32), match.start()) or _PRONOUN.match(low, match.end())
        ):
            continue
        value = _add_up(amount, words)
        value = value / parts[match['part']] if match['part'] else value
        value += Fraction(1, parts[match['more']]) if match['more'] else Fraction(0)
        if match['digits']:
            value += Fraction('0.' + ''.join(str(words[digit]) for digit in match['digits'].split()))
        value = -value if match['sign'] else value
        yield Candidate(f'{float(value):.15g}' if value.denominator > 1 else str(value), *match.span())
    for match in _CHINESE_NUMBER.finditer(low, start, end):
        before = low[match.start() - 1 : match.start()]
        if (match[0][0] in '百千万亿' and not match[0].startswith('百分之')) or (
            match[0] == '一' and match.start() > start and before not in '是为:： '
        ):
            continue
        below, _, above = match[0].removeprefix('百分之').lstrip('负').partition('分之')
        sign = '-' if match[0].startswith('负') else ''
        value_in_words = f'{int(_chinese(above)) / int(_chinese(below)):.15g}' if above else _chinese(below)
        yield Candidate(sign + value_in_words, *match.span())


def _add_up(amount: list[str], words: dict[str, Fraction]) -> Fraction:
    """`three thousand two hundred` is 3200, `half a million` 500000."""
    total, group = Fraction(0), Fraction(0)
    for word in amount:
        if word in ('a', 'an'):
            group = group or Fraction(1)
        elif word == 'half':
            group = Fraction(1, 2)
        elif word in words:
            group += words[word]
        elif (scale := find_scales().get(word, 1)) < 1000:  # 1 for `and`
            group = (group or Fraction(1)) * scale if scale > 1 else group
        else:
            total, group = total + (group or 1) * scale, Fraction(0)
    return total + group


def _chinese(written: str) -> str:
    """`三万五千` is 35000, `二零二四` 2024."""
    if len(written) > 1 and not set(written) & set('十百千万亿'):
        return ''.join(str(_CHINESE[digit]) for digit in written)
    total = section = digit = 0
    for sign in written:
        if sign == '万':
            total, section, digit = total + (section + digit) * 10**4, 0, 0
        elif sign == '亿':
            total, section, digit = (total + section + digit) * 10**8, 0, 0
        elif sign in '十百千':
            section, digit = section + (digit or 1) * {'十': 10, '百': 100, '千': 1000}[sign], 0
        else:
            digit = _CHINESE[sign]
    return str(total + section + digit)
