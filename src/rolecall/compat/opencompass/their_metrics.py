"""Verdicts as OpenCompass and AISBench give them, defects included.

Where a gold answer is a list and the other system would fail on it, any of its items is right, as with our metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from string import ascii_uppercase
from typing import Any

from rolecall.compat.opencompass.their_answers import read_phrase, read_plain_statement, read_statement
from rolecall.compat.opencompass.their_options import read_first_option
from rolecall.core.prompts.values import text_of
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, make_mark, mark_by
from rolecall.scoring.texts import alternatives

_CLOSE = 1e-6
_NEAR = 1e-3


def same_text() -> Metric:
    """The share of rows whose answer is the gold one, character by character."""
    return compare_by('accuracy', lambda ours, gold: text_of(ours) == text_of(gold))


def same_value() -> Metric:
    """The share of rows whose answer is the gold one, or a number that equals the gold whole number."""

    def same(ours: Any, gold: Any) -> bool:
        try:
            return text_of(ours) == text_of(gold) or abs(float(ours) - int(gold)) < _CLOSE
        except (ValueError, TypeError, OverflowError):
            return False

    return compare_by('accuracy', same)


def same_phrase() -> Metric:
    """The share of rows whose first phrase, without articles and signs, is a gold answer or the phrase of one."""

    def same(ours: Any, gold: Any) -> bool:
        phrase = read_phrase(text_of(ours))
        return phrase in (read_phrase(text_of(gold)), text_of(gold))

    return compare_by('exact_match', same)


def same_statement() -> Metric:
    """The share of rows whose statement is the gold one, in any case."""

    def same(ours: Any, gold: Any) -> bool:
        return read_statement(text_of(ours)).lower() == read_statement(text_of(gold)).lower()

    return compare_by('accuracy', same)


def same_plain_statement() -> Metric:
    """The share of rows whose statement is the gold answer, character by character."""
    return compare_by('accuracy', lambda ours, gold: read_plain_statement(text_of(ours)) == text_of(gold))


def contain_phrase(*leads: str) -> Metric:
    """The share of rows whose first line has the phrase of a gold answer in it, also inside a word.

    What stands before `answer is` and the `leads` does not count.
    """

    def contains(ours: Any, gold: Any) -> bool:
        line = text_of(ours).strip().partition('\n')[0].lower()
        for lead in ('answer is', *leads):
            line = line.rpartition(lead)[2]
        return read_phrase(text_of(gold)).lower() in read_phrase(line)

    return compare_by('contains_answer', contains)


def contain_trivia() -> Metric:
    """The share of rows whose first line has the phrase of a gold answer in it, after `answer:` if it has that."""
    return contain_phrase('answer:')


def same_formula(version: str = 'v1') -> Metric:
    """The share of rows whose formula is the gold one after MATH's normalisation of both."""
    from rolecall.compat.opencompass.their_mathematics import equal_answers

    return compare_by('accuracy', partial(equal_answers, lenient=version == 'v2'))


def same_boxed_value() -> Metric:
    """The share of rows whose last box, or formula behind `final answer`, has the gold value by `math-verify`."""
    from rolecall.compat.opencompass.their_mathematics import equal_in_box
    from rolecall.scoring.metrics.symbolic import math_library

    math_library()
    return compare_by('accuracy', lambda ours, gold: equal_in_box(text_of(ours), text_of(gold)))


def same_line() -> Metric:
    """The share of rows whose first line is the gold letter or its text, and nothing else; the gold is `B. text`."""

    def same(ours: Any, gold: Any) -> bool:
        line, parts = text_of(ours).split('\n')[0].strip(), text_of(gold).split('. ')
        return len(parts) == 2 and line in (parts[0], parts[1].strip())

    return compare_by('accuracy', same)


def near_value() -> Metric:
    """The share of rows whose reply is a number, and nothing else, within a thousandth of the gold one."""

    def same(ours: Any, gold: Any) -> bool:
        try:
            return abs(float(text_of(ours)) - float(text_of(gold))) < _NEAR
        except ValueError:
            return False

    return compare_by('accuracy', same)


def first_of_options() -> Metric:
    """The share of rows whose first stated letter, among those of the row's options, is the gold one."""

    def mark(answer: Answer) -> Mark:
        letters = ascii_uppercase[: len(answer.values['options'])]
        return make_mark(read_first_option(text_of(answer.prediction), letters) == text_of(answer.gold))

    return Metric('accuracy', mark)


def compare_by(name: str, same: Callable[[Any, Any], bool]) -> Metric:
    """The share of rows whose answer is the same as one of the gold answers."""
    return Metric(name, mark_by(lambda ours, golds: any(same(ours, gold) for gold in alternatives(golds))))
