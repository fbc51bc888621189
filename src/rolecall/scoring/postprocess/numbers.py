r"""Numbers in replies, as people write them.

`70,000`, `70 000` and `70.000,00` have thousands separators, `12,5` a decimal comma; `3.2 × 10^5`, `1/2` and `3 1/2`
are one number each. `1,2,3` is a list, `10 - 3` a difference, and `- 3` at the start of a line an item of a list.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from unicodedata import normalize

from rolecall.scoring.postprocess.amounts import write_amounts, write_powers
from rolecall.scoring.texts import after_reasoning, cut_next_problem, last_boxed, narrow_digits

_SIGN = (
    r'(?:(?<![^\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])(?<![.)])'
    r'(?P<sign>[-−–+]|(?<![\d)]\ )(?<!^)[-−+][ \t]|(?<![\d)]\ )(?:[Mm]inus|[Nn]egative)\ ))?[$€£¥]?'
)
_GROUPED = (
    r"(?<!\d)\d{1,3}(?:(?:,|\{,\}|,\\!|\\,|[ '’_\u00a0\u2009\u202f])\d{3})+(?!\d)(?:\.\d+)?"
    r'|(?<![\d,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])(?:\.\d+)?'  # as in India
)
_DIGITS = rf'(?P<digits>{_GROUPED}|\d+(?:\.\d+)?|(?<!\w)\.\d+)'
_POWER = r'(?P<power>[eE][-+]?\d+(?!\w)|\s?(?:×|x|\*|\\times|\\cdot)\s?10(?:\^\{?[-−]?\d{1,3}\}?|[⁻⁰¹²³⁴-⁹]{1,4}))?'
_COMMA = (
    r'(?P<comma>(?<!\d)\d{1,3}(?:[.\ \u00a0\u202f]\d{3})+,\d{1,2}(?!\d)|(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])'
    r'|(?<![\d,(\[{.])\d+,\d{1,2}(?![\d,.)\]}]*[\d,)\]}]|\ ?(?:and|or|&|和|或)|\ \d))'
)
_FRACTION = (
    r'(?:(?P<whole>(?<![\d./,])\d+)\ (?:and\ )?)?'
    r'(?<![\d./^,])(?P<over>\d+)(?:/|\ /\ )(?P<under>\d*[1-9]\d*)(?![\d/]|\.\d|\ [/=])'
    r'|(?:(?P<units>(?<![\d./,])\d+)\s?)?\\[dt]?frac\{?(?P<above>\d+)\}?\{?(?P<below>\d*[1-9]\d*)\}?'
)
_NUMBER = re.compile(_SIGN + _DIGITS + _POWER, re.MULTILINE)
_BEGINS = r'(?=[\d.\\$€£¥+−–MmNn-])'
"""What a number can begin with: looked at first, so that words cost next to nothing."""
_WRITTEN = re.compile(rf'{_BEGINS}{_SIGN}(?:{_FRACTION}|{_COMMA}|{_DIGITS}{_POWER})', re.MULTILINE)
_STATED = re.compile(
    r'\banswer["\'*_\s]*(?:is|would\s+be|should\s+be|[:=])|<answer>|答案["*\s]*(?:应该?)?[是为:：]'
    r'|\b(?:it|that)\s+should\s+(?:actually\s+)?be(?=\W{1,4}\d)',
    re.IGNORECASE,
)
_LONGEST = 200
"""Characters of a sentence that states an answer."""
_MOST_STATEMENTS = 100
_SENTENCE_END = re.compile(r'[\n;。；]|[.!?](?=\s|$|\*)|[,"\'](?=\s*["\'])|</')
_SIDE_REMARK = re.compile(
    r'\s[(（\[]|（|,\s|，|\s(?:because|since|as|per|for|in|if|when|with|rather\s+than|instead\s+of|out\s+of|of|from|not)\s',
    re.IGNORECASE,
)
"""What follows a stated number and is not part of it."""
_REJECTED = re.compile(
    r'(?:,? (?:and |but )?not| rather than| out of|(?<=[\d%]) of(?: the| all| these| those| all the)?| than the'
    r'| on (?:day|page|step)| at(?=[\d: ]{1,6}[ap]\.?m\b)|\b(?:question|problem|exercise|step)) [$€£]?\d[\d.,]*',
    re.IGNORECASE,
)
"""A number that is not the answer: `12 of the 20`, `42 on day 3`."""
_SENTENCE = re.compile(r'[\n。！？]|[.!?](?=\s+[*A-Z])')
_EMPHASISED = re.compile(r'\*\*(?P<amount>[$€£¥]?-?\d(?!\d{0,2}[.)]\*\*)[^*\n]{0,40})\*\*')
_RESTATED = re.compile(
    r'(?:\b(?:which|so|or|and|then|meaning|means|that|this|giving|leaving|making|rounds?|i\.?e)\b|[≈→⇒一-鿿]).*\d'
)
"""What may follow `= 33.3` and give the answer in other words: `which rounds to 33`."""
_CIRCUMSTANCE = re.compile(
    r'(?<=\d)(?P<unit>[^\d=\n,:]{0,60}?)'
    r'(?:,? (?:because|since)\b| to (?!find|get|give|obtain|equal|have|reach|be\b)[a-z]{2}'
    r'|,? with(?=.* (?:left|remaining|over)\b)'
    r'| (?:in|for|per|over|within|during|every|from|after|before|than)(?: [a-z]{1,12}){0,3} [$€£]?\d)'
    r'(?:[^=\n,]|,\d)*\Z',
    re.IGNORECASE,
)
"""What an amount took, or goes with: `180 km in 3 hours`, `20 days to save $1,000`."""
_EXPONENT = re.compile(r'[\^⁻⁰¹²³⁴-⁹](?<=[A-Za-z].)\{?-?\d{0,2}\}?[⁰¹²³⁴-⁹]{0,2}')
_ASIDE = re.compile(r'(?<=[\w%°.*])\s+[(（\[](?!\s?[^()（）\[\]=\n]*\w\s?=)[^()（）\[\]\n]{1,200}[)）\]]')
"""Units and reasons in brackets after an amount: `150 minutes (2.5 hours)`; but `eggs (16 - 3 = 13)` is the answer."""
_CORRECTED = re.compile(
    r'(?:\b(?:wait|actually|sorry|oops|correction|scratch that|i mean|make that|on second thought)\b|\bno[,:;—])'
    r"(?:[\s,:;—-]|\b(?:no|sorry|i mean|(?:that|it)(?:['’]?s| is| should be)|should be|make that)\b){1,8}[$€£]?(?=\d)",
    re.IGNORECASE,
)
"""What takes an answer back, directly before the right one: `14. Wait, no: 12`."""
_ANY = r'[$€£]?\d[\d.,]{0,20}%?'
_UNSETTLED = re.compile(
    rf'(?:(?:\bnot|n[\'’]t|不是|并非)(?: be)? {{0,2}}{_ANY}'
    rf'|(?<![/*+×]){_ANY}(?: ?(?:or|或者?|还是) ?(?:[a-z] ?= ?)?|[-–—~～至到]){_ANY}'
    rf'|\b(?:between|are) {_ANY} and {_ANY}'
    rf'|\b(?:less|fewer|more|greater) than {_ANY}'
    r'|\d ?(?:hours?|hrs?|h|days?|years?|minutes?|mins?|feet|foot|ft|pounds?|lbs?|dollars?),?(?: and)? \d[\d.]{0,9} ?'
    r'(?:minutes?|mins?|seconds?|secs?|hours?|days?|months?|inch(?:es)?|ounces?|oz|cents?|pence))'
    r'(?: [a-z]{1,20})?[^\w\n]*\Z',
    re.IGNORECASE,
)
"""An end that denies a number, leaves two open or has two units: no number in it is the answer."""
_RATIO = re.compile(
    r'(?<![\d:.])\d{1,6}(?: ?: ?\d{1,6}){1,4}(?=(?: ?[ap]\.?m\b)?(?: [a-z]{1,20})?[^\w\n]*\Z)', re.IGNORECASE
)
_TEXT = re.compile(r'\\(?:text|mathrm|textbf|mathbf)\{([^{}]*)\}')
_NOTE = re.compile(
    r'(?:(?<=[\n.])[\s*_#(]{0,12}|\()(?:note|confidence|disclaimer|explanation'
    r'|(?:double[- ])?check(?:ing)?|verification|verify)\b',
    re.IGNORECASE,
)
_TAIL = 40
_PLAIN_END = re.compile(r'[a-z:](?<!inus)(?<!ative) (\d{1,20})\.?\s*\Z', re.ASCII)
"""A plain number behind a word at the end of a reply, as in `The answer is 42.`: found without looking for others."""
_VULGAR = re.compile('[¼-¾⅐-⅞]')
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
    final = _read_marked(after.strip().partition('\n')[0]) if marked else ''
    return final or last_number(last_boxed(own)) or last_number(own)


def stated_number_postprocess(text: str) -> str:
    """The number stated as the answer, without remarks beside it; else as `gsm8k_postprocess` reads it.

    >>> stated_number_postprocess('Answer: 18 dollars, not 20.\\n\\nConfidence: 95%')
    '18'
    """
    own = cut_next_problem(after_reasoning(text).partition('Question:')[0])
    if '####' in own:
        return gsm8k_postprocess(own)
    if boxed := last_boxed(own):
        return last_amount(' '.join(_TEXT.sub(r'\1', boxed).split())) or last_number(own)
    plain = _write_plainly(own)
    statements = deque(_STATED.finditer(plain), maxlen=_MOST_STATEMENTS)
    if corrected := _read_correction(plain, statements[-1].end() if statements else 0):
        return corrected
    for said in reversed(statements):
        sentence = plain[said.end() : said.end() + _LONGEST].strip(' \t*_`"\'“\n')
        stated = _SIDE_REMARK.split(write_amounts(_SENTENCE_END.split(sentence, maxsplit=1)[0]))[0]
        if re.search(r'\d', stated):
            return _read_end(stated)
    return last_amount(plain)


def last_amount(text: str) -> str:
    """The number that the last sentence comes to, without remarks beside it.

    >>> [last_amount(text) for text in ('150 minutes (2.5 hours)', '12 of the 20', '7 is the answer.', '5 million')]
    ['150', '12', '7', '5000000']
    """
    return _read_end(_cut_remarks(_write_plainly(text)))


def _write_plainly(text: str) -> str:
    """Amounts and powers as digits, and units without exponents.

    >>> _write_plainly('2^10 m^2')
    '1024 m'
    """
    return _EXPONENT.sub('', write_powers(write_amounts(text)))


def _read_end(text: str) -> str:
    """What the last sentence comes to: `3:2` as it stands, and none where it denies a number or leaves two open.

    >>> [_read_end(text) for text in ('so 12.', 'a ratio of 3:2', "it's not 42.", '5 or 6', '2 hours 30 minutes')]
    ['12', '3:2', '', '', '']
    >>> [_read_end(text) for text in ('So 4 * 3 = 12 eggs in 4 days.', '**8** of 20', '180 km in 3 hours', '5, so 6')]
    ['12', '8', '180', '6']
    """
    sentence = _find_result(text)
    if ratio := _RATIO.search(sentence):
        return ratio[0].replace(' ', '')
    kept = _CIRCUMSTANCE.sub(r'\g<unit>', sentence)
    if _UNSETTLED.search(kept):
        return ''
    _, equals, result = kept.rpartition('=')
    found = next(_find_numbers(result), None) if equals and not _RESTATED.search(result) else None
    return _format_written(found) if found else last_number(kept)


def _find_result(text: str) -> str:
    """The last sentence that has a number, or the number that it emphasises."""
    sentences = (one for one in reversed(_SENTENCE.split(text)) if re.search(r'\d', one))
    sentence = next(sentences, text).rstrip()[-_LONGEST:]
    emphasised = _EMPHASISED.findall(sentence)
    return emphasised[-1] if emphasised else sentence


def _read_correction(text: str, since: int) -> str:
    """The number that a reply corrects itself to."""
    corrected = deque(_CORRECTED.finditer(text, since), maxlen=1)
    sentence = text[corrected[0].end() :][:_LONGEST] if corrected else ''
    return last_number(_SIDE_REMARK.split(_SENTENCE_END.split(sentence, maxsplit=1)[0])[0])


def _cut_remarks(text: str) -> str:
    """The text up to a closing note, without `(2.5 hours)`, `not 14`, `of the 20`; all of it if no number is left."""
    kept = _REJECTED.sub('', _ASIDE.sub(' ', _NOTE.split(text, maxsplit=1)[0]))
    return kept if re.search(r'\d', kept) else text


def _read_marked(line: str) -> str:
    """The first number, as in `5 eggs in 2 days`; of an equation the last, as in `3 + 2 = 5`."""
    found = None if '=' in line else next(_find_numbers(line), None)
    return _format_written(found) if found else last_number(line)


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
    if not text:
        return ''
    plain = _PLAIN_END.search(text, max(0, len(text) - _TAIL))
    if plain is not None:
        return plain[1]
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
    plain = text if text.isascii() else _write_fractions(narrow_digits(text))
    return _WRITTEN.finditer(plain)


def _write_fractions(text: str) -> str:
    """`2½` as `2 1/2`."""
    return _VULGAR.sub(lambda found: f' {normalize("NFKC", found[0])}', text).replace('⁄', '/')


def _format_written(found: re.Match[str]) -> str:
    if (text := found[0]).isdecimal():
        return text
    over, under = found['over'] or found['above'], found['under'] or found['below']
    if over:
        whole = found['whole'] or found['units'] or 0
        return _format_sign(found) + f'{int(whole) + int(over) / int(under):.15g}'
    if found['comma']:
        return _format_sign(found) + re.sub(r'[^\d,]', '', found['comma']).replace(',', '.')
    return _format_number(found)


def _format_number(found: re.Match[str]) -> str:
    power = (found['power'] or '').translate(_RAISED)
    if '10' in power and power[0] not in 'eE':
        power = 'e' + re.sub(r'\A.*?10|[\s^{}]', '', power).replace('−', '-')
    return _format_sign(found) + re.sub(r'[^\d.]', '', found['digits']) + power


def _format_sign(found: re.Match[str]) -> str:
    return '' if found['sign'] is None or found['sign'].strip() == '+' else '-'
