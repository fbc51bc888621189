"""Metrics that look at the row: each verdict was compared with that of the package's own evaluator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rolecall.compat.opencompass.evaluator_names import MEANINGS, METRICS
from rolecall.registry import load_object
from rolecall.scoring.metrics.judge_replies import read_dict_postprocessor
from rolecall.scoring.metrics.metric import Answer, Metric
from rolecall.sources.retrievers.build import build_retriever
from tables import in_one

ROW = {'options': ['x', 'y', 'z'], 'choices': {'label': ['A', 'B', 'C'], 'text': ['x', 'y', 'z']}, 'question_type': 'q'}
MINUTES = {'unit': 'minutes', 'answer': '1,250', 'choices': None}
EITHER = {'unit': None, 'answer': 'yes', 'choices': ['yes', 'no']}

EQUAL: list[tuple[str, str, Any, float]] = [
    *[(name, reply, 'B', score) for name in ('ProteinLMBenchEvaluator', 'MedbulletsEvaluator', 'MedmcqaEvaluator', 'NejmaibenchEvaluator', 'MedXpertQAEvaluator', 'SciKnowEvalEvaluator')
      for reply, score in (('A', 0), ('B', 1), ('The answer is B.', 1), ('B. yes', 1), ('(B)', 1), ('Answer: C', 0), ('\\boxed{B}', 1))],
    *[('MMLUProBaseEvaluator', reply, 'B. yes', score) for reply, score in (('B', 1), ('yes\nmore', 1), ('A', 0), ('B is it', 0), ('no', 0))],
    *[('OpenFinDataKWEvaluator', reply, '现金、股票', score) for reply, score in (('有现金和股票', 1), ('只有现金', 0), ('', 0))],
    *[('Math401Evaluator', reply, '3', score) for reply, score in (('3.0004', 1), ('3', 1), ('3.01', 0), ('x', 0), ('-3', 0))],
    *[('JudgeEvaluator', reply, {'winner': 'A'}, score) for reply, score in (('{"Choice": "Model A"}', 1), ('{"Choice": "Model B"}', 0), ('Model A', 0))],
    *[('Game24Evaluator', reply, '1 1 2 8', score) for reply, score in (('(1+2)*8*1', 1), ('8*(1+2)/1', 1), ('1*2*3*4', 0), ('24', 0), ('', 0))],
    *[('TabMWPEvaluator', reply, MINUTES, score) for reply, score in (('The answer is 1,250.', 1), ('1250 minutes', 1), ('The answer is 1250.0', 1), ('3', 0))],
    *[('TabMWPEvaluator', reply, EITHER, score) for reply, score in (('The answer is A', 1), ('(A)', 1), ('The answer is yes.', 1), ('(B) no', 0))],
    *[('NQEvaluatorCN', reply, ['北京', 'Paris'], score) for reply, score in (('答案是：北京', 1), ('上海\n北京', 0), ('答案是： 北京。', 1), ('Paris', 1))],
    *[('SciFiEvaluator', reply, 'True [fact: False]', score) for reply, score in (('True. [fact: False]', 1), ('false', 0), ('', 0))],
    *[('CrowspairsEvaluator', reply, 'A', score) for reply, score in (('A', 1), ('B', 0))],
    ('InfoVQAEvaluator', 'abcd', ['abcd', 'x'], 1),
    *[('DocVQAEvaluator', reply, "['abcd']", score) for reply, score in (('abcd', 1), ('ABCD<|im_end|>', 1), ('abcx', 0.75), ('xyz', 0))],
]  # fmt: skip
"""Where both agree."""
OURS: list[tuple[str, str, Any, float]] = [
    ('ProteinLMBenchEvaluator', 'A or B', 'B', 0),
    ('MedbulletsEvaluator', 'b', 'B', 1),
    ('MedXpertQAEvaluator', '', 'B', 0),
    ('MMLUProBaseEvaluator', 'The answer is B', 'B. yes', 1),
    ('ELBenchMathEvaluator', 'so \\boxed{0.5}', '\\frac{1}{2}', 1),
]
"""Where a person would judge as we do: the package reads the last of two letters, capitals only, or raises."""
THEIRS: list[tuple[str, str, Any, float]] = [
    *[('ProteinLMBenchEvaluator', reply, 'B', score) for reply, score in (('b', 0), ('A or B', 1), ('B is correct, not A', 0), ('The answer is B.', 1))],
    *[('MMLUProBaseEvaluator', reply, 'B. yes', score) for reply, score in (('B', 1), ('yes\nmore', 1), ('B.', 0), ('The answer is B.', 0), ('b', 0))],
    *[('Math401Evaluator', reply, '3', score) for reply, score in (('3.0005', 1), ('9/3', 0), ('x', 0))],
]  # fmt: skip
"""The package's own verdicts where ours differ, by `emulate='opencompass'`; from opencompass 0.5.4."""
EXAMS = [
    ('single_choice', '选B，所以A', ['A'], 1),
    ('single_choice', '【答案】B', ['A'], 0),
    ('multi_choice', '答：【答案】AC', ['AC'], 1),
    ('multi_choice', '答：【答案】A', ['AC'], 0.5),
    ('multi_choice', '答：【答案】ABD', ['AC'], 0),
    ('multi_question_choice', '【答案】A 【答案】B', ['A', 'B'], 1),
    ('multi_question_choice', 'C', ['A', 'B'], 0),
    ('five_out_of_seven', 'A B C D F', list('ABCDE'), 0.8),
    ('judgment', '【答案】对 ', '对', 1),
    ('judgment', '对', '对', 0),
]


