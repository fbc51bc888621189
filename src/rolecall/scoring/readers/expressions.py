r"""The expression that a worked solution comes to: a formula, a number, or a word (`\text{Monday}`)."""

from __future__ import annotations

import re
from itertools import pairwise
from unicodedata import normalize

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.numbers import Numbers
from rolecall.scoring.readers.phrases import Phrases
from rolecall.scoring.readers.ranking import read_reply, unescape_field
from rolecall.scoring.readers.reading import Candidate, Page, narrow

_FORMULA = compile_late(
    r'\$\$(?P<a>[^$]+)\$\$|(?<!\\)\$(?P<b>(?:[^$\\]|\\.)+)\$(?!\d)|\\\((?P<c>(?:(?!\\[()]).)+)\\\)'
    r'|\\\[(?P<d>(?:(?!\\[\[\]]).)+)\\\]|\\begin\{(?:align|equation|gather)\*?\}(?P<e>(?:(?!\\end).)+)\\end\{\w+\*?\}',
    re.DOTALL,
)
_PROSE = compile_late(r'(?<![\\a-z{])[a-z]{3,}\s+[a-z]{2,}', re.IGNORECASE)
"""Two words in a row: dollars around them are money, not a formula."""
_TEXT = compile_late(r'\\(?:text|mathrm|textbf|mathbf|operatorname)\s?\{[^{}]*\}')
_APPROXIMATELY = compile_late(
    r'[\s:*"“]*(?:(?:approximately|about|around|roughly|exactly|simply|therefore|thus|equal to|given by|大?约为?)\s+'
    r'|\s)*',
    re.IGNORECASE,
)
_END = compile_late(
    r'\n|[.。](?=\s|\*|$)|(?:,|\band|\bbut)\s+not\b|\s\(?(?:since|because|as|when|where|if|for all|which|so that)\s'
    r'|,\s(?:which|so|and|where|since|because|as)\s|\s(?:and|so)\s(?:we|this|that|it)\b|"\s*[,}]'
)
"""What ends a stated expression: `1/2 and not 1/3`, `4 (since k > 0)`."""
_NAME = r'\\[a-zA-Z]+'
_FUNCTION = r'(?:sqrt|sin|cos|tan|log|ln|exp|pi|mod)'
_ATOM = (
    rf'(?:\d|{_NAME}|\\[{{}}%,;! ]|[-−+*/^_=(){{}}\[\],.|!°%√π∞∅≈<>≤≥±·×÷²³⁻⁰-⁹₀-₉¼-¾⅐-⅞\']|(?<=\d):(?=\d)'
    rf'|(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])|(?<=\d)[a-z]{{2,3}}(?![a-z])|{_FUNCTION}(?![a-z]))'
)
_BARE = compile_late(rf'(?:{_ATOM}|\s|(?<=\s)(?:or|and)(?=\s))+')
_TOKENS = compile_late(
    rf'(?<![A-Za-z0-9_\\])(?:[-(\[{{√π∞\d¼-¾⅐-⅞]|{_NAME}|[a-zA-Z](?=\s?[-+*/=^²³(\'<>≤≥])|{_FUNCTION}(?=[\s(]))'
    rf'(?:{_ATOM}|\ (?=[-+*/=^<>≤≥×·÷]\s?[\w(\\√-])'
    rf'|(?<=[-+*/=^,<>≤≥×·÷])\ (?=[\w(\\√-])|(?<=sin|cos|tan|log|exp)\ (?=[a-zθ\d](?![a-z]))'
    r'|(?<=ln)\ (?=[a-z\d](?![a-z])))*'
)
_MATRIX = compile_late(r'\\begin\{(?P<kind>[a-z]*matrix|array|cases)\}.*?\\end\{(?P=kind)\}', re.DOTALL)
_SEVERAL = compile_late(
    r'(?:(?<![a-z])(?:are|sind|sont|son)\s+|[是为])(?P<x>-?[\w./\\{}√]+(?:,\s*-?[\w./\\{}√]+)*(?:,?\s+(?:and|or|und|et|y)\s+|和)-?[\w./\\{}√]+)\W*\Z',
    re.ASCII,
)
_APPROXIMATED = compile_late(r'(?<=\S)\s*(?:≈|\\approx)\s*-?[\d.,]+\s*\Z')
_ASSIGNED = compile_late(
    r'\s*(?P<name>[a-z])[_{}₀-₉\d]*\s*=\s*(?P<first>[^,=]+?)(?:,|;|\s(?:or|and|oder|und|ou|et)\s)\s*(?P=name)[_{}₀-₉\d]*\s*=(?P<second>[^,=]+)'
)
"""`x_1 = 2, x_2 = 5`"""
_EQUATION = compile_late(r'[^=<>!]*=(?:[^=,]*=)*\s*(?P<value>-?[\d.,]+)\s*')
_SEVERAL_SIGNS = compile_late(r'[,;<>≤≥]\s*[a-z]\s*=|\\(?:text|quad|begin)|\s(?:or|and)\s')
_RESTATED = compile_late(r'\s*(?:\\(?:int|sum|lim|prod)|∫|∑)')
_CURVE = compile_late(r'[^=]*[a-z][^=]*[-+][^=]*=\s*0\s*')
"""`2x + 3y - 6 = 0` is an answer, not the number 0."""
_WORD = compile_late(r'[*_\s"\'“‘「]{0,8}(?P<word>[A-Za-z]{1,30}|[一-鿿]{1,12})[*_\s.。"\'”’」]{0,8}')
_CONDITION = compile_late(
    r'\s(?:when|where|if|since|because|for|at(?=\s\$?[a-z]\s?=))\s(?![^.\n]*,\s[^,\n]*=)(?=[^.\n]{0,200}\.?\Z)'
)
_UNIT = compile_late(r'(?<=\d)\s?(?:[mgsLh]|[cmk]m|ft|in)\b(?:\^\{?[23]\}?)?')
_SIGN_OFF = compile_late(r'[\s$\\(\[]*\\(?:blacksquare|square|Box|qed)[\s$\\)\].]*\Z')
_AND = compile_late(r',?\s+(?:and|und|et|y)\s+|\s*[和,，;；]\s*')
_ARE = compile_late(r'(?<![a-z])(?:are|sind|sont|son)\s\Z|[是为]\s?\Z')
_OR = compile_late(r'\s*(?:,?\s*(?:or|oder|ou|o|或)\s*)')
_HAS_VALUE = compile_late(r'[\d$\\π√∞]')
_UNCLOSED = compile_late(r'[^$]*(?:\$[^$]*\$[^$]*)*\$[^$\n]*\\[^$\n]*\Z')
_VULGAR = compile_late('[¼-¾⅐-⅞]')
_DENIED = compile_late(r'\b(?:not|nicht|pas|non?)\s\Z|不是\Z')
_PROVIDED = compile_late(r'(?:(?<![a-z])(?:where|with|for|provided|wobei|für|mit|avec|pour|où)\s|其中)\s*\Z')
_REJECTED = compile_late(
    r'\s*(?:\(?舍|不合|(?:is|are|was|ist|wird|est) (?:not valid|rejected|extraneous|discarded|invalid'
    r'|verworfen|rejetée?|exclue?))'
)
_APPROXIMATION = compile_late(
    r'\([^()\n]*(?:reject|extraneous|discard|invalid|not valid|舍|verw[oi]rf|entfällt|rejet|exclu)[^()\n]*\)'
    r'|\((?:about|approx\w*\.?|roughly|≈|etwa|environ|约)[^()\n]*\)|(?:≈|\\approx)\s*-?[\d.,]*\d'
    r'|,?\s(?:or|i\.e\.|that is)?,?\s?(?:about|roughly|approximately|around|etwa|rund|environ'
    r'|约)\s[\d.,]*\d\s?%?(?=\W*\Z)'
)
_ROOTS = compile_late(
    r'(?<![A-Za-z])(?P<name>[a-z])[₀-₉]?\s*=\s*-?[a-z0-9./√]+(?:(?:\s*[,;，]|\s+(?:or|and|oder|und|ou|et|o|y|или|и)|\s*[或和])\s*(?P=name)[₀-₉]?\s*=\s*-?[a-z0-9./√]+)+'
)
_ROOT_VALUE = compile_late(r'=\s*(-?[a-z0-9./√]*[a-z0-9√])')
_TUPLE = compile_late(r'[(\[{\]]\s*-?[\w./√∞]+(?:\s*[,，;|]\s*[-+]?[\w./√∞]+)+\s*[)\]}\[]')
_CHOICE = compile_late(r'(?<![a-z])either(?![a-z]).*(?<![a-z])or(?![a-z])|是.*还是')
_NUMBERS, _PHRASES = Numbers(), Phrases()


