"""Letters, numbers and phrases as OpenCompass and AISBench read them, defects included.

An option is named by the first phrase of `their_answers.txt` that occurs anywhere. A phrase stands for many wordings:
`[…]` may be missing, `<…>` is one of these signs, `_` is white space or nothing, `~` one blank or nothing, ` ` white
space, `?` any character, `^` and `$` the ends of the reply, `C` the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from rolecall.scoring.texts import chinese_tokens

_ARTICLE = re.compile(r'\b(?:a|an|the)\b', re.IGNORECASE)
_SIGN = re.compile(r'[^\w\s]')
_NUMBER = re.compile(r'-?\d+(?:\.\d+)?')
_DECIMAL = re.compile(r'-?(?:\d+(?:\.\d*)?|\.\d+)')
_BRACKETED = re.compile(r'\(([A-Z])')
_CAPITAL = re.compile('[A-Z]')
_STATEMENT = re.compile(r'answer is\s*:?\s*', re.IGNORECASE)
_BOLD = re.compile(r'\*\*(.*?)\*\*')
_FIGURES = re.compile(r'\d\s*,\s*\d')
_YES_OR_NO = re.compile(r'(yes|no)\b', re.IGNORECASE)


def read_phrase(text: str) -> str:
    """What stands before the first line break, full stop or comma, without signs and articles.

    >>> read_phrase('The Eiffel Tower, in Paris.'), read_phrase('3.14'), read_phrase('A')
    ('Eiffel Tower', '3', '')
    """
    phrase = _SIGN.sub('', re.split('[\n.,]', text, maxsplit=1)[0])
    return ' '.join(_ARTICLE.sub('', phrase).split())


def read_tokens(text: str) -> str:
    """Every token that `jieba` finds, also spaces and signs, with a space between them.

    >>> read_tokens('我爱北京。 3')
    '我 爱 北京 。   3'
    """
    return ' '.join(chinese_tokens(text))


def read_first_figures(text: str) -> float | None:
    """The first number; a comma ends it.

    >>> read_first_figures('It costs $1,250.50')
    1.0
    """
    match = _DECIMAL.search(text)
    return float(match[0]) if match else None


def read_letter(text: str) -> str:
    """The first bracketed capital after the first `answer is `, else the first capital there, else the text itself.

    >>> read_letter('It is (A) or so. The answer is (B).'), read_letter('Therefore, B'), read_letter('answer is b')
    ('B', 'T', 'b')
    """
    parts = text.split('answer is ')
    rest = parts[1].strip() if len(parts) > 1 else text
    bracketed = _BRACKETED.search(rest)
    letter = _CAPITAL.search(rest)
    return bracketed[1] if bracketed else letter[0] if letter else rest


def read_statement(text: str) -> str:
    """The line after the last `answer is`, its first bold part alone, without commas between words and a final stop.

    >>> read_statement('So the answer is **valid**. Or not.'), read_statement('no idea'), read_statement('A, B and C.')
    ('valid', 'No', 'A B and C')
    """
    phrase = _read_line(_STATEMENT.split(text)[-1]).strip()
    if truth := _YES_OR_NO.match(phrase):
        return truth[1].capitalize()
    return ' '.join((phrase if _FIGURES.search(phrase) else phrase.replace(',', ' ')).split())


def read_plain_statement(text: str) -> str:
    """The line after the first `answer is `, its first bold part alone, without a final stop.

    >>> read_plain_statement('So the answer is **valid**. Or not.'), read_plain_statement('The answer is no idea.')
    ('valid', 'no idea')
    """
    parts = text.split('answer is ')
    return _read_line(parts[1].strip() if len(parts) > 1 else text)


def _read_line(text: str) -> str:
    """The first line without a final stop, or its first bold part."""
    line = text.partition('\n')[0].strip().removesuffix('.')
    bold = _BOLD.search(line)
    return bold[1] if bold else line


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
_PHRASE_SIGN = re.compile(r'\\s|.', re.DOTALL)
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
    for sign in _PHRASE_SIGN.findall(phrase):
        if inside and sign != '>':
            yield sign if sign == r'\s' else re.escape(sign)
        elif sign == 'C':
            yield letter
        else:
            yield _SIGNS.get(sign, re.escape(sign))
            inside = sign == '<'
