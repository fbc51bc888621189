"""Judges' replies, and the verdict or rating a person reads in each."""

from __future__ import annotations

from typing import Any

import pytest

from rolecall.scoring.metrics.judge_replies import (
    read_dimensions,
    read_format_check,
    read_tagged_number,
)
from rolecall.scoring.metrics.metric import Answer, Mark
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.readers.preferences import Preference, preference_in


@pytest.mark.parametrize('piece', ['word ', 'A, B, C, ', 'not correct ', '"correct": ', 'the grade is ', '错误'])
def test_the_verdict_at_either_end_of_a_long_reply_is_read(piece: str) -> None:
    assert verdict_in(piece * 30_000 + '\n\nGrade: A', 'A', 'B') is True
    assert verdict_in('B\n\n' + 'word ' * 30_000, 'A', 'B') is False


PARTS = [  # how it is read, reply, score
    (read_dimensions, "{'清晰度': 8, '综合得分': 7}", 7.0),
    (read_dimensions, '{"清晰度": 8, "综合得分": "7"}', 7.0),
    (read_dimensions, '{“综合得分”：6.5}', 6.5),
    (read_dimensions, "{'综合得分': 11}", None),
    (read_dimensions, '综合得分：7', None),
    (read_tagged_number, '<NUMBER> 50% </NUMBER>', 0.5),
    (read_tagged_number, '<number>0.5</number>', 0.5),
    (read_tagged_number, '\\boxed{0.75}', 0.75),
    (read_format_check, '{"format_correctness": "1"}', 1.0),
    (read_format_check, '{"format_correctness": false}', 0.0),
    (read_format_check, 'format_correctness', None),
]


@pytest.mark.parametrize(('read', 'reply', 'score'), PARTS)
def test_a_score_in_a_structure_is_read(read: Any, reply: str, score: float | None) -> None:
    mark = read(reply, Answer(''))
    assert (mark.score if isinstance(mark, Mark) else mark) == score


@pytest.mark.parametrize(
    ('reply', 'margin'),
    [
        ('[[A>>B]]', 1.0),
        ('[[A>B]]', 0.5),
        ('[[A=B]]', 0.0),
        ('[[A<<B]]', -1.0),
        ('"choice": "B+"', -0.5),
        ('[[A]]', None),
    ],
)
def test_graded_preferences(reply: str, margin: float | None) -> None:
    found = preference_in(reply)
    assert found is not None
    assert found.margin == margin


@pytest.mark.parametrize(
    'piece', ['A is ', 'Assistant A ', '[[', 'better ', '"choice": ', '选择', 'not ', '回答1的', 'A: ']
)
def test_the_end_of_a_long_reply_is_read(piece: str) -> None:
    assert preference_in(piece * 10_000 + '\n[[B]]') == Preference('second')
    assert preference_in(piece * 10_000) is None