class Expressions:
    """Formulas, numbers and words. A `Family`."""

    chooses = False
    cues = 'of_answers'

    def declared(self, page: Page, start: int, end: int) -> Candidate | None:
        begin, stop = page.strip_raw(start, end)
        inner = page.raw[begin:stop]
        formula = _FORMULA.fullmatch(page.raw, begin, stop)
        if formula:
            return self._content(page, formula)
        return (
            Candidate(_tidy(unescape_field(inner) if page.raw[start - 1 : start] == '"' else inner), begin, stop)
            if inner
            else None
        )

    def heads(self, page: Page, start: int, end: int) -> Candidate | None:
        return self.fills(page, start, end) or _NUMBERS.heads(page, start, end)

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        skipped = _APPROXIMATELY.match(page.raw, start, end)
        begin = skipped.end() if skipped else start
        if formula := self._formula_at(page, begin, end):
            return formula
        if matrix := _MATRIX.match(page.raw, begin, end):
            return Candidate(matrix[0], *matrix.span())
        match = _END.search(page.raw, begin, end)
        stop = match.start() if match else end
        if inside := _formulas(page, begin, stop):
            copula = re.compile(r'.*(?<![a-z])(?:is|are|equals|be)\s').match(page.low, begin, stop)
            return self.follows(page, copula.end(), end) if copula else self._content(page, inside[0])
        if CUES.denies.find(page, max(0, begin - 8), begin + 4) or re.match(r'\W*not\b', page.low[begin : begin + 12]):
            but = re.compile(r'\bbut\s+(?:rather\s+)?').search(page.low, begin, stop)
            if but is None:
                return None
            begin = but.end()
        value = _tidy(page.raw[begin:stop])
        return Candidate(_right_side(value), begin, stop) if value and len(value) < 400 else None

    def precedes(self, page: Page, start: int, end: int) -> Candidate | None:
        formulas = _formulas(page, start, end)
        return self._content(page, formulas[-1]) if formulas else _NUMBERS.precedes(page, start, end)

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        begin, stop = page.strip(start, end, ' \t\r\n*#>')
        if stop - begin > 300 or begin == stop:
            return None
        formula = self._formula_at(page, begin, stop)
        if formula and not page.raw[formula.end : stop].strip(' .$*)\\]'):
            return Candidate(_last_side(str(formula.value)), formula.start, formula.end)
        if matrix := _MATRIX.fullmatch(page.raw, begin, stop):
            return Candidate(matrix[0], *matrix.span())
        bare = page.raw[begin:stop].strip('*_ `"')
        if re.search(r'[\dπ∞√∅\\]|(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z])', bare) and _BARE.fullmatch(_TEXT.sub('', bare)):
            return Candidate(_right_side(_tidy(bare)), begin, stop)
        whole = page.strip(page.start, page.end) == page.strip(start, end)
        if whole and (word := _WORD.fullmatch(page.raw, begin, stop)) and not CUES.refuses.find(page, begin, stop):
            return Candidate(word['word'], *word.span('word'))
        return None

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        return self._formula_at(page, start, end) if correcting else None

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        signed_off = _SIGN_OFF.search(page.raw, max(start, end - 40), end)
        end = signed_off.start() if signed_off else end
        condition = _CONDITION.search(page.raw, max(start, end - 400), end)
        if self._is_open(page, start, end):
            return Candidate(None, *page.last_sentence(start, end))
        formulas = (_formulas(page, start, condition.start()) if condition else []) or _formulas(page, start, end)
        begin, stop = page.last_sentence(start, end)
        while begin > start and not _HAS_VALUE.search(page.raw, begin, stop):
            begin, stop = page.last_sentence(start, begin)
        if formulas and formulas[-1].start() < begin and CUES.concludes.find(page, begin, begin + 20):
            return self._last_number(page, start, stop)
        stated = [
            formula
            for formula in formulas
            if not _DENIED.search(page.low, max(0, formula.start() - 12), formula.start())
            and not (
                formulas[0] is not formula and _PROVIDED.search(page.low, max(0, formula.start() - 12), formula.start())
            )
            and not _REJECTED.match(page.low, formula.end(), end)
        ]
        if stated and stated[-1].start() >= begin and CUES.concludes.find(page, stated[-1].end(), stop):
            number = self._last_number(page, stated[-1].end(), stop)
            if number and number.value:
                return number
        if stated:
            last = self._joined_formulas(page, stated)
            return Candidate(_last_side(str(last.value)), last.start, last.end)
        begin, stop = page.last_sentence(start, end)
        line = max(start, page.plain.rfind('\n', start, stop) + 1, stop - 200)
        listed = [*_ROOTS.finditer(page.plain, begin, stop), *_TUPLE.finditer(page.plain, line, stop)]
        if listed and not page.plain[listed[-1].end() : stop].strip('.。 )'):
            values = (
                ', '.join(_ROOT_VALUE.findall(listed[-1][0]))
                if '=' in listed[-1][0]
                else re.sub('[;，|]', ',', listed[-1][0])
            )
            return Candidate(values, *listed[-1].span())
        several = _SEVERAL.search(page.raw, begin, stop)
        if several and re.search(r'\d', several['x']):
            return Candidate(re.sub(r',?\s+(?:and|or|und|et|y)\s+|和', ', ', several['x']), *several.span('x'))
        if matrix := list(_MATRIX.finditer(page.raw, start, end)):
            return Candidate(matrix[-1][0], *matrix[-1].span())
        if condition and condition.start() > begin and re.search(r'\d', page.raw[begin : condition.start()]):
            stop = end = condition.start()
        part = page.plain[begin:stop]
        for aside in (_UNIT, _APPROXIMATION):
            part = aside.sub(lambda match: ' ' * len(match[0]), part)
        tokens = [
            match
            for match in _TOKENS.finditer(part)
            if re.search(rf'[\dπ∞√²³\\]|{_FUNCTION}[\s(]', match[0])
            and not _DENIED.search(part.lower(), 0, match.start())
        ]
        if tokens and not re.fullmatch(r'[-+$]?[\d.,:%]+\)?', _tidy(tokens[-1][0]).strip('()')):
            ended = not page.plain[begin + tokens[-1].end() : stop].strip()
            value = _right_side(_tidy(tokens[-1][0].rstrip('!') if ended else tokens[-1][0]))
            return Candidate(value, begin + tokens[-1].start(), begin + tokens[-1].end())
        number = self._last_number(page, start, end)
        word = (
            None
            if number or page.is_cut(end) or CUES.restates.find(page, begin, stop)
            else _PHRASES.predicate(page, begin, stop)
        )
        return word if word and _WORD.fullmatch(str(word.value)) else number

    def _is_open(self, page: Page, start: int, end: int) -> bool:
        """Whether a reply breaks off before its result, or says that there is none."""
        line = max(start, page.raw.rfind('\n', start, end))
        open_box = page.raw.rfind('\\boxed{', start, end) > page.raw.rfind('}', start, end)
        if open_box or _UNCLOSED.match(page.raw, line, end):
            return True
        sentence = page.last_sentence(start, end)
        if CUES.refuses.find(page, *sentence) or _CHOICE.search(page.low, *sentence):
            return True
        ends = list(_HAS_VALUE.finditer(page.raw, *sentence))
        behind = len(re.findall(r'[^\W\d]{2,}', page.raw[ends[-1].end() if ends else sentence[0] : sentence[1]]))
        return page.is_cut(end) and (behind > 2 or CUES.breaks_off.search(page.low, *sentence) is not None)

    def _joined_formulas(self, page: Page, formulas: list[re.Match[str]]) -> Candidate:
        """The last formula, with those before it that are one answer with it: `$x=2$ or $x=5$`."""
        last = self._content(page, formulas[-1])
        for before, after in reversed(list(pairwise(formulas))):
            other = self._content(page, before)
            same = str(other.value)[:1] == str(last.value)[:1] and '=' in str(other.value)
            several = same or _ARE.search(page.low, 0, before.start())
            if not (several and _AND.fullmatch(page.low, before.end(), after.start())) and not _OR.fullmatch(
                page.low, before.end(), after.start()
            ):
                break
            last = Candidate(f'{_right_side(str(other.value))}, {_right_side(str(last.value))}', other.start, last.end)
        return last

    def _last_number(self, page: Page, start: int, end: int) -> Candidate | None:
        number = _NUMBERS.concludes(page, start, end)
        percent = re.compile(r'\s?\\?%').match(page.raw, number.end) if number else None
        if number and number.value and (percent or '/' in page.raw[number.start : number.end]):
            return Candidate(
                page.raw[number.start : percent.end() if percent else number.end], number.start, number.end
            )
        return number

    def mentions(self, page: Page, start: int, end: int) -> list[Candidate]:
        return _NUMBERS.mentions(page, start, end)

    def rivals(self, page: Page, start: int, end: int) -> list[Candidate]:
        return [self._content(page, formula) for formula in _formulas(page, start, end)[-4:]]

    def _formula_at(self, page: Page, start: int, end: int) -> Candidate | None:
        formula = _FORMULA.match(page.raw, start, end)
        return self._content(page, formula) if formula and _is_formula(formula) else None

    def _content(self, page: Page, formula: re.Match[str]) -> Candidate:
        group = formula.lastgroup or 'a'
        lines = formula[group].strip().removesuffix('\\\\').replace('&', '') if group == 'e' else formula[group]
        return Candidate(_tidy(lines.rpartition('\\\\')[2] if group == 'e' else lines), *formula.span(group))


