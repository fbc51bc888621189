"""Scan a reply for what goes wrong beside the answer: a refusal, a loop, another language, a form that was not kept.

A scanner is a function from a reply with its prompt to the characters that show the trouble. All take linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

_OPENING = 400
"""Refusals stand in this many first characters."""
_TAIL, _HOOK, _REPEATS, _SHORTEST_LOOP = 6_000, 16, 4, 120
_LINES, _LINE, _LINES_SHARE = 6, 12, 0.3
_GRAM, _COPIED_WORDS, _COPIED_SHARE, _WORDS_AFTER = 8, 20, 0.6, 2
_LETTERS, _FOREIGN_SHARE, _STOP_WORDS = 20, 0.2, 6
_REASONING_WORDS = 30
_LONG = 200
_LAST_BLOCK = 1_500
_ITEM = re.compile(r'\s*(?:[-*•+|>]|\d+\s*[.):])')
"""How the items of lists begin, which often have no full stop."""
_NUMBERED = re.compile(r'^\W*(?:step\s+)?\d+\s*[.):]\s*', re.IGNORECASE)
_CONTINUES = re.compile(
    r'(?:[,(\[{]|\s[=+*/&\\-]|\b(?:the|a|an|of|and|or|to|is|are|was|in|for|with|that|by|as|we|at|from)) *\Z'
)
_THOUGHT = re.compile(r'<think(?:ing)?>')
_THOUGHT_END = re.compile(r'</think(?:ing)?>')
_ANSWER_CUE = re.compile(
    r'(?:(?:answer|solution|答案)["”*]*\s*(?:is|[:：=])\s*|####\s*|\\boxed\s*\{\s*)[(\["“]?', re.IGNORECASE
)
_ENDS_ANSWER = re.compile(r'(?!\w)(?!\s*(?:,|or|/)\s)')


class Evidence(NamedTuple):
    """The characters of a reply that show the trouble, and what it is where the scanner's name does not say."""

    start: int
    end: int
    note: str = ''


@dataclass(frozen=True, slots=True)
class ScannedReply:
    """A reply with what a scanner may know about it."""

    text: str
    prompt: str = ''
    """What the model was asked last: the last message of a user, or the whole text."""
    gold: Any = None
    ended: str = ''
    """Why the server stopped (`length`, `stop`), where it says so."""
    answered: bool | None = None
    """Whether an answer was read from it; None where nothing reads one."""


Scanner = Callable[[ScannedReply], Evidence | None]


@lru_cache(maxsize=1)
def _tables() -> Mapping[str, Any]:
    import yaml  # type: ignore[import-untyped]  # not for every run

    tables: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix('.yaml').read_text('utf-8'))
    return {
        'refusal': [re.compile(pattern, re.IGNORECASE) for pattern in tables['refusal'].splitlines()],
        'formats': {
            name: tuple(re.compile(pattern, re.IGNORECASE) for pattern in pair)
            for name, pair in tables['formats'].items()
        },
        'scripts': {name: re.compile(f'[{letters}]') for name, letters in tables['scripts'].items()},
        'languages': {name: frozenset(words.split()) for name, words in tables['languages'].items()},
        'answers_anyway': re.compile(tables['answers_anyway'].strip(), re.IGNORECASE),
        'translates': re.compile(tables['translates'].strip(), re.IGNORECASE),
    }


def find_refusal(reply: ScannedReply) -> Evidence | None:
    """The model declines to answer.

    >>> find_refusal(ScannedReply("I'm sorry, but I can't help with that."))
    Evidence(start=0, end=23, note='')
    >>> find_refusal(ScannedReply('He cannot help being late. The answer is 4.'))
    """
    opening, tables = reply.text[:_OPENING], _tables()
    match = next((match for pattern in tables['refusal'] if (match := pattern.search(opening))), None)
    if match is None or tables['answers_anyway'].search(opening, match.end()):
        return None
    return Evidence(*match.span())


