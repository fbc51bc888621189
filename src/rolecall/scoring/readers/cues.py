"""The words that give an answer away, from `cues.yaml`. All languages are read at once.

A cue is found by the word that it begins with (`str.find` is fast), and then matched in full there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Protocol

import yaml  # type: ignore[import-untyped]

_LETTER = 'a-zà-ÿа-яđ0-9_'
WORD = re.compile(f'[{_LETTER}]{{1,40}}')
_GAP = r'(?:"[^"\n]{0,120}"|\([^()\n]{0,80}\)|[^.!?。！？，\n:=()"]){0,80}?'
_MARK = r'["\'*_)\]}】 ]{0,6}(?:[:=]|-+>|→|[-–—](?= ))'
_CLOSE = r'[\s)\]}】*"\'”’]{0,4}'
_JUDGED = r'(?:\?|[:.]|\s?[-–—]|\|(?:[^|\n]{0,60}\|)?|[^\n→|]{0,40}→)?\s*'
"""Between an option and the verdict on it, in a list or a table."""


def pattern_of(cue: str) -> str:
    """A cue as a regular expression; Latin words are whole words."""
    source = ''.join(
        {' ': r'\s+', '_': r'\w+', "'": "['’]", '(': '(?:', ')': ')', '|': '|', '?': r'\?', '!': '!'}.get(sign)
        or re.escape(sign)
        for sign in cue
    ).replace(r'(?:\?!', '(?!')
    source = source.replace(r'\s+|', r'\s+|').replace(r'\s+)', r'\s+)')
    return source + (rf'(?![{_LETTER}])' if re.search(f'[{_LETTER}](?:[)|]+)?$', cue) else '')


def _heads(cue: str) -> set[str]:
    """The words that a cue can begin with."""
    if not cue.startswith('('):
        return {re.split(r"[ (']", cue, maxsplit=1)[0]}
    depth, parts, part = 0, [], ''
    for at, sign in enumerate(cue):
        depth += (sign == '(') - (sign == ')')
        if depth == 0:
            parts.append(part)
            rest = cue[at + 1 :]
            break
        if sign == '|' and depth == 1:
            parts.append(part)
            part = ''
        elif at:
            part += sign
    return set().union(*(_heads(part) if part.strip() else _heads(rest.lstrip()) for part in parts))


class Finder:
    """Finds the cues of a role on a page, by the words that they begin with."""

    def __init__(self, cues: Iterable[str], behind: str = '') -> None:
        heads: dict[str, list[str]] = {}
        for cue in cues:
            for head in _heads(cue):
                word = WORD.match(head)
                heads.setdefault(word[0] if word else head, []).append(cue)
        patterns = {
            head: re.compile(f'(?:{"|".join(map(pattern_of, group))}){behind}') for head, group in heads.items()
        }
        self._words = {head: pattern for head, pattern in patterns.items() if WORD.match(head)}
        self._signs = {head: pattern for head, pattern in patterns.items() if head not in self._words}

    def find_all(self, page: SearchedPage, start: int, end: int) -> list[re.Match[str]]:
        """Every cue in a part, in order."""
        return sorted(self._find(page, start, end), key=re.Match.start)

    def find(self, page: SearchedPage, start: int, end: int) -> re.Match[str] | None:
        """Any cue in a part."""
        return next(self._find(page, start, end), None)

    def _find(self, page: SearchedPage, start: int, end: int) -> Iterator[re.Match[str]]:
        low, words = page.low, self._words
        for at, word in page.heads(start, end):
            if word in words and (match := words[word].match(low, at, end)):
                yield match
        for head in page.signs & self._signs.keys() if page.signs else ():
            at = low.find(head, start, end)
            while at >= 0:
                if match := self._signs[head].match(low, at, end):
                    yield match
                at = low.find(head, at + 1, end)

    @property
    def heads(self) -> Iterator[str]:
        """What cues begin with: words of letters, and signs (Chinese, arrows)."""
        yield from self._words
        yield from self._signs


class SearchedPage(Protocol):
    """What a finder needs of a page."""

    low: str
    signs: frozenset[str]

    def heads(self, start: int, end: int) -> list[tuple[int, str]]:
        """The words of a part that a cue can begin with, with their places."""


class Cues:
    """The cues of each role."""

    def __init__(self, tables: Mapping[str, Mapping[str, str]]) -> None:
        self.tables = tables
        self.idioms = tuple(self.words('idiom'))

    def words(self, role: str) -> list[str]:
        """What all languages have for a role."""
        return [word for table in self.tables.values() for word in table.get(role, '').splitlines()]

    def any_of(self, role: str) -> str:
        """A regular expression for a role's words."""
        return f'(?:{"|".join(map(pattern_of, self.words(role)))})'

    @cached_property
    def states(self) -> Finder:
        """What stands before an answer: `the answer is`, `Answer:`, `I choose`."""
        is_ = self.any_of('is')
        stated = rf'{_MARK}|{_GAP}(?<![a-zà-ÿ]){is_}(?:{_MARK})?|[^.!?。\n:=,，]{{0,30}}?:'
        return Finder(self.words('answer'), rf'(?![\'’]s)(?:{stated}|(?=\s*\n|\s*[(\[]|\s+[a-z](?![a-z])))')

    @cached_property
    def grades(self) -> Finder:
        """What stands before a judge's verdict: `Grade:`, `the verdict is`. What it says of answers is not one."""
        is_ = self.any_of('is')
        return Finder(
            self.words('grade'), rf'["\'*_)\]}}】 ?]{{0,6}}(?:{_MARK}|\s{is_}(?:{_MARK})?|(?=\s*\n\s*\W*[a-z])|\s)'
        )

    @cached_property
    def of_answers(self) -> tuple[Finder, ...]:
        """What stands before an answer of any kind."""
        return self.states, self.labels, self.chooses

    @cached_property
    def labels(self) -> Finder:
        return Finder(self.words('label'), r'["\'*_)\]}】 ]{0,6}:')

    @cached_property
    def chooses(self) -> Finder:
        return Finder(self.words('choose'), f'(?:{_MARK})?')

    @cached_property
    def matches(self) -> Finder:
        return Finder(self.words('match'), f'(?:{_MARK})?')

    @cached_property
    def is_the_answer(self) -> Finder:
        """What follows an answer: `is the answer`, `makes … the correct choice`."""
        return Finder(self.words('answer'), rf'(?!\s*[:=]|\s*{self.any_of("is")})')

    @cached_property
    def before_the_answer(self) -> re.Pattern[str]:
        """At the end of what stands before `answer` in `C is the answer`."""
        words = 'therefore|thus|indeed|clearly|also|probably|then|final|correct|right|best|better|true|the|my|our|an?'
        adjectives = rf'(?:(?:{words}|most \w+|la|le|el|die|der|das|bonne|richtige)\s+)*'
        return re.compile(
            rf'(?:(?<![a-z]){self.any_of("is")}\s*{adjectives}|(?<![a-z])mak(?:es'
            rf'|ing)\s[^.\n]{{1,30}}the\s+{adjectives}|[是为])\Z'
        )

    @cached_property
    def concludes(self) -> Finder:
        return Finder([*self.words('conclude'), '∴', '⇒', '=>', '→', '👉'])

    @cached_property
    def corrects(self) -> Finder:
        return Finder(self.words('correct'))

    @cached_property
    def denies(self) -> Finder:
        """Before a candidate, up to it: it is not the answer."""
        words = r'be|by|an?|the|at all|really|exactly|entirely|say|think|believe|call|it|it[\'’]s|as|that|very|of|any'
        filler = f'(?:{words})(?![a-z])|{self.any_of("option")}|{self.any_of("is")}'
        return Finder(self.words('deny'), rf'(?:[ \t]*(?:{filler}))*[ \t"\'“‘(\[*-]*\Z')

    @cached_property
    def others(self) -> Finder:
        """Before a statement in its clause: it is not the reply's own."""
        return Finder(self.words('other'))

    @cached_property
    def contrast(self) -> re.Pattern[str]:
        return re.compile(r'(?<![a-z])(?:but|however|yet|aber|jedoch|sondern|mais|pero|sino)(?![a-z])|但|然而')

    @cached_property
    def refuses(self) -> Finder:
        """No answer is given."""
        return Finder(self.words('refuse'))

    @cached_property
    def continental(self) -> frozenset[str]:
        """Words of languages that write a decimal comma, and none of English."""
        tables = [
            table.get('function', '') for name, table in self.tables.items() if name not in ('english', 'chinese')
        ]
        return frozenset(re.findall('[a-zà-ÿ]+', ' '.join(tables)))

    @cached_property
    def english(self) -> frozenset[str]:
        return frozenset(re.findall('[a-z]+', self.tables['english']['function']))

    @cached_property
    def right(self) -> re.Pattern[str]:
        """Behind an option: it is the one."""
        good = r'[✅✓✔☑]|√(?!\s?[\d(])|(?:correct|true|right|yes|works|正确|对)(?![a-z])'
        unless = r'(?!\s+(?:if|only|unless|had|when|or)\b)'
        return re.compile(
            rf'{_CLOSE}(?:{self.any_of("right")}{unless}|{_JUDGED}(?:{good})|[^\n]{{0,80}}[✅✓✔☑]\s*(?:\n|\Z))'
        )

    @cached_property
    def wrong(self) -> re.Pattern[str]:
        """Behind an option: it is ruled out."""
        bad = r'[❌✗✘✖]|×(?!\s?[\d(])|(?:incorrect|false|wrong|no|nope|fails|错误?|不正确|不对)(?![a-z])'
        judged = rf'(?:{self.any_of("wrong")}|{_JUDGED}(?:{bad}))(?!误?[，,]?(?:故|因此)?(?:当选|符合题意))'
        return re.compile(rf'{_CLOSE}(?:{judged}|[^\n]{{0,80}}[❌✗✘✖]\s*(?:\n|\Z))')

    @cached_property
    def joins(self) -> re.Pattern[str]:
        """Between the items of a list: `and`, `or`, a comma."""
        words = f'{self.any_of("or")}|{self.any_of("and")}'
        opened = r'[\s(\[{【*"\'“‘]*'
        return re.compile(
            rf'(?:选?项)?[\s)\]}}】*"\'”’]*(?:[,，、]\s*(?:{words})?|/|&|\+|{words}){opened}(?:{self.any_of("option")}{opened})?'
        )

    @cached_property
    def condition(self) -> re.Pattern[str]:
        """What a sentence begins with that holds under a condition only."""
        return re.compile(r'\W*(?:(?:if|when|wenn|falls|si|cuando|quand)(?![a-zà-ÿ])|如果|若|当)')

    @cached_property
    def hypothesis(self) -> re.Pattern[str]:
        """In a statement that only answers another question: `if you meant …, the answer would be`."""
        return re.compile(r'(?<![a-z])(?:would|wäre|serait|sería)(?![a-z])')

    @cached_property
    def either(self) -> re.Pattern[str]:
        """Between the items of a list that leaves it open which one is meant."""
        return re.compile(rf'(?<![a-z]){self.any_of("or")}|/')

    @cached_property
    def or_another(self) -> re.Pattern[str]:
        """Behind a letter: another one that need not be an option."""
        return re.compile(rf'\)?\s*{self.any_of("or")}\s*\(?[A-Z](?![A-Za-z\'’])')

    @cached_property
    def next_question(self) -> re.Pattern[str]:
        """The line that begins the next question of a base model."""
        return re.compile(
            rf'\n[ #*>]*(?:{self.any_of("next")}(?:\s?#?\d{{1,6}})?\s?[*:]*:|q\s?\d{{1,6}}\s?[.)]|第\d{{1,4}}题'
            r'|<\|(?:im_start|im_end|end)|###\s?(?:question|problem|human|user|instruction|input)'
            rf'|the following (?:is|are) (?:a )?multiple|{self.any_of("recap")})'
        )

    @cached_property
    def note(self) -> re.Pattern[str]:
        """Where a closing note begins."""
        return re.compile(rf'(?:[\n.][\s*_#(]{{0,12}}|\(){self.any_of("note")}')

    @cached_property
    def field(self) -> re.Pattern[str]:
        """The key of an answer in an object, also in one that is not valid JSON."""
        keys = '|'.join(word.replace('(_| |)', '[_ ]?').replace('(', '(?:') for word in self.words('field'))
        return re.compile(rf'(?P<quote>["\'])(?:{keys})(?P=quote)\s*:\s*')

    @cached_property
    def tag(self) -> re.Pattern[str]:
        tags = '|'.join(re.escape(word) if word.startswith('|') else word for word in self.words('tag'))
        return re.compile(rf'<(?P<tag>{tags})>')

    @cached_property
    def article(self) -> re.Pattern[str]:
        """Words and signs between `is` and an answer that say nothing about it."""
        return re.compile(rf'(?:[\s"\'“‘「《*:，,(\[>#]|(?<![a-z]){self.any_of("article")})*')

    @cached_property
    def called(self) -> re.Pattern[str]:
        """Before a letter: `option`, `choice`."""
        return re.compile(rf'(?<![a-z]){self.any_of("option")}[\s"\'“(\[*]*\Z')

    @cached_property
    def named(self) -> re.Pattern[str]:
        """Before a letter that names something else: `vitamin`, `group`."""
        return re.compile(rf'(?<![a-z]){self.any_of("named")}\s\Z')

    @cached_property
    def after_letter(self) -> re.Pattern[str]:
        """Behind a letter: words that cannot follow an article."""
        return re.compile(rf'\s+{self.any_of("after")}')

    @cached_property
    def heads(self) -> frozenset[str]:
        """What cues can begin with."""
        finders = (
            self.grades,
            self.states,
            self.labels,
            self.chooses,
            self.matches,
            self.is_the_answer,
            self.concludes,
            self.corrects,
        )
        return frozenset(head for finder in (*finders, self.denies, self.others, self.refuses) for head in finder.heads)

    @cached_property
    def signs(self) -> frozenset[str]:
        """What cues can begin with that is not a word of letters."""
        return frozenset(head for head in self.heads if not WORD.match(head))


_LOADER = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)  # five times as fast where libyaml is at hand
CUES = Cues(yaml.load(Path(__file__).with_name('cues.yaml').read_text('utf-8'), Loader=_LOADER))
