"""The option in a reply as OpenCompass and AISBench read it: the first phrase of a list that occurs anywhere decides.

A phrase stands for many wordings: `[…]` may be missing, `<…>` is one of these signs, `_` is white space or nothing,
`~` one blank or nothing, ` ` white space, `?` any character, `^` and `$` the ends of the reply, `C` the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_PHRASES = Path(__file__).with_suffix('.txt').read_text('utf-8').splitlines()
"""In the order in which they are tried. `…` is the rest of the word, up to a full stop; `→` is whatever follows."""
_SIGNS = {
    '[': '(?:',
    ']': ')?',
    '<': '[',
    '>': ']',
    '_': r'\s*',
    '~': r'\s?',
    ' ': r'\s+',
    '^': '^',
    '$': '$',
    '?': '.',
}
_SIGN = re.compile(r'\\s|.', re.DOTALL)
_STOP = '。'


def read_first_option(text: str, options: str, cushion: bool = True) -> str:
    """The option behind the first phrase of the list that the reply has; else, with `cushion`, its first letter.

    >>> read_first_option('It could be A, B, C or D', options='ABCD'), read_first_option('b', options='ABCD')
    ('D', '')
    """
    text = text.strip()
    for statement in _statements(text, options, cushion):
        for option in options:
            if option in statement:
                return option
    return ''


def read_last_option(text: str, options: str) -> str:
    """The last letter that is an option, wherever it stands.

    >>> read_last_option('C, because A fails', options='ABCD')
    'A'
    """
    return next((letter for letter in reversed(text) if letter in options), '')


def _statements(text: str, options: str, cushion: bool) -> Iterator[str]:
    """The pieces of a reply that may name the option, the one that counts most first."""
    for kind, pattern, following in _compile(options, cushion):
        match = pattern.search(text)
        if match is None:
            continue
        if kind == 'letter':
            yield match[0] if not pattern.groups else match[1]
        elif kind == 'word':
            yield _read_word(pattern, text)
        elif following is None:
            yield text[match.end() :] or match[0]
        elif (later := following.search(text, match.end())) is not None:
            yield later[1]


def _read_word(lead: re.Pattern[str], text: str) -> str:
    """The rest of the first word behind a lead that ends in a full stop or with the reply."""
    begin = 0
    while (match := lead.search(text, begin)) is not None:
        word = _WORD.match(text, match.end())
        if word is not None:
            stop = word[0].rfind(_STOP)
            if word.end() == len(text):
                return word[0]
            if stop > 0:
                return word[0][:stop]
        begin = word.end() if word is not None else match.end()
    return ''


_WORD = re.compile(r'\S+')


@lru_cache(maxsize=64)
def _compile(options: str, cushion: bool) -> tuple[tuple[str, re.Pattern[str], re.Pattern[str] | None], ...]:
    letter = f'([{options}])'
    rules: list[tuple[str, re.Pattern[str], re.Pattern[str] | None]] = []
    for phrase in _PHRASES:
        lead, arrow, rest = phrase.partition('→')
        if phrase.endswith('…'):
            rules.append(('word', _pattern(phrase[:-1] + '~', letter), None))
        elif arrow:
            lead = lead if rest else f'{lead}?~'
            rules.append(('later', _pattern(lead, letter), _pattern(rest, letter) if rest else None))
        else:
            rules.append(('letter', _pattern(phrase, letter), None))
    last = (f'{letter}:', letter) if cushion else ()
    return (*rules, *(('letter', re.compile(pattern), None) for pattern in last))


def _pattern(phrase: str, letter: str) -> re.Pattern[str]:
    return re.compile(''.join(_translate(phrase, letter)), re.DOTALL)


def _translate(phrase: str, letter: str) -> Iterator[str]:
    """A phrase as a regular expression."""
    inside = False
    for sign in _SIGN.findall(phrase):
        if inside and sign != '>':
            yield sign if sign == r'\s' else re.escape(sign)
        elif sign == 'C':
            yield letter
        else:
            yield _SIGNS.get(sign, re.escape(sign))
            inside = sign == '<'