def find_loop(reply: ScannedReply) -> Evidence | None:
    """The reply repeats itself: its end has a period, or a line returns again and again under other numbers.

    >>> find_loop(ScannedReply('Well: ' + 'I think so. ' * 20)).start
    5
    """
    text = reply.text.rstrip()
    tail = text[-_TAIL:]
    if tail.count(tail[-_HOOK:]) > _REPEATS and (length := _periodic_end(tail)) >= _SHORTEST_LOOP:
        return Evidence(len(text) - length, len(text))
    lines = [_NUMBERED.sub('', line).strip() for line in text.split('\n')]
    counts = Counter(line for line in lines if len(line) >= _LINE)
    line, count = max(counts.items(), key=lambda entry: entry[1], default=('', 0))
    if count < _LINES or count * len(line) < _LINES_SHARE * len(text) or not re.search(r'[^\W\d_]{3}', line):
        return None
    return Evidence(text.find(line), text.rfind(line) + len(line), f'a line {count} times')


def _periodic_end(text: str) -> int:
    """The length of the longest end that repeats one unit at least `_REPEATS` times; by the prefix function."""
    backwards, borders, longest, border = text[::-1], [0], 0, 0
    for at in range(1, len(backwards)):
        while border and backwards[at] != backwards[border]:
            border = borders[border - 1]
        border += backwards[at] == backwards[border]
        borders.append(border)
        if (at + 1) >= _REPEATS * (at + 1 - border):
            longest = at + 1
    return longest if re.search(r'\w', text[len(text) - longest :]) else 0


def find_language_switch(reply: ScannedReply) -> Evidence | None:
    """The reply is, in good part, in a language that the prompt does not use or ask for.

    >>> question = 'Which of these is right? Explain briefly.'
    >>> find_language_switch(ScannedReply('我认为答案是选项二，因为它最符合题意要求。' * 2, prompt=question)).note
    'Chinese'
    """
    asked, answered = _count_letters(reply.prompt), _count_letters(reply.text)
    if asked.total() < _LETTERS or answered.total() < _LETTERS or _tables()['translates'].search(reply.prompt):
        return None
    for script, count in answered.items():
        share = _FOREIGN_SHARE if script != 'Latin' else 1 - _FOREIGN_SHARE
        if count >= _LETTERS and count >= share * answered.total() and asked[script] < 0.02 * asked.total():
            first = _tables()['scripts'][script].search(reply.text)
            return Evidence(first.start() if first else 0, len(reply.text), script)
    before, after = _main_language(reply.prompt), _main_language(reply.text)
    return Evidence(0, len(reply.text), after) if before and after and before != after else None


def _count_letters(text: str) -> Counter[str]:
    if text.isascii():
        return Counter({'Latin': sum(map(text.lower().count, 'etaoinshrdlu'))})  # most of them: enough for a share
    return Counter(
        {name: count for name, letter in _tables()['scripts'].items() if (count := len(letter.findall(text)))}
    )


def _main_language(text: str) -> str:
    """The Latin-script language whose little words are clearly the most frequent; empty if none is."""
    words = Counter(re.findall(r'[^\W\d_]+', text.lower()))
    counts = {
        name: sum(words[word] for word in own) * (len(own & words.keys()) > 2)
        for name, own in _tables()['languages'].items()
    }
    (first, most), (_, second) = Counter(counts).most_common(2)
    return first if most >= max(_STOP_WORDS, 0.1 * words.total(), 2 * second) else ''


def find_ignored_format(reply: ScannedReply) -> Evidence | None:
    r"""The prompt asks for a form that the reply does not have.

    >>> find_ignored_format(ScannedReply('It is 4.', prompt='2+2? Put the answer in \\boxed{}.')).note
    '\\boxed{}'
    """
    if not reply.text.strip():
        return None
    for name, (asked, form) in _tables()['formats'].items():
        if asked.search(reply.prompt) and not form.search(reply.text):
            return Evidence(0, len(reply.text), name)
    return None