def make(name: str, **options: Any) -> Metric:
    metric: Metric = load_object(METRICS[name])(**options)
    return metric


@in_one
@pytest.mark.parametrize(('name', 'reply', 'gold', 'score'), EQUAL + OURS)
def test_a_reply_is_worth_what_the_row_says(name: str, reply: str, gold: Any, score: float) -> None:
    mark = make(name).mark(Answer(reply, gold, ROW))
    assert mark is not None
    assert mark.score == pytest.approx(score)


@in_one
@pytest.mark.parametrize(('name', 'reply', 'gold', 'score'), THEIRS)
def test_the_package_s_own_meaning_can_be_had(name: str, reply: str, gold: Any, score: float) -> None:
    mark = load_object(MEANINGS['opencompass'][name])().mark(Answer(reply, gold, ROW))
    assert mark.score == pytest.approx(score)


@in_one
@pytest.mark.parametrize(('kind', 'reply', 'gold', 'score'), EXAMS)
def test_exam_answers_are_read_by_the_kind_of_question(kind: str, reply: str, gold: Any, score: float) -> None:
    mark = make('KaoshiEvaluator', question_type=kind).mark(Answer(reply, gold))
    assert mark is not None
    assert mark.score == pytest.approx(score)


def test_questions_are_counted_by_difficulty() -> None:
    mark = make('QuALITYEvaluator').mark(Answer('B', 'B', {'difficult': 1}))
    assert mark is not None
    assert mark.parts == {'hard_acc': 1.0}


CALL = {'function': {'name': 'PythonInterpreter'}, 'result': {'text': '12'}}
STEPS = [
    ('12.0', (CALL,), (1, 1, 1, 1)),
    ('13', (CALL,), (0, 1, 1, 1)),
    ('13', ({**CALL, 'errmsg': 'no such name'},), (0, 0, 0, 1)),
    ('13', (), (0, 0, 0, 0)),
    ('12', (), (1, 1, 0, 0)),
]


@in_one
@pytest.mark.parametrize(('reply', 'calls', 'shares'), STEPS)
@pytest.mark.parametrize('name', ['Gsm8kAgentEvaluator', 'MATHAgentEvaluator'])
def test_an_agent_is_also_scored_by_its_tool(name: str, reply: str, calls: Any, shares: tuple[float, ...]) -> None:
    mark = make(name).mark(Answer(reply, '12', calls=calls))
    assert mark is not None
    assert tuple(mark.parts[part] for part in ('follow_acc', 'reasoning_acc', 'code_acc', 'action_pct')) == shares


@in_one
@pytest.mark.parametrize(
    'reply', ['__import__("os").getcwd() or 1*1*2*8', '1**1**2**8', '(' * 5000 + '1 1 2 8', '1/(1-1)*2*8']
)
def test_what_is_no_calculation_makes_nothing(reply: str) -> None:
    mark = make('Game24Evaluator').mark(Answer(reply, '1 1 2 8'))
    assert mark is not None
    assert mark.correct is False


def test_every_metric_of_a_row_has_a_case() -> None:
    own = {'KaoshiEvaluator', 'QuALITYEvaluator', 'Gsm8kAgentEvaluator', 'MATHAgentEvaluator'}
    tried = {name for name, *_ in EQUAL} | own
    assert tried == {name for name, path in METRICS.items() if 'row_answers' in path}


JUDGED = [
    ('followbench_postprocess', 'It does.\nYES', {'level': 1}, 1, {'HSR_L1': 1, 'SSR_L1': 1}),
    ('followbench_postprocess', "```\nSo:\n['YES', 'NO', 'PARTIAL']\n```", {'level': 3}, 0, {'HSR_L3': 0, 'SSR_L3': 1 / 3}),
    ('eese_score_postprocess_dict', 'Score: 7 of 10', {}, 0.7, {}),
    ('medbullets_llmjudge_postprocess', 'A', {'question_type': 'Surgery'}, 1, {'category/Surgery': 1}),
]  # fmt: skip


@in_one
@pytest.mark.parametrize(('name', 'reply', 'facts', 'score', 'parts'), JUDGED)
def test_a_judge_s_reply_is_read_by_its_benchmark(
    name: str, reply: str, facts: dict[str, Any], score: float, parts: dict[str, float]
) -> None:
    mark = read_dict_postprocessor(name).read(reply, Answer('', facts, facts))
    assert mark.score == pytest.approx(score)
    assert dict(mark.parts) == pytest.approx(parts)


def test_examples_are_the_first_rows_that_share_a_label() -> None:
    train = [{'q': 'a', 'labels': ['law']}, {'q': 'b', 'labels': ['art', 'law']}, {'q': 'c', 'labels': ['art']}]
    test = [{'q': 'x', 'labels': ['art', 'law']}, {'q': 'y', 'labels': ['tax']}]
    retriever = build_retriever({'type': 'XiezhiRetriever', 'ice_num': 2})
    picks = retriever.retrieve(train, test, reader=SimpleNamespace(input_columns=['q'], output_column=None))
    assert [tuple(pick.ids) for pick in picks] == [(1, 2), ()]
