"""NeedleBench: needles (keywords) that a reply must repeat from a long text, and ancestors it must trace."""

from __future__ import annotations

import re
from typing import Any

from rolecall.scoring.metrics.metric import Mark, comparison
from rolecall.scoring.texts import last_boxed, strip_text


@comparison('contains_answer')
def find_needle(prediction: str, gold: Any, use_trim: bool = False) -> bool:
    """The share of rows that name the keyword of their needle; the gold answer is `needle*keyword`."""
    keyword = strip_text(gold).rpartition('*')[2]
    return bool(keyword) and keyword in prediction


@comparison('average_score')
def find_needles(prediction: str, gold: Any) -> Mark:
    """The share of keywords that a reply names, also by depth; the gold answer is `keyword*…#depth*…`."""
    keywords, _, depths = strip_text(gold).partition('#')
    hits = [float(bool(keyword) and keyword in prediction) for keyword in keywords.split('*')]
    named = {f'Depth{depth}': hit for depth, hit in zip(depths.split('*'), hits, strict=False) if depth}
    return Mark(sum(hits) / len(hits), parts=named)


@comparison('word_recall')
def find_needle_words(prediction: str, gold: Any) -> float:
    """The share of the keyword's words that a reply names, in any case; the gold answer is `answer*keyword`."""
    words = strip_text(gold).rpartition('*')[2].lower().split()
    return sum(word in prediction.lower() for word in words) / len(words) if words else 0.0


@comparison('accuracy')
def ancestor(prediction: str, gold: Any) -> bool:
    """The share of rows whose ancestor is the gold one."""
    return prediction.strip() == strip_text(gold)


def read_ancestor(text: str) -> str:
    r"""The name in the last `\boxed{…}`, without LaTeX commands, quotes and braces.

    >>> read_ancestor(r'So it is \boxed{{\text{Jasmine~Lane}}}.')
    'Jasmine Lane'
    """
    name = re.sub(r'\\text\{([^{}]+)\}', r'\1', last_boxed(text))
    return ' '.join(re.sub(r'[\\"\'{}]', '', name).replace('~', ' ').split())
