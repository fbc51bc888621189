"""Which of several given choices (`positive`, `negative`, …) a reply names.

Choices that the reply denies (`not positive`), leaves open (`positive or negative`) or ascribes to others do not count;
after a correction (`positive, wait: negative`) only what follows counts.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Container, Sequence
from unicodedata import normalize

from rolecall.scoring.postprocess.letters import first_option_postprocess
from rolecall.scoring.texts import after_reasoning

_TAKEN_BACK = re.compile(r'\b(?:wait|actually|correction|sorry|scratch that|on second thought|i meant?)\b|等等|更正')
_IDIOM = r'\bno (?:doubts?|problems?|wonder|one|matter|reason|need|worries|idea|information|mention|clue|indication)\b'


def choice_postprocess(text: str, choices: Sequence[str]) -> str:
    """The choice that the reply begins with, states (`the answer is positive`) or names alone, in any case.

    >>> choice_postprocess('I would say: Positive!', ['positive', 'negative'])
    'positive'
    >>> choice_postprocess('It could be positive or negative.', ['positive', 'negative'])
    ''
    >>> choice_postprocess('This is not positive, it is negative.', ['positive', 'negative'])
    'negative'
    >>> choice_postprocess('The answer is (C).', 'ABCD')
    'C'
    """
    if all(len(choice) == 1 and choice.isascii() and choice.isupper() for choice in choices):
        return first_option_postprocess(text, options=''.join(choices))
    spellings = {_fold(str(choice)): str(choice) for choice in choices}
    one = rf'(?:{"|".join(map(_bounded, sorted(spellings, key=len, reverse=True)))})'
    decided = _hide_choices(_fold(after_reasoning(text)), one, spellings)
    corrected = deque(_TAKEN_BACK.finditer(decided), maxlen=1)
    last = decided[corrected[0].end() :] if corrected else ''
    folded = last if re.search(one, last) else decided
    for pattern in (
        rf'\A\W*(?P<x>{one})',
        rf'\b(?:answer|label|choice|class|category)(?:\s+is|\s*:)\W*(?P<x>{one})',
        rf'\bi(?: would|[\'’]d) (?:say|choose|pick)\W+(?P<x>{one})',
    ):
        if found := re.search(pattern, folded):
            return spellings[found['x']]
    named = re.findall(one, folded)
    if len(set(named)) == 1:
        return spellings[named[0]]
    concluded = re.findall(
        rf'\b(?:overall|therefore|thus|so|hence|final(?:ly)?|conclusion)\b[^.?!]{{0,40}}?({one})', folded
    )
    return spellings[concluded[-1]] if concluded and named[-1:] == concluded[-1:] else ''


def _hide_choices(text: str, one: str, known: Container[str]) -> str:
    """The text without choices that it denies, leaves open or ascribes to others; a choice may be `not sure`."""
    patterns = [
        r'(?:(?:\bnot|n[\'’]t)'
        r'(?: (?:say|think|believe|call|consider|describe)(?: that)? (?:it|this|that)(?:[\'’]s| is| as)?)?'
        r'|\bneither|\bnor|\bnothing|\brather than|\binstead of|\bfar from|\bhardly|\bno longer|\bnon|而非)'
        rf'(?:\s+(?:a|an|the|at all|be|really|exactly|entirely))?\W{{0,8}}{one}',
        rf'(?:不|并非|没有?|未必|毫无|非)(?:是|太|很|算|能算|够|完全|那么|任何|什么|能说是?)?\W{{0,8}}{one}',
        rf'(?<=\d)\s?(?:/|out of)\s?{one}',
        rf'\b(?:initially|originally|at first)\b[^.,;!?]{{0,30}}?{one}',
        rf'\bit(?: is|[\'’]s) {one}(?= that\b[^.]{{0,80}}\bbut\b)',
        rf'{one}(?:\W{{1,4}}{one}){{0,8}}\W{{0,4}}(?:\bor\b|\band\b|/|&|还是|或者?|和)\W{{0,4}}{one}',
        rf'{one}\W{{0,3}}\?\s*(?=no\b|nope\b|wrong\b|不)',
        r'\b(?:people|many|most|some|others)\s+(?:\w+\s+){0,2}?(?:say|think|claim|believe)\s+'
        rf'(?:that\s+)?(?:it(?:[\'’]s| is)\s+)?{one}',
        _IDIOM if 'no' in known else rf'\bno\s{one}',
    ]
    for pattern in patterns:
        text = re.sub(pattern, lambda found: found[0] if found[0] in known else '·', text)
    return text


def _bounded(choice: str) -> str:
    """A choice that is not part of a longer word or number. Scripts without spaces have no such bounds."""
    before = r'(?<![a-z0-9_])(?<!\d[.,])' if re.match(r'[a-z0-9_]', choice) else ''
    after = r'(?![a-z0-9_]|[.,]\d)' if re.search(r'[a-z0-9_]\Z', choice) else ''
    return f'{before}{re.escape(choice)}{after}'


def _fold(text: str) -> str:
    return ' '.join(normalize('NFKC', text).casefold().split())
