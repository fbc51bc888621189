"""A short text as the answer: what the reply states (`So the answer is Paris.`), or else the reply itself."""

from __future__ import annotations

import re

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.ranking import unescape_field
from rolecall.scoring.readers.reading import Candidate, Page

_ABBREVIATION = compile_late(
    r'(?:\b(?:Dr|Mr|Mrs|Ms|Prof|St|Mt|Gen|Col|Sgt|Capt|Sen|Rev|No|vs|Jr|Sr|U\.S|U\.K)|\b[A-Z])\Z'
)
_END = compile_late(
    r'\n|[。！？]|[.!?](?=["\'”’)*]{0,3}(?:\s|$))|\s(?:because|since|as it|who|weil|car|porque)\s'
    r'|\s\((?=[A-Za-z][^()\n]{0,80}\)\W*(?:\n|$))|,\s(?:which|who|where|because|since|as|not|and not'
    r'|und nicht|et non|y no|obwohl|although|das|der|die|den|dont|qui)\s'
    r'|\s?；|;\s'
)
_MARKER = compile_late(r'(?:[-•](?!\s+\d)|[>*✅✔👉→⇒]|=>|#{1,6}|\d{1,2}[.)])\s+(?=\w)')
_PARENTHESIS = compile_late(r'\s*,[^,.\n]{1,40},\s*')
_LONGEST, _BRIEF = 300, 6
_UNIT = compile_late(r'[一-鿿ぁ-ヿ]{1,2}|[^\W一-鿿ぁ-ヿ]+')
_BRIEF_LINE = compile_late(r'(?![-*•`\d][\s.)`])[^\s:]+(?:\s[^\s:]+){0,5}')
_CLAUSE = compile_late(r'\s(?:qui|who|that|which|che|que)\s')
_CHOICE = compile_late(
    r'[^.\n]{0,40}?(?<![a-z])(?:(?:could|might|may|can) be|is|it[\'’]s either)\s[^.\n]*\sor\s'
    r'|\W*(?:either|entweder|soit)\s.*\b(?:or|oder|soit)\b|\W*(?:if|wenn|si|falls)\s.*(?:;|\b(?:otherwise|sonst|sinon)\b)'
)
"""A sentence that leaves two answers open."""
_POLITE = compile_late(r'(?:です|でした|である|입니다|이다)[.。]?\s*\Z')
_BOLD = compile_late(r'\*\*([^*\n:]{1,80})\*\*')
_COPULA = compile_late(r'(?<=\w)[\'’]s\s+|\A(?:in|on|at)\s|(?<=[者のる市県])は|(?<=왕)은\s|은\s|는\s')
_CONTRAST = compile_late(r'(?:but|sondern|mais|sino|mas?|而是)\Z')


