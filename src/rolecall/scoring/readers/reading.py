"""What is read from a reply: a `Reading` says which characters it stands on, by which rule, and how sure it is.

A `Page` is a reply made easy to search: emphasis is blanked, wide signs are narrow, and every character keeps its
place, so that positions in a page are positions in the stored reply.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES, WORD

Certainty = Literal['stated', 'concluded', 'inferred']

_NARROW = {0xFF01 + sign: 0x21 + sign for sign in range(94) if chr(0xFF01 + sign) not in '！？；，'}
_NARROW |= str.maketrans('−\u00a0\u2009\u202f　｡\t', '-    。 ') | str.maketrans('„“”«»「」『』‘’', '"' * 9 + "''")
_NARROW |= dict.fromkeys((*range(0x200B, 0x2010), *range(0x2060, 0x2065), 0xFEFF), 0x20)  # invisible ones
_WIDE = compile_late(f'[{re.escape("".join(map(chr, _NARROW)))}]')
_MARKUP = compile_late(
    r'\*\*(?:(?<![0-9A-Za-z)]\*\*)|(?![0-9A-Za-z(]))|\*(?:(?<!\w\*)(?=\w)|(?<=\w\*)(?!\w))|`{1,3}(?:json)?'
    r'|__(?:(?<!\w__)|(?!\w))|_(?:(?<![\w\]})]_)(?=\w)|(?<=[\w:.]_)(?!\w))|~~[^~\n]{1,80}~~|\\[,;!](?!\d)'
    r'|\\(?:text|textbf|textit|mathrm|mathbf|mathsf|displaystyle|bf|rm)(?![a-z])\s?\{?'
    r'|</?(?:b|strong|em|i|u|p|br|span|div|code|font|mark|center|h[1-6]|ul|ol|li|table|t[dhr]|tbody)(?:\s[^<>\n]{0,80})?/?>'
)
"""What is blanked, each beginning with its own sign, so that the search skips to it."""
_ACCENTED = compile_late('[äöüßñçàâèéêìíòóôùúãõ]')
_BLOCK = 600
"""Characters whose words are listed at once."""
_SENTENCE_END = compile_late(
    r'[\n。！？；.!?;](?<!;(?=\s?[-+]?[\w∞√/]{1,8}\s?[\])}]))(?:(?<=[\n。！？；])|(?!(?<=\d!)\s[a-z])(?=["\'”’)\]*}]{0,4}(?:\s|$))'
    r'(?<!\bi\.e.)(?<!\be\.g.)(?<!\b[RrMD][srS].)(?<!\bMrs.)(?<!\bvs.)(?<!\bSt.)(?<!approx.))'
)
_SPECIAL = compile_late(r'<\|(?:im_start|im_end|end|eot)|</s>')
_SUMS = compile_late(r'[-$]?[\d.,]{1,12}(?=\n[^\n]{1,60}=\s?\?)')
"""An answer in front of the next sum of a base model."""
_LONGEST_SENTENCE = 400
_LATELY = 6000
_FULL_STOP = compile_late(r'[^\s*(][^\s*(][.!?]\Z|[。！？]\Z')
"""Behind more than one letter, which could be the name of an option."""


def narrow(text: str) -> str:
    """A text with narrow signs, straight quotes and no invisible signs; every character keeps its place."""
    return text if text.isascii() else _WIDE.sub(lambda sign: chr(_NARROW[ord(sign[0])]), text)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible answer and its place; without a value, a place that leaves several open."""

    value: str | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The answer taken from a reply.

    *stated*: a declared form, `the answer is C`, a reply or line that is only the answer. *concluded*: `so C`, the
    result in the last sentence. *inferred*: anything else, which gets no credit.
    """

    value: str | None
    """None where the reply leaves several answers open."""
    start: int
    end: int
    rule: str
    certainty: Certainty
    rivals: tuple[Reading, ...] = ()
    """What else was in the running."""

    @property
    def counts(self) -> bool:
        """Whether the reply states or concludes this answer."""
        return self.value is not None and self.certainty != 'inferred'

    @property
    def why_not(self) -> str:
        """Why this gets no credit; empty if it does."""
        if self.value is None:
            return 'the reply leaves several answers open.'
        return '' if self.counts else f'the reply states no answer; {self.value!r:.60} is merely inferred.'

    @property
    def place(self) -> list[Any]:
        """How a run stores it: start, end, rule, certainty, and the values of the rivals."""
        return [
            self.start,
            self.end,
            self.rule,
            self.certainty,
            *([[rival.value for rival in self.rivals]] * bool(self.rivals)),
        ]

    def moved(self, offset: int) -> Reading:
        """The reading in a text of which this one begins at `offset`."""
        if not offset:
            return self
        rivals = tuple(rival.moved(offset) for rival in self.rivals)
        return replace(self, start=self.start + offset, end=self.end + offset, rivals=rivals)


class Page:
    """A reply, with its reasoning left out of `start` to `end`."""

    __slots__ = (
        '_blocks', '_continental', '_own_end', 'end', 'low', 'plain', 'raw', 'signs', 'start', 'text', 'unfinished',
    )  # fmt: skip

    def __init__(self, reply: str) -> None:
        self.raw = reply
        text = narrow(reply)
        self.plain = text  # with its markup
        if '*' in text or '`' in text or '\\' in text or '_' in text or '~~' in text or '<' in text:
            text = _MARKUP.sub(lambda match: ' ' * len(match[0]), text)
        self.text = text
        low = text.lower()
        self.low = low if len(low) == len(text) else ''.join(sign.lower()[:1] for sign in text)
        self._blocks: dict[int, list[tuple[int, str]]] = {}
        self._continental: bool | None = None
        self.signs = frozenset() if self.low.isascii() else self._find_signs()
        start = reply.rfind('</think>') + len('</think>')
        self.start = start if start > 7 and reply[start:].strip() else 0
        self.unfinished = '<think>' in reply and '</think>' not in reply
        self.end = len(reply)
        self._own_end = -1

    def _find_signs(self) -> frozenset[str]:
        letters = frozenset(self.low)
        return frozenset(sign for sign in CUES.signs if sign[0] in letters and sign in self.low)

    @property
    def own_end(self) -> int:
        """Where a base model asks itself the next question; else the end."""
        if self._own_end < 0:
            self._own_end = self._find_next_question()
        return self._own_end

    @property
    def own(self) -> str:
        """The reply without its reasoning, up to the next question."""
        return self.raw[self.start : self.own_end].rstrip()

    def heads(self, start: int, end: int) -> list[tuple[int, str]]:
        """The words of a part that a cue can begin with, with their places."""
        blocks = range(start // _BLOCK, (max(end, 1) - 1) // _BLOCK + 1)
        cached = self._blocks
        words = [word for block in blocks for word in (cached[block] if block in cached else self._list_heads(block))]
        return words[bisect_left(words, (start,)) : bisect_left(words, (end,))]

    def _list_heads(self, block: int) -> list[tuple[int, str]]:
        begin, low, heads = block * _BLOCK, self.low, CUES.heads
        before = WORD.match(low, begin - 1) if begin else None  # a word that begins in the block before
        words = WORD.finditer(low, before.end() if before else begin, begin + _BLOCK + 60)
        self._blocks[block] = marks = [(match.start(), match[0]) for match in words if match[0] in heads]
        while marks and marks[-1][0] >= begin + _BLOCK:
            marks.pop()
        return marks

    @property
    def continental(self) -> bool:
        """Whether the reply is in a language that writes `12.500,50`."""
        if self._continental is None:
            words = set(WORD.findall(self.low, 0, 10 * _BLOCK))
            foreign = len(words & CUES.continental) + bool(_ACCENTED.search(self.low, 0, 10 * _BLOCK))
            self._continental = foreign > len(words & CUES.english)
        return self._continental

    def scopes(self) -> Iterator[tuple[int, int]]:
        """The reply up to the next question that a base model asks itself, then all of it."""
        yield self.start, self.own_end
        if self.own_end < self.end:
            yield self.start, self.end

    def main_end(self, start: int, end: int) -> int:
        """Where a part ends without what follows its result: brackets, `If it were 5, …`, `Let me know …`."""
        start = max(start, end - _LATELY)
        end = self._note_start(start, end)
        while True:
            begin, stop = self.last_sentence(start, end)
            opened = self.text.rfind('\n(', start, stop), self.text.rfind('. (', start, stop) + 1
            bracket = max(opened) if self.text[stop - 1 : stop] == ')' else -1
            if start < bracket and ')' not in self.text[bracket : stop - 1]:
                end = bracket
            elif begin <= start or not self.is_aside(begin, stop):
                return end
            else:
                end = begin

    def _note_start(self, start: int, end: int) -> int:
        """Where the first closing note begins (`Check: …`) behind which nothing is concluded or stated."""
        notes = [match.start() for match in CUES.note.finditer(self.low, start + 1, end)]
        if not notes:
            return end
        finders = CUES.concludes, CUES.corrects, CUES.states
        last = max((match.start() for finder in finders for match in finder.find_all(self, notes[0], end)), default=0)
        return next((note for note in notes if note > last), end)

    def is_aside(self, begin: int, stop: int) -> bool:
        """Whether a sentence closes a reply, supposes something, or compares, and concludes nothing."""
        if CUES.closings.find(self, begin, stop):
            return True
        supposed = CUES.condition.match(self.low, begin, stop) or CUES.hypothesis.search(self.low, begin, stop)
        begun = CUES.asides.find(self, begin, min(stop, begin + 24))
        return bool(supposed or begun) and not CUES.concludes.find(self, begin, min(stop, begin + 24))

    def sentence_end(self, start: int, end: int) -> int:
        """Where the sentence that holds `start` ends."""
        match = _SENTENCE_END.search(self.text, start, min(end, start + _LONGEST_SENTENCE))
        return match.start() if match else min(end, start + _LONGEST_SENTENCE)

    def sentence_start(self, position: int, start: int) -> int:
        """Where the sentence that holds `position` begins."""
        since = max(start, position - _LONGEST_SENTENCE)
        since = max(since, self.text.rfind('\n', since, position))
        begins = start
        for match in _SENTENCE_END.finditer(self.text, since, position + 1):
            begins = match.end() if match.end() <= position else begins
        return begins

    def clause_start(self, position: int, start: int) -> int:
        """Where the clause that holds `position` begins, in its sentence."""
        marks = (',', '，', ';', ':', '. ', '? ', '! ', '。', '\n', ' but ', ' yet ', '但', '—')
        return max([start, *(self.low.rfind(mark, start, position) + 1 for mark in marks)])

    def is_cut(self, end: int) -> bool:
        """Whether a part breaks off: in a long sentence, in one that follows others, or behind a word like `the`."""
        begin, stop = self.last_sentence(self.start, end)
        if self.text[stop : end + 1].strip(' \n*_"\''):
            return False
        follows = begin > self.start and _FULL_STOP.search(self.text, max(self.start, begin - 3), begin) is not None
        return stop - begin > 60 or follows or CUES.breaks_off.search(self.low, max(begin, stop - 20), stop) is not None

    def last_sentence(self, start: int, end: int) -> tuple[int, int]:
        """The last sentence of a part that has a letter or digit."""
        while end > start and (
            self.text[end - 1] in ' \t\r\n.!?。！？*_"\'”’\ufe0f' or self.text[end - 1] >= '\U0001f000'
        ):
            end -= 1
        return self.sentence_start(max(start, end - 1), start), end

    def strip(self, start: int, end: int, signs: str = ' \t\r\n*_"\'“”‘’「」.。,，;；!！:') -> tuple[int, int]:
        """A part without the spaces and signs around it."""
        while start < end and self.text[start] in signs:
            start += 1
        while end > start and self.text[end - 1] in signs:
            end -= 1
        return start, end

    def strip_raw(self, start: int, end: int) -> tuple[int, int]:
        """A part of the reply as it was written, without the white space around it."""
        inner = self.raw[start:end]
        return start + len(inner) - len(inner.lstrip()), max(start, end - len(inner) + len(inner.rstrip()))

    def _find_next_question(self) -> int:
        if '\n' not in self.low and '<' not in self.low:
            return self.end
        begins = self.start + len(self.text[self.start :]) - len(self.text[self.start :].lstrip())
        match = CUES.next_question.search(self.low, begins) if '\n' in self.low else None
        special = _SPECIAL.search(self.low, begins, match.start() if match else self.end) if '<' in self.low else None
        match = special or match
        sums = _SUMS.match(self.text, begins)
        return match.start() if match else sums.end() if sums else self.end
