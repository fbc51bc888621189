"""Text to search terms, without any downloaded data.

English follows the Penn Treebank conventions (those of `nltk.word_tokenize`), case kept. Scripts written without
spaces (Chinese, Japanese, Thai, …) become overlapping pairs of characters, the usual search terms for them.
"""

from __future__ import annotations

import re
from itertools import pairwise

UNSPACED = (
    '\u0e00-\u0eff'  # Thai, Lao
    '\u1000-\u109f'  # Myanmar
    '\u1780-\u17ff'  # Khmer
    '\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff'  # kana and iteration marks
    '\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd'  # Han
)
MARKS = (
    r'\[\](){}<>;@#$%&?!"*'
    '“”‘’„«»–—'
    '\u3001-\u3004\u3008-\u301f\u3030\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65'  # wide punctuation
)
ABBREVIATIONS = (
    'Adm|Ave|Bros|Capt|Co|Col|Corp|Dr|Gen|Gov|Inc|Jr|Lt|Ltd|Maj|Messrs|Mr|Mrs|Ms|Mt|Prof|Rep|Rev|Sen|Sgt|Sr|St|vs|'
    'Jan|Feb|Aug|Sept|Sep|Oct|Nov|Dec|Mon|Tues|Wed|Fri'
)
TERM = re.compile(
    r'[A-Za-z]{2,}(?=\s)'  # most words
    rf'|[{UNSPACED}]+'
    r'|\.{2,}|--'
    rf'|(?<![\w’])(?:{ABBREVIATIONS}|[A-Za-z](?:\.[A-Za-z])*)\.(?=\s+\S)'
    rf'|(?:[^\s{MARKS}{UNSPACED},:.\-]+|[,:](?=\d)|\.(?=[^\s.{MARKS}{UNSPACED}\'])|-(?!-))+'
    rf'|[{MARKS},:.]'
)
ENCLITIC = re.compile(rf"(?<=[^\s'])(n't|'(?:s|m|d|ll|re|ve)?)(?=[\s{MARKS},:.\-]|$)", re.IGNORECASE)
CANNOT = re.compile(r'\bcannot\b')
OPENING = re.compile(r"(?:(?<=\s)|^)'(?=\w)")
RUN = re.compile(rf'[{UNSPACED}]{{2,}}')


def words(text: str) -> list[str]:
    """The search terms of a text, in order, repetitions kept.

    >>> words("She didn't eat 3,000 eggs. Mr. Smith's cat did!")
    ['She', 'did', "n't", 'eat', '3,000', 'eggs', '.', 'Mr.', 'Smith', "'s", 'cat', 'did', '!']
    >>> words('小明有3个苹果。')
    ['小明', '明有', '3', '个苹', '苹果', '。']
    """
    if 'annot' in text:
        text = CANNOT.sub('can not', text)
    if "'" in text:
        text = ENCLITIC.sub(r' \1', OPENING.sub("' ", text))
    return TERM.findall(text if text.isascii() else RUN.sub(overlapping_pairs, text))


def overlapping_pairs(run: re.Match[str]) -> str:
    return f' {" ".join(map("".join, pairwise(run[0])))} '
