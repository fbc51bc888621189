"""Formulas as OpenCompass reads and compares them: Minerva's normalisation of a sentence, and MATH's of two answers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.plain_files import read_table
from rolecall.scoring.metrics.symbolic import limit_work, math_library

_STEPS: dict[str, list[tuple[str, str]]] = {}
"""What is replaced by what, in order; `their_mathematics.tsv` writes line breaks as `<LF>`, `<CR>` and `<FF>`."""
for _step, *_texts in read_table(__file__):
    _old, _new = (text.replace('<LF>', '\n').replace('<CR>', '\r').replace('<FF>', '\f') for text in _texts)
    _STEPS.setdefault(_step, []).append((_old, _new))
_LONGEST = 20_000
"""Characters at the end of a reply in which a box is looked for."""
_DEEP = re.compile(r'(?:\{\s*){40}')
"""Braces in braces, which take the library seconds."""
_FRACTION = re.compile(r'frac([^{])(.)')
_ROOT = re.compile(r'sqrt([^{])')
_FINAL = re.compile('final answer', re.IGNORECASE)
_STATED = re.compile('final answer|answer is', re.IGNORECASE)
_STATEMENTS = (re.compile('finalansweris'), re.compile('answer?is:?'))
_BRACED = re.compile(r'\{(.*)\}\n?')


def read_final_sentence(text: str) -> str:
    r"""The first sentence with `final answer`, else the first one of all, normalised. A point ends a sentence.

    >>> read_final_sentence('So x. The final answer is $\\frac12$. I hope.'), read_final_sentence('12.5 meters')
    ('\\frac{1}{2}', '12')
    """
    return _read_sentence(text, _FINAL)


def read_boxed_or_sentence(text: str) -> str:
    r"""What is in the last box, else the first sentence with `final answer` or `answer is`, else the first one of all.

    >>> read_boxed_or_sentence('It is 7. The answer is 8.'), read_boxed_or_sentence(r'\boxed{1} or \boxed{{2,000}}')
    ('8', '2,000')
    """
    return _last_box(text) or _read_sentence(text, _STATED)


def _read_sentence(text: str, statement: re.Pattern[str]) -> str:
    sentences = text.split('.')
    return _normalise(next(filter(statement.search, sentences), sentences[0]))


def _last_box(text: str) -> str:
    """The content of the last box, without one pair of braces of its own; empty if that box has no end."""
    start, depth = text.rfind('\\boxed'), 0
    content = start + len('\\boxed{')
    if start < 0 or not text.startswith('{', content - 1):
        return ''
    for brace in re.finditer('[{}]', text[content - 1 :]):
        depth += 1 if brace[0] == '{' else -1
        if not depth:
            inner = text[content : content - 1 + brace.start()]
            braced = _BRACED.fullmatch(inner)
            return braced[1] if braced else inner
    return ''


def _normalise(sentence: str) -> str:
    sentence = _replace(sentence, _STEPS['minerva'])
    for opening, closing in (('\\text{(', ')}'), ('\\text{', '}'), ('\\textbf{', '}'), ('\\overline{', '}')):
        sentence = ''.join(_split_at(sentence, opening, closing))
    head, box, rest = sentence.partition('\\boxed{')
    inner, end, tail = rest.rpartition('}')
    sentence = f'{head}{inner}{tail}' if box and end else sentence
    for pattern in _STATEMENTS:
        statement = pattern.search(sentence)
        sentence = sentence[statement.end() :] if statement else sentence
    for opening, closing in (('oxed{', '}'), ('$', '$')):
        inner_texts = _split_at(sentence, opening, closing)[1::2]
        sentence = inner_texts[-1] if inner_texts else sentence
    sentence = sentence.strip()
    if 'rac' in sentence and '\\frac' not in sentence:
        sentence = sentence.replace('rac', '\\frac')
    sentence = _ROOT.sub(r'sqrt{\1}', _FRACTION.sub(r'frac{\1}{\2}', sentence)).replace('$', '')
    whole = sentence.replace(',', '')
    return whole if whole.isdigit() else sentence


def _split_at(text: str, opening: str, closing: str) -> list[str]:
    """The text in pieces: outside and inside of each pair, by turns.

    >>> _split_at('a $b$ c $d', '$', '$')
    ['a ', 'b', ' c $d']
    """
    pieces, at = [], 0
    while (start := text.find(opening, at)) >= 0 and (end := text.find(closing, start + len(opening))) >= 0:
        pieces += [text[at:start], text[start + len(opening) : end]]
        at = end + len(closing)
    return [*pieces, text[at:]]


def equal_answers(ours: Any, gold: Any, *, lenient: bool = False) -> bool:
    r"""Whether two answers are the same after MATH's normalisation, after Minerva's, or after both.

    >>> equal_answers(r'\dfrac12', '1/2'), equal_answers('5.0', '5'), equal_answers('5.0', '5', lenient=True)
    (True, False, True)
    """
    if not lenient and not (isinstance(ours, str) and isinstance(gold, str)):
        return bool(ours == gold)
    texts = text_of(ours), text_of(gold)
    strip = _strip_leniently if lenient else _strip
    try:
        stripped = [strip(text) for text in texts]
    except ValueError:
        stripped = []
    if stripped and (stripped[0] == stripped[1] or _normalise(stripped[0]) == _normalise(stripped[1])):
        return True
    return _normalise(texts[0]) == _normalise(texts[1])


_ZEROS = re.compile(r'(\d)\.0+(?=\D|\Z)')
_ROOT_OF_WORD = re.compile(r'\\sqrt(\w+)')


def _replace(text: str, table: Iterable[tuple[str, str]]) -> str:
    for old, new in table:
        text = text.replace(old, new)
    return text


def _strip(text: str) -> str:
    """An answer as MATH's authors normalise it. ValueError for what they do not expect."""
    text = _replace(text, _STEPS['strict'])
    number, unit, rest = text.partition('\\text{ ')
    if unit:
        if unit in rest:
            raise ValueError(text)
        text = number
    text = _drop_name(_replace(text, _STEPS['points']))
    pieces = text.split('\\sqrt')
    roots = [piece if piece[:1] == '{' else f'{{{piece[0]}}}{piece[1:]}' for piece in pieces[1:] if piece]
    if len(roots) < len(pieces) - 1:
        raise ValueError(text)
    text = _brace_fractions('\\sqrt'.join([pieces[0], *roots]).replace(' ', ''))
    return _write_slash('\\frac{1}{2}' if text == '0.5' else text)


