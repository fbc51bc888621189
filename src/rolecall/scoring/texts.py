"""Split texts into the words they are compared by, without case, articles and punctuation."""

from __future__ import annotations

import logging
import re
import unicodedata
from typing import Any

from rolecall.errors import needed
from rolecall.prompts.values import text_of

__all__ = ['alternatives', 'bare_words', 'chinese_words', 'cut_next_problem', 'plain_words', 'strip_text']

_NEXT_PROBLEM = re.compile(
    r'(?<=\n)[ \t#*]*(?:(?:Problem|Question|Exercise|Q|Human|User|HUMAN|USER)\s*\d*|问题|题目)[*\s]*[:：]'
)
_UNSPACED = '\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff'


def strip_text(value: Any) -> str:
    """A value as text, without surrounding whitespace."""
    return text_of(value).strip()


def alternatives(gold: Any) -> list[Any]:
    """The accepted answers: the items of a list, or the single value.

    >>> alternatives(['cat', 'a cat']), alternatives('cat')
    (['cat', 'a cat'], ['cat'])
    """
    return list(gold) if isinstance(gold, (list, tuple)) else [gold]


def cut_next_problem(text: str) -> str:
    """The reply up to the point where it runs on to a next problem of its own.

    >>> cut_next_problem('The answer is 12.\\n\\nProblem: What is 2+2?\\nThe answer is 4.')
    'The answer is 12.'
    """
    found = _NEXT_PROBLEM.search(text, len(text) - len(text.lstrip()))
    return text[: found.start()].rstrip() if found else text


def bare_words(value: Any) -> list[str]:
    """The words of a short answer, normalised as in SQuAD: lower case, no articles, no punctuation.

    >>> bare_words('The Eiffel-Tower!'), bare_words('埃菲尔')
    (['eiffeltower'], ['埃', '菲', '尔'])
    """
    letters = ''.join(one for one in text_of(value).lower() if not unicodedata.category(one).startswith(('P', 'S')))
    spaced = re.sub(f'([{_UNSPACED}])', r' \1 ', letters)
    return [word for word in spaced.split() if word not in ('a', 'an', 'the')]


def plain_words(text: str) -> list[str]:
    """The words of a longer text as ROUGE counts them; for texts in ASCII just as `rouge-score` finds them.

    >>> plain_words("It's 3.5 m, naïve 猫咪")
    ['it', 's', '3', '5', 'm', 'naïve', '猫', '咪']
    """
    return re.findall(rf'[{_UNSPACED}]|[^\W_{_UNSPACED}]+', text.lower())


def chinese_words(text: str) -> list[str]:
    """The words of a Chinese text, as `jieba` finds them.

    >>> chinese_words('我爱北京')
    ['我', '爱', '北京']
    """
    jieba = needed('jieba', extra='score', purpose='to find Chinese words')
    jieba.setLogLevel(logging.WARNING)
    return [word for word in jieba.lcut(text) if word.strip()]
