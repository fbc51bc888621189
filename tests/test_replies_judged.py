"""Replies of many kinds in `data/judged_replies.jsonl`, with the reading that a person gave before looking at the code.

A line is the kind, what the reading is given (options, choices, a gold answer, a postprocessor), the reply, the reading,
and whether it is still misread. A row that is marked so and read right fails the test, too.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.metrics.judge_replies import read_attempt, read_rating
from rolecall.scoring.metrics.matching import gsm8k
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.preferences import preference_in
from rolecall.scoring.metrics.symbolic import equal_expressions
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.postprocess.choices import choice_postprocess
from rolecall.scoring.postprocess.expressions import math_postprocess_v2
from rolecall.scoring.postprocess.letters import first_option_postprocess, last_option_postprocess
from rolecall.scoring.postprocess.numbers import stated_number_postprocess
from test_replies_short import run_program

TABLE = Path(__file__).parent / 'data/judged_replies.jsonl'
ROWS = [json.loads(line) for line in TABLE.read_text('utf-8').splitlines()]


def read_options(reply: str, options: str) -> str:
    readings = {read(reply, options) for read in (first_option_postprocess, last_option_postprocess)}
    return ' '.join(sorted(readings))


def read_number(reply: str, given: None) -> str:
    return stated_number_postprocess(reply)


def match_with(evaluator: str) -> Callable[[str, Any], bool]:
    scorer = build_scorer({'evaluator': evaluator})
    return lambda reply, gold: scorer.score([Scorable(0, 'ok', reply, gold)]).verdicts[0].score == 1.0


def grade_attempt(reply: str, given: None) -> str:
    mark = read_attempt(reply, Answer(''))
    assert mark is not None
    return 'A' if mark.correct else 'B' if mark.parts['attempted'] else 'C'


def prefer(reply: str, given: None) -> str | None:
    found = preference_in(reply)
    return found and found.side


def define_add(reply: str, way: str) -> bool:
    return run_program(way, reply)['add'](2, 3) == 5


READ: dict[str, Callable[[str, Any], Any]] = {
    'options': read_options,
    'number': read_number,
    'math': lambda reply, gold: equal_expressions(math_postprocess_v2(reply), gold),
    'exact': match_with('WholeMatchEvaluator'),
    'contains': match_with('TriviaQAEvaluator'),
    'choice': choice_postprocess,
    'verdict': lambda reply, given: verdict_in(reply, 'A', 'B'),
    'rating': lambda reply, given: read_rating(reply, Answer('')),
    'attempt': grade_attempt,
    'preference': prefer,
    'program': define_add,
}


@pytest.mark.parametrize(('kind', 'given', 'reply', 'reading', 'misread'), ROWS)
def test_a_reply_is_read_as_a_person_reads_it(kind: str, given: Any, reply: str, reading: Any, misread: bool) -> None:
    try:
        found = READ[kind](reply, given)
    except SyntaxError:  # what is read is not a program
        found = None
    same = found == reading
    if kind == 'number' and reading:
        same = bool(gsm8k().mark(Answer(found, reading)).correct)
    assert same is not misread
