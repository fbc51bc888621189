"""Where a reply names an option: by letter, by the text of the option, or by a word (`yes`, `positive`).

A letter counts where it stands as one: `(C)`, `C.`, `option C`, `C is correct`. The article in `A dog`, the pronoun in
`I think`, variables (`F = ma`, `P(A)`) and what a reply rules out (`not A`) do not. A list of letters is several
options, not one. Behind its letter an option's own text belongs to it (`(B) no`, `E2`); a letter inside the text of an
option (`sample A`) names that option; and an option whose text is a letter is named by its own letter alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES, pattern_of
from rolecall.scoring.readers.reading import Candidate, Page, narrow

AROUND = ' \t\r\n*_#>-.:,;!?。！？"\'“”‘’([{【)]}】$\\<>✅✔☑✓👉—–…%'
AFTER = compile_late(
    r'\s{0,80}[)\]}】>"\'”’$]*(?:[.,;:!?。，；！？、)\]}】|]|</|\s{0,80}(?:\n|\Z)|\s[-–—(|]|\s{0,80}[一-鿿✓✔✅✗✘❌→—–]|[×√](?=[，,;；。\s]|\Z)|[-–—]\s)'
)
OPERATOR = compile_late(
    r'\s?(?:<(?![/a-z|])|[=>≤≥+*/^∩∪∧∨⇒⊂⊆≈]|\\(?:cap|cup|times|cdot|to|le|ge)|-\s?[\dA-Z]|\([tx]\))|\s(?:implies|entails)\s'
)
_VARIABLE = compile_late(r'(?:(?:(?<![=-])>|[=+*/^<≤≥_\\∪∩])\s?|[A-Za-z]\(|\w\||\d[ ]{1,9}|\b(?:implies|entails) )\Z')
_DETERMINER = compile_late(
    r'(?<=\bno)\s(?!(?:because|since|as|it|he|she|they|this|that|we|you|i|there|the|an?|for|when|if|but|so|then|thanks'
    r'|and|or|from|to|ya|porque|pues|yes|no|wait|actually|in|on|at|not|lo|la|el|es|se|me|hay|son|puede|tiene|creo)\b)[a-z]'
)
"""Behind a `no` that belongs to a noun: `no general rule`."""
_BARE_NUMBER = compile_late(r'[\s$€£]*(?P<x>-?\d+(?:\.\d+)?)[\s$.]*')
_NUMBERS_IN = compile_late(r'-?\d+(?:\.\d+)?')
_COPULA = compile_late(r"(?:\b(?:is|be)|['’]s)\s\Z")
_POLITE = compile_late(r'(?:です|でした|だ|입니다|이다|예요)(?=\W*\Z)')
_LETTER = compile_late(r'(?<![a-z0-9])[a-r](?![a-z0-9\'’])')
_GLUED = compile_late(r'(?<![A-Za-z0-9_.-])[A-R](?=[-–]?[^\W_])')
_SEPARATED = compile_late(r'[\s)\]】.:,*"\'“_–—=-]{0,6}')
_DECIMALS = compile_late(r'\d[.,]\d')
_LAYOUT = compile_late(r'[${}\\\d√]')
"""In a text that can be laid out in several ways."""
_TOKEN = compile_late(
    r'\\[dt]?frac\s?\{(?P<above>[^{}]*)\}\s?\{(?P<below>[^{}]*)\}|\^?\\(?P<name>[a-z]+|[,;! %])|[${}*]'
    r'|(?<=[a-z])\s+(?=[a-z])|(?<=\d)\s+(?=\d)|\s+|(?P<sign>.)',
    re.DOTALL,
)
_SIGNS = {'sqrt': '√', 'times': '×', 'cdot': '·', 'pi': 'π', 'circ': '°', '%': '%', ',': ''}
PAIRS = (
    ('yes', 'no'),
    ('true', 'false'),
    ('是', '否'),
    ('ja', 'nein'),
    ('oui', 'non'),
    ('sí', 'no'),
    ('对', '错'),
    ('正确', '错误'),
)


@lru_cache(maxsize=64)
def _letters(labels: str) -> re.Pattern[str]:
    """A letter of the options on its own, or a run of several."""
    return re.compile(
        rf'[{labels}](?<![A-Za-z0-9_\\.°].)(?<![A-Za-z0-9]-.)[{labels}]{{0,9}}(?![A-Za-z0-9_]|[\'’][A-Za-z]'
        rf'|-[A-Za-z0-9]|["\']\s?:)'
    )


@lru_cache(maxsize=64)
def _small_letters(labels: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    after = rf'(?P<x>[{labels.lower()}])(?![A-Za-z\'’-])'
    return re.compile(rf'\((?<!\w\(){after}\)'), re.compile(rf'(?:option|choice|letter)\s{after}')


@lru_cache(maxsize=256)
def _words(words: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(
        rf'(?<![a-zà-ÿ0-9_])(?:{"|".join(pattern_of(word) for word in sorted(words, key=len, reverse=True))})'
    )


class Mentions:
    """The options of a question, and where a page names them."""

    def __init__(self, labels: Sequence[str], texts: Sequence[str] = (), *, several: bool = False) -> None:
        self.labels = tuple(labels)
        self.several = several
        self.lettered = is_lettered(labels)
        texts_by_label = {label: _fold(text) for label, text in zip(labels, texts, strict=False) if _fold(text)}
        letters = {label.lower() for label in labels} if self.lettered else set()
        self.texts = {text: label for label, text in texts_by_label.items() if text not in letters}
        self.own = texts_by_label if self.lettered else {}
        self.naming = tuple(text for text in self.texts if letters and _LETTER.search(text))
        self.values: dict[str, str] = {}
        if self.lettered:
            self.pattern = self.head_pattern = _letters(''.join(labels))
        else:
            self.values = {' '.join(label.lower().split()): label for label in labels}
            self.pattern = _words(tuple(self.values))
            self.values = self._other_words() | self.values
            self.head_pattern = _words(tuple(self.values))

    def _other_words(self) -> dict[str, str]:
        """Other words for yes and no, which count only where an answer is expected."""
        for good, bad in PAIRS:
            if set(self.values) == {good, bad}:
                yes = dict.fromkeys(CUES.words('also_yes'), self.values[good])
                self._pair = {'whole_no': self.values[bad], 'whole_yes': self.values[good]}
                return yes | dict.fromkeys(CUES.words('also_no'), self.values[bad])
        return {}

    def _find(self, page: Page, start: int, end: int, *, head: bool = False) -> Iterator[Candidate]:
        """Each option that is named; without a value where several letters stand together (`ACD`)."""
        return (self._find_letters if self.lettered else self._find_words)(page, start, end, head)

    def _find_words(self, page: Page, start: int, end: int, head: bool) -> Iterator[Candidate]:
        hidden = start
        for match in (self.head_pattern if head else self.pattern).finditer(page.low, start, end):
            for idiom in CUES.idioms:
                if idiom not in self.values and page.low.startswith(idiom, match.start()):
                    hidden = match.start() + len(idiom)
            if not head and match[0] == 'no' and _DETERMINER.match(page.low, match.end()):
                continue
            share = re.match(r'.*\d\s?(?:/|out of)\s?\Z', page.low[max(0, match.start() - 12) : match.start()])
            if match.start() >= hidden and not share:
                yield Candidate(self.values[' '.join(match[0].split())], *match.span())

    def _find_letters(self, page: Page, start: int, end: int, head: bool) -> Iterator[Candidate]:
        spans = [match.span() for match in self.pattern.finditer(page.text, start, end)]
        bracketed, called = _small_letters(''.join(self.labels))
        small = [match.span('x') for match in bracketed.finditer(page.text, start, end) if head]
        small += [
            match.span('x') for match in called.finditer(page.low, start, end) if page.text[match.start('x')].islower()
        ]
        by_text = self._find_naming(page, start, end) if self.naming else {}
        for match in CUES.ordinals.find_all(page, start, end):
            place = next(number for head, number in CUES.ordinal_numbers.items() if match[0].startswith(head))
            if place <= len(self.labels):
                by_text[match.span()] = self.labels[place - 1]
        glued = self._find_glued(page, start, min(end, start + 80)) if head and self.own else []
        hidden = start
        for begin, stop in sorted({*spans, *small, *glued, *by_text}) if small or glued or by_text else spans:
            if begin < hidden:
                continue
            if (begin, stop) in by_text:
                hidden = stop
                yield Candidate(by_text[begin, stop], begin, stop)
            elif stop - begin == 1:
                hidden = self._own_end(page, page.text[begin].upper(), stop)
                yield Candidate(page.text[begin].upper(), begin, stop)
            elif len(set(page.text[begin:stop])) == stop - begin:
                yield Candidate(self._combine(page, begin, stop), begin, stop)

    def _find_naming(self, page: Page, start: int, end: int) -> dict[tuple[int, int], str]:
        """Where the text of an option stands that has a letter in it: `sample A`."""
        places = {}
        for text in self.naming:
            at = page.low.find(text, start, end)
            while at >= 0:
                if is_apart(page, at, at + len(text)):
                    places[at, at + len(text)] = self.texts[text]
                at = page.low.find(text, at + 1, end)
        return places

    def _find_glued(self, page: Page, start: int, end: int) -> list[tuple[int, int]]:
        """Letters that run into their own text: `E2`, `I-700,250,0`."""
        places = [match.span() for match in _GLUED.finditer(page.text, start, end) if match[0] in self.own]
        return [
            (begin, stop)
            for begin, stop in places
            if (own := self._own_end(page, page.text[begin], stop)) > stop and page.low[begin:own] not in self.texts
        ]

    def _own_end(self, page: Page, label: str, end: int) -> int:
        """Where the text of a label ends that stands behind it; else `end`."""
        text = self.own.get(label)
        if text is None:
            return end
        begin = _SEPARATED.match(page.low, end).end()  # type: ignore[union-attr]  # matches nothing, too
        stop = begin + len(text)
        return stop if page.low.startswith(text, begin) and is_apart(page, begin, stop, glued=True) else end

    def _combine(self, page: Page, start: int, end: int) -> str | None:
        """The letters of a list in order, where several may be right; `A or B` leaves it open."""
        if not self.several or CUES.either.search(page.low, start, end):
            return None
        return ''.join(sorted(set(''.join(self.pattern.findall(page.text, start, end)))))

    def _is_option(self, page: Page, mention: Candidate, *, direct: bool = False) -> bool:
        """Whether a letter stands for an option, not for an article, a variable or a name."""
        text = page.text
        if not self.lettered or mention.value is None or not text[mention.start : mention.end].isupper():
            return True
        after = self._own_end(page, mention.value, mention.end)
        before = text[max(0, mention.start - 14) : mention.start]
        if OPERATOR.match(text, after) or (
            not direct and (_VARIABLE.search(before) or CUES.named.search(before.lower()))
        ):
            return False
        if AFTER.match(text, after) or CUES.after_letter.match(page.low, after):
            return True
        if mention.value not in 'AI' and _COPULA.search(before):
            return True
        lower = re.match(r'\s[a-z]', text[after : after + 2])
        if direct or CUES.called.search(page.low, max(0, mention.start - 16), mention.start):
            return not (mention.value in 'AI' and lower)
        return False

    def _is_wrong(self, page: Page, mention: Candidate, end: int) -> bool:
        """Whether an option is ruled out behind its name, and behind its text: `(B) no` is not."""
        after = self._own_end(page, str(mention.value), mention.end)
        return CUES.wrong.match(page.low, after, max(after, end)) is not None

    def _is_denied(self, page: Page, mention: Candidate) -> bool:
        return CUES.denies.find(page, max(0, mention.start - 48), mention.start) is not None

    def _chosen(self, page: Page, start: int, end: int, *, head: bool = False) -> list[Candidate]:
        """The mentions of a part that are not denied; `not A, B or D` denies all three."""
        chosen: list[Candidate] = []
        denied: Candidate | None = None
        for mention in self._find(page, start, end, head=head):
            if not self._is_option(page, mention, direct=head and mention.start == start):
                continue
            if (denied and self._joined(page, denied, mention)) or self._is_denied(page, mention):
                denied = mention
            else:
                chosen.append(mention)
        return chosen

    def _joined(self, page: Page, left: Candidate, right: Candidate) -> bool:
        """Whether two mentions are items of one list; in `B, C is wrong` they are not."""
        if self.several and page.text[left.end : right.start].isspace():
            return True
        match = CUES.joins.match(page.low, left.end, right.start) if right.start - left.end < 30 else None
        low, before = page.low, max(0, left.start - 16)
        leans = CUES.hedged.search(low, left.end, right.start) and not CUES.hedged.search(low, before, left.start)
        if match is None or match.end() < right.start or leans:  # `probably A, possibly B`
            return False
        judged = CUES.wrong.match(page.low, right.end, right.end + 40) or CUES.right.match(
            page.low, right.end, right.end + 40
        )
        return not judged or page.low[left.end : right.start].strip(' ,，)("*') != ''

    def _settle(self, page: Page, chosen: list[Candidate], place: int) -> Candidate | None:
        """One of the mentions; without a value if it is an item of a list."""
        first = last = at = place % len(chosen)
        while 0 < first > at - len(self.labels) and self._joined(page, chosen[first - 1], chosen[first]):
            first -= 1
        while last + 1 < min(len(chosen), at + len(self.labels)) and self._joined(page, chosen[last], chosen[last + 1]):
            last += 1
        if len({mention.value for mention in chosen[first : last + 1]}) > 1:
            begin, stop = chosen[first].start, chosen[last].end
            return Candidate(self._combine(page, begin, stop), begin, stop)
        if self.lettered and CUES.or_another.match(page.text, chosen[last].end):
            return Candidate(None, chosen[last].start, chosen[last].end)
        return chosen[place]

    def _by_text(self, page: Page, start: int, end: int, *, whole: bool) -> Candidate | None:
        """The option whose text a part begins with, or is."""
        if not self.texts:
            return None
        article = CUES.article.match(page.low, start, end)
        begin = article.end() if article else start
        for at in dict.fromkeys((start, begin, begin + 2 * page.low.startswith('a ', begin))):
            for text in sorted(
                (text for text in self.texts if page.low.startswith(text, at, end)), key=len, reverse=True
            ):
                stop = at + len(text)
                if is_apart(page, at, stop, glued=True) and not (
                    whole and _POLITE.sub('', page.text[stop:end]).strip(AROUND)
                ):
                    joined = CUES.joins.match(page.low, stop, end)
                    several = joined and any(page.low.startswith(other, joined.end()) for other in self.texts)
                    return Candidate(None if several else self.texts[text], at, stop)
        return self._by_squeezed_text(page, begin, end, whole=whole) or self._by_number(page, begin, end)

    def _by_number(self, page: Page, start: int, end: int) -> Candidate | None:
        """The only option with the number that a part is: `30` for `30 m/s`."""
        number = _BARE_NUMBER.fullmatch(page.text, start, end)
        if number is None or not self.lettered:
            return None
        labels = [label for text, label in self.texts.items() if _NUMBERS_IN.findall(text) == [number['x']]]
        return Candidate(labels[0], *number.span('x')) if len(labels) == 1 else None

    def _by_squeezed_text(self, page: Page, start: int, end: int, *, whole: bool) -> Candidate | None:
        """The option whose text a part begins with, or is, if it is laid out in another way: `2√3` for `2√{3}`."""
        if not self.squeezed or end <= start:
            return None
        squeezed, ends = _squeeze(page.plain[start : min(end, start + 160)].lower())
        for text in sorted(filter(squeezed.startswith, self.squeezed), key=len, reverse=True):
            rest = squeezed[len(text) :]
            apart = not re.match(r'[-+*/^√×·\w(]|[.,]\d', rest)
            if apart and not (whole and rest.strip(AROUND)):
                return Candidate(self.squeezed[text], start, start + ends[len(text) - 1])
        return None

    @cached_property
    def squeezed(self) -> dict[str, str]:
        """The labels of the texts that can be laid out in several ways, by the text without its layout."""
        texts = ((_squeeze(text)[0], label) for text, label in self.texts.items() if _LAYOUT.search(text))
        return {text: label for text, label in texts if text}

    def _is_called(self, page: Page, mention: Candidate) -> bool:
        opened = page.text[mention.start - 1 : mention.start] == '('
        return opened or CUES.called.search(page.low, max(0, mention.start - 16), mention.start) is not None


def is_apart(page: Page, start: int, end: int, *, glued: bool = False) -> bool:
    """Whether a text ends as a word or a number does, and begins as one, unless it is `glued` to its letter."""
    low = page.low
    begins = glued or not (low[start - 1 : start].isalnum() and low[start].isalnum())
    return begins and not (low[end - 1].isalnum() and (low[end : end + 1].isalnum() or _DECIMALS.match(low, end - 1)))


def _squeeze(text: str) -> tuple[str, list[int]]:
    """A text without its layout (`$2\\sqrt{3}$`, `6 cm`: `2√3`, `6cm`), and where its signs end."""
    signs: list[str] = []
    ends: list[int] = []
    for token in _TOKEN.finditer(text):
        sign = f'{token["above"]}/{token["below"]}' if token['above'] else _SIGNS.get(token['name'] or '', '')
        sign = token['sign'] or sign
        signs.append(sign)
        ends += [token.end()] * len(sign)
    return ''.join(signs), ends


def is_lettered(labels: Sequence[str]) -> bool:
    """Whether options are called A, B, C, … and not by words."""
    return all(len(label) == 1 and label.isascii() and label.isupper() for label in labels)


def _fold(text: str) -> str:
    return narrow(text).strip().lower().rstrip('.。')


def option_texts(values: Mapping[str, object]) -> list[str]:
    """The texts of a row's options: a list in `options` or `choices`, or columns A, B, …"""
    for name in ('options', 'choices'):
        options = values.get(name)
        if isinstance(options, Mapping):
            options = options.get('text', list(options.values()))
        if isinstance(options, (list, tuple)) and all(isinstance(text, (str, int, float)) for text in options):
            return [re.sub(r'\A\(?[A-Z][).:]\s+', '', str(text)) for text in options]
    letters = [str(values[letter]) for letter in 'ABCDEFGHIJ' if letter in values]
    return letters if len(letters) > 1 else []
