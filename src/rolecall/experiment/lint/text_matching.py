"""How alike two texts are, for people: case, spacing and Unicode form do not count."""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable

from rolecall.core.prompts.values import text_of
from rolecall.errors import RenderError
from rolecall.patterns import compile_late

_UNSPACED = '\u0e00-\u0eff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'
_WORD = compile_late(rf'[{_UNSPACED}]|[^\W{_UNSPACED}]+')


def plain(text: str) -> str:
    """The text without differences of case, white space and Unicode form.

    >>> plain('What is  １+1?\\n')
    'what is 1+1?'
    """
    form = text if text.isascii() else unicodedata.normalize('NFKC', text)
    return ' '.join(form.casefold().split())


def readable(value: object) -> str:
    """The text of a value, or nothing if it has none (bytes, say, in a column that no template shows).

    >>> readable(42), readable(b'...')
    ('42', '')
    """
    return text_or_none(value) or ''


def text_or_none(value: object) -> str | None:
    """The text of a value; None if it has none.

    >>> text_or_none(None), text_or_none({'bytes': b'...'})
    ('', None)
    """
    try:
        return text_of(value)
    except RenderError:
        return None


def nearest_name(name: str, candidates: Iterable[object]) -> str:
    """The known name that was probably meant; nothing if none is near.

    >>> nearest_name('qestion', ['question', 'answer']), nearest_name('MaxLen', ['max_len']), nearest_name('x', ['y'])
    ('question', 'max_len', '')
    """
    names = [other for other in candidates if isinstance(other, str)]
    same = [other for other in names if _letters(other) == _letters(name)]
    return next(iter(same or difflib.get_close_matches(name, names, n=1, cutoff=0.75)), '')


def _letters(name: str) -> str:
    return ''.join(filter(str.isalnum, name)).casefold()


def bag(text: str) -> Counter[str]:
    """How often each word occurs; in scripts without spaces, each character.

    >>> bag('to be or not to be')['to'], bag('苹果')
    (2, Counter({'苹': 1, '果': 1}))
    """
    return Counter(_WORD.findall(plain(text)))


def likeness(bag_of_words: Counter[str], other: Counter[str]) -> float:
    """The share of words that two bags have in common, from 0 to 1.

    >>> likeness(bag('a b c d'), bag('a b c e'))
    0.75
    """
    size = bag_of_words.total() + other.total()
    return 2 * (bag_of_words & other).total() / size if size else 1.0
