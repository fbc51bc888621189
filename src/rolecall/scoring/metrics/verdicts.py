"""A judge's verdict: right, wrong, or none.

A grade (`"grade": "A"`, `Grade: B`, `**A**`, CORRECT) is read like any choice, but what a judge says of the answers
(`the student answered B`) is not a grade. Without one, statements in other words count (`it isn't right`, `they match`)
where they agree, or where a conclusion settles it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.options import Options
from rolecall.scoring.readers.ranking import read_reply
from rolecall.scoring.readers.reading import Candidate, Page, Reading

_OTHERS = re.compile(
    r'\b(?:gold|reference|standard|target|correct|right|predict\w*|student|candidate|ground\s+truth|truth|expected'
    r'|model|answer(?:ed|s)?|response|response\s+given)\b'
)
"""Whose answer a letter may be, if it is not the judge's verdict."""
_WORD = re.compile(
    rf'(?<!\w)(?P<word>(?P<wrong>{CUES.any_of("judged_wrong")})|{CUES.any_of("judged_right")})\b(?!-)', re.IGNORECASE
)
_LIKENESS = re.compile(
    r'\b(?P<word>equivalent|match(?:es)?)\b(?=\s*(?:[.!]|\Z)|\s+(?:to\s+)?the\s+(?:gold|reference|correct|standard|expected|target)\b(?!.*\bbut\b))',
    re.IGNORECASE,
)
_A_THING = re.compile(
    r'\s+(?:answer|option|choice|response|solution|value|result|one|number|letter|statement|format|side|hand|unit|way)s?\b|\s+(?:est|es|ist)\s'
)
"""Nouns that make a preceding `correct` describe something else: `the correct answer is 4`."""
_IS_ONE = re.compile(r"\b(?:is|was|gives?|gave|be)(?:\s+not|n['’]t)?(?:\s+indeed)?\s+(?:a|the)\s+$", re.IGNORECASE)
_NEGATION = re.compile(
    r"(?:\b(?:not|never|nothing|neither|nor|hardly|cannot|far\s+from|by\s+no\s+means|anything\s+but|nicht|pas|no\s+es|fails?\s+to|no\s+longer)\b|n['’]t\b)(?!\s+only\b)"
    r"(?:\s+(?!(?:so|but|and|because|since|as|therefore|thus|hence|which|although|though|while)\b)[\w'’-]+){0,6}\s+$",
    re.IGNORECASE,
)
_PARTLY = re.compile(
    r'\b(?:partial(?:ly)?|partly|almost|nearly|mostly|somewhat|half|if|whether|or'
    r'|(?:may|might|could|would)\s+(?:be|have\s+been)|whether(?:\s+[\w-]+){1,5})\s+$|\b(?:although|though|while)\b[^,;]*$',
    re.IGNORECASE,
)
_BUT = re.compile(r'\s+(?:except|apart\s+from|save\s+for)\b', re.IGNORECASE)
"""Phrases that leave the verdict open."""
_CHINESE = re.compile(
    '(?P<right>没有?(?:任何|什么)?(?:错误|错|问题)|无误)'
    '|(?P<wrong>(?:不|并不|并非|不能算|算不上|未能?|没有?)(?:完全)?(?:正确|对|一致|符合|相符|等价)|错误|错了|有误|答错)'
    '|(?:正确|一致|相符|等价|答对|对的)(?!的?(?:答案|选项|结果|值|做法))'
)
_FLAG = re.compile(r'[\s"\'*`]*(?P<x>true|false|yes|no|[yn01](?![\d.]))(?![a-z])')
"""What a field or a question (`Correct: no`) is answered with."""
_CONTRADICTED = re.compile(r'[^\w\n]{1,6}incorrect')
_DECLINED = re.compile('not[ _]attempted|未尝试|未作答')
_CONCLUDING = re.compile(
    r'\b(?:so|thus|therefore|hence|overall|conclusion|finally|verdict|in\s+short|final\s+(?:answer|result)|endergebnis|endantwort|résultat\s+final)\b|最终(?:答案|结果)',
    re.IGNORECASE,
)
_SENTENCE = re.compile(r'[^.!?。！？\n]+[.!?。！？]*')
_CONTEXT = 120