def _strip_leniently(text: str) -> str:
    text = _replace(text.strip().replace('\n', '').rstrip('.'), _STEPS['lenient'])
    text = (text.partition('\\text{')[0].strip() if text.endswith('}') else '') or text
    text = _replace(_replace(text, _STEPS['strict'][-3:-1]).strip().replace('\\$', ''), _STEPS['words'])
    text = text if '\\infty' in text else text.replace('inf', '\\infty')
    text = ''.join(_split_at(_replace(text, (('and', ''), ('\\mathbf', ''))), '\\mbox{', '}')[::2])
    text = text.replace('j', 'i') if 'i' not in text else text
    text = _drop_name(_ZEROS.sub(r'\1', text))
    text = _ROOT_OF_WORD.sub(r'\\sqrt{\1}', text).replace(' ', '')
    return _write_slash(_brace_fractions(text))


def _drop_name(text: str) -> str:
    """The value of `x = 5`, and a zero before a leading point."""
    sides = (f'0{text}' if text[:1] == '.' else text).split('=')
    return sides[1] if len(sides) == 2 and len(sides[0]) <= 2 else '='.join(sides)


def _brace_fractions(text: str) -> str:
    """`\\frac12` and `\\frac1{2}` with braces; as it is where a fraction is cut off."""
    first, *pieces = text.split('\\frac')
    fractions = [first]
    for piece in pieces:
        if piece[:1] != '{':
            if len(piece) < 2:
                return text
            above, below = piece[0], piece[1]
            piece = f'{{{above}}}{below}{piece[2:]}' if below == '{' else f'{{{above}}}{{{below}}}{piece[2:]}'
        fractions.append(piece)
    return '\\frac'.join(fractions)


def _write_slash(text: str) -> str:
    """A fraction of whole numbers as TeX writes it. ValueError for any other one."""
    above, slash, below = text.partition('/')
    if not slash or '/' in below:
        return text
    return f'\\frac{{{int(above)}}}{{{int(below)}}}' if text == f'{int(above)}/{int(below)}' else text


def equal_in_box(reply: str, gold: str) -> bool:
    r"""Whether a reply's box, or the formula behind `final answer`, has the gold value; bare answers are not seen.

    >>> [equal_in_box(reply, '0.5') for reply in (r'So \boxed{\frac{1}{2}}.', 'The answer is 0.5.')]
    [True, False]
    """
    if _DEEP.search(tail := reply[-_LONGEST:]):
        return False
    library = math_library()
    boxes = library.LatexExtractionConfig(
        normalization_config=import_module('latex2sympy2_extended').NormalizationConfig(
            nits=False, malformed_operators=False, basic_latex=True, boxed='all', units=True
        ),
        boxed_match_priority=0,
        try_extract_without_anchor=False,
    )
    settings = {'extraction_mode': 'first_match', 'parsing_timeout': None}
    with limit_work():
        right = library.parse(f'${gold}$', **settings)
        ours = library.parse(tail, extraction_config=[boxes], **settings)
        return bool(right) and bool(library.verify(ours, right, timeout_seconds=None))
    return False
