r"""The number that a reply gives, as people write numbers.

`70,000`, `70 000` and `70.000,00` have thousands separators, `12,5` a decimal comma; `3.2 × 10^5`, `3 1/2` and
`5 million` are one number each. A sentence comes to the number behind its last `=`, or to its last one that is not an
aside: `150 minutes (2.5 hours)`, `12 of the 20`, `180 km in 3 hours`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from unicodedata import normalize

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.numerals import find_scales, spell_out
from rolecall.scoring.readers.reading import Candidate, Page

_SIGN = (
    r'(?:(?<![^\W\u3040-\u30ff\u3400-\u9fff])(?<![.)])'
    r'(?P<sign>[-–+]|(?<![\d)]\ )(?<!^)[-+][ ]|(?<![\d)]\ )(?:[Mm]inus|[Nn]egative)\ |负))?'
    r'(?:(?P<money>\\?[$€£¥₹]\ ?)(?P<late>-)?)?'
)
_GROUPED = (
    r"(?<!\d)\d{1,3}(?:(?:,|，|\{,\}|,\\!|\\,|[ '’_])\d{3})+(?!\d)(?:\.\d+)?"
    r'|(?<![\d,])\d{1,2}(?:,\d{2})+,\d{3}(?![\d,])(?:\.\d+)?'  # as in India
)
_DIGITS = rf'(?P<digits>{_GROUPED}|\d+(?:\.\d+)?|(?<!\w)\.\d+)'
_POWER = r'(?P<power>[eE][-+]?\d+(?!\w)|\s?(?:×|x|\*|\\times|\\cdot)\s?10(?:\^\{?-?\d{1,3}\}?|[⁻⁰¹²³⁴-⁹]{1,4}))?'
_COMMA = (
    r'(?P<comma>(?<!\d)\d{1,3}(?:[.\ ]\d{3})+,\d{1,2}(?!\d)|(?<![\d.])\d{1,3}(?:\.\d{3}){2,}(?![\d.])'
    r'|(?<![\d,.])\d+\{,\}\d{1,2}(?!\d)'
    r'|(?<![\d,(\[{.])\d+,\d{1,2}(?!,?[\d.)\]}]*[\d)\]}]|,(?!\s)|\ ?(?:and|or|&|和|或)|,?\ \d)'
    r'|(?<![\d.])\d{1,3}\.\d{3}(?=\ ?(?:€|(?i:euros?)\b|EUR)|元))'
)
_FRACTION = (
    r'(?:(?P<whole>(?<![\d./,])\d+)\ (?:and\ )?)?'
    r'(?<![\d./^,])(?P<over>\d+)(?:/|\ /\ )(?P<under>\d*[1-9]\d*)(?![\d/]|\.\d|\ [/=])'
    r'|(?:(?P<units>(?<![\d./,])\d+)\s?)?\\[dt]?frac\{?(?P<above>\d+)\}?\{?(?P<below>\d*[1-9]\d*)\}?'
    r'|(?P<mixed>\d{0,4})(?P<vulgar>[¼-¾⅐-⅞])|(?P<some>(?<![\d.])\d{1,9})\ and\ an?\ (?P<more>half|quarter)\b'
)
_SCALE = (
    r'(?P<scale>(?:\s|-|~|\\[ ,]){0,12}(?i:hundred|thousand|tausend|mill?e?|[mb]illion|trillion|dozen'
    r'|millionen|milliarden|millones'
    r'|millions|mio|mrd|tsd)(?![a-z])\.?'
    r'|[kK](?![\w\'’]|\s?[-+*/^=])|(?<=\d)\s?(?:[MB]n?|[mb]n|bn)(?!\w)|(?<=\d)[mb](?!\w)'
    r'|\s?[百千万亿]{1,2}(?![米克瓦卡])(?:\d+[百千](?![米克瓦卡])|(?<=万)\d{4}(?!\d))?)?'
)
_POWERED = r'(?P<base>(?<![\w.^×*·])\d{1,3})(?:\^\{?(?P<exponent>-?\d{1,3})\}?|(?P<raised>[⁻⁰¹²³⁴-⁹]{1,4}))(?![\w^])'
_NUMBER = compile_late(
    rf'(?=[\d.\\$€£¥₹+–负MmNn¼-¾⅐-⅞-]){_SIGN}(?:{_POWERED}|{_FRACTION}|{_COMMA}|{_DIGITS}{_POWER}){_SCALE}',
    re.MULTILINE,
)
_PLAIN = compile_late(r'(?<=[a-z] )(?<!inus )(?<!egative )\d+(?=\.?\s*\Z|,? [cfgijlnopqrsuvwyz])')
"""Digits between words that cannot belong to a number (as `minus 3`, `3 and a half`, `3 million` do): found quicker."""
_LONGEST_SIGN = 24
"""Characters of a number before its first digit, at most: `negative \\$-\\dfrac{`."""
_RAISED = str.maketrans('⁻⁰¹²³⁴⁵⁶⁷⁸⁹', '-0123456789')
_RATIO = compile_late(r'(?<![\d:.])\d{1,6}(?:\s?:\s?\d{1,6}){1,4}(?![\d:])')
_DIGIT = compile_late(r'\d|[¼-¾⅐-⅞]')
_ASIDE = compile_late(
    r'(?:(?<=[\w%°.*€$£])\s+|(?<=[一-鿿]))[(\[](?!\s?[^()\[\]=\n]*\w\s?=)[^()\[\]\n]{1,200}[)\]]|<<[^<>\n]*>>'
)
"""Units and reasons in brackets after an amount: `150 minutes (2.5 hours)`; but `eggs (16 - 3 = 13)` is the answer."""
_REJECTED = compile_late(
    r'(?:,? (?:and |but )?not| rather than| out of|(?<=[\d%]) of(?: the| all| these| those| all the)?| than the'
    r'|/(?=10\b|100\b|5\b)|\b(?:says?|claims?|thinks?|said|claimed|thought)(?: that)?(?: it(?:[\'’]s| is| was))?'
    r'| on (?:day|page|step)| at(?=[\d: ]{1,6}[ap]\.?m\b)|\b(?:question|problem|exercise|step|day|page|part|no\.)'
    r'|\brounded from) [$€£]?\d[\d.,:]*|\b\d{1,2}\.\d{1,2}\.\d{4}\b'
    r'|(?:soit|also|und|,) [$€£]?\d[\d.,]* (?:more|less|fewer|mehr|weniger|de (?:plus|moins)) (?:than|als|que)'
    r'|(?<=[a-z]), or (?:about |roughly |approximately )?[$€£]?\d[\d.,]*(?=\s[a-z])'
    r'|(?<=[A-Za-z])[\^⁻⁰¹²³⁴-⁹]\{?-?\d{0,2}\}?|\\?(?:mod|pmod)\s?\{?\d+',
    re.IGNORECASE,
)
"""A number that is not the answer: `12 of the 20`, `42 on day 3`, `m^2`."""
_CIRCUMSTANCE = compile_late(
    r'(?<=\d)[^\d=\n,:]{0,60}?(?P<rest>,? (?:because|since|compared (?:with|to)|versus|whereas|although'
    r'|verglichen mit|obwohl'
    r'|alors que|contre)\b|, (?:when|while|which is \d+ times|während|als|tandis)\b'
    r'|[,，;；]\s?(?:(?:即|也就是|soit|i\.e\.|das heißt)(?=\s?\d[\d.,]{0,8}\s?%)|其中|of which|davon|dont)'
    r'|; (?!so|also|donc'
    r'|thus|therefore)|, (?:up|down) from'
    r'| to (?!find|get|give|obtain|equal|have|reach'
    r'|be\b)[a-z]{2}'
    r'|,? with(?=.* (?:left|remaining|over)\b)'
    r'| (?:in|for|per|over|within|during|every|from|after|before|than|en|durante|pendant|nach|après'
    r'|up from)(?: [a-z]{1,12}){0,3} [$€£]?\d)(?:[^=\n,]|,\d)*\Z',
    re.IGNORECASE,
)
"""What an amount took, or goes with: `180 km in 3 hours`, `20 days to save $1,000`."""
_RESTATED = compile_late(
    r'(?:\b(?:which|so|or|and|then|meaning|means|that|this|giving|leaving|making|rounds?|i\.?e|donc|folglich|entonces'
    r'|ou seja|o sea|es decir|das heißt|soit)\b|[≈→⇒一-鿿]).*\d|:\s+[$€£]?-?\d'
    r'|\b(?:is|are|was|were|ist|est|es|equals?)'
    r'(?: (?:equal to|approximately|about|around|exactly|gleich|égale? à|igual a))* [$€£]?-?\d',
    re.DOTALL,
)
"""What may follow `= 33.3` and give the answer in other words: `which rounds to 33`."""
_EQUALS = compile_late(r'=|≈|,\s+or\b|\b(?:equals?|comes? to|which is|gives?|makes?)\b|等于')
_ANY = r'[$€£]?\d[\d.,]{0,20}%?'
_UNSETTLED = compile_late(
    rf'(?<![/*+×.=]){_ANY} ?(?:or|或者?|还是|oder|ou|o) ?(?:[a-z] ?= ?)?[-–]?{_ANY}'
    rf'|(?<![/*+×.\d-]){_ANY}(?:[–—~～]| ?[至到] ?'
    rf'|-(?=[$€£]?\d)){_ANY}(?! ?=)'
    rf'|\b(?:between|are|entre|zwischen) {_ANY} (?:and|y|et|und) {_ANY}|\b(?:less|fewer|more|greater) than {_ANY}'
    r'|\d ?(?:hours?|hrs?|h|days?|years?|minutes?|mins?|feet|foot|ft|pounds?|lbs?|dollars?|euros?|stunden?'
    r'|heures?|horas?),?(?: and| und| et| y)? \d[\d.]{0,9} ?'
    r'(?:minutes?|mins?|seconds?|secs?|hours?|days?|months?|inch(?:es)?|ounces?|oz|cents?|pence|centimes?|minuten?|minutos?)\b',
    re.IGNORECASE,
)
"""A place that leaves two numbers open or has two units: no number in it is the answer."""
_COMPARED = compile_late(
    rf'\d[^\d.!?\n=]{{0,80}}?\b(?:that|which|who|whose|where|with|having|by)\b[^\d.!?\n=]{{0,80}}?'
    rf'(?P<rest>\b(?:less|fewer|more|greater|larger|higher|smaller|lower|older|younger) than {_ANY})',
    re.IGNORECASE,
)
"""Behind an amount, what it is compared with: `3 objects that cost more than 7 dollars`."""
_OPERATION = compile_late(
    r'\d\)?[^\d.,;=]{0,20}?(?:[+*×÷/]|(?<=\s)[-–x](?=\s)|\b(?:times|plus|minus|divided by'
    r'|multiplied by)\b)[^\d.,;=]{0,20}\(?[$€£]?\d'
)
_SIDE_REMARK = compile_late(
    r'\s[(\[]|,\s|，|\s[-–—]\s(?!\(?[$€£\d])|\s(?:because|since|as|per|for|in|if|when|with|rather than|instead of'
    r'|out of|of|from|not)\s',
    re.IGNORECASE,
)
_KNOWN = compile_late(
    r'(?:(?<![a-zà-ÿ])(?:the|these|those|their|our|its|his|her|your|die|den|diese|les|ces|los|las|estos|estas)\s+|[这那该])\Z'
)
_IN_ALL = compile_late(
    r'(?: [a-zà-ÿ]{2,20}){0,2} (?:in (?:all|total)|altogether|together|insgesamt|en tout|au total)\b'
)
_GIVEN = compile_late(
    r'(?<![a-zà-ÿ])(?:the|these|those|their|his|her|its|for|per|of|in|from|with|by|at|than|every|each)\s+\Z'
)
_CUT = compile_late(r'[-+*/×÷=(\[{,:<]\s*\Z')
_UNIT_ONLY = compile_late(r'[^\w\n]*(?:[^\W\d]+[^\w\n]+){0,3}(?:[^\W\d]*)[^\w\n]*')
_MARKER = compile_late(r'\s*1[.)]\s+(?=\S)')
_LONGEST, _LOOP = 240, 60
"""Characters of a sentence that are looked at, and of digits that recur, which are no number but a loop."""
_LOOPING = compile_late(r'-?\d{0,12}\.?\d{0,12}?(\d{1,12}?)\1{3,}\d{0,12}')
_BOLD = compile_late(r'\*\*(?=[$€£¥]?-?\d)(?!\d{1,2}[.)]\s*\*\*)[^*\n]{1,40}\*\*')


class Numbers:
    """Numbers of any form. A `Family`."""

    chooses = False
    cues = 'of_answers'

    def declared(self, page: Page, start: int, end: int) -> Candidate | None:
        return self.fills(page, start, end) or self._stated(page, start, end)

    def heads(self, page: Page, start: int, end: int) -> Candidate | None:
        first = _first(page, start, end)
        if first is None or page.text[start : first.start].strip(' \t*_"\'$€£~≈=:('):
            return None
        return self._stated(page, start, end)

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        article = CUES.article.match(page.low, start, min(end, start + 60))
        begin = article.end() if article else start
        while begin > start and page.text[begin - 1] in '([-':
            begin -= 1
        return self._stated(page, begin, page.sentence_end(begin, end))

    def _stated(self, page: Page, start: int, end: int) -> Candidate | None:
        """What a stated sentence comes to: its first number, or that behind `=`; none if it leaves several open."""
        remark = _SIDE_REMARK.search(page.text, start + 1, end)
        core = remark.start() if remark and _has_number(page, start, remark.start()) else end
        if _OPERATION.search(page.text, start, core) or '=' in page.text[start:core]:
            equals = [match.end() for match in _EQUALS.finditer(page.low, start, end)]
            return _first(page, equals[-1], end) if equals else None
        if ratio := _RATIO.search(page.text, start, core):
            return Candidate(re.sub(r'\s', '', ratio[0]), *ratio.span())
        unsettled = _UNSETTLED.search(page.text, start, min(end, core + 30))
        if unsettled and unsettled.start() - start < 30:
            return Candidate(None, *unsettled.span())
        for number in _find(page, start, end):
            if not CUES.denies.find(page, max(0, number.start - 30), number.start):
                return number
        return _spelled(page, start, core)

    def precedes(self, page: Page, start: int, end: int) -> Candidate | None:
        return self._result(page, start, end)

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        start = page.strip(start, end, ' \t\r\n*_"\'“”`#>:')[0]
        end = page.strip(start, end)[1]
        if marker := _MARKER.match(page.text, start, end):
            start = marker.end()
        if end - start > 120 or end == start:
            return None
        if ratio := _RATIO.fullmatch(page.text, start, end):
            return Candidate(re.sub(r'\s', '', ratio[0]), *ratio.span())
        if unsettled := _UNSETTLED.search(page.text, start, end):
            answered = _has_number(page, unsettled.end(), end) or _COMPARED.search(page.text, start, end)
            return None if answered else Candidate(None, start, end)
        asides = [match.span() for match in _ASIDE.finditer(page.text, start, end)]
        numbers = [number for number in _find(page, start, end) if not any(a <= number.start < b for a, b in asides)]
        if not numbers:
            words = _spelled(page, start, end) if end - start < 60 else None
            return words if words and not page.low[start : words.start].strip('a n') else None
        first = numbers[0]
        lead = page.low[start : first.start].strip(' $€£¥₹~≈=\\([{')
        if (
            len(numbers) > 1
            or CUES.breaks_off.search(page.low, first.end, end)
            or (
                lead
                and not re.fullmatch(
                    r'(?:[a-z]|about|approximately|approx|usd|rs|total|eur|chf|x|is|the|约)[\s.=:≈]*', lead
                )
            )
        ):
            return None
        rest_end = asides[0][0] if asides else end
        return first if _UNIT_ONLY.fullmatch(page.text, first.end, max(first.end, rest_end)) else None

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        marker = _MARKER.match(page.text, start, end)
        start = marker.end() if marker else start
        stop = page.sentence_end(start, end)
        first = next(_find(page, start, stop), None)
        words = _spelled(page, start, stop) if first is None else None
        if words and not page.text[start : words.start].strip() and not page.text[words.end : stop].strip():
            return words
        if (
            first is None
            or page.text[start : first.start].strip(' \t*_"\'“$€£~≈=:([')
            or page.text[stop : stop + 1] in ('?', '？')
        ):
            return None
        rest = page.text[first.end : stop]
        if _OPERATION.search(page.text, start, stop) or '=' in rest:
            if _has_number(page, stop, end):  # only the first step
                return None
            return self._result(page, start, stop) if '=' in rest else self._stated(page, start, stop)
        return first if correcting or not re.search(r'\w|\A\s*=', rest + page.text[stop + 1 : stop + 3]) else None

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        stop = end
        if _CUT.search(page.text, max(start, stop - 4), stop):
            return None
        begin = stop
        while begin > start:
            sentence_end = begin
            begin = page.sentence_start(max(start, page.last_sentence(start, sentence_end)[1] - 1), start)
            if begin >= sentence_end:
                begin = sentence_end - 1
            if sentence_end == stop and page.is_cut(stop) and not self._ends_in_amount(page, begin, stop):
                return None
            added = page.text[begin - 1 : begin] in (';', '；') and page.is_aside(begin, sentence_end)
            aside = (added or page.text[begin:sentence_end].lstrip()[:1] == '(') and _has_number(page, start, begin)
            if _has_number(page, begin, sentence_end) and not aside:
                silent = self._says_nothing(page, start, begin, sentence_end)
                return None if silent else self._result(page, max(begin, sentence_end - _LONGEST), sentence_end)
        begin, end = page.last_sentence(start, stop)
        return None if self._says_nothing(page, start, begin, end) else _spelled(page, begin, end)

    def _says_nothing(self, page: Page, start: int, begin: int, end: int) -> bool:
        """Whether a result's sentence, or the reply at first, refuses to give one, or only repeats the question."""
        if CUES.restates.find(page, begin, end) and not CUES.concludes.find(page, begin, end):
            return True
        opening = page.sentence_end(start, end) if not page.text.rfind('=', start, begin) > 0 else start
        return bool(CUES.refuses.find(page, begin, end) or CUES.refuses.find(page, start, opening))

    def _ends_in_amount(self, page: Page, start: int, end: int) -> bool:
        """Whether nothing but a unit stands behind the last number."""
        numbers = [] if CUES.breaks_off.search(page.low, start, end) else list(_find(page, start, end))
        return bool(numbers) and _UNIT_ONLY.fullmatch(page.text, numbers[-1].end, end) is not None

    def _result(self, page: Page, start: int, end: int) -> Candidate | None:
        """What a sentence comes to."""
        text = page.text
        bold = list(_BOLD.finditer(page.raw, start, end))
        if bold:
            return _first(page, *bold[-1].span())
        spans = [match.span() for match in _ASIDE.finditer(text, start, end)] + [
            match.span() for match in _REJECTED.finditer(text, start, end)
        ]
        compared = _COMPARED.search(text, start, end)
        if compared:
            spans.append(compared.span('rest'))
        circumstance = _CIRCUMSTANCE.search(text, start, end)
        if circumstance:
            spans.append((circumstance.start('rest'), end))
        numbers = [number for number in _find(page, start, end) if not any(a <= number.start < b for a, b in spans)]
        if not numbers and page.text[end - 1 :].strip(' \n*"')[:1] in tuple('.!?。)%'):
            numbers = list(_find(page, start, end))
        if not numbers:
            return _spelled(page, start, end)
        last = numbers[-1]
        for words in spell_out(page.low, last.end, end):  # `At 3 visits per week, that comes to twenty-one visits.`
            small = len(words.value or '') == 1 and not _IN_ALL.match(page.low, words.end, end)
            if (
                not small
                and not _GIVEN.search(page.low, start, words.start)
                and '.' not in page.text[last.end : words.start]
            ):
                return words
        if ratio := [
            match
            for match in _RATIO.finditer(text, start, end)
            if match.end() >= last.end and not re.match(r'\s?[ap]\.?m\b', text[match.end() :])
        ]:
            return Candidate(re.sub(r'\s', '', ratio[-1][0]), *ratio[-1].span())
        stop = circumstance.start('rest') if circumstance else end
        for unsettled in _UNSETTLED.finditer(text, start, stop):
            if last.start < unsettled.end() and not re.search(
                r'[^\W\d]{3}.*[^\W\d]{3}.*[^\W\d]{3}', text[unsettled.end() : end]
            ):
                return Candidate(None, *unsettled.span())
        if CUES.denies.find(page, max(start, last.start - 20), last.start):
            allowed = [
                number for number in numbers if not CUES.denies.find(page, max(start, number.start - 20), number.start)
            ]
            return allowed[-1] if allowed else Candidate(None, last.start, last.end)
        equals = text.rfind('=', start, stop)
        if equals >= 0 and not _RESTATED.search(text, equals, stop):
            behind = _first(page, equals + 1, end)
            return behind if behind and behind.start < stop else last
        return last

    def mentions(self, page: Page, start: int, end: int) -> list[Candidate]:
        return list(_find(page, max(start, end - 2000), end))[-1:]

    def rivals(self, page: Page, start: int, end: int) -> list[Candidate]:
        return list(_find(page, max(start, end - 80), end))


