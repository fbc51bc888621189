r"""Which of the places that could give an answer counts: one order for options, numbers, expressions and texts.

0. The form that the prompt asks for, unless the reply takes it back.
1. A declared form (a field of an object, `####`, `\boxed{…}`, `【答案】`, `[Yes]`) or a statement (`the answer is …`,
   `Wait, no: …`), whichever comes last.
2. A reply, or its first or last line, that is nothing but an answer.
3. What the reply concludes (`so C`, a verdict on one option, the result in the last sentence).
4. Anything else: inferred, without credit.

Of a base model's reply only the part before its next question is read. A statement that leaves several answers open is
settled by what follows it, or not at all.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol, TypeVar

from rolecall.scoring.readers.cues import CUES, Finder
from rolecall.scoring.readers.reading import Candidate, Certainty, Page, Reading
from rolecall.scoring.texts import find_boxes

_BETWEEN = re.compile(r'\}[\s$]*(?:\\q?quad\s*)?(?:,|\\text\{\s*(?:and|or)\s*\}|and|or)[\s$]*(?:\\q?quad\s*)?\\boxed\{')
"""Between two boxes that are one answer."""
_BRACKET = re.compile(r'[\[\]{}]')
_HASHES = re.compile(r'^[ \t*]*####(?!#)[ \t]*', re.MULTILINE)
_BRACKETED = re.compile(
    r'(?:\[x\]|☑)\s*|【\s*(?:[^【】\n]{0,6}(?:答案|正解|정답)[^【】\n]{0,4})】[:\s]*|\[\[|【(?=[^【】\n]{1,40}】)|\[(?=[^\[\]\n]{2,20}\](?!\())'
    r'|\[\s*(?:final\s+)?answer\s*\]\s*:?\s*',
    re.IGNORECASE,
)
_BOLD_LINE = re.compile(r'^[ \t]*\*\*[^*\n]{1,30}\*\*[ \t]*$', re.MULTILINE)
_WINDOW, _TAIL = 600, 6000
"""Characters that are searched for statements at once, and for conclusions at all, from the end."""
_BRIEF = 12
"""Characters of a last sentence that is nothing but an option."""
_MOST_FORMS, _MOST_STATEMENTS = 20, 200
"""Places of one kind that are looked at, from the end."""


_T = TypeVar('_T')


class Family(Protocol):
    """A kind of answer: where it can be in a part of a page."""

    cues: str
    """What stands before an answer of this kind, by the name of a finder of `Cues`."""
    chooses: bool
    """Whether `matches …` and `leaves …` give an answer."""

    def declared(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer that a declared form holds."""

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer that stands behind `the answer is`."""

    def heads(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer that a line behind `####` begins with."""

    def precedes(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer that stands before `is the answer`."""

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer, if the part is nothing else."""

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        """The answer that a reply begins with, or that stands directly behind `Wait, no:`."""

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        """The answer that a part comes to."""

    def mentions(self, page: Page, start: int, end: int) -> list[Candidate]:
        """What could be an answer, if nothing states or concludes one."""

    def rivals(self, page: Page, start: int, end: int) -> list[Candidate]:
        """Everything in a part that looks like an answer."""


class _Evidence(NamedTuple):
    place: int
    rule: str
    certainty: Certainty
    candidate: Candidate


def read_reply(reply: str, family: Family, forms: Sequence[str] = ()) -> Reading | None:
    """The answer in a reply; None if nothing in it could be one. `forms` are those that the prompt asks for."""
    page = Page(reply)
    guess = None
    for start, end in page.scopes():
        evidence = _asked(page, family, forms, start, end) or _decide_first(page, family, start, end)
        if evidence is not None:
            reading = _make_reading(page, family, evidence, start, end)
            if reading.certainty != 'inferred':
                return reading
            guess = guess or reading
    return guess


def _asked(page: Page, family: Family, forms: Sequence[str], start: int, end: int) -> _Evidence | None:
    """The last answer in the form that the prompt asks for, or what the reply states after it."""
    places = ((page.low.rfind(form, start, end), form) for form in forms)
    for at, form in sorted(((at, form) for at, form in places if at >= 0), reverse=True):
        begin, stop = _value_span(page.raw, page.strip_raw(at + len(form), end)[0], end)
        if form.endswith('>') and form.startswith('<'):
            stop = max(begin, page.low.find('</', begin, end)) if '</' in page.low[begin:end] else stop
        candidate = family.declared(page, begin, stop)
        if candidate is not None and candidate.value is not None:
            since = candidate.end
            later = (*_declared(page, family, since, end), _correction(page, family, since, end))
            own = _Evidence(at, 'asked form', 'stated', candidate)
            return max(filter(None, (own, *later, _statement(page, family, since, end))), key=lambda form: form.place)
    return None


def _decide_first(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    """What the reply comes to before its last asides, if it states or concludes something there; else in all of it."""
    whole = _decide(page, family, start, end)
    main = page.main_end(start, end)
    if main == end or (whole and (whole.place < main or whole.rule in _FORMS)):
        return whole
    evidence = _decide(page, family, start, main)
    sentence = page.sentence_start(evidence.candidate.start, start) if evidence else start
    if evidence is None or evidence.candidate.value is None or CUES.condition.match(page.low, sentence):
        return whole
    aside = page.text[main:end].lstrip()[:1] == '(' or CUES.note.search(page.low, main, end)
    supposed = whole is None or CUES.hypothesis.search(
        page.low, page.sentence_start(whole.candidate.start, main), whole.candidate.start
    )
    settled = (
        aside
        or supposed
        or evidence.certainty == 'stated'
        or CUES.concludes.find(page, sentence, evidence.candidate.start)
    )
    stronger = (
        settled
        and evidence.certainty != 'inferred'
        and not (whole and whole.certainty == 'stated' and evidence.certainty != 'stated')
    )
    return evidence if stronger or whole is None or whole.certainty == 'inferred' else whole


def _decide(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    field = _last(_fields(page, family, start, end))
    if field is not None:
        return field
    statement = _statement(page, family, start, end)
    since = statement.place if statement else start  # what stands before it does not count
    final = _final_line(page, family, since, end)
    forms = (*_declared(page, family, since, end), _correction(page, family, since, end), final, statement)
    evidence = max(filter(None, forms), key=lambda form: form.place, default=None)
    if evidence is not None and evidence.candidate.value is not None:
        return _correct(page, family, evidence, start, end)
    since = evidence.candidate.end if evidence else start
    weaker = None if evidence else _alone(page, family, start, end)
    if weaker is None and (concluded := family.concludes(page, max(since, end - _TAIL), end)):
        weaker = _Evidence(concluded.start, 'conclusion', 'concluded', concluded)
    if (
        weaker
        and weaker.certainty == 'concluded'
        and weaker.candidate.value
        and _is_refused(page, family, weaker.candidate, end)
    ):
        weaker = weaker._replace(candidate=Candidate(None, weaker.candidate.start, weaker.candidate.end))
    if weaker is not None and weaker.candidate.value is not None:
        return _correct(page, family, weaker, start, end) if weaker.rule in ('first line', 'beginning') else weaker
    if evidence or weaker:
        return evidence or weaker
    mentions = family.mentions(page, max(start, end - _TAIL), end)
    return _Evidence(mentions[-1].start, 'mention', 'inferred', mentions[-1]) if mentions else None


def _is_refused(page: Page, family: Family, concluded: Candidate, end: int) -> bool:
    """Whether a reply refuses to answer behind what it seemed to conclude; judges say of replies that they refuse."""
    finder = CUES.ignorant if 'tie' in getattr(family, 'labels', ()) else CUES.refuses
    return finder.find(page, page.sentence_end(concluded.end, end), end) is not None


def _correct(page: Page, family: Family, evidence: _Evidence, start: int, end: int) -> _Evidence:
    """What a reply concludes after it has taken its statement back: `No, that is wrong. It is C.`"""
    cue = CUES.corrects.find(page, evidence.candidate.end, end)
    begin = _skip_signs(page, cue.end(), end) if cue else end
    later = family.concludes(page, max(begin, end - _TAIL), end) if cue else None
    if later and later.start <= begin and not family.leads(page, begin, end, correcting=True):
        return evidence  # all that follows
    return _Evidence(later.start, 'correction', 'concluded', later) if later and later.value else evidence


def _make_reading(page: Page, family: Family, evidence: _Evidence, start: int, end: int) -> Reading:
    chosen = evidence.candidate
    certainty: Certainty = evidence.certainty
    if page.unfinished and evidence.rule not in _FORMS:
        certainty = 'inferred'
    rivals: dict[str, Reading] = {}
    for rival in family.rivals(page, max(start, end - _WINDOW), end):
        if rival.value and rival.value != chosen.value:
            rivals[rival.value] = Reading(rival.value, rival.start, rival.end, 'mention', 'inferred')
    named = tuple(rivals.values())[-_MOST_RIVALS:]
    return Reading(chosen.value, chosen.start, chosen.end, evidence.rule, certainty, named)


_FORMS = ('asked form', 'field', 'hashes', 'box', 'tag', 'brackets')
_MOST_RIVALS = 4


def _latest(places: Iterable[_T]) -> list[_T]:
    """The last places, the last one first."""
    return list(deque(places, maxlen=_MOST_FORMS))[::-1]


def _last(evidence: Iterator[_Evidence]) -> _Evidence | None:
    return max(evidence, key=lambda one: one.place, default=None)


def _fields(page: Page, family: Family, start: int, end: int) -> Iterator[_Evidence]:
    """The last answer that stands in a field of an object."""
    if '{' not in page.raw and '"' not in page.raw:
        return
    for match in _latest(CUES.field.finditer(page.low, start, end)):
        begin, stop = _value_span(page.raw, match.end(), end)
        candidate = family.declared(page, begin, stop)
        if candidate:
            yield _Evidence(match.start(), 'field', 'stated', candidate)
            return


def _value_span(raw: str, start: int, end: int) -> tuple[int, int]:
    """Where a value of an object stands, without its quotes; the object need not be valid."""
    quote = raw[start : start + 1]
    if quote in ('"', "'"):
        closing = re.compile(rf'{quote}(?=\s*(?:[,}}\]]|\n|\Z))').search(raw, start + 1, end)
        return start + 1, closing.start() if closing else end
    if quote and quote in '[{':
        depth = 0
        for bracket in _BRACKET.finditer(raw, start, end):
            depth += 1 if bracket[0] in '[{' else -1
            if not depth:
                return start, bracket.end()
        return start, end
    closing = re.compile(r'[,}\n]').search(raw, start, end)
    return start, closing.start() if closing else end


def unescape_field(value: str) -> str:
    r"""The text of a field of an object, with TeX in it that was not escaped.

    >>> unescape_field(r'\\frac{1}{2}'), unescape_field(r'\frac{1}{2}')
    ('\\frac{1}{2}', '\\frac{1}{2}')
    """
    try:
        text = str(json.loads(f'"{value}"'))
    except ValueError:
        text = ''
    return text if text and text.isprintable() else value.replace('\\\\', '\\').replace('\\"', '"')


def _declared(page: Page, family: Family, start: int, end: int) -> Iterator[_Evidence]:
    """The last answer in each of the forms that declare one."""
    raw, text = page.raw, page.text
    if 'box' in raw:
        boxes = find_boxes(raw, start, end)
        for at, (begin, stop) in _latest(enumerate(boxes)):
            if candidate := family.declared(page, begin, stop):
                while not family.chooses and at and _BETWEEN.fullmatch(raw, boxes[at - 1][1], boxes[at][0]):
                    at -= 1
                    other = family.declared(page, *boxes[at])
                    if other is not None:
                        candidate = Candidate(f'{other.value}, {candidate.value}', other.start, candidate.end)
                yield _Evidence(begin, 'box', 'stated', candidate)
                break
    if '####' in raw:
        for match in _latest(_HASHES.finditer(raw, start, end)):
            line = raw.find('\n', match.end(), end)
            stop = end if line < 0 else line
            if not raw[match.end() : stop].strip():  # the answer stands below the heading
                continue
            candidate = family.heads(page, match.end(), stop)
            if candidate:
                yield _Evidence(match.start(), 'hashes', 'stated', candidate)
                break
    if '<' in raw:
        for match in _latest(CUES.tag.finditer(page.low, start, end)):
            stop = page.low.find('<', match.end(), end)
            span = match.end(), end if stop < 0 else stop
            if candidate := family.declared(page, *span):
                yield _Evidence(match.start(), 'tag', 'stated', candidate)
                break
    if '[' in raw or '【' in raw or '☑' in raw:
        for match in _latest(_BRACKETED.finditer(text, start, end)):
            inside = match[0] in ('[', '[[', '【')
            if match[0] == '[' and not family.chooses:
                continue
            closing = re.compile(r'\]|】|\n').search(text, match.end(), end)
            if match[0] == '[[' and not family.chooses and closing and text[closing.end() : closing.end() + 1] != ']':
                continue  # rows of a matrix
            stop = closing.start() if inside and closing else page.sentence_end(match.end(), end)
            candidate = (family.fills if inside else family.follows)(page, match.end(), stop)
            if candidate:
                line = text.rfind('\n', start, match.start()) + 1
                since = max(line, start, match.start() - _WINDOW)
                for earlier in _BRACKETED.finditer(text, since, match.start()) if inside else ():
                    rival = family.fills(page, earlier.end(), text.find(']', earlier.end(), end))
                    contrast = CUES.contrast.search(page.low, earlier.end(), match.start())
                    if rival and rival.value != candidate.value and not contrast:
                        candidate = Candidate(None, rival.start, candidate.end)
                yield _Evidence(match.start(), 'brackets', 'stated', candidate)
                break


def _statement(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    """The last statement of the reply's own that has an answer behind or before it."""
    conditional: _Evidence | None = None
    for stop, begin, follows in islice(_find_statements(page, family, start, end), _MOST_STATEMENTS):
        sentence = page.sentence_start(begin, start)
        if follows:
            candidate = family.follows(page, stop, end)
            rule = 'statement'
            if candidate and CUES.alternative.search(page.low, max(start, begin - 8), begin):
                candidate = Candidate(None, candidate.start, candidate.end)
            if candidate is None and CUES.refuses.find(page, stop, min(page.sentence_end(stop, end), stop + 40)):
                candidate = Candidate(None, begin, stop)
        else:
            candidate = family.precedes(page, sentence, stop)
            rule = 'is the answer'
        if candidate is None or not _is_own(page, begin, stop if follows else begin, candidate, start, end):
            continue
        evidence = _Evidence(begin, rule, 'stated', candidate)
        if not (family.chooses and CUES.condition.match(page.low, sentence, begin)):
            counts = conditional and not CUES.hypothesis.search(
                page.low, conditional.place, conditional.candidate.start
            )
            return conditional if conditional and counts else evidence
        if conditional is not None and conditional.candidate.value != candidate.value:
            return conditional._replace(candidate=Candidate(None, candidate.start, conditional.candidate.end))
        conditional = conditional or evidence
    if conditional and CUES.refuses.find(page, conditional.candidate.end, end):
        return conditional._replace(candidate=Candidate(None, conditional.candidate.start, conditional.candidate.end))
    return conditional


def _find_statements(page: Page, family: Family, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Where cues end and begin, and whether the answer follows; from the end, a window at a time."""
    low = page.low
    finder: Finder = getattr(CUES, family.cues)
    while end > start:
        begin = max(start, end - _WINDOW)
        cues = [(match.end(), match.start(), True) for match in finder.find_all(page, begin, end)]
        for match in CUES.is_the_answer.find_all(page, begin, end) if family.cues != 'grades' else ():
            if is_ := CUES.before_the_answer.search(low, max(start, match.start() - 60), match.start()):
                cues.append((match.start(), is_.start(), False))
        yield from sorted(cues, reverse=True)
        end = begin


def _is_own(page: Page, cue: int, cue_end: int, candidate: Candidate, start: int, end: int) -> bool:
    """Whether a statement is the reply's own: not a question, a condition, or the opinion of others."""
    begin = page.sentence_start(cue, start)
    if CUES.others.find(page, page.clause_start(cue, max(begin, cue - 120)), cue_end):
        return False
    stop = page.sentence_end(candidate.end, end)
    return not (page.text[stop : stop + 1] in ('?', '？') and stop - candidate.end < 60) or stop >= end - 2


def _correction(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    """What a reply corrects itself to, directly behind `wait`, `actually`, `no,`."""
    for match in _latest(CUES.corrects.find_all(page, start, end)):
        stop = page.sentence_end(match.end(), end)
        begin = _skip_signs(page, match.end(), stop)
        for again in CUES.concludes.find_all(page, begin, min(stop, begin + 12)):
            begin = again.end() if again.start() <= begin + 1 else begin
        candidate = family.leads(page, begin, end, correcting=True)
        if candidate and candidate.value is not None and page.text[start : match.start()].strip():
            return _Evidence(match.start(), 'correction', 'stated', candidate)
    return None


def _skip_signs(page: Page, start: int, end: int) -> int:
    """Where something begins that can be an answer."""
    while start < end and not page.text[start].isalnum() and page.text[start] not in '([$\\"\'“-':
        start += 1
    return start


def _final_line(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    """A last line that is nothing but an answer and announced by a colon, or a last sentence that is only an option."""
    begin, stop = page.strip(start, end, ' \t\r\n')
    line = page.text.rfind('\n', begin, stop) + 1
    above = page.text[max(begin, line - 80) : line].rstrip()
    if line > begin and above[-1:] in (':', '：') and (candidate := family.fills(page, line, stop)):
        return _Evidence(line, 'last line', 'stated', candidate)
    sentence = page.last_sentence(begin, stop)
    ended = page.text[sentence[1] : stop].strip() or sentence[1] - sentence[0] < 4
    brief = family.chooses and ended and sentence[0] > line + _BRIEF and sentence[1] - sentence[0] < _BRIEF
    if brief and (candidate := family.fills(page, *sentence)):
        return _Evidence(sentence[0], 'last sentence', 'stated', candidate)
    return None


def _alone(page: Page, family: Family, start: int, end: int) -> _Evidence | None:
    """A reply, or its last or first line, that is nothing but an answer; or one that begins with it."""
    begin, stop = page.strip(start, end, ' \t\r\n')
    line_begin = page.text.rfind('\n', begin, stop) + 1
    line_end = page.text.find('\n', begin, stop)
    spans = [('reply', begin, stop)]
    if line_begin > begin:
        spans += [('last line', line_begin, stop)]
        spans += [('first line', begin, line_end)] * (page.text[line_end - 1] != ':')  # not a heading
    for rule, first, last in spans:
        if candidate := family.fills(page, first, last):
            return _Evidence(candidate.start, rule, 'stated', candidate)
    if candidate := family.leads(page, begin, stop):
        return _Evidence(candidate.start, 'beginning', 'stated', candidate)
    sentence = page.last_sentence(begin, stop)
    ended = page.text[sentence[1] : stop].strip()
    whole = ended or sentence[1] - sentence[0] < 5
    candidate = (family.fills(page, *sentence) or family.leads(page, sentence[0], stop)) if whole else None
    if candidate:
        return _Evidence(candidate.start, 'last sentence', 'stated', candidate)
    for line in _latest(_BOLD_LINE.finditer(page.raw, start, end)):
        if candidate := family.fills(page, *line.span()):
            return _Evidence(candidate.start, 'emphasised line', 'stated', candidate)
    return None