def find_copied_prompt(reply: ScannedReply) -> Evidence | None:
    """Most of the reply is a stretch of the prompt, and nothing follows it.

    >>> question = 'A train leaves at nine and a second train leaves at ten from the same place, how far apart are they'
    >>> find_copied_prompt(ScannedReply(question + '?', prompt=question)).start
    0
    """
    words = list(re.finditer(r'\w+', reply.text))
    if len(words) < _COPIED_WORDS:
        return None
    grams = set(_grams([word.lower() for word in re.findall(r'\w+', reply.prompt)]))
    copied = [gram in grams for gram in _grams([word[0].lower() for word in words])]
    longest, at = (0, 0), 0
    for is_copied, run in groupby(copied):
        length = len(list(run))
        longest = max(longest, (length * is_copied, at))
        at += length
    length, first = longest[0] + _GRAM - 1, longest[1]
    goes_on = reply.answered or len(words) - first - length > _WORDS_AFTER
    if not longest[0] or length < max(_COPIED_WORDS, _COPIED_SHARE * len(words)) or goes_on:
        return None
    return Evidence(words[first].start(), words[first + length - 1].end())


def _grams(words: Sequence[str]) -> Iterator[tuple[str, ...]]:
    return zip(*(words[start:] for start in range(_GRAM)), strict=False)


def find_cut(reply: ScannedReply) -> Evidence | None:
    """The reply ends in the middle: by the server's word, an open bracket or code block, or a sentence without an end.

    >>> find_cut(ScannedReply('The derivative of x is 1. ' * 8 + 'So the slope of the')).start
    207
    """
    text = reply.text.rstrip()
    last = max(text.rfind('\n'), text.rfind('. ')) + 1
    if reply.ended == 'length':
        return Evidence(last, len(text), 'token limit')
    if reply.ended or len(text) < _LONG:
        return None
    end = text[-_LONG:]
    is_open = _CONTINUES.search(end) or re.search(r'\\f?boxed\s*\{[^{}]*\Z', end)
    line = text[last:]
    is_prose = text.count('. ') >= 3 and len(line.split()) >= 8 and text[-1].islower() and ':' not in line[-40:]
    is_prose = is_prose and not _ITEM.match(text[text.rfind('\n') + 1 :]) and '#' not in line
    return Evidence(last, len(text)) if is_open or is_prose else None


def find_missing_answer(reply: ScannedReply) -> Evidence | None:
    """The reply reasons at length and gives no answer that can be read, or never leaves its reasoning.

    >>> find_missing_answer(ScannedReply('<think>Let me see')).note
    'reasoning never ends'
    """
    if _THOUGHT.search(reply.text) and not _THOUGHT_END.search(reply.text):
        return Evidence(0, len(reply.text), 'reasoning never ends')
    long = len(reply.text.split()) >= _REASONING_WORDS
    return Evidence(0, len(reply.text)) if long and reply.answered is False else None


def find_leaked_gold(reply: ScannedReply) -> Evidence | None:
    """The last block of the prompt already gives the gold answer. The characters are those of the prompt.

    >>> find_leaked_gold(ScannedReply('4', prompt='What is 2+2?\\nAnswer: 4', gold='4'))
    Evidence(start=21, end=22, note='')
    """
    start = max(reply.prompt.rfind('\n\n'), len(reply.prompt) - _LAST_BLOCK, 0)
    golds = reply.gold if isinstance(reply.gold, list | tuple) else [reply.gold]
    texts = tuple(text for gold in golds if gold is not None and (text := str(gold).strip()))
    for cue in _ANSWER_CUE.finditer(reply.prompt, start) if texts else ():
        gold = next((text for text in texts if reply.prompt.startswith(text, cue.end())), None)
        if gold is not None and _ENDS_ANSWER.match(reply.prompt, cue.end() + len(gold)):
            return Evidence(cue.end(), cue.end() + len(gold))
    return None


SCANNERS: Mapping[str, Scanner] = {
    'refusal': find_refusal,
    'loop': find_loop,
    'language': find_language_switch,
    'format': find_ignored_format,
    'copied': find_copied_prompt,
    'cut': find_cut,
    'no answer': find_missing_answer,
    'gold in prompt': find_leaked_gold,
}
"""What `rolecall runs scan` looks for."""


def scan_reply(reply: ScannedReply, scanners: Iterable[str] = SCANNERS) -> dict[str, Evidence]:
    """What each scanner finds in a reply."""
    return {name: evidence for name in scanners if (evidence := SCANNERS[name](reply)) is not None}