def _find(page: Page, start: int, end: int) -> Iterator[Candidate]:
    for match in _match_numbers(page.text, start, end):
        value = _value_of(match, page)
        if value is not None and not (len(value) > _LOOP and _LOOPING.fullmatch(value)):
            yield Candidate(value, match.start(), match.end())


def find_numbers(text: str) -> list[str]:
    """Every number in digits, in a form that `float` takes; amounts without their scale."""
    if not _DIGIT.search(text):
        return []
    page = Page(text)
    matches = _match_numbers(page.text, 0, len(page.text))
    return [value for match in matches if (value := _value_of(match, page, scaled=False)) is not None]


def _match_numbers(text: str, start: int, end: int) -> Iterator[re.Match[str]]:
    """As `_NUMBER.finditer`, but quick where there are no digits: a number has its first one near its beginning."""
    while digit := _DIGIT.search(text, start, end):
        first = digit.start()
        match = _PLAIN.match(text, first, end) or _NUMBER.search(text, max(start, first - _LONGEST_SIGN), end)
        if match is None:
            return
        yield match
        start = match.end()


def _first(page: Page, start: int, end: int) -> Candidate | None:
    return next(_find(page, start, end), None)


def _has_number(page: Page, start: int, end: int) -> bool:
    return _DIGIT.search(page.text, start, end) is not None


