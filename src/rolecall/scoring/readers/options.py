"""Which of the options that a reply names it chooses: `the answer is C`, `C is correct`, `so C`, or nothing but `C`."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise

from rolecall.patterns import compile_late
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.mentions import AFTER, AROUND, OPERATOR, Mentions, is_apart
from rolecall.scoring.readers.phrases import skip_opening
from rolecall.scoring.readers.reading import Candidate, Page

_FILLER = 60
"""Characters between `is` and the option: `is therefore most likely option (C)`."""
_LATELY = 400
"""Characters from the end in which `so C` is the conclusion of a reply."""
_BECAUSE = compile_late(
    r'\s+(?:because|since|as|weil|da|car|porque|puisque|rather than|over|instead of|not|statt|plutôt que'
    r'|and here|for sure|for certain|without a doubt|i think|i guess|i believe|definitely|obviously|probably|clearly'
    r'|it is)(?![a-z])'
    r'|\s[A-Z]|\s?因'
)
_SMALL = compile_late(r'[\s("*\[]*(?P<x>[a-z])(?=[\s.,;:)"\'*\]]|\Z)')
_SMALL_FIRST = compile_late(r'\W*(?P<x>[a-z])[.)]\s')
_ITEM = compile_late(
    r'[ \t*>#+•☐-]*(?:\d{1,2}\.\s)?(?:\[.\]\s|☐\s|☑\s)?(?:[^\W\d]{3,10}\s)?\(?[A-Za-z][.):|]|\|\s*[A-Za-z]\s*\|'
)
_PRONOUN = compile_late(r'\s(?:it|he|she|they|this|that|we|you|i|there)\b', re.IGNORECASE)
_IF = compile_late(
    r'(?<![a-z])(?:if|when|unless|wenn|falls|si)(?![a-zà-ÿ])|如果|若|(?<![a-z])(for|in|für|bei|pour|dans)(?![a-zà-ÿ]).*(?<![a-z])\1(?![a-zà-ÿ])'
)
_PREPOSITION = compile_late(r'(?<![a-z])(?:of|and|to|from|with|at|in|on|by|for|per|or|than|through|into)\s\Z')
_CLAUSE_END = compile_late(r'\s*(?:[.,;:!—–。，！]|\Z|(?:because|since|as|weil|da|car|porque)\b)')
_AROUND_CLAUSE = ' ,.;:!?—–-*"\')。，！'
_NOES = ('no', '否', 'nein', 'non')
_UNDECIDED = compile_late(
    r'(?<![a-z])(?:answer|question|statement|yes|no(?! longer)|know|known|clear|certain|sure|possibl[ey]'
    r'|simple|might|either|whether|both'
    r'|always|all|every|necessarily|only|enough|specified|given|stated|mentioned)(?![a-z])|可能|是否|どちら'
)
"""In a sentence whose `not` is no answer."""
_TEXT_END = compile_late(
    r'[\s"\'*)]*(?:[.,;:(!—–。，]|\Z|\s(?:because|since|as|which|who|that|and not|not|weil|car|porque|qui|qu[e\'’])\b)'
)
_SUBJECT = compile_late(r'\W*(?:it|this|that|they|he|she|es|das|er|sie|il|elle|cela|它|这)\s?')
_OTHERWISE = compile_late(r'(?<![a-z])(?:otherwise|else|sonst|andernfalls|sinon|si no)(?![a-z])|否则|不然')
_ASKS = compile_late(r'\W*(?:is|are|was|does|could|can|would|should|ist|est|es)\s')
_DATED = compile_late(r'(?<![a-zà-ÿ])(?:in|at|on|im|um|am|en|à|a las|from|von|aus|de)\s+\Z|[在于]\Z')
_CONDITION = compile_late(r'\s(?:if|when|falls|wenn|si)\s')
_SMALL_LIST = compile_late(r'[\W_]*[a-j](?:(?:[\W_]+|\s+and\s+)[a-j])+[\W_]*')
_COMPLEMENTS = compile_late(r'(\w+) (?:in|un|im|ir|non|non-|not |dis)\1|true false')


@lru_cache(maxsize=16)
def _whole(role: str) -> re.Pattern[str]:
    """A sentence that is nothing but yes or no in other words: `It does not.`"""
    words = f'{CUES.any_of(role)}|{CUES.any_of(role.replace("whole", "also"))}'
    return re.compile(rf'\W*(?:(?:{CUES.any_of("conclude")}|{CUES.any_of("and")})\W*)?(?:{words})\W*')


class Options(Mentions):
    """The options of a question: letters with their texts, or words. A `Family`."""

    def _small_list(self, page: Page, start: int, end: int) -> Candidate | None:
        """A list of small letters, where several may be right: `a, c`."""
        if not self.several or not _SMALL_LIST.fullmatch(page.text, start, end):
            return None
        chosen = ''.join(sorted(set(re.findall(r'\b[a-z]\b', page.text[start:end])))).upper()
        return Candidate(chosen, *page.strip(start, end)) if set(chosen) <= set(self.labels) else None

    chooses = True
    cues = 'of_choices'

    @property
    def is_pair(self) -> bool:
        """Whether the options are yes and no, in any language."""
        return len(self.values) > len(self.labels)

    def declared(self, page: Page, start: int, end: int) -> Candidate | None:
        candidate = self.fills(page, start, end) or self.follows(page, start, end)
        measured = candidate and self.lettered and re.search(r'\d', page.text[start : candidate.start])
        return None if measured and not self._is_called(page, candidate) else candidate  # type: ignore[arg-type]

    def heads(self, page: Page, start: int, end: int) -> Candidate | None:
        return self.fills(page, start, end) or self.leads(page, start, end)

    def follows(self, page: Page, start: int, end: int) -> Candidate | None:
        article = CUES.article.match(page.low, start, min(end, start + 80))
        begin = article.end() if article else start
        stop = min(page.sentence_end(begin, end), begin + 160)
        chosen = self._chosen(page, begin, max(stop, min(end, begin + 2)), head=True)
        if len({mention.value for mention in chosen if page.text[mention.start].islower()}) > 1 and self.lettered:
            return None  # parts of an answer
        small = _SMALL.match(page.text, begin, end) if self.lettered else None
        if small and small['x'].upper() in self.labels and not re.match(r'[aei]\s+\w', page.text[small.start('x') :]):
            return Candidate(small['x'].upper(), *small.span('x'))
        by_text = self._by_text(page, begin, stop, whole=False)
        if not chosen or chosen[0].start - begin > _FILLER or (by_text and chosen[0].start > by_text.start):
            return by_text
        line = page.text.rfind('\n', start, chosen[0].start) + 1
        if line and self._in_a_list(page, line, stop):
            return None
        return self._settle(page, chosen, 0)

    def precedes(self, page: Page, start: int, end: int) -> Candidate | None:
        chosen = self._chosen(page, start, end)
        for mention in self._find(page, max(start, end - 4), end):
            if mention not in chosen and not self._is_option(page, mention) and not self._is_denied(page, mention):
                chosen.append(mention)
        if chosen and end - chosen[-1].end <= _FILLER:
            return self._settle(page, chosen, -1)
        return self._by_text(page, *page.strip(start, end), whole=False)

    def fills(self, page: Page, start: int, end: int) -> Candidate | None:
        if end - start > 400:
            return None
        if small_list := self._small_list(page, start, end):
            return small_list
        if by_text := self._by_text(page, *page.strip(start, end), whole=True):
            return by_text
        if self.lettered and (small := re.compile(r'[\W_]*(?P<x>[a-z])[\W_]*').fullmatch(page.text, start, end)):
            return Candidate(small['x'].upper(), *small.span('x')) if small['x'].upper() in self.labels else None
        if self.is_pair and end - start < 60:
            for role, label in self._pair.items():
                if _whole(role).fullmatch(page.low, start, end):
                    return Candidate(label, *page.strip(start, end))
        mentions = list(self._find(page, start, end, head=True))
        if not mentions or CUES.lead_in.sub('', page.low[start : mentions[0].start]).strip(AROUND):
            return None
        first = mentions[0]
        if first.value in self.labels and self._is_listed(page, start, first, end):
            return None
        rest = page.text[self._own_end(page, str(mentions[-1].value), mentions[-1].end) : end]
        if len(mentions) > 1:
            if len({mention.value for mention in mentions}) == 1 and not rest.strip(AROUND):
                return mentions[-1]
            is_list = all(self._joined(page, left, right) for left, right in pairwise(mentions))
            is_list = is_list and not rest.strip(AROUND)
            span = first.start, mentions[-1].end
            return Candidate(self._combine(page, *span), *span) if is_list else None
        if not CUES.lead_in.sub('', rest.lower()).strip(AROUND + '项') and not re.search('[✗✘❌✖]', rest):
            return first
        if not self.lettered or self._in_a_list(page, start, end):
            return None
        labelled = re.match(r'[)\]】*"\s]{0,3}[.):、]|[)\]】]|\s[-–—]\s', rest) or self._by_text(
            page, first.end, end, whole=True
        )
        brief = len(rest.split()) <= 4 or rest.rstrip()[-1:] in '.!?。*)$'
        one_sentence = page.sentence_end(first.end + 2, end) >= end - 3
        return first if labelled and brief and one_sentence and not self._is_wrong(page, first, end) else None

    def _in_a_list(self, page: Page, start: int, end: int) -> bool:
        """Whether this line and the one before or after it are items: a list of the options."""
        if not self.lettered or not _ITEM.match(page.text, start):
            return False
        above = page.text.rfind('\n', 0, max(0, page.text.rfind('\n', 0, start))) + 1
        below = re.compile(r'\n\s*').search(page.text, max(start, end - 1))
        listed_above = '\n' in page.text[above:start] and _ITEM.match(page.text, above)
        return bool(listed_above or (below and _ITEM.match(page.text, below.end())))

    def _is_listed(self, page: Page, start: int, mention: Candidate, end: int) -> bool:
        """Whether a line is one of a list of the options: `D. Perth` below `C. Melbourne`."""
        at = self.labels.index(str(mention.value)) if self.lettered else 0
        above = page.text.rfind('\n', 0, max(0, start - 1)) + 1
        neighbours = ((above, at - 1, above < start), (end + 1, at + 1, page.text[end : end + 1] == '\n'))
        return self.lettered and any(
            adjoins
            and label in range(len(self.labels))
            and _ITEM.match(page.text, line)
            and self.labels[label] in page.text[line : line + 8]
            for line, label, adjoins in neighbours
        )

    def leads(self, page: Page, start: int, end: int, *, correcting: bool = False) -> Candidate | None:
        stop = min(page.sentence_end(start, end), start + 120)
        if by_text := self._by_text(page, start, stop, whole=False):
            return (
                by_text if page.text[by_text.end : by_text.end + 2].strip()[:1] in ('', *'.,;:!()-–—*"\'。，') else None
            )
        if self._depends(page, start, end):
            return Candidate(None, start, stop)
        if self.is_pair:
            for role, label in self._pair.items():
                whole = _whole(role).match(page.low, start, stop)
                ends = page.strip(start, whole.end(), _AROUND_CLAUSE)[1] if whole else start
                if whole and _CLAUSE_END.match(page.low, ends):
                    return Candidate(label, start, ends)
        if self.several and len({mention.value for mention in self._find(page, start, end)}) > 1:
            return None
        small = _SMALL_FIRST.match(page.text, start, end) if self.lettered else None
        mentions = list(self._find(page, start, max(stop, min(end, start + 4)), head=True))
        if small and small['x'].upper() in self.labels and len(page.text) - small.end() < 80:
            mentions = [Candidate(small['x'].upper(), *small.span('x'))]
        if not mentions or CUES.lead_in.sub('', page.low[start : mentions[0].start]).strip(AROUND):
            return None
        first = mentions[0]
        if self.lettered and page.text[first.start].islower() and (end - first.end > 80 or '(b)' in page.text[:end]):
            return None  # the first part of an answer
        tail = page.text[first.end : min(end, first.end + 60)]
        asked = tail.lstrip(')]*" ')[:1] in ('?', '？') and re.search(r'\w', tail)
        is_list = len(mentions) > 1 and self._joined(page, first, mentions[1])
        if first.value is None or asked or is_list or self._in_a_list(page, start, stop):
            return None
        wrong = self.lettered and self._is_wrong(page, first, page.end)
        after = page.strip(first.end, end)[0]
        taken_back = not self.lettered and any(
            cue.start() == after for cue in CUES.corrects.find_all(page, after, after + 12)
        )
        if wrong or taken_back or OPERATOR.match(tail) or _CONDITION.match(tail):
            return None
        return (
            first
            if AFTER.match(page.text, first.end)
            or (_BECAUSE.match(tail) and page.text[start] not in '"“')
            or (not self.lettered and (_PRONOUN.match(tail) or page.text[first.end - 1] == ','))
            else None
        )

    def concludes(self, page: Page, start: int, end: int) -> Candidate | None:
        if self._depends(page, page.last_sentence(start, end)[1] - 1, end):
            return Candidate(None, *page.last_sentence(start, end))
        chosen = self._chosen(page, start, end)
        cut = self.lettered and page.is_cut(end)
        lately = page.last_sentence(start, end)[0] if cut else end - _LATELY
        ends: list[Candidate] = []
        accepted: dict[str, Candidate] = {}
        for at, mention in enumerate(chosen):
            limit = min(page.sentence_end(mention.end + 2, end) + 2, mention.end + 90, end)
            if at + 1 < len(chosen):
                limit = min(limit, chosen[at + 1].start)
            concluded = mention.start >= lately and self._is_concluded(page, mention, start)
            if self._is_wrong(page, mention, limit):
                continue
            settled = self._settle(page, chosen, at)
            if mention.value is None or settled is None or settled.value is None:
                continue
            if self._is_right(page, mention, limit, end) and (mention.start >= lately or not cut):
                accepted[settled.value] = mention
                ends.append(mention)
            elif concluded:
                ends.append(mention)
        if len(accepted) > 1 and self.several:
            first = next(iter(accepted.values()))
            return Candidate(''.join(sorted(set(''.join(accepted)))), first.start, ends[-1].end)
        if len(accepted) > 1 and ends[-1] in accepted.values():
            before, last = list(accepted.values())[-2:]
            contrast = CUES.contrast.search(page.low, before.end, last.start)
            if contrast or self._is_concluded(page, last, start):
                return last
            return self._only_one(page, start, end) if self.lettered else None
        if ends:
            return (
                Candidate(next(iter(accepted)), ends[-1].start, ends[-1].end) if self.several and accepted else ends[-1]
            )
        return (
            self._judged(page, start, end)
            or self._only_one(page, start, end)
            or self._opposite(page, start, end)
            or self._left_over(page, start, end)
        )

    def _left_over(self, page: Page, start: int, end: int) -> Candidate | None:
        """The only option that is not ruled out, where all others are: `Neither A nor B nor D fits.`"""
        if not self.lettered or self.several or len(self.labels) < 3 or page.is_cut(end):
            return None
        named = list(self._find(page, start, end))
        chosen = self._chosen(page, start, end)
        out = {mention.value for mention in named if mention not in chosen and self._is_option(page, mention)}
        wrong: Candidate | None = None
        for mention in reversed(chosen):
            if self._is_wrong(page, mention, mention.end + 60) or (wrong and self._joined(page, mention, wrong)):
                wrong = mention
                out.add(mention.value)
            else:
                wrong = None
        left = [label for label in self.labels if label not in out]
        return Candidate(left[0], named[-1].start, named[-1].end) if len(left) == 1 else None

    def _opposite(self, page: Page, start: int, end: int) -> Candidate | None:
        """Of two words the one that is left, where the last sentence denies the other: `The argument is not valid.`"""
        if self.lettered or not _COMPLEMENTS.fullmatch(' '.join(sorted(self.labels, key=len)).lower()):
            return None
        named = list(self._find(page, *page.last_sentence(start, end)))
        if len(named) != 1 or not self._is_denied(page, named[0]):
            return None
        other = self.labels[self.labels.index(str(named[0].value)) - 1]
        return Candidate(other, named[0].start, named[0].end)

    def _judged(self, page: Page, start: int, end: int) -> Candidate | None:
        """What the last clause of a sentence says, for yes and no."""
        begin, stop = page.last_sentence(start, end)
        if not self.is_pair:
            return None
        clause = page.clause_start(stop - 1, begin)
        return self.fills(page, clause, stop) if clause > begin else None

    def _depends(self, page: Page, place: int, end: int) -> bool:
        """Whether the sentence at a place says yes under one condition and no under another: `yes, if …; no, if …`."""
        start = max(page.start, *(page.text.rfind(sign, page.start, place) + 1 for sign in '.?!\n。'))
        stop = min(end, *(at for sign in '.?!\n。' if (at := page.text.find(sign, place)) > 0), place + 200)
        condition = _IF.search(page.low, start, stop) and (self.is_pair or _OTHERWISE.search(page.low, start, stop))
        return bool(condition) and len({mention.value for mention in self._find(page, start, stop)}) > 1

    def _is_right(self, page: Page, mention: Candidate, limit: int, end: int) -> bool:
        """Whether an option is said to be the one behind its name."""
        right = CUES.right.match(page.low, mention.end, limit)
        if right is None or right[0].strip(' -:.') in self.values:  # `no yes no yes`
            return False
        asked = page.text[page.sentence_end(mention.end, end) :][:1] in ('?', '？')
        return not asked or '?' in right[0]

    def _is_concluded(self, page: Page, mention: Candidate, start: int) -> bool:
        """Whether `so`, `it is` or `but` leads to a mention."""
        begin = max(start, mention.start - 40)
        cues = [
            match.end()
            for finder in (CUES.concludes, CUES.corrects)
            for match in finder.find_all(page, begin, mention.start)
        ]
        cues += [match.end() for match in CUES.contrast.finditer(page.low, begin, mention.start)]
        if not cues or not re.fullmatch(r'[\s,:，]*[^.,!?。，\n=<]{0,24}', page.low[max(cues) : mention.start]):
            return False
        if CUES.contrast.search(page.low, max(cues) - 8, max(cues)) and not re.match(
            r'[)\]"*]*\s*(?:[.!。]|\Z)', page.text[mention.end :]
        ):
            return False
        return not CUES.others.find(page, page.clause_start(mention.start, begin), mention.start)

    def _only_one(self, page: Page, start: int, end: int) -> Candidate | None:
        """The only option that a short reply or its last sentence names, by a marked letter, a text or a word."""
        begin, stop = page.last_sentence(start, end)
        alone = begin <= start + 1
        named = self._chosen(page, begin if self.lettered else start, stop)
        if self.lettered:
            if len(named) > 1 and self._joined(page, named[-2], named[-1]):
                return None
            labelled = bool(named) and page.text[: named[-1].start].rstrip(' (*').endswith(':')
            ended = alone or labelled or page.text[stop:end].strip()
            named = [
                mention
                for mention in named
                if (self._is_called(page, mention) or self._ends(page, mention, stop)) and ended
            ]
        elif len({mention.value for mention in named}) > 1 or end - start > 600:
            named = [mention for mention in named if mention.start >= begin > start]
        else:
            named = [mention for mention in named if self._is_unconditional(page, mention, start)]
        concluding = CUES.concludes.find(page, begin, begin + 12)
        named += self._named_texts(page, begin, stop, alone=alone, concluding=alone or bool(concluding))
        settled = concluding and self.is_pair and not any(mention.start >= begin for mention in named)
        if (settled or not named) and not page.is_cut(end):
            return self._denial_or_affirmation(page, begin, stop)
        named = [mention for mention in named if not self._is_wrong(page, mention, stop)]
        values = {mention.value for mention in named}
        last = self.lettered and bool(named) and self._ends(page, named[-1], stop)
        return named[-1] if len(values) == 1 or last else None

    def _denial_or_affirmation(self, page: Page, start: int, end: int) -> Candidate | None:
        """No or yes, where a sentence that answers nothing else denies or affirms: `So Sara may not use the pool.`"""
        if not self.is_pair or self._pair['whole_no'].lower() not in _NOES:
            return None
        denied = CUES.negates.find(page, start, end)
        said = denied or CUES.affirms.find(page, start, end)
        open_ = (
            CUES.refuses.find(page, start, end)
            or CUES.closings.find(page, start, end)
            or CUES.condition.match(page.low, start, end)
        )
        if said is None or open_ or _UNDECIDED.search(page.low, start, end):
            return None
        return Candidate(self._pair['whole_no' if denied else 'whole_yes'], said.start(), said.end())

    def _is_unconditional(self, page: Page, mention: Candidate, start: int) -> bool:
        """Whether a word is the reply's own answer: not that of others, nor one of two cases."""
        begin = page.sentence_start(mention.start, start)
        stop = page.sentence_end(mention.end, page.end)
        condition = CUES.condition.match(page.low, begin, mention.start)
        return not (
            condition
            or CUES.others.find(page, page.clause_start(mention.start, begin), mention.start)
            or CUES.refuses.find(page, begin, stop)
        )

    def _ends(self, page: Page, mention: Candidate, stop: int) -> bool:
        """Whether a letter is the last word of a sentence, and not that of `the concentration of B`."""
        begin = page.sentence_start(mention.start, max(0, mention.start - _LATELY))
        within = _PREPOSITION.search(page.low, max(0, mention.start - 12), mention.start)
        clause = page.clause_start(mention.start, begin)
        open_ = _IF.search(page.low, begin, mention.start) or CUES.others.find(page, clause, mention.start)
        asked = page.text[stop : stop + 1] in ('?', '？') and _ASKS.match(page.low, begin)
        return not (within or open_ or asked or page.text[mention.end : stop].strip(AROUND))

    def _named_texts(self, page: Page, start: int, end: int, *, alone: bool, concluding: bool) -> list[Candidate]:
        """The only option whose text a sentence names as its answer; of overlapping ones the longest."""
        places = []
        for text, label in self.texts.items() if end - start <= 300 else ():
            at = page.low.find(text, start, end)
            if at >= 0 and is_apart(page, at, at + len(text)):
                places.append(Candidate(label, at, at + len(text)))
        inner = {
            small
            for small in places
            for large in places
            if large.start <= small.start < small.end <= large.end and small != large
        }
        outer = [place for place in places if place not in inner and not self._is_denied(page, place)]
        contrasts = list(CUES.contrast.finditer(page.low, start, end)) if len(outer) > 1 else []
        outer = [place for place in outer if not contrasts or place.start > contrasts[-1].start()]
        if len(outer) != 1:
            return [] if outer else self._equal_text(page, start, end)
        named = outer[0]
        if not re.search(r'[^\W\d]{3}|[一-鿿]{2}', page.low[named.start : named.end]):
            emphasised = page.raw[named.start - 2 : named.start] == page.raw[named.end : named.end + 2] == '**'
            dated = concluding and _DATED.search(page.low, start, named.start)
            opened = skip_opening(page, start, end) > start and not page.low[
                skip_opening(page, start, end) : named.start
            ].strip(AROUND)
            last = (dated or opened) and not page.low[named.end : end].strip(AROUND)
            return outer if emphasised or last else self._equal_text(page, start, end)
        if not concluding:
            last = not page.low[named.end : end].strip(AROUND) and not page.is_cut(end)
            said = CUES.copula.search(page.low, max(start, named.start - 24), named.start)
            return outer if last and (said or _SUBJECT.fullmatch(page.low, start, named.start)) else []
        subject = not page.low[start : named.start].strip(AROUND)
        brief = alone and end - start < _FILLER * 2
        return outer if subject or brief or _TEXT_END.match(page.low, named.end, end) else []

    def _equal_text(self, page: Page, start: int, end: int) -> list[Candidate]:
        """The option that the last `is` or `=` of a sentence gives: `W = 6 N × 4 m = 24 J.`"""
        copulas = [] if page.is_cut(end) else list(CUES.copulas.finditer(page.low, start, end))
        equal = self._by_text(page, copulas[-1].end(), end, whole=True) if copulas else None
        return [equal] if equal else []

    def mentions(self, page: Page, start: int, end: int) -> list[Candidate]:
        chosen = self._chosen(page, start, end) or list(self._find(page, start, end))
        return [mention for mention in chosen if mention.value is not None]

    def rivals(self, page: Page, start: int, end: int) -> list[Candidate]:
        return list(self._find(page, max(start, end - 300), end))