class Phrases:
    """Texts of a few words. A `Family`."""

    chooses = False
    cues = 'of_answers'

    def declared(self, page: Page, start: int, end: int) -> Candidate | None:
        begin, stop = page.strip_raw(start, end)
        inner = page.raw[begin:stop]
        if page.raw[start - 1 : start] == '"':
            inner = unescape_field(inner)
        plain = _plain(inner)
        return Candidate(plain, begin, stop) if plain else None

    def heads(self, page: Page, start: int, end: int) -> Candidate | None:
        heading = re.match(r'(?:step|\d+[.)]|part|final|answer|solution|conclusion)\b', page.low[start:end].strip(' *'))
        return None if heading else self.declared(page, start, end)

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        begin = re.compile(r'[\s:*"“‘「《`\'_]*').match(page.text, start, end).end()  # type: ignore[union-attr]
        stop = begin
        while True:
            match = _END.search(page.text, stop, min(end, begin + _LONGEST))
            stop = match.start() if match else min(end, begin + _LONGEST)
            if match is None or match[0] != '.' or not _ABBREVIATION.search(page.text, begin, stop):
                break
            stop += 1
        if aside := _PARENTHESIS.match(page.text, begin, stop):
            begin = aside.end()
        return None if self._is_denied(page, begin) else self._phrase(page, begin, stop)

    def _is_denied(self, page: Page, begin: int) -> bool:
        return re.match(r'(?:not|no longer|nicht|pas|不是)\s', page.low[begin : begin + 12]) is not None

    def _phrase(self, page: Page, start: int, end: int) -> Candidate | None:
        polite = _POLITE.search(page.text, start, end)
        end = page.strip(start, polite.start() if polite else end, ' \t\r\n*_"`.。!！')[1]
        start = page.strip(start, end, ' \t\r\n')[0]
        start += page.text[start:end][:1] == "'"
        end -= page.text[start:end].endswith("'") and page.text[start - 1 : start] == "'"
        text = page.text[start:end]
        return Candidate(_plain(page.raw[start:end]), start, end) if text.strip() else None

    def precedes(self, page: Page, start: int, end: int) -> Candidate | None:
        clause = page.clause_start(end, start)
        begin, stop = page.strip(clause, end)
        lead = re.compile(r'(?:so|thus|therefore|hence|i (?:think|believe|conclude)(?: that)?|that)\s+').match(
            page.low, begin, stop
        )
        begin = lead.end() if lead else begin
        is_ = re.compile(r'\s(?:is|was|are|would be|ist|est|es|mak\w+)\b[^.]{0,40}\Z').search(page.low, begin, stop)
        phrase = self._phrase(page, begin, is_.start() if is_ else stop)
        return (
            phrase
            if phrase
            and phrase.value
            and len(phrase.value.split()) <= 8
            and not re.match(r'(?:this|that|it|which|what|the answer)$', phrase.value.lower())
            else None
        )

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        return None

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        phrase = self.follows(page, start, end) if correcting else None
        if phrase is None or not phrase.value or len(phrase.value.split()) > 4:
            return None
        ends = not page.text[phrase.end : end].strip(' .!\n*"')
        named = phrase.value[:1].isupper() or (ends and phrase.value[:1].isalnum())
        return phrase if named and not CUES.corrects.find(page, phrase.start, phrase.end) else None

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        """What the last sentence of several comes to; else the reply, unless it breaks off or refuses to answer."""
        begin, stop = page.strip_raw(start, end)
        while (last := page.last_sentence(begin, stop))[0] > begin and CUES.closings.find(page, *last):
            stop = page.strip_raw(begin, last[0])[1]
        lines = page.raw.count('\n', begin, stop)
        marker = _MARKER.match(page.raw, begin, stop) if not lines else None
        begin = marker.end() if marker else begin
        words = page.low[begin:stop].split()
        if len(set(words)) == 1 < len(words) - 1:  # a loop
            return Candidate(page.raw[begin : begin + len(words[0])], begin, begin + len(words[0]))
        first, last = page.sentence_end(begin, stop), page.last_sentence(begin, stop)
        open_ = any(_CHOICE.match(page.low, *sentence) for sentence in ((begin, first), last))
        ignorant = CUES.ignorant.find(page, *last) or CUES.ignorant.find(page, begin, first)
        if open_ or (ignorant and not CUES.contrast.search(page.low, ignorant.end(), stop)):
            return Candidate(None, *last)
        several = last[0] > begin and re.search(r'[.!?。！？\n]', page.text[begin : last[0]]) is not None
        if several or len(_UNIT.findall(page.low, begin, stop)) > _BRIEF:
            sentences = (begin, first), last
            refused = any(CUES.refuses.find(page, *sentence) for sentence in sentences)
            if refused or (several and page.is_cut(stop)) or CUES.breaks_off.search(page.low, begin, stop):
                return Candidate(None, *last)
        line = page.strip_raw(page.raw.rfind('\n', begin, stop) + 1, stop)
        if (
            lines
            and page.text[begin : line[0]].rstrip()[-1:] in (*'.!?。:',)
            and _BRIEF_LINE.fullmatch(page.raw, *line)
        ):
            return self._phrase(page, *line)
        bold = _BOLD.findall(page.raw, begin, stop)
        if len(bold) == 1 and page.raw[stop - 2 - len(bold[0]) - 4 : stop].count('**') == 2:
            at = page.raw.find(bold[0], begin)
            return self._phrase(page, at, at + len(bold[0]))
        lead = skip_opening(page, *last)
        predicates = _find_predicates(page, lead, last[1])
        if lead > last[0] and not predicates and len(page.low[lead : last[1]].split()) < _BRIEF:
            return self._phrase(page, lead, last[1])
        said = skip_opening(page, begin, first)
        fragment = [] if _find_predicates(page, begin, first) else page.low[said:first].split()
        if (
            several
            and (lead == last[0] or _PRONOUN.match(page.low, last[0]))
            and 0 < len(fragment) <= 3
            and page.text[first : first + 1] in ('.', '\n')
            and CUES.corrects.find(page, first, stop) is None
        ):
            return Candidate(page.raw[said:stop], said, stop)
        return (self.predicate(page, *last) if several else None) or (
            Candidate(_plain(page.raw[begin:stop]), begin, stop) if stop > begin else None
        )

    def predicate(self, page: Page, start: int, end: int) -> Candidate | None:
        """What a sentence says that something is: `So it was Dr. Patel.`"""
        predicates = _find_predicates(page, start, end)
        if not predicates:
            return None
        begin = predicates[-1]
        clause = _CLAUSE.search(page.low, begin, end) or _END.search(page.text, begin, end)
        phrase = self._phrase(page, begin, clause.start() if clause else end)
        return phrase if phrase and len(str(phrase.value).split()) <= _BRIEF else None

    def mentions(self, page: Page, start: int, end: int) -> list[Candidate]:
        return []

    def rivals(self, page: Page, start: int, end: int) -> list[Candidate]:
        return []