def _value_of(match: re.Match[str], page: Page | None = None, *, scaled: bool = True) -> str | None:
    """A number as `float` takes it: `1234.5`, `1e6`, `-0.75`."""
    text = match[0]
    if text.isdecimal():
        return text
    negative = (
        '-' if (match['sign'] or '').strip().lower() in ('-', '–', 'minus', 'negative', '负') or match['late'] else ''
    )
    if match['base']:
        exponent = int(match['exponent'] or match['raised'].translate(_RAISED))
        try:
            return f'{negative}{float(match["base"]) ** exponent:.16g}'
        except ArithmeticError:  # too large for a number
            return None
    over, under = match['over'] or match['above'], match['under'] or match['below']
    if over:
        return negative + f'{int(match["whole"] or match["units"] or 0) + int(over) / int(under):.15g}'
    if match['vulgar']:
        above, _, below = normalize('NFKC', match['vulgar']).partition('⁄')
        return negative + f'{int(match["mixed"] or 0) + int(above) / int(below):.15g}'
    if match['some']:
        return negative + f'{int(match["some"]) + (0.5 if match["more"] == "half" else 0.25)}'
    if match['comma']:
        plain = re.sub(r'[^\d,]', '', match['comma']).replace(',', '.')
    else:
        digits = match['digits']
        if page is not None and page.continental:
            digits = digits.replace('.', '') if re.fullmatch(r'\d{1,3}(?:\.\d{3})+', digits) else digits
            digits = digits.replace(',', '.') if re.fullmatch(r'\d{1,3},\d{3}', digits) else digits
        plain = re.sub(r'[^\d.]', '', digits)
        power = (match['power'] or '').translate(_RAISED)
        if '10' in power and power[0] not in 'eE':
            power = 'e' + re.sub(r'\A.*?10|[\s^{}]', '', power)
        plain += power
    scale = ''.join((match['scale'] or '').split()).strip('-~\\,.')
    if scale in ('m', 'b', 'M', 'B', 'Mn', 'Bn', 'mn') and not match['money']:
        scale = ''
    return negative + (_scaled(plain, scale) if scale and scaled else plain)