def _formulas(page: Page, start: int, end: int) -> list[re.Match[str]]:
    if '$' not in page.raw and '\\' not in page.raw:
        return []
    return [formula for formula in _FORMULA.finditer(page.raw, start, end) if _is_formula(formula)]


def _is_formula(formula: re.Match[str]) -> bool:
    inside = formula[formula.lastgroup or 'a']
    return len(inside) < 2000 and not (formula.lastgroup == 'b' and _PROSE.search(_TEXT.sub('', inside)))


def _right_side(expression: str) -> str:
    """`x = 5` is the number 5; any other expression (`x = 5 or x = -5`) is itself."""
    expression = _APPROXIMATED.sub('', expression)
    if several := _ASSIGNED.fullmatch(expression):
        return f'{several["first"].strip()}, {several["second"].strip()}'
    expression = _last_side(expression)
    if _CURVE.fullmatch(expression):
        return expression
    assigned = None if re.search(r'\s(?:or|and)\s|\\text', expression) else _EQUATION.fullmatch(expression)
    return _tidy(re.sub(r'\A(-?\d+),(\d{1,2})\Z', r'\1.\2', assigned['value'])) if assigned else expression


def _last_side(expression: str) -> str:
    """What a derivation comes to: `∫e^x dx = e^x + C` is `e^x + C`; an equation is itself."""
    sides = expression.split('=')
    derived = len(sides) > 2 and not _SEVERAL_SIGNS.search(expression)
    return sides[-1].strip() if derived or (len(sides) == 2 and _RESTATED.match(expression)) else expression


