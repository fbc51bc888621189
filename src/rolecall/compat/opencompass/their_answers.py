"""Letters, numbers and phrases as OpenCompass and AISBench read them, defects included."""

from __future__ import annotations

import re

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