def _scaled(plain: str, scale: str) -> str:
    amount = Decimal(plain)
    if scale[0] in '百千万亿':
        more = re.search(r'(\d+)([百千]?)', scale)
        for sign in re.match('[百千万亿]+', scale)[0]:  # type: ignore[index]
            amount *= find_scales()[sign]
        amount += int(more[1]) * find_scales().get(more[2], 1) if more else 0
    else:
        amount *= find_scales()[scale.lower()]
    return f'{amount.normalize():f}'


def number_of(value: object) -> float | None:
    """The value as a number: `'$1,200'`, `'70%'`, `' 5.0 '` and `5` are numbers, `'five'` and `'3 eggs'` are not.

    >>> number_of('$1,200.'), number_of('3 eggs')
    (1200.0, None)
    """
    text = str(value).strip().rstrip('.%').replace('−', '-')
    match = _NUMBER.fullmatch(text) if _DIGIT.search(text) else None
    if match is None or any(match[part] for part in ('over', 'above', 'scale', 'comma', 'base', 'vulgar', 'some')):
        return None
    return float(_value_of(match) or 0)


_AS_A_WHOLE = compile_late(
    r'(?:\s+(?!(?:percent|and|or|mod|sin|cos|tan|cot|log|exp|sqrt|alpha|beta|gamma|delta|theta|lambda|sigma|omega)s?\b)'
    r'(?:[a-z°]{3,20}(?: (?!and\b|or\b|of\b)[a-z]{2,20}){0,2}|(?:[kcm]?m|[km]?g|ft|in|ml)(?:[²³]|\^\{?[23]\}?)?))?'
    r'(?:\s+\([^()]{1,80}\)'
    r'| of (?:the )?\d[\d.,]*(?: [a-z]{2,20}){0,3})?\.?',
    re.IGNORECASE,
)