def _tidy(expression: str) -> str:
    bare = (
        _VULGAR.sub(lambda sign: f'({normalize("NFKC", sign[0]).replace("⁄", "/")})', narrow(expression))
        .replace('∅', '\\emptyset')
        .strip()
        .strip('*')
        .strip()
        .strip('$')
        .replace('\\$', '')
    )
    bare = bare.strip().strip('"“”').rstrip('.,').strip()
    return bare.replace(',', '') if re.fullmatch(r'-?\d{1,3}(?:,\d{3})+(?:\.\d+)?', bare) else bare


_SENTENCE = compile_late(r'\A\W*[A-Za-z]{2,20}\s[a-z]{2,20}\b(?=.*\d)')


def final_expression(text: str) -> str:
    r"""The answer of a worked solution; an expression alone is itself.

    >>> final_expression(r'First \boxed{3}, no: **\boxed{4}**'), final_expression('2 million')
    ('4', '2 million')
    """
    box = text.startswith(r'\boxed{') and text.endswith('}')
    stated = '\n' in text or '**' in text or (r'\boxed' in text and not box) or _SENTENCE.match(text)
    if not stated and not box and not CUES.states.find(Page(text), 0, len(text)):
        return text
    reading = read_reply(text, _EXPRESSIONS)
    return reading.value or text if reading is not None and reading.counts else text


_EXPRESSIONS = Expressions()
