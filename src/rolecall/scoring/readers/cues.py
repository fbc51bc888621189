"""The words that give an answer away, from `cues.yaml`. All languages are read at once.

A cue is found by the word that it begins with, and then matched in full there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Protocol

_LETTER = 'a-zà-ÿа-яđ0-9_'
WORD = re.compile(f'[{_LETTER}]{{1,40}}')
_GAP = r'(?:"[^"\n]{0,120}"|\([^()\n]{0,80}\)|[^.!?。！？，\n:=()"]){0,80}?'
_MARK = r'["\'*_)\]}】 ]{0,6}(?:[:=]|-+>|→|[-–—](?= ))'
_CLOSE = r'[\s)\]}】*"\'”’]{0,4}'
_OPENED = r'[\s(\[{【*"\'“‘]*'
_ADJECTIVES = (
    r'(?:(?:therefore|thus|indeed|clearly|also|probably|then|final|correct|right|best|better|true|the|my|our|an?'
    r'|most \w+|la|le|el|die|der|das|bonne|richtige)\s+)*'
)
_FILLER = r'be|by|an?|the|at all|really|exactly|entirely|say|think|believe|call|it|it[\'’]s|as|that|very|of|any'
_OPTIONAL = re.compile(r' \(((?:[^()|]*[^()| ]\|)+)\)(?=\Z| )')
_JUDGED = r'(?:\?|[:.]|\s?[-–—]|\|(?:[^|\n]{0,60}\|)?|[^\n→|]{0,40}→)?\s*'
"""Between an option and the verdict on it, in a list or a table."""


def pattern_of(cue: str) -> str:
    """A cue as a regular expression; Latin words are whole words; an empty choice has no space."""
    cue = _OPTIONAL.sub(lambda choice: f'({"|".join(f" {word}" for word in choice[1].split("|")[:-1])}|)', cue)
    source = (
        ''.join(
            {' ': r'\s+', '_': r'\w+', "'": "['’]", '(': '(?:', ')': ')', '|': '|', '?': r'\?', '!': '!', '=': '='}.get(
                sign
            )
            or re.escape(sign)
            for sign in cue
        )
        .replace(r'(?:\?!', '(?!')
        .replace(r'(?:\?=', '(?=')
    )
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
    """Finds the cues of a role on a page, by the words that they begin with. A cue is compiled when its word is met."""

    def __init__(self, cues: Iterable[str], behind: str = '', others: Iterable[Finder] = ()) -> None:
        self.cues: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        """For each word, the cues that begin with it, and what must follow them."""
        heads: dict[str, list[str]] = {}
        for cue in cues:
            for head in _heads(cue):
                word = WORD.match(head)
                heads.setdefault(word[0] if word else head, []).append(cue)
        for head, group in heads.items():
            self.cues[head] = [(tuple(group), behind)]
        for finder in others:
            for head, groups in finder.cues.items():
                self.cues[head] = [*self.cues.get(head, ()), *groups]
        self._patterns: dict[str, list[re.Pattern[str]]] = {}

    def _compile(self, head: str) -> list[re.Pattern[str]]:
        self._patterns[head] = [_compile_cues(group, behind) for group, behind in self.cues[head]]
        return self._patterns[head]

    def find_all(self, page: SearchedPage, start: int, end: int) -> list[re.Match[str]]:
        """Every cue in a part, in order."""
        return sorted(self._find(page, start, end), key=re.Match.start)

    def find(self, page: SearchedPage, start: int, end: int) -> re.Match[str] | None:
        """Any cue in a part."""
        return next(self._find(page, start, end), None)

    def _find(self, page: SearchedPage, start: int, end: int) -> Iterator[re.Match[str]]:
        low, cues, compiled = page.low, self.cues, self._patterns
        for at, word in page.heads(start, end):
            if word in cues:
                for pattern in compiled.get(word) or self._compile(word):
                    if match := pattern.match(low, at, end):
                        yield match
        for sign in page.signs & cues.keys() if page.signs else ():
            patterns = compiled.get(sign) or self._compile(sign)
            at = low.find(sign, start, end)
            while at >= 0:
                yield from (match for pattern in patterns if (match := pattern.match(low, at, end)))
                at = low.find(sign, at + 1, end)


@cache
def _compile_cues(cues: tuple[str, ...], behind: str) -> re.Pattern[str]:
    return re.compile(f'(?:{"|".join(map(pattern_of, cues))}){behind}')


class SearchedPage(Protocol):
    """What a finder needs of a page."""

    low: str
    signs: frozenset[str]

    def heads(self, start: int, end: int) -> list[tuple[int, str]]:
        """The words of a part that a cue can begin with, with their places."""


def _finder(role: str, behind: str = '', *more: str) -> cached_property[Finder]:
    """The cues of a role and of what follows them; `«role»` stands for any word of a role."""
    return cached_property(lambda cues: Finder([*cues.words(role), *more], cues.fill(behind)))


def _pattern(source: str) -> cached_property[re.Pattern[str]]:
    return cached_property(lambda cues: re.compile(cues.fill(source)))


class Cues:
    """The cues of each role, read and compiled when they are first needed."""

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, str]]:
        """For each language, the words of each role, one in a line."""
        import yaml  # type: ignore[import-untyped]

        loader = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)  # five times as fast where libyaml is at hand
        tables: Mapping[str, Mapping[str, str]] = yaml.load(
            Path(__file__).with_name('cues.yaml').read_text('utf-8'), Loader=loader
        )
        return tables

    @cached_property
    def idioms(self) -> tuple[str, ...]:
        return tuple(self.words('idiom'))

    def words(self, role: str) -> list[str]:
        """What all languages have for a role."""
        return [word for table in self.tables.values() for word in table.get(role, '').splitlines()]

    def list_words(self, role: str) -> list[str]:
        """The words of a role that has nothing but choices of words."""
        return [word for cue in self.words(role) for word in cue.strip('()').split('|')]

    def any_of(self, role: str) -> str:
        """A regular expression for a role's words."""
        return f'(?:{"|".join(map(pattern_of, self.words(role)))})'

    def fill(self, source: str) -> str:
        """A regular expression in which `«role»` stands for any word of a role."""
        return re.sub('«(.+?)»', lambda role: self.any_of(role[1]), source)

    states = _finder(
        'answer',
        rf'(?![\'’]s)(?:{_MARK}|{_GAP}(?<![a-zà-ÿ])«is»(?:{_MARK})?|[^.!?。\n:=,，]{{0,30}}?:'
        r'|(?=\s*\n|\s*[(\[]|\s+[a-z](?![a-z])))',
    )
    """Before an answer: `the answer is`, `Answer:`."""
    labels = _finder('label', r'["\'*_)\]}】 ]{0,6}:')
    chooses = _finder('choose', f'(?:{_MARK})?')
    matches = _finder('match', f'(?:{_MARK})?')
    grades = _finder('grade', rf'["\'*_)\]}}】 ?]{{0,6}}(?:{_MARK}|\s«is»(?:{_MARK})?|(?=\s*\n\s*\W*[a-z])|\s)')
    """Before a judge's verdict: `Grade:`, `the verdict is`. What it says of answers is not one."""
    is_the_answer = _finder('answer', r'(?!\s*[:=]|\s*«is»)')
    """Behind an answer: `is the answer`, `makes … the correct choice`."""
    before_the_answer = _pattern(
        rf'(?:(?<![a-z])«is»\s*{_ADJECTIVES}|(?<![a-z])mak(?:es|ing)\s[^.\n]{{1,30}}the\s+{_ADJECTIVES}|[是为])\Z'
    )
    """At the end of what stands before `answer` in `C is the answer`."""
    concludes = _finder('conclude', '', '∴', '⇒', '=>', '→', '👉')
    corrects = _finder('correct')
    others = _finder('other')
    """Before a statement in its clause: it is not the reply's own."""
    refuses = _finder('refuse')
    restates = _finder('restate')
    negates = _finder('negate')
    affirms = _finder('affirm')
    denies = _finder('deny', rf'(?:[ \t]*(?:(?:{_FILLER})(?![a-z])|«option»|«is»))*[ \t"\'“‘(\[*-]*\Z')
    """Before a candidate, up to it: it is not the answer."""
    naming = _finder('naming')
    ignorant = _finder('ignorant')
    closings = _finder('closing')
    asides = _finder('aside')
    breaks_off = _pattern(r'(?:(?<![a-zà-ÿ])«unfinished»|[,，:=+(-])\Z')
    """At the end of a part that is cut off."""
    contrast = _pattern(r'(?<![a-z])(?:but|however|yet|aber|jedoch|sondern|mais|pero|sino)(?![a-z])|但|然而')
    right = _pattern(
        rf'{_CLOSE}(?:(?:[:.]\s)?«right»(?!\s+(?:if|only|unless|had|when|or)\b)|{_JUDGED}\(?(?:[✅✓✔☑]|√(?!\s?[\d(])'
        r'|(?:«judged_right»|true|yes|works|wahr|vrai|正确|对)(?![a-z]))|[^\n]{0,80}[✅✓✔☑]\s*(?:\n|\Z))'
    )
    """Behind an option: it is the one."""
    wrong = _pattern(
        rf'{_CLOSE}(?:(?:«wrong»|{_JUDGED}\(?(?:[❌✗✘✖]|×(?!\s?[\d(])|(?:«judged_wrong»|false|no|nope|fails|unwahr|错误?|不正确|不对)'
        r'(?![a-z])))(?!误?[，,]?(?:故|因此)?(?:当选|符合题意))|[^\n]{0,80}[❌✗✘✖]\s*(?:\n|\Z))'
    )
    """Behind an option: it is ruled out."""
    joins = _pattern(
        rf'(?:选?项)?[\s)\]}}】*"\'”’]*(?:[,，、;]\s*(?:«or»|«and»)?(?:\s?«hedge»)?|/|&|\+|«or»|«and»|(?<=[)\]】])(?=\s?[(\[【])){_OPENED}(?:«option»{_OPENED})?'
    )
    """Between the items of a list."""
    condition = _pattern(r'\W*(?:(?:if|when|wenn|falls|si|cuando|quand)(?![a-zà-ÿ])|如果|若|当)')
    hypothesis = _pattern("(?<![a-z])(?:would|wouldn['’]t|wäre|wären|hätte|würde|serait|aurait|sería)(?![a-z])")
    """In a statement that only answers another question: `if you meant …, the answer would be`."""
    hedged = _pattern(r'(?<![a-z])«hedge»\s?\Z')
    either = _pattern('(?<![a-z])«or»|/')
    alternative = _pattern(r'(?:(?<![a-z])«or»|还是)\s*\Z')
    """Before a second statement that leaves both open: `选A还是选C`."""
    or_another = _pattern(r'\)?\s*«or»\s*\(?[A-Z](?![A-Za-z\'’])')
    """Behind a letter: another one that need not be an option."""
    next_question = _pattern(
        r'\n[ #*>]*(?:«next»(?:\s?#?\d{1,6})?\s?[*:]*:|q\s?\d{1,6}\s?[.)]|第\d{1,4}题'
        r'|\[(?:user )?(?:question|query|instruction|input)\]'
        r'|###\s?(?:question|problem|human|user|instruction|input)'
        r'|the following (?:is|are) (?:a )?multiple|«recap»)'
    )
    """The line that begins the next question of a base model."""
    note = _pattern(r'(?:[\n.。][\s*_#(]{0,12}(?:\d{1,2}[.)]\s)?|\()«note»')
    article = _pattern(r'(?:[\s"\'“‘「《*:，,(\[>#]|(?<![a-z])«article»)*')
    """Words and signs between `is` and an answer that say nothing about it."""
    lead_in = _pattern(
        r'«option»|\A\W*\d{1,2}[.)]\s|\A\W*(?:so|therefore|thus|hence|also|donc|entonces)\W+|\A(?:所以|因此)'
    )
    """Before an answer, and no part of it: `Option`, `3.`, `So`."""
    called = _pattern(r'(?<![a-z])«option»[\s"\'“(\[*]*\Z')
    copula = _pattern(r'(?:(?<![a-zà-ÿ])«is»|=|≈)\s*(?:«article»\s*)*\Z')
    copulas = _pattern(r'(?<![a-zà-ÿ])«is»(?![a-zà-ÿ])|[=≈]')
    named = _pattern(r'(?<![a-z])«named»\s\Z')
    """Before a letter that names something else: `vitamin`, `group`."""
    after_letter = _pattern(r'\s+«after»')
    """Behind a letter: words that cannot follow an article."""

    @cached_property
    def ordinal_numbers(self) -> Mapping[str, int]:
        """The places that words like `second` stand for."""
        numbered = (line.rsplit(' ', 1) for line in self.words('ordinal'))
        return {head: int(number) for cue, number in numbered for head in _heads(cue)}

    @cached_property
    def ordinals(self) -> Finder:
        """An option by its place: `the second option`."""
        return Finder(line.rsplit(' ', 1)[0] for line in self.words('ordinal'))

    @cached_property
    def openings(self) -> Finder:
        """What a short answer can begin with: `So`, `I think`, `Well`."""
        return Finder(self.words('opening'), others=(self.concludes,))

    @cached_property
    def of_answers(self) -> Finder:
        """What stands before an answer of any kind."""
        return Finder((), others=(self.states, self.labels, self.chooses))

    @cached_property
    def of_choices(self) -> Finder:
        """What stands before an option."""
        return Finder((), others=(self.of_answers, self.matches))

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
    def continental(self) -> frozenset[str]:
        """Words of languages that write a decimal comma, and none of English."""
        tables = (table for name, table in self.tables.items() if name not in ('english', 'chinese'))
        return frozenset(word for table in tables for word in WORD.findall(table.get('function', '')))

    @cached_property
    def english(self) -> frozenset[str]:
        return frozenset(WORD.findall(self.tables['english']['function']))

    @cached_property
    def heads(self) -> frozenset[str]:
        """What cues can begin with."""
        before = (self.of_choices, self.grades, self.concludes, self.corrects, self.is_the_answer)
        finders = (
            *before,
            self.ordinals,
            self.naming,
            self.ignorant,
            self.openings,
            self.closings,
            self.asides,
            self.denies,
            self.others,
            self.refuses,
            self.restates,
            self.negates,
            self.affirms,
        )
        return frozenset(head for finder in finders for head in finder.cues)

    @cached_property
    def signs(self) -> frozenset[str]:
        """What cues can begin with that is not a word of letters."""
        return frozenset(head for head in self.heads if not WORD.match(head))


CUES = Cues()