def amount_of(text: str) -> str:
    """The number that a text is, with a unit or an aside; empty if the text is more than that.

    >>> [amount_of(text) for text in ('5 million', '12 of the 20', '150 minutes (2.5 hours)', 'two dozen', '5x')]
    ['5000000', '12', '150', '24', '']
    """
    page = Page(re.sub(r'\\text\s?\{([^{}]*)\}', r'\1', text.strip()))
    match = _NUMBER.match(page.text)
    if match is not None and match['base'] is None and (match['sign'] or '') in ('', '-', '+'):
        return _value_of(match) or '' if _AS_A_WHOLE.fullmatch(page.text, match.end()) else ''
    spelled = _spelled(page, 0, page.end)
    return (
        spelled.value or ''
        if spelled and not page.low[: spelled.start].strip() and _AS_A_WHOLE.fullmatch(page.low, spelled.end)
        else ''
    )


def first_amount(text: str) -> float | None:
    """The first number of a text, in digits or in words."""
    page = Page(text)
    number = next(_find(page, 0, page.end), None) or next(spell_out(page.low), None)
    return float(Fraction(number.value)) if number and number.value else None


def _spelled(page: Page, start: int, end: int) -> Candidate | None:
    """The last number in words, where a part has no digits; `the two people` are known, not counted."""
    if end - start > 600 or _has_number(page, start, end):
        return None
    words = list(spell_out(page.low, start, end))[::-1]
    return next((number for number in words if not _KNOWN.search(page.low, start, number.start)), None)