class Grades(Options):
    """The tags of a judge, CORRECT and INCORRECT, and the same in other words. A `Family`."""

    cues = 'grades'

    def __init__(self, true_tag: str, false_tag: str) -> None:
        super().__init__(tuple(dict.fromkeys((true_tag, false_tag, 'C'))))
        self.tags = true_tag, false_tag
        self._tag = re.compile(rf'\b(?:{re.escape(true_tag)}|{re.escape(false_tag)})\b')
        wrong = dict.fromkeys((*CUES.list_words('judged_wrong'), '不正确', '错误', '不符合'), false_tag)
        declined = dict.fromkeys(('not attempted', 'not_attempted', '未尝试'), 'C')
        self.texts = {**wrong, **declined, **dict.fromkeys((*CUES.list_words('judged_right'), '正确'), true_tag)}

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        if flag := _FLAG.match(page.low, start, end):
            return Candidate(self.tags[flag['x'] in ('false', 'no', 'n', '0')], *flag.span('x'))
        return super().follows(page, start, end)

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        return self._unless_contradicted(page, super().fills(page, start, end))

    def _unless_contradicted(self, page: Page, grade: Candidate | None) -> Candidate | None:
        """The grade, but `A (INCORRECT)` is none."""
        right = grade is not None and grade.value == self.tags[0]
        return None if right and grade and _CONTRADICTED.match(page.low, grade.end) else grade

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        return None if correcting else self._unless_contradicted(page, super().leads(page, start, end))

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        if not self.lettered and (named := list(self._tag.finditer(page.text, start, end))):
            return Candidate(named[-1][0], *named[-1].span())
        part = page.text[start:end]
        chinese = [(match['wrong'] is None, False) for match in _CHINESE.finditer(part)]
        for stated in (chinese, list(_find_statements(part, _WORD)), list(_find_statements(part, _LIKENESS))):
            for verdicts in ([right for right, _ in stated], [right for right, concluded in stated if concluded]):
                if len(set(verdicts)) == 1:
                    return Candidate(self.tags[not verdicts[0]], *page.last_sentence(start, end))
            if stated:
                return None
        if declined := _DECLINED.search(page.low, start, end):
            return Candidate('C', *declined.span())
        return None if _OTHERS.search(page.low, start, end) else super().concludes(page, start, end)


_grades = lru_cache(maxsize=16)(Grades)


def read_grade(reply: str, true_tag: str = 'A', false_tag: str = 'B') -> Reading | None:
    """The grade that a judge's reply gives, with its place."""
    return read_reply(reply, _grades(true_tag, false_tag))


def verdict_in(text: str, true_tag: str, false_tag: str) -> bool | None:
    """Whether the text says right or wrong; None if it says neither or both.

    >>> [verdict_in(text, 'A', 'B') for text in ('Grade: **B**', 'INCORRECT: A student would know.', 'A or B')]
    [False, False, None]
    """
    reading = read_grade(text, true_tag, false_tag)
    return None if reading is None or not reading.counts else reading.value == true_tag


def _find_statements(text: str, word: re.Pattern[str]) -> Iterator[tuple[bool, bool]]:
    """Whether each statement says right, and whether it is a conclusion."""
    for sentence in _SENTENCE.findall(text):
        if sentence.rstrip().endswith(('?', '？')):
            continue
        for match in word.finditer(sentence):
            before, after = sentence[max(0, match.start() - _CONTEXT) : match.start()], sentence[match.end() :]
            if _PARTLY.search(before) or _BUT.match(after) or (_A_THING.match(after) and not _IS_ONE.search(before)):
                continue
            right = match['wrong'] is None if 'wrong' in match.re.groupindex else True
            yield right != bool(_NEGATION.search(before)), bool(_CONCLUDING.search(before))
