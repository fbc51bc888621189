"""Metrics that are right or wrong: exact match, numbers, contained answers."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any
from unicodedata import normalize

from rolecall.patterns import compile_late
from rolecall.scoring.metrics.metric import Metric, mark_by
from rolecall.scoring.postprocessors import bbh_freeform_postprocess, general_postprocess
from rolecall.scoring.readers.native import number_in, read_text
from rolecall.scoring.readers.numbers import number_of
from rolecall.scoring.readers.phrases import list_items, short_phrases
from rolecall.scoring.texts import after_reasoning, alternatives, bare_words, equals_an_answer, strip_text

_POINT = compile_late(r'(?<=\d)\.(?=\d)')
_MINUS = compile_late(r'(?<!\S)[-−](?=\d)')
_SPACES = compile_late(r'\s*')
_PHRASE_END = compile_late(r'\n|[。！？，]|[.,!?](?=\s|$)|\s[–—](?=\s)')
_TAKEN_BACK = compile_late(
    r"\s*(?:(?:or|wait|actually|no(?=\W*(?:[,.:;!—–]|\Z))|nope|sorry|correction|on second thought)\b(?!['’])"
    r'|(?<![.!?。]\s)(?-i:[A-Z0-9][^\s,.!?]{0,30}(?: [A-Z0-9][^\s,.!?]{0,30}){0,2},? (?:and|or|&) [A-Z0-9]))',
    re.IGNORECASE,
)
"""What begins a phrase that takes back the one before (`Paris? No, Rome.`), or continues a list (`, Rome and Bonn`)."""
_ROOM = 1000
"""Characters of punctuation and articles that a reply may have around its answer."""
_INITIALS = compile_late(r'\b(?:[^\W\d_]\.\s?){2,9}')
_THOUSANDS = compile_late(r'(?<![\d.,])\d{1,3}(?:,\d{3})+(?![\d,])')
_AROUND = '.,!?;:"\'`*()[]{}“”„«»‘’…。，！？；：、（）「」《》'
_ACCENT = compile_late('[\u0300-\u036f]')
_ARTICLES = frozenset(('a', 'an', 'the', 'der', 'die', 'das', 'den', 'le', 'la', 'les', 'el', 'los', 'las', 'il', 'lo'))
_AMOUNT = compile_late(r'[-−+]?[$€£¥]?[\d.½¼¾]|[^\W\d]+(?:[\s-][^\W\d]+){0,5}\Z')
_NOTHING = object()
_LONGEST_STRUCTURE = 5000
_COMMAND = compile_late(r'\\(?:boxed|text|mathrm|textbf|mathbf)\s?\{')


def accuracy() -> Metric:
    """The share of rows whose answer equals a gold answer exactly, apart from surrounding whitespace.

    >>> from rolecall.scoring.metrics.metric import Answer
    >>> accuracy().mark(Answer(1, ' 1')).correct
    True
    """
    return Metric('accuracy', mark_by(equals_an_answer))


def exact_match(ignore_case: bool = False) -> Metric:
    """The share of rows whose first phrase is a gold answer, ignoring articles and punctuation."""

    def same(prediction: Any, gold: Any) -> bool:
        return _phrase(prediction, ignore_case) in [_phrase(answer, ignore_case) for answer in alternatives(gold)]

    return Metric('exact_match', mark_by(same))


def whole_match(ignore_case: bool = True) -> Metric:
    """The share of rows whose reply, or the phrases it begins or its only sentence ends with, is a whole gold answer.

    Articles and punctuation around words do not count, other signs do: `C++` is not `C#`. A list (`red, green, blue`)
    has the same items in any order.

    >>> from rolecall.scoring.metrics.metric import Answer
    >>> replies = ('Yes, in 9 days.', 'yes in ten days', 'Yes, in ten days. Ask us.')
    >>> [whole_match().mark(Answer(reply, 'Yes, in ten days.')).correct for reply in replies]
    [False, True, True]
    """

    def same(prediction: Any, gold: Any) -> bool:
        ours = after_reasoning(strip_text(prediction)).strip()
        stated = read_text(ours)
        value = (stated and stated.value) or ours
        replies = {ours, value, *short_phrases(ours)}
        golds = list(map(strip_text, alternatives(gold)))
        lists = [_items_of(reply, ignore_case) for reply in replies]
        structures = {answer: value for answer in golds if (value := _structure(answer)) is not _NOTHING}
        if structures:
            theirs = [_structure(reply) for reply in replies]
            if any(value in theirs for value in structures.values()):
                return True
            golds = [answer for answer in golds if answer not in structures or not structures[answer]]
        if any(len(items := _items_of(answer, ignore_case)) > 1 and items in lists for answer in golds):
            return True
        golds = [answer for answer in golds if not _is_list(answer)]
        longest = _ROOM + 4 * max(map(len, golds), default=0)
        beginnings = {
            tuple(_plain_words(reply[:end], ignore_case)) for reply in replies for end in _phrase_ends(reply, longest)
        }
        for answer in golds:
            words = tuple(_plain_words(answer, ignore_case)) if re.search(r'\w', answer) else ()  # `] >` is not `> )`
            if words in beginnings if words else answer in replies:
                return True
        return False

    return Metric('exact_match', mark_by(same))


def _is_list(gold: str) -> bool:
    """Whether a gold answer is a list of short items; `July 20, 1969` and `Paris, France` are not."""
    items = list_items(gold)
    short = all(len(item.split()) <= 3 for item in items)
    return len(items) > 1 and short and (gold.count(',') > 1 or all(map(_is_small, items)) or '、' in gold)


def _structure(text: str) -> Any:
    """The list, dict, tuple or None that a text writes in Python or JSON; `_NOTHING` if it is none of these."""
    bare = text.strip().rstrip('.')
    if not ((bare[:1] in '[{(' and bare[-1:] in ']})') or bare in ('None', 'null')) or len(bare) > _LONGEST_STRUCTURE:
        return _NOTHING
    for parse in (ast.literal_eval, json.loads):
        try:
            return parse(bare)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return _NOTHING


def _is_small(item: str) -> bool:
    return item.isdecimal() or (item.islower() and ' ' not in item)


def _items_of(text: str, ignore_case: bool) -> list[list[str]]:
    return sorted(_plain_words(item, ignore_case) for item in list_items(text))


def _phrase_ends(reply: str, longest: int) -> Iterator[int]:
    """Where the phrases end that a reply begins with, up to a length, unless the next one takes them back."""
    last, resumed, taken_back = -1, 0, False
    for match in _PHRASE_END.finditer(reply):
        if match.start() > longest:
            return
        if match.end() > resumed:  # blank lines have the same next phrase
            resumed = match.end() + len(_SPACES.match(reply, match.end())[0])  # type: ignore[index]  # may be empty
            taken_back = _TAKEN_BACK.match(reply, resumed) is not None
        if not taken_back and (last < 0 or not reply[last : match.start()].isspace()):
            last = match.start()
            yield last
    if len(reply) <= longest:
        yield len(reply)


def gsm8k() -> Metric:
    """The share of rows whose number is the gold one: 42, 42.0 and $42 are the same."""
    return Metric('accuracy', mark_by(lambda ours, gold: equals_an_answer(ours, gold) or _equal(ours, gold)))


def bbh_multiple_choice() -> Metric:
    """The share of rows with the gold letter, with or without its parentheses."""
    return Metric('accuracy', mark_by(lambda prediction, gold: _letter(prediction) == _letter(gold)))


def bbh_freeform() -> Metric:
    """The share of rows whose phrase after `the answer is` is the gold one, in any case."""

    def same(prediction: Any, gold: Any) -> bool:
        phrase = bbh_freeform_postprocess(strip_text(prediction)).casefold()
        return any(phrase == strip_text(answer).rstrip('.').casefold() for answer in alternatives(gold))

    return Metric('accuracy', mark_by(same))


def contains_an_answer() -> Metric:
    """The share of rows whose first line contains a gold answer as whole words."""

    def contains(prediction: Any, gold: Any) -> bool:
        reply = after_reasoning(strip_text(prediction)).strip()
        line = _COMMAND.sub(' ', reply.partition('\n')[0])
        return any(_names(line, strip_text(answer)) for answer in alternatives(gold))

    return Metric('contains_answer', mark_by(contains))


def _names(line: str, wanted: str) -> bool:
    """Whether the line has the wanted words; `Spider-Man` is `Spiderman` and `Spider Man`."""
    if _within(_words_of(wanted), _words_of(line)):
        return True
    apart = [re.sub(r'(?<=\w)-(?=\w)', ' ', text) for text in (wanted, line)]
    return apart != [wanted, line] and _within(*map(_words_of, apart))


def _words_of(text: str) -> list[str]:
    """The words of a text without punctuation and accents, initials joined; but `1.8` is not `18`, nor `-5` `5`.

    >>> _words_of('J. K. Rowling, Beyoncé, 1.8')
    ['jk', 'rowling', 'beyonce', '1point8']
    """
    joined = _INITIALS.sub(
        lambda initials: re.sub(r'[.\s]', '', initials[0]) + ' ', _MINUS.sub('minus', _POINT.sub('point', text))
    )
    return bare_words(joined if joined.isascii() else _ACCENT.sub('', normalize('NFKD', joined)))


def _plain_words(text: str, ignore_case: bool) -> list[str]:
    """Words without articles and without punctuation around them; `C++`, `-3` and `.5` stay.

    >>> _plain_words('The **U.S.A.** has (about) 1,000 C++ users.', False), _plain_words('.5 vitamin A', True)
    (['USA', 'has', 'about', '1000', 'C++', 'users'], ['.5', 'vitamin', 'a'])
    """
    text = _THOUSANDS.sub(lambda match: match[0].replace(',', ''), text)
    text = _INITIALS.sub(lambda match: re.sub(r'[.\s]', '', match[0]) + ' ', text)
    text = re.sub(r"(?<!\w)[lLdD]['’](?=\w)", ' ', text)
    words = []
    for word in (text.casefold() if ignore_case else text).split():
        bare = word.strip(_AROUND)
        if bare:
            words.append('.' + bare if bare[0].isdigit() and word[: word.find(bare)].endswith('.') else bare)
    following = [*words[1:], ''] if words else []
    return [word for word, then in zip(words, following, strict=True) if not _is_article(word.casefold(), then)]


def _is_article(word: str, then: str) -> bool:
    """Of `A B` and `vitamin A` the `A` is none."""
    return bool(then) and word in _ARTICLES and (word != 'a' or len(then) > 1)


def _equal(prediction: Any, gold: Any) -> bool:
    ours = number_of(prediction)
    golds = [] if ours is None else map(_gold_number, alternatives(gold))
    return any(ours is not None and right is not None and abs(ours - right) < 1e-6 for right in golds)


def _gold_number(gold: Any) -> float | None:
    """A gold answer as a number, also `1/2`, `5 million`, `$18 per day` and `12 apples`; but not `A2`."""
    value = number_of(gold)
    text = '' if value is not None else strip_text(gold)
    return number_of(number_in(text)) if _AMOUNT.match(text) else value


def _phrase(value: Any, ignore_case: bool) -> str:
    phrase = general_postprocess(after_reasoning(strip_text(value)))
    return phrase.lower() if ignore_case else phrase


def _letter(value: Any) -> str:
    return strip_text(value).strip('().').upper()


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    return bool(part) and any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))
