"""Read which of two answers a judge prefers: the first, the second, or neither.

The strongest evidence counts: a verdict in brackets (`[[A]]`, `[[A>>B]]`), a field of JSON (`"choice": "B+"`), a
labelled choice (`Winner: B`, `选择：A`), a reply or a line that is only a verdict, a bare relation (`A > B`), and last
statements (`Assistant A is better`, `回答2更好`). Where evidence of one strength disagrees, the last line decides
if it names one side only; otherwise there is no verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal
from unicodedata import normalize

from rolecall.scoring.postprocess.freeform import extract_non_reasoning_content

Side = Literal['first', 'second', 'tie']


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


_NOUN = r'(?:assistant|model|response|answer|output|candidate|reply|option|system|助手|模型|回答|答案|回复|选项)'
_TIE = r'tie(?:d)?|draw|equal|both|neither|平局|平手|平|持平|打成平手|相同|一样好?|不分上下|旗鼓相当|难分伯仲'
_SIDE = rf'(?:(?i:{_NOUN})[\s_#:"(-]{{0,3}})?(?:[AB12mM]|[ab](?=\))|一|二|first|second)(?![A-Za-z0-9])'
_ONE = rf'(?:{_SIDE}|[Cc](?![A-Za-z0-9])|(?i:{_TIE})(?![a-z])[^\n]{{0,20}})'
_RELATION = r'[AB]\s*(?:>{1,3}|<{1,3}|={1,2}|≫|≪)\s*[AB]'
_BRACKETS = re.compile(
    r'\[\[\s*(?P<x>[^\[\]\n]{1,40}?)\s*\]\]|\\boxed\{(?:\\text\{)?(?P<y>[^{}\n]{1,40})\}', re.IGNORECASE
)
_FIELD = re.compile(
    r'["\'](?:final[_ ])?(?:choice|winner|verdict|preference|preferred|better|best|decision|judge?ment|result)'
    r'(?:[_ ](?:model|answer|response|assistant))?["\']\s*:\s*["\']?(?P<x>[^"\'\n,}]{1,40})',
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r'(?:\b(?:final\s+)?(?:choice|winner|verdict|preference|decision|judge?ment|conclusion)\b(?:\s+is)?'
    r'|选择|最终判断(?:结果)?|判断结果|最终结论|结论|胜者|获胜者|更好的(?:回答|答案|模型|回复)|better\s+(?:answer|response|one)|better(?=:))'
    rf'(?:\s*[是为]|\s+is)?[\s:：*"“\'(\[]{{0,6}}(?P<x>{_RELATION}|{_ONE})',
    re.IGNORECASE,
)
_LONE = re.compile(rf'[\W_]*(?P<x>{_ONE}|[AB]\+{{1,2}})[\W_]*')
_BARE = re.compile(rf'(?<![\w<>=]){_RELATION}(?![\w<>=])')
_MUCH = (
    r'(?:\s+(?:is|was|are|seems?|gives?|provides?|offers?|clearly|slightly|much|significantly|far|overall|the|a|an'
    r'|marginally|somewhat|definitely))'
)
_BETTER = (
    r'(?:better|superior|stronger|preferable|preferred|winner|wins?|won|best|outperforms|stands\s+out'
    r'|更好|更优|更佳|更胜一筹|胜出|获胜|完胜|优于|好于|略好|略优|明显更好)'
)
_STATEMENT = re.compile(
    rf'(?P<x>{_NOUN}[\s_#"“*-]{{0,3}}[AB12一二](?![A-Za-z0-9])|(?:the\s+)?(?:first|second)(?:\s+{_NOUN}|\s+one)'
    rf'|第[一二]个(?:{_NOUN})?|前者|后者|(?<![A-Za-z\'’])[AB](?=\s+(?:is|was|wins|won|gives|clearly|slightly|much)\b|\s*(?:更|胜|优)))'
    rf'["”*]{{0,3}}(?:{_MUCH}|[^\w\s.!?。！？；;]|\s|的|表现|回复|回答|明显|略微?|稍微?|整体|要|质量){{0,8}}(?P<better>{_BETTER})',
    re.IGNORECASE,
)
_PREFER = re.compile(
    rf'\b(?:prefer|choose|pick|favou?r|select|go\s+with)\s+(?:the\s+)?(?P<x>{_SIDE}(?:\s+{_NOUN})?)', re.IGNORECASE
)
_EQUAL = re.compile(
    r'\b(?:a\s+(?:tie|draw)\b|equally\s+(?:good|bad|strong|weak|helpful)|neither\s+[^.\n]{0,20}\bbetter\b|of\s+equal\s+quality)'
    r'|平局|平手|不分上下|旗鼓相当|难分伯仲|不相上下|一样好|同样好',
    re.IGNORECASE,
)
_NEGATED = re.compile(
    r"(?:\bnot\b|n['’]t\b|\bhardly\b|\bif\b|\bwhether\b|不是|并非|并不|未必|是否|如果)[^.\n。]{0,20}$", re.IGNORECASE
)
_CONCLUDING = re.compile(
    r'\b(?:overall|therefore|thus|hence|so|finally|in\s+conclusion|in\s+summary|to\s+sum)\b|综上|总之|综合(?:来看)?|因此|所以|总体|最终',
    re.IGNORECASE,
)
_SENTENCE = re.compile(r'[^.!?。！？\n]+[.!?。！？]*')
_MOST = 20_000
"""Characters of a reply that are read, from its end."""


def preference_in(text: str) -> Preference | None:
    """The preference that a judge's reply states; None if it states none, or both.

    >>> [preference_in(reply) for reply in ('My final verdict is: [[A>>B]]', '选择：C', '[[A]] or [[B]]')]
    [Preference(side='first', margin=1.0), Preference(side='tie', margin=None), None]
    """
    plainly = re.sub(r'</?[a-z_]{1,20}>', ' ', normalize('NFKC', extract_non_reasoning_content(text))[-_MOST:])
    for find in (_find_brackets, _find_fields, _find_labelled, _find_lone, _find_bare):
        if found := list(find(plainly)):
            return _settle(found, plainly)
    return _find_statement(plainly)


def _find_brackets(text: str) -> Iterator[tuple[int, Preference]]:
    return _read_all(_BRACKETS, text)


def _find_fields(text: str) -> Iterator[tuple[int, Preference]]:
    return _read_all(_FIELD, text)


def _find_labelled(text: str) -> Iterator[tuple[int, Preference]]:
    return _read_all(_LABELLED, text)


def _find_lone(text: str) -> Iterator[tuple[int, Preference]]:
    """The verdict that is the whole reply, or the last or first line of it."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in (text, *(lines[-1:] + lines[:1] if len(lines) > 1 else [])):
        if (found := _LONE.fullmatch(line[:80])) and len(line) <= 80 and (read := _read_one(found['x'])):
            yield text.find(line), read
            return


