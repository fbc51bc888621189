"""Amounts with words or powers in them, written as digits: `5 million`, `1.5k`, `two dozen`, `3.5万`, `10^6`.

Amounts that begin with digits are rewritten wherever they stand; numbers in words only in texts without a digit, where
nothing else can be the answer. `one` counts before a noun or alone: `no one` and `one of them` are not numbers.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

from rolecall.scoring.texts import narrow_digits

_ENGLISH_SCALES = {
    'hundred': 100,
    'dozen': 12,
    'thousand': 1000,
    'million': 10**6,
    'billion': 10**9,
    'trillion': 10**12,
}
_SHORT_SCALES = {'k': 1000, 'm': 10**6, 'mn': 10**6, 'b': 10**9, 'bn': 10**9}
_CHINESE_SCALES = {'十': 10, '百': 100, '千': 1000, '万': 10**4, '亿': 10**8}
_SCALES = _ENGLISH_SCALES | _SHORT_SCALES | _CHINESE_SCALES
_ONES = 'zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen'
_TEENS = 'sixteen seventeen eighteen nineteen'
_TENS = 'twenty thirty forty fifty sixty seventy eighty ninety'
_WORDS = {word: number for number, word in enumerate(f'{_ONES} {_TEENS}'.split())} | {
    word: 10 * number for number, word in enumerate(_TENS.split(), start=2)
}
_PARTS = {'half': 2, 'third': 3, 'quarter': 4, 'fourth': 4, 'fifth': 5, 'sixth': 6, 'eighth': 8, 'tenth': 10}
_CHINESE = {digit: number for number, digit in enumerate('零一二三四五六七八九')} | {'〇': 0, '两': 2}
_RAISED = str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789')

_DIGITS = r'(?<![\d.,])(?P<digits>\d{1,3}(?:,\d{3}){1,6}(?:\.\d{1,20})?|\d{1,20}(?:\.\d{1,20})?)'
_SCALED = (
    re.compile(
        _DIGITS + r'(?:\s|-|~|\\[ ,]|\\text\{){0,3}(?P<scale>hundred|thousand|[mb]illion|trillion|dozen)\b\}?', re.I
    ),
    re.compile(_DIGITS + r'(?P<scale>[kK])(?![\w\'’]|\s?[-+*/^=])'),
    re.compile(_DIGITS.replace('(?<!', '(?<=[$€£¥])(?<!', 1) + r'\s?(?P<scale>[MB]n?|[mb]n|(?<!\s)[mb])(?!\w)'),
    re.compile(_DIGITS + r'\s?(?P<scale>bn)(?!\w)'),
)
_CHINESE_SCALED = re.compile(
    r'(?<![\d.])(?:\d{1,20}(?:\.\d{1,20})?(?:[百千]?[百千万亿]|\s[万亿])(?<!千(?=[米克瓦卡]))){1,4}'
)
_POWER = re.compile(
    r'(?<![\w.^×*·])(?<![×x*·] )(?<!times)(?<!times )(?<!cdot)(?<!cdot )'
    r'(?P<base>\d{1,3})(?:\^\{?(?P<plain>-?\d{1,3})\}?|(?P<raised>[⁻⁰¹²³⁴-⁹]{1,4}))(?![\w^])'
)
_AND_A_PART = re.compile(r'(?<![\d.])(?P<digits>\d{1,9}) and an? (?P<part>half|quarter)\b', re.I)
_NUMBER_WORD = '|'.join(_WORDS)
_SCALE_WORD = '|'.join(_ENGLISH_SCALES)
_SPELLED = re.compile(
    rf'\b(?P<amount>(?:(?:half\s+)?an?\s+(?:{_SCALE_WORD})|{_NUMBER_WORD})'
    rf'(?:(?:\s+and\s+|[\s-]+)(?:{_NUMBER_WORD}|{_SCALE_WORD})){{0,12}})'
    rf'(?:[\s-]+(?:and\s+a\s+(?P<more>half|quarter)|(?P<part>{"|".join(_PARTS)}|halve)s?))?\b',
    re.IGNORECASE,
)
_NOT_A_NUMBER = re.compile(
    r'\b(?:no|any|every|some|each|this|that|which|the|only|other|another|first|last)\s+\Z', re.IGNORECASE
)
_PRONOUN = re.compile(
    r'\s+(?:of|another|can|could|may|must|might|should|would|will|has|is|was|who|that|might)\b', re.IGNORECASE
)
_CHINESE_SPELLED = re.compile('(?<![第零〇一二两三四五六七八九十百千万亿])[零〇一二两三四五六七八九十百千万亿]{1,20}')


def write_amounts(text: str) -> str:
    """The text with amounts in words as digits.

    >>> [write_amounts(text) for text in ('$5 million', 'about 1.5k', 'two dozen eggs', '答案是二十五', 'No one')]
    ['$5000000', 'about 1500', '24 eggs', '答案是25', 'No one']
    """
    plain = narrow_digits(text)
    if re.search(r'\d', plain) is None:
        spelled = _CHINESE_SPELLED.sub(_write_chinese, _SPELLED.sub(_write_spelled, plain))
        return re.sub(r'负(?=\d)', '-', re.sub(r'(?<!\d)(\d{1,9})分之(\d{1,9})', r'\2/\1', spelled))
    for pattern in _SCALED:
        plain = pattern.sub(_write_scaled, plain)
    plain = plain if plain.isascii() else _CHINESE_SCALED.sub(_write_chinese_scaled, plain)
    if ' and a' in plain:
        plain = _AND_A_PART.sub(_write_mixed, plain)
    return _POWER.sub(_write_power_of_ten, plain) if '^' in plain or not plain.isascii() else plain


def write_powers(text: str) -> str:
    """The text with powers written out, except those that are too large.

    >>> write_powers('2^10, 3⁴ and 7^{99}')
    '1024, 81 and 7^{99}'
    """
    return _POWER.sub(_write_power, text) if '^' in text or not text.isascii() else text


def _write_scaled(found: re.Match[str]) -> str:
    return _format(Decimal(found['digits'].replace(',', '')) * _SCALES[found['scale'].lower()])


def _write_chinese_scaled(found: re.Match[str]) -> str:
    """`3万5千` is 35000."""
    total = Decimal(0)
    for digits, scales in re.findall(r'([\d.]+)\s?([百千万亿]+)', found[0]):
        amount = Decimal(digits)
        for scale in scales:
            amount *= _SCALES[scale]
        total += amount
    return _format(total)


def _write_power_of_ten(found: re.Match[str]) -> str:
    return f'1e{_exponent_of(found)}' if found['base'] == '10' else found[0]


def _write_power(found: re.Match[str]) -> str:
    base, power = int(found['base']), _exponent_of(found)
    return str(base**power) if 0 <= power < 20 and base**power < 10**15 else found[0]


def _exponent_of(found: re.Match[str]) -> int:
    return int(found['plain'] or found['raised'].translate(_RAISED))


def _write_mixed(found: re.Match[str]) -> str:
    return _format(Decimal(found['digits']) + Decimal(1) / _PARTS[found['part'].lower()])


def _write_spelled(found: re.Match[str]) -> str:
    words = re.findall('[a-z]+', found['amount'].lower())
    if words == ['one'] and not found['part'] and not _counts(found):
        return found[0]
    value = Fraction(_add_up(words))
    if found['part']:
        value /= _PARTS.get(found['part'].lower(), 2)
    if found['more']:
        value += Fraction(1, _PARTS[found['more'].lower()])
    return f'{float(value):.15g}' if value.denominator > 1 else str(value)


def _counts(one: re.Match[str]) -> bool:
    """Whether the word `one` is a number here."""
    text = one.string
    return not (_NOT_A_NUMBER.search(text, max(one.start() - 12, 0), one.start()) or _PRONOUN.match(text, one.end()))


def _add_up(words: list[str]) -> Fraction:
    """`three thousand two hundred` is 3200, `half a million` 500000."""
    total, group = Fraction(0), Fraction(0)
    for word in words:
        if word == 'half':
            group = Fraction(1, 2)
        elif word in ('a', 'an'):
            group = group or Fraction(1)
        elif word in _WORDS:
            group += _WORDS[word]
        elif (scale := _ENGLISH_SCALES.get(word, 1)) < 1000:  # 1 for `and`
            group *= scale
        else:
            total, group = total + group * scale, Fraction(0)
    return total + group


def _write_chinese(found: re.Match[str]) -> str:
    """`三万五千` is 35000, `二零二四` 2024. A single `一` inside a text (`一共`) is not a number."""
    written = found[0]
    alone = found.start() == 0 or found.string[found.start() - 1] in '是为：: '
    if written[0] in '百千万亿' or (written == '一' and not alone):
        return written
    if len(written) > 1 and not set(written) & set('十百千万亿'):
        return ''.join(str(_CHINESE[digit]) for digit in written)
    total = section = digit = 0
    for sign in written:
        if sign == '万':
            total, section, digit = total + (section + digit) * _SCALES[sign], 0, 0
        elif sign == '亿':
            total, section, digit = (total + section + digit) * _SCALES[sign], 0, 0
        elif sign in '十百千':
            section, digit = section + (digit or 1) * _SCALES[sign], 0
        else:
            digit = _CHINESE[sign]
    return str(total + section + digit)


def _format(amount: Decimal) -> str:
    return f'{amount.normalize():f}'
