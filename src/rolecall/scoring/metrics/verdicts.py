"""Read a judge's verdict: right, wrong, or undecided.

The strongest evidence counts: a field of JSON (`"grade": "A"`), a standalone verdict at the end or the beginning
(`Grade: B`, `**A**`), then statements in other words (`it isn't right`, `they
match`), and last a letter that is merely mentioned. Contradictory evidence of one strength is undecided, unless a
conclusion settles it. Of a long reply only the beginning and the end are read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from unicodedata import normalize

from rolecall.scoring.postprocess.freeform import extract_non_reasoning_content
from rolecall.scoring.readers.native import option_in

_NEITHER = ('C', 'NOT_ATTEMPTED', 'NOT ATTEMPTED')
"""Tags for an answer that does not attempt the question; it is not right."""
_OTHERS = (
    r'\b(?:gold|reference|standard|target|correct|right|predict\w*|student|candidate|ground\s+truth|truth|expected'
    r'|model|answer(?:ed|s)?|response|response\s+given)\b'
)
"""Whose answer a letter may be, if it is not the judge's verdict."""
_LABEL = (
    rf'(?:(?![^\n:：=]*{_OTHERS})[^\n:：=.?!]{{0,60}}[:：=]'
    r'|(?:[^\n:：=.?!]{0,40}\b)?(?:grade|verdict|judge?ment|mark|label|rating)\s+(?:is|of)\b'
    r'|(?:[^\n:：=.?!]{0,40}\b)?(?:grade|verdict|judge?ment|mark|label|rating)\b[^\n:：=.?!]{0,30}[:：=]'
    r'|(?:[^\n:：=.?!]{0,60}\b)?i\s+(?:choose|select|pick)\b'
    r'|(?:so|therefore|thus|hence)\b,?(?:\s+(?:it|this|i|the\s+\w+)\s+(?:is|gets|say|choose|should\s+be))?(?:\s+an?)?)'
)
_EDGE = r'[\W_]{0,12}'
_WORD = re.compile(
    r'\b(?P<word>incorrect|correct|wrong|right|(?<=answered\s)(?:in)?correctly|(?<=answer\s)(?:in)?correctly)\b(?!-)',
    re.IGNORECASE,
)
_LIKENESS = re.compile(
    r'\b(?P<word>equivalent|match(?:es)?)\b(?=\s*(?:[.!]|\Z)|\s+the\s+(?:gold|reference|correct|standard|expected|target)\b(?!.*\bbut\b))',
    re.IGNORECASE,
)
_A_THING = re.compile(
    r'\s+(?:answer|option|choice|response|solution|value|result|one|number|letter|statement|format|side|hand|unit|way)s?\b'
)
"""Nouns that make a preceding `correct` describe something else: `the correct answer is 4`."""
_IS_ONE = re.compile(r"\b(?:is|was|gives?|gave|be)(?:\s+not|n['’]t)?(?:\s+indeed)?\s+(?:a|the)\s+$", re.IGNORECASE)
_NEGATION = re.compile(
    r"(?:\b(?:not|never|nothing|neither|nor|hardly|cannot|far\s+from|by\s+no\s+means|anything\s+but|fails?\s+to|no\s+longer)\b|n['’]t\b)(?!\s+only\b)"
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
_ASSIGNS = '(?:评为|判为|判定为|判断为|评级为?|等级为?|结论[是为]?|判断(?:结果)?[是为]?|评判结果[是为]?)'
_CHINESE = re.compile(
    '(?P<right>没有?(?:任何|什么)?(?:错误|错|问题)|无误)'
    '|(?P<wrong>(?:不|并不|并非|不能算|算不上|未能?|没有?)(?:完全)?(?:正确|对|一致|符合|相符|等价)|错误|错了|有误|答错)'
    '|(?:正确|一致|相符|等价|答对|对的)(?!的?(?:答案|选项|结果|值|做法))'
)
_FIELD = re.compile(
    r'(?:["\'](?:(?:is_?|answer_)?correct(?:ness)?'
    r'|(?:final[_ ])?(?:verdict|grade|judge?ment|decision|label|result))["\']\s*:'
    r'|^[^\w\n]{0,8}(?:is[_ ]?|answer[_ ]|is it )?correct[*_`"]{0,3}\s?[:=?][*_`]{0,3})'
    r'\s*["\']?(?P<value>true|false|yes|no|[01](?![\w.])|(?-i:[A-Z])(?!\w)|correct|incorrect)["\']?[*_`.]{0,3}\s*(?=[,}\n]|\Z)',
    re.IGNORECASE | re.MULTILINE,
)
_GOOD, _BAD = ('true', 'yes', '1', 'correct'), ('false', 'no', '0', 'incorrect')
_CONCLUDING = re.compile(
    r'\b(?:so|thus|therefore|hence|overall|conclusion|finally|verdict|in\s+short)\b', re.IGNORECASE
)
_SENTENCE = re.compile(r'[^.!?。！？\n]+[.!?。！？]*')
_CONTEXT = 120
_PIECE = 200
_MOST = 20_000
"""Characters that are read of a long reply: as many from its end, and its beginning."""
_SHORT = 2000
"""Characters of a reply in which a letter that is merely mentioned may be the verdict."""


def verdict_in(text: str, true_tag: str, false_tag: str) -> bool | None:
    """Whether the text says right or wrong; None if it says neither or both.

    >>> [verdict_in(text, 'A', 'B') for text in ('Grade: **B**', 'INCORRECT: A student would know.', 'A or B')]
    [False, False, None]
    """
    plainly = normalize('NFKC', extract_non_reasoning_content(text))
    if len(plainly) > _MOST:
        plainly = f'{plainly[:_PIECE]}\n{plainly[-_MOST:]}'
    plainly = re.sub(r'</?[a-z_]{1,20}>', ' ', plainly)
    for verdict in (
        _find_last_line(plainly, true_tag, false_tag),
        _find_field(plainly, true_tag, false_tag),
        _find_first_line(plainly, true_tag, false_tag),
        _find_chinese(plainly, true_tag, false_tag),
        _find_last_tag(plainly, true_tag, false_tag),
        _find_agreement(_find_statements(plainly, _WORD)),
    ):
        if verdict is not None:
            return verdict
    if _WORD.search(plainly):
        return None
    if (like := _find_agreement(_find_statements(plainly, _LIKENESS))) is not None:
        return like
    if len(plainly) > _SHORT or re.search(_OTHERS, plainly, re.IGNORECASE) or max(len(true_tag), len(false_tag)) > 1:
        return None
    return _find_only_letter(plainly, true_tag, false_tag)


def _find_field(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The verdict in a field of a JSON object; the last one counts."""
    words = {**dict.fromkeys(_GOOD, True), **dict.fromkeys(_BAD, False), 'c': False}
    words |= {false_tag.lower(): False, true_tag.lower(): True}
    verdicts = [words[value] for field in _FIELD.finditer(text) if (value := field['value'].lower()) in words]
    return verdicts[-1] if verdicts else None


def _tags(true_tag: str, false_tag: str) -> tuple[dict[str, bool], str, str]:
    """What each tag means, a pattern for a tag, and one for a tag with its label."""
    words = {'CORRECT': True, 'INCORRECT': False, **dict.fromkeys(_NEITHER, False), false_tag: False, true_tag: True}
    tags = '|'.join(map(re.escape, sorted(words, key=len, reverse=True)))
    again = rf'(?:{_EDGE}(?-i:(?P<again>{tags})|not[ _]attempted))?'
    return words, tags, rf'{_EDGE}(?:{_LABEL})?{_EDGE}(?-i:(?P<x>{tags})){again}'


def _find_last_line(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The verdict on a last line or in a last sentence of its own; what is quoted above does not count."""
    words, tags, grade = _tags(true_tag, false_tag)
    if match := re.fullmatch(rf'\W*(?:answer|我?选择?)\W*(?P<x>{tags})\W*', text, re.IGNORECASE):
        return words.get(match['x'].upper())
    line = _capitalise_lone_tag(_trim_to_word(text)).rpartition('\n')[2][-_PIECE:]
    concluded = re.findall(r'\b(?:so|therefore|thus|hence)\b.{0,60}\Z', line, re.IGNORECASE)
    for ending in (line, re.split(r'[.!?]\s+', line)[-1], *concluded):
        if match := re.fullmatch(grade, ending, re.IGNORECASE):
            return _agree(match, words)
    return None


def _find_first_line(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The verdict that a reply begins with."""
    words, _, grade = _tags(true_tag, false_tag)
    match = re.match(rf'{grade}(?:[*_`"\')\]]*\s*(?:\n|[.:;,)]|\s[-–—]|\Z))', text[:_PIECE], re.IGNORECASE)
    return _agree(match, words) if match else None


def _agree(match: re.Match[str], words: Mapping[str, bool]) -> bool | None:
    """The verdict of `A (CORRECT)`; `A/B` is none."""
    verdict = words[match['x']]
    return verdict if match['again'] is None or words[match['again']] is verdict else None


def _trim_to_word(text: str) -> str:
    """The text up to its last letter or digit."""
    end = len(text)
    while end and not text[end - 1].isalnum():
        end -= 1
    return text[:end]


def _capitalise_lone_tag(text: str) -> str:
    """A reply that is nothing but a letter or a word, in capitals."""
    return text.upper() if re.fullmatch(r'[\W_]*(?:[a-z]|(?:in)?correct)[\W_]*', text, re.IGNORECASE) else text


def _find_chinese(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The tag that a Chinese reply assigns, or else what it calls the answer; None if it says both."""
    assigned = re.findall(
        rf'{_ASSIGNS}[^\w\n]{{0,4}}({re.escape(true_tag)}|{re.escape(false_tag)}|C)(?![A-Za-z])', text
    )
    if assigned:
        return bool(assigned[-1] == true_tag)
    verdicts = {phrase['wrong'] is None for phrase in _CHINESE.finditer(text)}
    return verdicts.pop() if len(verdicts) == 1 else None


def _find_last_tag(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The last tag that is named, where tags are whole words (`YES`, `NO`)."""
    if min(len(true_tag), len(false_tag)) < 2:
        return None
    named = re.findall(rf'\b(?:{re.escape(true_tag)}|{re.escape(false_tag)})\b', text)
    return bool(named[-1] == true_tag) if named else None


def _find_only_letter(text: str, true_tag: str, false_tag: str) -> bool | None:
    """The one letter that a reply names; None if it names two."""
    tags = list(dict.fromkeys((true_tag, false_tag, 'C')))
    tag = option_in(text, tags)
    other = option_in(re.sub(rf'\b{re.escape(tag)}\b', ' ', text), tags) if tag else ''
    return tag == true_tag if tag and not other else None


def _find_statements(text: str, word: re.Pattern[str]) -> Iterator[tuple[bool, bool]]:
    """Whether each statement says right, and whether it is a conclusion."""
    for sentence in _SENTENCE.findall(text):
        if sentence.rstrip().endswith(('?', '？')):
            continue
        for match in word.finditer(sentence):
            before, after = sentence[max(0, match.start() - _CONTEXT) : match.start()], sentence[match.end() :]
            if _PARTLY.search(before) or _BUT.match(after) or (_A_THING.match(after) and not _IS_ONE.search(before)):
                continue
            right = match['word'].lower() not in ('incorrect', 'incorrectly', 'wrong')
            yield right != bool(_NEGATION.search(before)), bool(_CONCLUDING.search(before))


def _find_agreement(statements: Iterator[tuple[bool, bool]]) -> bool | None:
    """What all statements say, or else what all conclusions say."""
    stated = list(statements)
    for verdicts in ({right for right, _ in stated}, {right for right, concluded in stated if concluded}):
        if len(verdicts) == 1:
            return verdicts.pop()
    return None