def _plain(text: str) -> str:
    """A phrase without emphasis, tags, dollars and brackets around it."""
    bare = re.sub(r'\\(?:text|textbf|mathrm|mathbf)\s?\{([^{}]*)\}', r'\1', re.sub(r'\*\*|</?[a-z]{1,6}>', '', text))
    return re.sub(r'\A(?:\$([^$]*)\$|【([^【】]*)】)', lambda match: match[1] or match[2] or '', bare)


def skip_opening(page: Page, start: int, end: int) -> int:
    """Where a sentence begins behind `So`, `I think it is`, `Well,`."""
    begin = start
    while True:
        while begin < end and page.text[begin] in ' \t\n,:;：，-–—=>→"*':
            begin += 1
        cues = CUES.openings.find_all(page, begin, min(end, begin + 40))
        if not cues or cues[0].start() > begin:
            return start
        start = begin = max(cue.end() for cue in cues if cue.start() == begin)


def _find_predicates(page: Page, start: int, end: int) -> list[int]:
    """Where a sentence says that something is: `So it was Dr. Patel.`; nothing where it denies that."""
    low = page.low
    cues = [match.span() for match in (*CUES.naming.find_all(page, start, end), *_COPULA.finditer(low, start, end))]
    begins = []
    for begin, stop in sorted(cues):
        article = CUES.article.match(low, stop, end)
        begins_at = article.end() if article else stop
        while begins_at > stop and low[begins_at - 1] in '([{':
            begins_at -= 1
        contrast = _CONTRAST.search(low, begin, stop)
        denied = not contrast and _NEGATED.search(low, page.clause_start(begin, start), begin)
        if not denied and not _NEGATED.match(low, begins_at):
            begins.append(begins_at)
    return begins


def short_phrases(reply: str) -> set[str]:
    """What a reply of one sentence may be said to answer: what it emphasises or ends with, its subject, or all of it.

    >>> sorted(short_phrases('The capital of France is Paris.')), short_phrases('It was **Neil Armstrong**, in 1969.')
    (['Paris', 'The capital of France is Paris'], {'Neil Armstrong'})
    >>> sorted(short_phrases('Ada Lovelace wrote it in 1843.'))
    ['1843', 'Ada Lovelace', 'Ada Lovelace wrote it', 'Ada Lovelace wrote it in 1843']
    """
    text = reply.strip()
    bold = re.findall(r'\*\*([^*\n]{1,80})\*\*', text)
    if len(bold) == 1 and not bold[0].endswith(':'):
        return {str(bold[0]).strip(' .')}
    text = _QUESTION.sub('', text)
    text = text[: Page(text).main_end(0, len(text))].rstrip()
    sentence = re.sub(r'(\b[A-Z])\.(?=\s[A-Z])', '\\1\u2024', text)  # `J. K. Rowling` is not three sentences
    if (
        '\n' in text
        or len(text) > _LONGEST
        or re.search(r'(?<!\b(?:Dr|Mr|St))(?<!\bMrs)(?<!\b[A-Z])(?<!\A.. \d)(?<!\A.. \d\d)[.!?。]\s+\S', sentence)
    ):
        return set()
    page = Page(sentence)
    lead = skip_opening(page, 0, page.end)
    starts = [*_find_predicates(page, 0, page.end), *([lead] * (lead > 0 or text != reply.strip()))]
    phrases = [sentence[start:] for start in starts]
    tail = _TAIL.search(sentence)
    clause = sentence[: tail.start()] if tail else sentence
    phrases += [
        match[match.lastindex or 0]
        for pattern in (_SUBJECT, _ASIDE, _LABELLED)
        for part in {sentence, clause}
        if (match := pattern.match(part))
    ]
    phrases += [clause] * (len(clause.split()) <= _BRIEF)
    if not _NEGATED.search(clause.lower()):
        phrases += [match[1] for pattern in (_NAME, _PLACE) if (match := pattern.search(clause))]
    phrases += [match[1] for pattern in (_ENDING, _DATED) if (match := pattern.search(clause))]
    phrases += _QUOTED.findall(page.text)
    phrases += [
        part for phrase in phrases for part in (_WHEN.split(phrase)[0], _CLAUSE.split(phrase)[0], _MADE.sub('', phrase))
    ]
    pieces = {
        _END.split(_POLITE.sub('', phrase))[0].rstrip('.。!？ ').strip('"“”«» ') for phrase in phrases if phrase.strip()
    }
    return {piece.replace('\u2024', '.') for piece in pieces}


