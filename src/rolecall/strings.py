"""Text helpers for the whole package: counts that agree with their nouns, and text that is safe to print."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import IO, Any

_ACTIVE = re.compile('[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]')
_DETAIL = re.compile(r"[^\s'\"]*/[^\s'\"]*|'[^']*'|\d+")
_PLURALS = {'reply': 'replies', 'entry': 'entries', 'category': 'categories', 'match': 'matches', 'batch': 'batches'}


def count_noun(count: int, noun: str) -> str:
    """A number with its noun, in the singular for one.

    >>> count_noun(1, 'message'), count_noun(1200, 'token'), count_noun(2, 'empty reply')
    ('1 message', '1,200 tokens', '2 empty replies')
    """
    if count == 1:
        return f'1 {noun}'
    before, space, last = noun.rpartition(' ')
    return f'{count:,} {before}{space}{_PLURALS.get(last, f"{last}s")}'


def join_words(words: Sequence[str]) -> str:
    """Words as a list in a sentence.

    >>> join_words(['a']), join_words(['a', 'b', 'c'])
    ('a', 'a, b and c')
    """
    return ' and '.join(filter(None, (', '.join(words[:-1]), *words[-1:])))


def end_sentence(text: str) -> str:
    """The text with a full stop, unless it ends a sentence already.

    >>> end_sentence('no answer'), end_sentence('Is it running?')
    ('no answer.', 'Is it running?')
    """
    return text if text.endswith(('.', '?', '!')) else f'{text}.'


def common_length(sequences: Sequence[Any]) -> int:
    """How much texts, or lists of token ids, have in common at their beginning.

    >>> common_length(['abc', 'abd', 'ab']), common_length([(1, 2, 3), (1, 2, 4)])
    (2, 2)
    """
    first, last = min(sequences), max(sequences)
    low, high = 0, min(len(first), len(last)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first[low:middle] == last[low:middle] else (low, middle)
    return low


def mask_details(text: str) -> str:
    """The text without paths, quoted names and numbers: equal for messages of one kind.

    >>> mask_details("data/x1.jsonl: row 7 has no column 'answer'.")
    '… row … has no column ….'
    """
    return _DETAIL.sub('…', text)


def printable(text: str) -> str:
    """The text with every character that could act on a terminal (or hide) written out. Line breaks and tabs stay.

    >>> printable('red: \\x1b[31m, flipped: \\u202e')
    'red: ␛[31m, flipped: \\\\u202e'
    """
    return _ACTIVE.sub(lambda match: _name_character(match.group()), text)


def _name_character(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return '␡' if code == 0x7F else f'\\u{code:04x}'


def wrap_for(stream: IO[str], text: str, *, hang: int = 2) -> str:
    """The text wrapped between words, if `stream` is a terminal that is too narrow for it.

    Lines with a command to copy stay whole. `hang` is the indent of what follows a break.
    """
    try:
        columns = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError, AttributeError):
        columns = 0
    if not columns or all(len(line) <= columns for line in text.split('\n')):
        return text
    import textwrap

    if max(map(len, text.split())) + hang + 2 > columns:
        hang = 2
    return '\n'.join(
        line
        if len(line) <= columns or ' rolecall run ' in line
        else textwrap.fill(
            line,
            max(columns, hang + 20),
            subsequent_indent=' ' * (len(line) - len(line.lstrip()) + hang),
            drop_whitespace=True,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in text.split('\n')
    )


def edit_distance(left: str, right: str) -> int:
    """How many letters have to be inserted, deleted or replaced.

    A column of the usual table is two bit sets, of the steps up and down in it (Myers 1999), and costs a few additions.

    >>> edit_distance('kitten', 'sitting')
    3
    """
    places: dict[str, int] = {}
    for place, letter in enumerate(left):
        places[letter] = places.get(letter, 0) | 1 << place
    whole, last = (1 << len(left)) - 1, 1 << len(left) >> 1
    up, down, distance = whole, 0, len(left)
    for letter in right:
        equal = places.get(letter, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        more, fewer = down | ~(diagonal | up) & whole, up & diagonal
        distance += bool(more & last) - bool(fewer & last) if left else 1
        more, fewer = more << 1 | 1, fewer << 1
        up, down = (fewer | ~(diagonal | more)) & whole, more & diagonal & whole
    return distance


def number_repeats(names: Iterable[str]) -> list[str]:
    """The names, with a number after those that occurred before.

    >>> number_repeats(['a', 'b', 'a'])
    ['a', 'b', 'a (2)']
    """
    counts: Counter[str] = Counter()
    numbered = []
    for name in names:
        counts[name] += 1
        numbered.append(name if counts[name] == 1 else f'{name} ({counts[name]})')
    return numbered
