"""Verdicts as OpenCompass and AISBench give them, defects included.

Where a gold answer is a list and the other system would fail on it, any of its items is right, as with our metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from string import ascii_uppercase
from typing import Any

from rolecall.compat.opencompass.their_answers import (
    read_first_option,
    read_phrase,
    read_plain_statement,
    read_statement,
)
from rolecall.core.prompts.pieces import text_of
from rolecall.scoring.metrics.metric import Answer, Metric, comparison, mark_by, row_comparison
from rolecall.scoring.texts import alternatives

_CLOSE = 1e-6
_NEAR = 1e-3


def same_as_any(name: str) -> Callable[[Callable[[str, str], bool]], Callable[..., Metric]]:
    """Decorate a comparison of two texts: a row is right if its answer is the same as one of its gold answers."""

    def decorate(same: Callable[[str, str], bool]) -> Callable[..., Metric]:
        @comparison(name)
        @wraps(same)
        def compare(prediction: str, gold: Any) -> bool:
            return any(same(prediction, text_of(answer)) for answer in alternatives(gold))

        return compare

    return decorate


@same_as_any('accuracy')
def same_text(ours: str, gold: str) -> bool:
    """The share of rows whose answer is the gold one, character by character."""
    return ours == gold


def same_value() -> Metric:
    """The share of rows whose answer is the gold one, or a number that equals the gold whole number."""

    def same(ours: Any, gold: Any) -> bool:
        try:
            return text_of(ours) == text_of(gold) or abs(float(ours) - int(gold)) < _CLOSE
        except (ValueError, TypeError, OverflowError):
            return False

    return _compare_values(same)


@same_as_any('exact_match')
def same_phrase(ours: str, gold: str) -> bool:
    """The share of rows whose first phrase, without articles and signs, is a gold answer or the phrase of one."""
    return read_phrase(ours) in (read_phrase(gold), gold)


@same_as_any('accuracy')
def same_statement(ours: str, gold: str) -> bool:
    """The share of rows whose statement is the gold one, in any case."""
    return read_statement(ours).lower() == read_statement(gold).lower()


@same_as_any('accuracy')
def same_plain_statement(ours: str, gold: str) -> bool:
    """The share of rows whose statement is the gold answer, character by character."""
    return read_plain_statement(ours) == gold


@same_as_any('contains_answer')
def contain_phrase(ours: str, gold: str) -> bool:
    """The share of rows whose first line has the phrase of a gold answer in it, also inside a word.

    What stands before `answer is` does not count.
    """
    return _contains_phrase(ours, gold, 'answer is')


@same_as_any('contains_answer')
def contain_trivia(ours: str, gold: str) -> bool:
    """The share of rows whose first line has the phrase of a gold answer in it, after `answer:` if it has that."""
    return _contains_phrase(ours, gold, 'answer is', 'answer:')


def _contains_phrase(ours: str, gold: str, *leads: str) -> bool:
    line = ours.strip().partition('\n')[0].lower()
    for lead in leads:
        line = line.rpartition(lead)[2]
    return read_phrase(gold).lower() in read_phrase(line)


def same_formula(version: str = 'v1') -> Metric:
    """The share of rows whose formula is the gold one after MATH's normalisation of both."""
    from rolecall.compat.opencompass.their_mathematics import equal_answers

    return _compare_values(partial(equal_answers, lenient=version == 'v2'))


def same_boxed_value() -> Metric:
    """The share of rows whose last box, or formula behind `final answer`, has the gold value by `math-verify`."""
    from rolecall.compat.opencompass.their_mathematics import equal_in_box
    from rolecall.scoring.metrics.symbolic import math_library

    math_library()
    return _compare_values(lambda ours, gold: equal_in_box(text_of(ours), text_of(gold)))


@same_as_any('accuracy')
def same_line(ours: str, gold: str) -> bool:
    """The share of rows whose first line is the gold letter or its text, and nothing else; the gold is `B. text`."""
    line, parts = ours.split('\n')[0].strip(), gold.split('. ')
    return len(parts) == 2 and line in (parts[0], parts[1].strip())


@same_as_any('accuracy')
def near_value(ours: str, gold: str) -> bool:
    """The share of rows whose reply is a number, and nothing else, within a thousandth of the gold one."""
    try:
        return abs(float(ours) - float(gold)) < _NEAR
    except ValueError:
        return False


@row_comparison('accuracy')
def first_of_options(answer: Answer) -> bool:
    """The share of rows whose first stated letter, among those of the row's options, is the gold one."""
    letters = ascii_uppercase[: len(answer.values['options'])]
    return read_first_option(text_of(answer.prediction), letters) == text_of(answer.gold)


def _compare_values(same: Callable[[Any, Any], bool]) -> Metric:
    return Metric('accuracy', mark_by(lambda ours, golds: any(same(ours, gold) for gold in alternatives(golds))))
