"""The final expression of a worked solution: the boxed one, or the one stated as the answer."""

from __future__ import annotations

import re

from rolecall.scoring.postprocess.numbers import last_amount, last_number
from rolecall.scoring.texts import after_reasoning, cut_next_problem, last_boxed, narrow_digits

_STATED = re.compile(
    r'(?:\banswers?\s*(?:is|are|was|were|:|=)|\banswer\*\*\s*:|答案(?:是|为|：|:))[:：\s*]*'
    r'(?:not\b[^.\n]{1,40}?\bbut\s+(?:rather\s+)?|(?:approximately|about|around|roughly|exactly|simply|therefore)\s+|大?约为?)?',
    re.IGNORECASE,
)
_DENIED = re.compile(
    r'(?:,|\band|\bbut)\s+not\b|\s\(?(?:since|because|as|when|where)\s|\s(?:and|so)\s(?:we|this|that|it)\b'
)
"""What follows an answer and is not part of it: `1/2 and not 1/3`, `4 (since k > 0)`."""
_MATH = re.compile(
    r'\$\$([^$]+)\$\$|(?<!\\)\$((?:[^$\\]|\\.)+)\$|\\\(((?:(?!\\[()]).)+)\\\)|\\\[((?:(?!\\[\[\]]).)+)\\\]', re.DOTALL
)
_SENTENCE = re.compile(r'(?:[^.\n。]|\.(?=\S))+')
_LONGEST_LINE = 200
_UNIT = re.compile(r'(?<=\d)\s?(?:[mgsLh]|[cmk]m|ft|in)\b(?:\^\{?[23]\}?)?')
_NAME = r'\\[a-zA-Z]+'
_ATOM = rf'(?:\d|{_NAME}|\\[{{}}%]|[-+*/^_=(){{}}\[\],.|!°%√π∞<>±·×÷]|(?<=\d):(?=\d)|(?<![a-zA-Z])[a-zA-Z](?![a-zA-Z]))'
_BARE = re.compile(rf'(?:{_ATOM}|\s|(?<=\s)(?:or|and)(?=\s))+')
_WORD = re.compile(r'[*_\s"\'“‘「]{0,8}([A-Za-z]{1,30}|[一-鿿]{1,12})[*_\s.。"\'”’」]{0,8}')
_TEXT = re.compile(r'\\text\{[^{}]*\}')
_TOKEN = re.compile(
    rf'(?<![\w\\])(?:[(\[{{](?=[^()]{{0,60}}\d)[-\d,.\s/]{{1,60}}[)\]}}]|{_ATOM}{{0,60}}\d{_ATOM}{{0,60}})'
)
_TAIL = 2000
_ASSIGNED = re.compile(r'[^=]*=(?:[^=,]*=)*\s*(?P<value>-?[\d.,]+)')
_PROSE = re.compile(r'\A\W*[A-Za-z]{2,20}\s[a-z]{2,20}\b(?=.*\d)')
_CONDITION = re.compile(r'\s(?:when|where|if|since|because|for)\s(?=[^.\n]{0,200}\.?\Z)')


def math_postprocess(text: str) -> str:
    """The stated (final) answer; else the last box, formula or number.

    >>> math_postprocess('Final Answer: The final answer is $x+1$. I hope it is correct.')
    'x+1'
    """
    own = _cut_own(narrow_digits(after_reasoning(text)))
    return _find_stated(own) or last_boxed(own) or _find_last(own)


def math_postprocess_v2(text: str) -> str:
    r"""The last `\boxed{…}`; else the stated answer, the last formula or number.

    >>> math_postprocess_v2(r'The answer is 3, that is, \boxed{\frac{6}{2}}.')
    '\\frac{6}{2}'
    """
    own = _cut_own(narrow_digits(after_reasoning(text)))
    return last_boxed(own) or _find_stated(own) or _find_last(own)


def final_expression(text: str) -> str:
    r"""The answer of a worked solution, as `math_postprocess_v2` finds it; an expression alone is itself.

    >>> final_expression(r'First \boxed{3}, no: **\boxed{4}**'), final_expression('2 million')
    ('4', '2 million')
    """
    worked = (
        '\n' in text or '**' in text or _STATED.search(text) or last_boxed(text) not in ('', text) or _PROSE.match(text)
    )
    return math_postprocess_v2(text) or text if worked else text


def _find_stated(text: str) -> str:
    for said in reversed(list(_STATED.finditer(text))):
        rest = text[said.end() :].lstrip()
        formula, sentence = _MATH.match(rest), _SENTENCE.match(rest)
        if formula:
            return _content_of(formula)
        if sentence:
            return last_boxed(sentence[0]) or _tidy(_DENIED.split(sentence[0])[0])
    return ''


def _cut_own(text: str) -> str:
    """The reply without problems the model invents after its answer."""
    own = cut_next_problem(text)
    return own if own != text and (_find_stated(own) or last_boxed(own) or _MATH.search(own)) else text


def _find_last(text: str) -> str:
    formulas = list(_MATH.finditer(_CONDITION.split(text.strip())[0])) or list(_MATH.finditer(text))
    if formulas:
        return _content_of(formulas[-1])
    line = text.strip().rpartition('\n')[2].strip()
    if len(line) <= _LONGEST_LINE and re.search(r'\w', line) and _BARE.fullmatch(_TEXT.sub('', line)):
        return _right_side(_tidy(line))
    if word := _WORD.fullmatch(text):
        return word[1]
    tokens = [_tidy(token).rstrip('!') for token in _TOKEN.findall(_UNIT.sub('', text[-_TAIL:]))]
    return (
        _right_side(tokens[-1])
        if tokens and not _is_number(tokens[-1].strip('()'))
        else last_amount(_UNIT.sub('', text))
    )


def _right_side(expression: str) -> str:
    """`x = 5` is the number 5; any other expression (`x = 5 or x = -5`) is itself."""
    assigned = None if re.search(r'\s(?:or|and)\s', expression) else _ASSIGNED.fullmatch(expression)
    return last_number(assigned['value']) if assigned else expression


def _is_number(expression: str) -> bool:
    return re.fullmatch(r'[-+$]?[\d.,]+', expression) is not None


def _content_of(formula: re.Match[str]) -> str:
    inside = next(filter(None, formula.groups()))
    return last_boxed(inside) or _tidy(inside)


def _tidy(expression: str) -> str:
    bare = expression.strip().strip('*').strip('$').replace('\\$', '').strip().rstrip('.,')
    return last_number(bare) if re.fullmatch(r'\d{1,3}(?:,\d{3})+(?:\.\d+)?', bare) else bare
