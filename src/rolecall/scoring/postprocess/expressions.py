"""The final expression of a worked solution: the boxed one, or the one stated as the answer."""

from __future__ import annotations

import re

from rolecall.scoring.postprocess.numbers import last_number

__all__ = ['last_boxed', 'math_postprocess', 'math_postprocess_v2']

_BOX = re.compile(r'\\f?boxed\s*(?=\{)|\\boxed\s+(?P<bare>[^\s${}]+)')
_STATED = re.compile(r'(?:\banswer\s*(?:is|was|:|=)|\banswer\*\*\s*:|答案(?:是|为|：|:))[:\s*]*', re.IGNORECASE)
_MATH = re.compile(
    r'\$\$([^$]+)\$\$|(?<!\\)\$((?:[^$\\]|\\.)+)\$|\\\(((?:(?!\\[()]).)+)\\\)|\\\[((?:(?!\\[\[\]]).)+)\\\]', re.DOTALL
)
_SENTENCE = re.compile(r'(?:[^.\n。]|\.(?=\S))+')


def math_postprocess(text: str) -> str:
    """The stated (final) answer; else the last box, formula or number.

    >>> math_postprocess('Final Answer: The final answer is $x+1$. I hope it is correct.')
    'x+1'
    """
    return _find_stated(text) or last_boxed(text) or _find_last(text)


def math_postprocess_v2(text: str) -> str:
    r"""The last `\boxed{…}`; else the stated answer, the last formula or number.

    >>> math_postprocess_v2(r'The answer is 3, that is, \boxed{\frac{6}{2}}.')
    '\\frac{6}{2}'
    """
    return last_boxed(text) or _find_stated(text) or _find_last(text)


def last_boxed(text: str) -> str:
    r"""The content of the last complete box, the innermost one if boxes are nested.

    >>> last_boxed(r'\boxed{1} or \boxed{\boxed{x^{2}}}, \boxed{cut')
    'x^{2}'
    """
    closings = _closings(text)
    for box in reversed(list(_BOX.finditer(text))):
        if box['bare']:
            return box['bare']
        if box.end() in closings:
            return text[box.end() + 1 : closings[box.end()]].strip()
    return ''


def _closings(text: str) -> dict[int, int]:
    """The position of the closing brace of each opening one."""
    opened: list[int] = []
    closed = {}
    for brace in re.finditer(r'(?<!\\)[{}]', text):
        if brace[0] == '{':
            opened.append(brace.start())
        elif opened:
            closed[opened.pop()] = brace.start()
    return closed


def _find_stated(text: str) -> str:
    for said in reversed(list(_STATED.finditer(text))):
        rest = text[said.end() :].lstrip()
        formula, sentence = _MATH.match(rest), _SENTENCE.match(rest)
        if formula:
            return _content_of(formula)
        if sentence:
            return last_boxed(sentence[0]) or _tidy(sentence[0])
    return ''


def _find_last(text: str) -> str:
    formulas = list(_MATH.finditer(text))
    return _content_of(formulas[-1]) if formulas else last_number(text)


def _content_of(formula: re.Match[str]) -> str:
    inside = next(filter(None, formula.groups()))
    return last_boxed(inside) or _tidy(inside)


def _tidy(expression: str) -> str:
    bare = expression.strip().strip('*').strip('$').replace('\\$', '').strip().rstrip('.,')
    return last_number(bare) if re.fullmatch(r'\d{1,3}(?:,\d{3})+(?:\.\d+)?', bare) else bare
