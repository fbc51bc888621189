"""Metrics that are right or wrong: exact match, numbers, contained answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from rolecall.scoring.metrics.metric import Metric, mark_by
from rolecall.scoring.postprocess.freeform import bbh_freeform_postprocess, general_postprocess
from rolecall.scoring.postprocess.numbers import number_of
from rolecall.scoring.texts import alternatives, bare_words, strip_text

__all__ = [
    'accuracy',
    'bbh_freeform',
    'bbh_multiple_choice',
    'contains_an_answer',
    'exact_match',
    'gsm8k',
]

_POINT = re.compile(r'(?<=\d)\.(?=\d)')
_BOXED = re.compile(r'\$?\\boxed\{([^{}]*)\}\$?')


def accuracy() -> Metric:
    """The share of rows whose answer equals a gold answer exactly, apart from surrounding whitespace.

    >>> from rolecall.scoring.metrics.metric import Answer
    >>> accuracy().mark(Answer(1, ' 1')).correct
    True
    """
    return Metric('accuracy', mark_by(_same))


def exact_match(ignore_case: bool = False) -> Metric:
    """The share of rows whose first phrase is a gold answer, ignoring articles and punctuation."""

    def same(prediction: Any, gold: Any) -> bool:
        return _phrase(prediction, ignore_case) in [_phrase(one, ignore_case) for one in alternatives(gold)]

    return Metric('exact_match', mark_by(same))


def gsm8k() -> Metric:
    """The share of rows whose number is the gold one: 42, 42.0 and $42 are the same."""
    return Metric('accuracy', mark_by(lambda prediction, gold: _same(prediction, gold) or _equal(prediction, gold)))


def bbh_multiple_choice() -> Metric:
    """The share of rows with the gold letter, with or without its parentheses."""
    return Metric('accuracy', mark_by(lambda prediction, gold: _letter(prediction) == _letter(gold)))


def bbh_freeform() -> Metric:
    """The share of rows whose phrase after `the answer is` is the gold one, in any case."""

    def same(prediction: Any, gold: Any) -> bool:
        phrase = bbh_freeform_postprocess(strip_text(prediction)).casefold()
        return any(phrase == strip_text(one).rstrip('.').casefold() for one in alternatives(gold))

    return Metric('accuracy', mark_by(same))


def contains_an_answer() -> Metric:
    """The share of rows whose first line contains a gold answer as whole words."""

    def contains(prediction: Any, gold: Any) -> bool:
        words = _words_of(_BOXED.sub(r' \1 ', strip_text(prediction).partition('\n')[0]))
        return any(_within(_words_of(one), words) for one in alternatives(gold))

    return Metric('score', mark_by(contains))


def _words_of(text: Any) -> list[str]:
    """The words of a text without punctuation, but `1.8` is not `18`."""
    return bare_words(_POINT.sub('point', strip_text(text)))


def _same(prediction: Any, gold: Any) -> bool:
    return strip_text(prediction) in map(strip_text, alternatives(gold))


def _equal(prediction: Any, gold: Any) -> bool:
    ours, right = number_of(prediction), number_of(gold)
    return ours is not None and right is not None and abs(ours - right) < 1e-6


def _phrase(value: Any, ignore_case: bool) -> str:
    phrase = general_postprocess(strip_text(value))
    return phrase.lower() if ignore_case else phrase


def _letter(value: Any) -> str:
    return strip_text(value).strip('().').upper()


def _within(part: Sequence[str], whole: Sequence[str]) -> bool:
    return bool(part) and any(whole[at : at + len(part)] == part for at in range(len(whole) - len(part) + 1))