def _find_bare(text: str) -> Iterator[tuple[int, Preference]]:
    return _read_all(_BARE, text)


def _read_all(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, Preference]]:
    for found in pattern.finditer(text):
        written = next(filter(None, found.groups()), found.group())
        if (read := _read_one(written)) is not None:
            yield found.start(), read


def _read_one(written: str) -> Preference | None:
    """The preference in a few characters: `A`, `A++`, `B>A`, `Tie`, `Model 2`, `回答1`."""
    plain = written.strip(' \t*_`"“”\'.。:：()')
    if relation := re.fullmatch(r'([AB])\s*([<>=≫≪]{1,3})\s*([AB])', plain, re.IGNORECASE):
        return _read_relation(*relation.groups())
    if graded := re.fullmatch(r'([AB])(\+{1,2})', plain, re.IGNORECASE):
        margin = len(graded[2]) / 2
        return _lean(margin if graded[1].upper() == 'A' else -margin)
    if re.fullmatch(rf'C|(?:{_TIE})(?![a-z]).{{0,20}}', plain, re.IGNORECASE | re.DOTALL):
        return Preference('tie')
    side = _read_side(plain)
    return None if side is None else Preference(side)


def _read_relation(left: str, sign: str, right: str) -> Preference | None:
    if left.upper() == right.upper():
        return None
    if set(sign) == {'='}:
        return _lean(0.0)
    if len(set(sign)) > 1:
        return None
    better = 1.0 if sign[0] in '>≫' else -1.0
    margin = better * (1.0 if len(sign) > 1 or sign in '≫≪' else 0.5)
    return _lean(margin if left.upper() == 'A' else -margin)


def _lean(margin: float) -> Preference:
    return Preference('first' if margin > 0 else 'second' if margin < 0 else 'tie', margin)


def _read_side(written: str) -> Side | None:
    """Which place a name means. A lone `m` is the first and `M` the second, as in AlpacaEval's prompt."""
    if re.fullmatch(r'(?:the\s+)?(?:first|second)\b.*|第[一二]个.*|前者|后者', written, re.IGNORECASE):
        return 'first' if re.match(r'(?:the\s+)?first|第一|前', written, re.IGNORECASE) else 'second'
    name = re.sub(rf'^{_NOUN}[\s_#:"“*(-]{{0,3}}', '', written, flags=re.IGNORECASE)
    sides: dict[str, Side] = {'m': 'first', 'M': 'second', '1': 'first', '2': 'second', '一': 'first', '二': 'second'}
    return sides.get(name) or ('first' if name in 'Aa' and name else 'second' if name in 'Bb' and name else None)


def _settle(found: list[tuple[int, Preference]], text: str) -> Preference | None:
    """What all of them say, or else what those of the last line say."""
    last_line = text.rstrip().rfind('\n') + 1
    for told in ([one for _, one in found], [one for at, one in found if at >= last_line]):
        if told and len({one.side for one in told}) == 1:
            return told[-1]
    return None


def _find_statement(text: str) -> Preference | None:
    """What all statements say, or else what all conclusions say."""
    told = list(_find_statements(text))
    chosen: tuple[Callable[[bool], bool], ...] = (lambda concluded: True, lambda concluded: concluded)
    for keep in chosen:
        sides = {side for side, concluded in told if keep(concluded)}
        if len(sides) == 1:
            return Preference(sides.pop())
    return None


def _find_statements(text: str) -> Iterator[tuple[Side, bool]]:
    """The side that each sentence prefers, and whether it is a conclusion. A side may be less than another, too."""
    for found in _SENTENCE.finditer(text):
        sentence = found.group()
        if sentence.rstrip().endswith(('?', '？')):
            continue
        concluded = bool(_CONCLUDING.search(sentence))
        if (equal := _EQUAL.search(sentence)) and not _NEGATED.search(sentence[: equal.start()]):
            yield 'tie', concluded
        for pattern in (_STATEMENT, _PREFER):
            for one in pattern.finditer(sentence):
                side = _read_side(re.sub(rf'\s+{_NOUN}$', '', one['x'].strip('*"“” '), flags=re.IGNORECASE))
                if side is not None and not _NEGATED.search(sentence[: one.start()] + one.group()):
                    yield side, concluded
