"""Replies of many kinds in `data/replies.jsonl`, with the reading that a person gave before looking at the code.

A line is the kind, what the reading is given (options, choices, a gold answer, a postprocessor), the reply, and the
reading. `MISREAD` holds those that are read wrongly: one that is read right now fails the test, too.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rolecall.scoring.evaluate import Scorable, build_scorer
from rolecall.scoring.metrics.judge_replies import read_attempt, read_rating
from rolecall.scoring.metrics.matching import gsm8k
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.symbolic import equal_expressions
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.readers.cues import CUES
from rolecall.scoring.readers.native import expression_in, number_in, option_in, read_choice, read_option
from rolecall.scoring.readers.preferences import preference_in
from rolecall.scoring.readers.reading import Reading
from rolecall.ui.cli.main import main
from test_replies_short import run_program

ROWS = [json.loads(line) for line in (Path(__file__).parent / 'data/replies.jsonl').read_text('utf-8').splitlines()]
MISREAD = {
    'Most people pick B and they are right.',
    'Of the four, B, since A, C and D fail.',
    'All except B are correct.',
    'So positive at first, then it turns negative.',
    '(a) 12\n(b) 15',
    'A is more detailed; B is more accurate.',
    'A is not right, B is',
    '> ```python\n> def add(a, b):\n>     return a + b\n> ```',
}


def value(reading: Reading | None) -> str:
    return reading.value or '' if reading is not None and reading.counts else ''


def read_letter(reply: str, given: str | dict[str, Any]) -> str:
    return option_in(reply, given) if isinstance(given, str) else value(read_option(reply, given['letters'], row=given))


def equals_expression(reply: str, gold: str) -> bool:
    expression = expression_in(reply)
    return bool(expression) and equal_expressions(expression, gold)


def match_with(evaluator: str, postprocessor: str | None = None) -> Callable[[str, Any], bool]:
    scorer = build_scorer(
        {'evaluator': evaluator, 'read_as': 'own', **({'pred_postprocessor': postprocessor} if postprocessor else {})}
    )
    return lambda reply, gold: scorer.score([Scorable(0, 'ok', reply, gold)]).verdicts[0].score == 1.0


def grade_attempt(reply: str, given: None) -> str | None:
    mark = read_attempt(reply, Answer(''))
    return None if mark is None else 'A' if mark.correct else 'B' if mark.parts['attempted'] else 'C'


def prefer(reply: str, given: None) -> str | None:
    preference = preference_in(reply)
    return preference and preference.side


def define_add(reply: str, way: str) -> bool:
    try:
        return run_program(way, reply)['add'](2, 3) == 5
    except SyntaxError:  # what is read is not a program
        return False


READ: dict[str, Callable[[str, Any], Any]] = {
    'option': read_letter,
    'number': lambda reply, given: number_in(reply),
    'expression': equals_expression,
    'text': match_with('WholeMatchEvaluator', 'stated_text_postprocess'),
    'contains': match_with('TriviaQAEvaluator'),
    'letters': lambda reply, letters: value(read_choice(reply, letters, several=True)),
    'choice': lambda reply, choices: value(read_choice(reply, choices)),
    'verdict': lambda reply, given: verdict_in(reply, 'A', 'B'),
    'rating': lambda reply, given: read_rating(reply, Answer('')),
    'attempt': grade_attempt,
    'preference': prefer,
    'program': define_add,
}


@pytest.mark.parametrize('kind', READ)
def test_replies_are_read_as_a_person_reads_them(kind: str) -> None:
    failures = []
    for row_kind, given, reply, reading in ROWS:
        if row_kind == kind:
            ours = READ[kind](reply, given)
            same = ours == reading
            if kind == 'number' and reading:
                same = bool(gsm8k().mark(Answer(ours, reading)).correct)
            if same is (reply in MISREAD):
                failures.append(f'{reply!r}: {ours!r} instead of {reading!r}')
    assert not failures, '\n'.join(failures)


def test_every_row_has_a_kind_that_is_tried() -> None:
    assert {kind for kind, *_ in ROWS} == set(READ)


@pytest.mark.parametrize('language', CUES.tables)
def test_the_examples_of_a_language_are_read_by_its_cues(language: str) -> None:
    examples = [line.rpartition(' ⇒')[::2] for line in CUES.tables[language]['examples'].splitlines()]
    read = {reply: option_in(reply, 'ABCDE') for reply, _ in examples}
    assert read == {reply: letter.strip() for reply, letter in examples}


def test_a_run_stores_where_each_answer_stands_and_prints_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [{'question': question, 'gold': gold} for question, gold in (('one', 'B'), ('two', 'C'))]
    Path('rows.jsonl').write_text('\n'.join(map(json.dumps, rows)))
    replies = {'one': '<think>A?</think>The answer is B.', 'two': 'Gene A acts on B cells'}
    Path('mine.py').write_text(f'def reply(request):\n    return {replies!r}[str(request).split()[0]]\n')
    assert main(['run', 'rows.jsonl', '--template', '{question}', '--answer', 'gold', '--model', 'mine.py:reply']) == 0
    assert '1 inferred, would add 0.0' in capsys.readouterr().out
    assert main(['score', 'runs/rows', '--row', '0']) == 0
    assert 'The answer is ⟦B⟧.' in capsys.readouterr().out
    assert main(['score', 'runs/rows', '--inferred']) == 0
    assert "the reply states no answer; 'B' is merely inferred." in capsys.readouterr().out
    assert main(['export', 'results', 'runs/rows']) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first['read_from'][0]['start'], first['read_from'][0]['certainty']) == (31, 'stated')
    assert (second['outcome'], second['read_from'][0]['certainty']) == ('unparsed', 'inferred')


def test_compare_marks_what_was_read_in_both_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path('rows.jsonl').write_text('{"question": "one", "gold": "BD"}\n{"question": "two", "gold": "A,C"}')
    for name, reply in (('left', 'The answers are D and B.'), ('right', 'So the answer is\nC and A.')):
        Path(f'{name}.py').write_text(f'def reply(request):\n    return {reply!r}\n')
        arguments = ['run', 'rows.jsonl', '--template', '{question}', '--answer', 'gold', '--model', f'{name}.py:reply']
        assert main([*arguments, '--out', name]) == 0
    assert 'sets of letters: scored by --metric accuracy, read as any of A, B, C, D.' in capsys.readouterr().err
    assert main(['compare', 'left', 'right']) == 0
    lines = [' '.join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert 'left The answers are ⟦D and B⟧. stated, by statement' in lines
    assert 'right So the answer is ⟦C and A⟧. stated, by statement' in lines


@pytest.mark.parametrize(
    ('table', 'most'),
    [('hard_replies', 12), ('hard_replies_fourth', 2), ('hard_replies_fifth', 34), ('hard_replies_sixth', 9)],
)
def test_tables_of_hard_replies_are_read_at_least_as_well_as_the_manual_says(table: str, most: int) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1] / 'benchmarks'))
    from real_replies import judged_cases, measure_judged

    tallies = measure_judged(judged_cases(Path(__file__).parent / f'data/{table}.jsonl'))
    assert len(tallies['all'].differ) <= most