_NEGATED = compile_late(r'\b(?:not|nicht|pas|no|never|nor)\b|n[\'’]t\b|不')
_PRONOUN = compile_late(r'\s*(?:it|this|that|they|he|she|es|das|er|sie|c|il|elle)\b|[它他她这]')
"""Begins a sentence that explains the one before."""
_QUOTED = compile_late(r'"([^"]{1,60})"\W*\Z')
_QUESTION = compile_late(r'\A[^.!?\n]{3,120}[?？]\s*(?=\S)')
_SUBJECT = compile_late(
    r'((?:[A-Z0-9][\w.\'’-]*,?\s(?:(?:and|&)\s)?){1,6})(?:is|was|are|were|ist|war|est|es|era)\s+(?:the|an?|d[eia][rse]|eine?|la|le|el|une?)\s|\A([^，。是]{1,8})是'
)
_TAIL = compile_late(
    r',?\s(?:à ne pas|nicht zu|not to be|ahead of|devant|followed by|gefolgt von|suivie? d|and not|not|und nicht|et non'
    r'|although|though|obwohl|while|während|whereas|alors que|but'
    r'|where|who|which)\s.*|\s?[;；].*',
    re.DOTALL,
)
"""What a sentence adds to its answer."""
_WHEN = compile_late(r'\s(?:in|on|im|am|en|um)\s(?=(?:the |\w+ )?\d)')
_MADE = compile_late(
    r'\s(?:ge|ver|er|ent|be)[a-zäöüß]{2,20}(?:t|en)\W*\Z|(?:写|画|作|建|发明|发现|创作|提出|创立|所著?)的\W*\Z'
)
"""At the end of a German sentence, behind who did it: `von Thomas Mann geschrieben`."""
_ENDING = compile_late(r'[а-я]\s((?:[А-Я][\w.’-]*\s?){1,4})[.]?\Z')
_DATED = compile_late(
    r'\A(?:am|im|in|on|at|le|el|en|vom|um)\s(?=\w*\d|the\s|[A-Z])([^.!?\n]{1,60}|\d+\. \w+ \d+)\.?\Z', re.IGNORECASE
)
_NAME = compile_late(r'\A((?:[A-Z][\w.\'’-]*\s(?:(?:da|de|van|von|der|del|al|of|the)\s){0,2}){2,4})(?=[a-zà-ÿ])')
_PLACE = compile_late(
    r'\s(?:in|on|at|by|during|i\.e\.|while|from|von|de|am|im|par|por|en|le)\s((?:the\s(?=[a-z]+\W*\Z)|the\s(?=[A-Z0-9])|(?=[A-Z0-9]))\w[^.!?。]{0,60}?)[.!]?\Z'
)
_LABELLED = compile_late(r'\A[^:：\n]{1,30}[:：]\s*(\S[^:：\n]*)\Z')
_ASIDE = compile_late(
    r'([^()（]{1,80}?)\s?[(（][^()（）]{1,60}[)）]\W?\Z|(.{2,80}?)\s(?:it is|is (?:correct|right|the one)|war es)\W*\Z'
)
_ITEM = compile_late(r'[,;，；、\n]|(?<!\w)(?:and|und|et|y|&)(?!\w)|和|与|以及')
_BULLET = compile_late(r'^[ \t]{0,20}(?:[-*•]|\d{1,2}[.)])[ \t]{1,20}', re.MULTILINE)


def list_items(text: str) -> list[str]:
    """The items of a list in words, of bullets, or of an array.

    >>> list_items('red, green and blue'), list_items('1. red\\n2. blue'), list_items('["a", "b"]')
    (['red', 'green', 'blue'], ['red', 'blue'], ['a', 'b'])
    """
    pieces = _ITEM.split(_BULLET.sub('', text.strip().strip('.。')))
    return [item for piece in pieces if (item := piece.strip().strip(' []{}()"\'“”`*'))]
