"""Text comparison: words without case, articles and punctuation, and the overlap of two texts."""

from __future__ import annotations

import json
import logging
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import import_extra
from rolecall.scoring.blame import ScoringError

_BOX = re.compile(r'\\(?:boxed|fbox)\s*\{|\\boxed(?:\s+|(?=\d))(?P<bare>[^\s${}]+)')
_BRACE = re.compile(r'(?<!\\)[{}]|\\[{}](?=\})')
_LONG_RUN = re.compile('[\u4e00-\u9fd5a-zA-Z0-9+#&._%-]{500,}')
"""No text in words: `jieba` takes quadratic time for a run without a space or a sign."""
_UNSPACED = '\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'


def strip_text(value: Any) -> str:
    """A value as text, without surrounding whitespace."""
    return text_of(value).strip()


def alternatives(gold: Any) -> list[Any]:
    """The accepted answers: the items of a list, or the single value.

    >>> alternatives(['cat', 'a cat']), alternatives('cat')
    (['cat', 'a cat'], ['cat'])
    """
    return list(gold) if isinstance(gold, (list, tuple)) else [gold]


def first_answer(gold: Any) -> str:
    """The first of the accepted answers, as text; empty if there is none."""
    return strip_text(next(iter(alternatives(gold)), ''))


def equals_an_answer(prediction: Any, gold: Any) -> bool:
    """Whether an answer is one of the accepted ones, apart from surrounding whitespace."""
    return strip_text(prediction) in map(strip_text, alternatives(gold))


def parse_gold(gold: Any) -> Any:
    """A gold answer that may be written as JSON.

    >>> parse_gold('{"answer": "B"}'), parse_gold(['B'])
    ({'answer': 'B'}, ['B'])
    """
    try:
        return json.loads(gold) if isinstance(gold, str) else gold
    except (ValueError, RecursionError):
        raise ScoringError(f'expected JSON as the gold answer, got {gold!r:.60}.') from None


def after_reasoning(text: str) -> str:
    """The reply after its reasoning; all of it where the reasoning has no end, or nothing follows it.

    >>> after_reasoning('<think>A? No.</think>B'), after_reasoning('<think>A?'), after_reasoning('A</think>')
    ('B', '<think>A?', 'A</think>')
    """
    answer = text.rpartition('</think>')[2]
    return answer if answer.strip() else text


def last_boxed(text: str) -> str:
    r"""The content of the last complete box, the innermost one if boxes are nested.

    >>> last_boxed(r'\boxed{1} or \boxed{\boxed{x^{2}}}, \boxed{cut')
    'x^{2}'
    """
    boxes = find_boxes(text)
    return text[slice(*boxes[-1])].strip() if boxes else ''


def find_boxes(text: str, start: int = 0, end: int = sys.maxsize) -> list[tuple[int, int]]:
    """Where the contents of complete boxes stand; of nested ones the innermost comes last."""
    if 'box' not in text:
        return []
    boxes = list(_BOX.finditer(text, start, end))
    opened: list[int] = []
    closings: dict[int, int] = {}
    for brace in _BRACE.finditer(text, boxes[0].start(), end) if boxes else ():
        if brace[0] == '{':
            opened.append(brace.end())
        elif brace[0] == '}' and opened:
            closings[opened.pop()] = brace.start()
    spans = (box.span('bare') if box['bare'] else (box.end(), closings.get(box.end(), -1)) for box in boxes)
    return [span for span in spans if span[1] >= 0]


def contents_between(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> list[str]:
    """The texts between each opening and the next closing, stripped.

    >>> contents_between('[[1]] [[ [[2]]', re.compile(r'\\[\\['), re.compile(r'\\]\\]'))
    ['1', '[[2']
    """
    contents = []
    start = opening.search(text)
    while start and (end := closing.search(text, start.end())):
        contents.append(text[start.end() : end.start()].strip())
        start = opening.search(text, end.end())
    return contents


def names_whole(text: str, wanted: str) -> bool:
    """Whether a text contains a string that is not part of a longer word or number.

    >>> names_whole('I do not know', 'no'), names_whole('A: no.', 'no'), names_whole('在北京。', '北京')
    (False, True, True)
    >>> names_whole('15.5 or -15', '15')
    False
    """
    before = r'(?<!\d[.,])(?<!(?<!\w)[-−])' if wanted[:1].isdigit() else ''
    after = r'(?![.,]\d)' if wanted[-1:].isdigit() else ''
    whole = rf'(?<![A-Za-z0-9]){before}{re.escape(wanted)}(?![A-Za-z0-9]){after}'
    return bool(wanted) and re.search(whole, text) is not None


def bare_words(value: Any) -> list[str]:
    """The words of a short answer, normalised as in SQuAD: lower case, no articles, no punctuation.

    >>> bare_words('The Eiffel-Tower!'), bare_words('埃菲尔')
    (['eiffeltower'], ['埃', '菲', '尔'])
    """
    lowered = text_of(value).lower()
    letters = ''.join(sign for sign in lowered if not unicodedata.category(sign).startswith(('P', 'S')))
    spaced = re.sub(f'([{_UNSPACED}])', r' \1 ', letters)
    return [word for word in spaced.split() if word not in ('a', 'an', 'the')]


def plain_words(text: str) -> list[str]:
    """The words of a longer text as ROUGE counts them; for texts in ASCII just as `rouge-score` finds them.

    >>> plain_words("It's 3.5 m, naïve 猫咪")
    ['it', 's', '3', '5', 'm', 'naïve', '猫', '咪']
    """
    return re.findall(rf'[{_UNSPACED}]|[^\W_{_UNSPACED}]+', text.lower())


def chinese_words(text: str) -> list[str]:
    """The words of a Chinese text, as `jieba` finds them.

    >>> chinese_words('我爱北京')
    ['我', '爱', '北京']
    """
    return [word for word in chinese_tokens(text) if word.strip()]


def chinese_tokens(text: str) -> list[str]:
    """The words, signs and spaces of a Chinese text, as `jieba` finds them."""
    jieba = import_extra('jieba', extra='score', purpose='to find Chinese words')
    jieba.setLogLevel(logging.WARNING)
    bounded = _LONG_RUN.sub(lambda run: ' '.join(re.findall('.{1,500}', run[0])), text)
    return list(jieba.lcut(bounded))


def f1_of_words(ours: Sequence[str], right: Sequence[str]) -> float:
    """F1 of two bags of words; 0 if they share none.

    >>> f1_of_words(['a', 'b'], ['b'])
    0.6666666666666666
    """
    shared = (Counter(ours) & Counter(right)).total()
    return 2 * shared / (len(ours) + len(right)) if shared else 0.0


def longest_common(left: Sequence[str], right: Sequence[str]) -> list[str]:
    """The longest common subsequence of two sequences.

    >>> longest_common('the cat sat'.split(), 'the dog sat down'.split())
    ['the', 'sat']
    """
    places: dict[str, int] = {}
    for place, item in enumerate(left):
        places[item] = places.get(item, 0) | 1 << place
    full = (1 << len(left)) - 1
    rows = [full]  # one row of the usual table at a time: a bit is 0 where the length grows
    for item in right:
        matches = rows[-1] & places.get(item, 0)
        rows.append(((rows[-1] + matches) | (rows[-1] - matches)) & full)
    common = []
    at, row = len(left) - 1, len(right)
    while at >= 0 and row > 0:
        if not rows[row - 1] >> at & 1:
            row -= 1
        elif rows[row] >> at & 1:
            at -= 1
        else:
            common.append(left[at])
            at, row = at - 1, row - 1
    return common[::-1]
