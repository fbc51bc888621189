"""Which of two answers a judge prefers: `[[A]]`, `[[A>>B]]`, `Output (a) is better.`, `选择：C`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.options import Options
from rolecall.scoring.readers.ranking import read_reply
from rolecall.scoring.readers.reading import Candidate, Page, Reading

Side = Literal['first', 'second', 'tie']

_NOUN = (
    r'(?:assistant|model|response|answer|output|candidate|reply|option|system|text|summary|antwort|réponse|respuesta'
    r'|助手|模型|回答|答案|回复|选项)'
)
_NOUN_BEFORE = re.compile(rf'{_NOUN}\s*\Z')
_SIDES: dict[str, Side] = {
    **dict.fromkeys(
        ('a', '1', '一', 'first', 'former', 'erste', 'erstere', 'première', 'premier', 'primera', '前者', 'm'), 'first'
    ),
    **dict.fromkeys(
        ('b', '2', '二', 'second', 'latter', 'zweite', 'letztere', 'seconde', 'deuxième', 'segunda', '后者', 'M'),
        'second',
    ),
}
_TIE = (
    rf'(?<![a-zà-ÿ])(?:{CUES.any_of("tie")}'
    r'|both(?=\s*(?:[.!\n]|$)|\s+are\s+equally)|neither(?=[^.\n]{0,20}better))(?![a-z])'
)
_NAMED = re.compile(
    rf'(?<![a-z]){_NOUN}[\s_#:"“*(-]{{0,4}}(?P<x>[abm12二]|一(?!样))\)?(?![a-z0-9])'
    rf'|(?<![a-z])(?P<place>first|second|former|latter|erstere|letztere|erste|zweite|première|premier|seconde|deuxième'
    rf'|primera|segunda)(?:(?=[nrs]?\s+{_NOUN}|\s+one|\s+(?:ist?|que)\b)(?:[nrs]?\s+{_NOUN}|\s+one)?|(?=\s*[.!]?\s*\Z))'
    r'|\((?P<paren>[ab])\)(?=\s+(?:is|was|wins))'
    rf'|第(?P<nth>[一二])个(?:{_NOUN})?|(?P<which>前者|后者)|(?P<tie>{_TIE})'
)
_BARE = re.compile(
    r'(?:(?<=[Ss]o )|(?<=[Dd]onc )|(?<=[Hh]ence )|(?<=[Tt]hus )|(?<=[Tt]herefore )|(?<=[Aa]lso )|(?<=daher )|(?<=故)'
    r'|(?<=所以))(?P<so>[AB12])(?=\W{0,4}(?:\Z|\n))'
    r'|(?<![A-Za-z0-9\'’])(?:(?P<said>[AB12])(?=\s+(?:[a-z]+ly\s+)?(?:is|was|wins|won|does|beats|outperforms|edges|surpasses|ist|gewinnt|est|es|more|better|l[\'’])\b'
    r'|\s*(?:[更胜优가이が]|の方|的(?:回答|回复|答案)))'
    r'|(?P<x>[ABC12mM]|[ab](?=\)))\+{0,2}(?![A-Za-z0-9\'’]|\s+[a-z]))'
)
_RELATION = re.compile(
    r'(?P<left>[ABab])(?<![\w<>=].)(?:\s*(?P<sign>>{1,3}|<{1,3}|={1,2}|≫|≪|不如|优于|胜过)\s*(?P<right>[ABab])(?![\w<>=])'
    r'|(?P<plus>\+{1,2})(?![\w+]))'
)
_SIDE = rf'(?:{_NOUN}\s*)?\(?(?<![a-z0-9])(?P<{{}}>[ab12])\)?(?![a-z0-9])(?:[\'’]s(?:\s+{_NOUN})?)?'
_COMPARISON = re.compile(
    rf'{_SIDE.format("left")}(?:的{_NOUN})?(?P<how>\s+(?:[^\s.,;:!?。，；]{{1,40}}\s+){{0,8}}?'
    r'(?:than|als|que|to|over|above|below)\s+(?:the |die |der |la |le |el )?|\s?(?:比|没有|不比)\s?)'
    rf'{_SIDE.format("right")}(?P<more>[^.。，,;；!！\n]{{0,20}})'
)
"""`A is better than B`, `B is inferior to A`, `A比B好`"""
_BETTER = re.compile(r'\b(?:than|als|superior|prefer\w*|rank|above|over|mejor|más|plus|meilleure?|mieux)\b|比')
_WORSE = re.compile(
    r'\b(?:worse|less|fewer|weaker|poorer|inferior|below|schlechter|weniger|schwächer|moins|pire|peor|menos)\b|没有|[差糟弱]'
)
_MORE = re.compile(r'\s+(?:is|was)\s+(?:[a-z]+\s)?more\s|\s+more\s')
"""Behind an answer: `is more detailed`, `I find A more helpful`."""
_RATED = re.compile(
    rf'(?:(?<![a-z]){_NOUN}\s)?(?<![a-z0-9])'
    rf'(?:(?P<x>[ab])|(?<=\w )(?P<y>[12])(?=\W{{0,4}}(?::|gets|scores|-|–|\()))(?![a-z0-9])'
    r'[^\w\n.]{0,6}(?:(?:gets?|scores?|erhält|bekommt|obtient|得|得分)\s?)?(?P<points>\d{1,3}(?:[.,]\d)?)\s?(?:/\s?(?:5|10|100)\b|分|points?|punkte)'
)
"""Ratings by name: `A 7/10, B 4/10`."""
_REASON = re.compile(r'\W*[AB12]\W*(?:\s(?:because|since|weil|da|denn|car|parce|porque)\b|因为)')
_UNCLEAR = re.compile(r"\b(?:not|no|nicht|kaum|pas|never|neither|if|whether)\b|n['’]t\b|不比")


@dataclass(frozen=True, slots=True)
class Preference:
    """The answer that a judge prefers, by the place where it was shown."""

    side: Side
    margin: float | None = None
    """How much better the first one is, where the verdict is graded: 1 (`A>>B`), 0.5, 0, -0.5 or -1."""

    @property
    def share(self) -> float:
        """What the first answer wins: 1, 0, or half of it."""
        return {'first': 1.0, 'tie': 0.5, 'second': 0.0}[self.side]


class Sides(Options):
    """The two answers that a judge compares, and a tie, by their names. A `Family`."""

    def __init__(self) -> None:
        super().__init__(('first', 'second', 'tie'))

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        about = _NAMED.search(page.low, page.clause_start(start - 1, max(0, start - 80)), start)  # `Antwort A ist …`
        return (
            None
            if about or _NOUN_BEFORE.search(page.low, max(0, start - 14), start)
            else super().follows(page, start, end)
        )

    def _is_right(self, page: Page, mention: Candidate, limit: int, end: int) -> bool:
        compared = _COMPARISON.fullmatch(page.low, mention.start, mention.end) is not None
        related = _RELATION.fullmatch(page.text, mention.start, mention.end) is not None
        return compared or related or super()._is_right(page, mention, limit, end)

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        if (concluded := super().concludes(page, start, end)) or page.is_cut(end):
            return concluded
        rated = {
            match['x'] or match['y']: float(match['points'].replace(',', '.'))
            for match in _RATED.finditer(page.low, start, end)
        }
        if len(rated) == 2 and len(set(rated.values())) == 2:
            best = max(rated, key=rated.__getitem__)
            return Candidate(_SIDES[best], *page.last_sentence(start, end))
        praised = [side for side in self._find(page, start, end) if _MORE.match(page.low, side.end, end)]
        return praised[-1] if len({side.value for side in praised}) == 1 else None

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        return super().leads(page, start, end) if correcting or _REASON.match(page.text, start, end) else None

    def _only_one(self, page: Page, start: int, end: int) -> Candidate | None:
        only = super()._only_one(page, start, end)
        return only if only and only.value == 'tie' else None

    def _find(self, page: Page, start: int, end: int, *, head: bool = False) -> Iterator[Candidate]:
        places: dict[int, Candidate] = {}
        for match in _RELATION.finditer(page.text, start, end):
            side = _lean(match)
            if side is not None:
                places[match.start()] = Candidate(side.side, *match.span())
        for match in _NAMED.finditer(page.low, start, end):
            name = match['x'] or match['place'] or match['paren'] or match['nth'] or match['which']
            capital = match['x'] == 'm' and page.text[match.start('x')] == 'M'
            value = 'second' if capital else _SIDES[name] if name else 'tie'
            places.setdefault(match.start(), Candidate(value, *match.span()))
        for match in _BARE.finditer(page.text, start, end):
            if head or match['said'] or match['so']:
                name = match['x'] or match['said'] or match['so']
                side_value: Side = 'tie' if name == 'C' else _SIDES.get(name) or _SIDES[name.lower()]
                places.setdefault(match.start(), Candidate(side_value, *match.span()))
        for match in _COMPARISON.finditer(page.low, start, end):
            how = match['how'] + match['more']
            if _UNCLEAR.search(how) or not (_BETTER.search(match['how']) or _WORSE.search(how)):
                continue
            winner = match['right' if _WORSE.search(how) else 'left']
            places[match.start()] = Candidate(_SIDES[winner], *match.span())
        taken = start
        for at in sorted(places):
            if at >= taken:
                yield places[at]
                taken = places[at].end


def _lean(match: re.Match[str]) -> Preference | None:
    """What a relation (`A>>B`) or a grade (`B+`) says."""
    if match['plus']:
        margin = len(match['plus']) / 2 * (1 if match['left'] == 'A' else -1)
    elif match['left'].upper() == match['right'].upper():
        return None
    elif match['sign'][0] == '=':
        margin = 0.0
    else:
        first = (match['left'].upper() == 'A') == (match['sign'][0] in '>≫优胜')
        margin = (1.0 if match['sign'][:2] in ('>>', '<<') or match['sign'] in '≫≪' else 0.5) * (1 if first else -1)
    return Preference('first' if margin > 0 else 'second' if margin < 0 else 'tie', margin)


_SIDES_FAMILY = Sides()


def read_side(reply: str) -> Reading | None:
    """The preference that a judge's reply states or concludes, with its place."""
    return read_reply(reply, _SIDES_FAMILY)


def preference_in(reply: str) -> Preference | None:
    """The preference that a judge's reply states; None if it states none, or both.

    >>> [preference_in(reply) for reply in ('My final verdict is: [[A>>B]]', '选择：C', '[[A]] or [[B]]')]
    [Preference(side='first', margin=1.0), Preference(side='tie', margin=None), None]
    """
    reading = read_side(reply)
    if reading is None or not reading.counts:
        return None
    graded = _RELATION.search(reply, reading.start, reading.end)
    lean = _lean(graded) if graded else None
    return lean or Preference(reading.value)  # type: ignore[arg-type]
