"""Benchmarks of the sciences and of reasoning: verdicts as the package's own evaluators gave them, and prompts by row."""

from __future__ import annotations

import re
from itertools import product
from typing import Any

import pytest

from rolecall.compat.opencompass.evaluator_names import METRICS
from rolecall.core.prompts.template import build_template
from rolecall.errors import MissingExtraError, RenderError
from rolecall.registry import load_object
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.metrics.judge_replies import read_dict_postprocessor
from rolecall.scoring.metrics.metric import Answer
from tables import in_one

TABLE = {'header': ['House', 'Name', 'Drink'], 'rows': [['1', 'Ada', 'tea'], ['2', 'Bob', 'milk']]}
DRAWN = '| House | Name | Drink |\n|---|---|---|\n| 1 | ada | tea |\n| 2 | Eve | milk |'


def score(evaluator: Any, *rows: tuple[Any, Any]) -> Any:
    scorables = [Scorable(number, 'ok', reply, gold, {}) for number, (reply, gold) in enumerate(rows)]
    return build_scorer({'evaluator': evaluator, 'read_as': 'own'}).score(scorables)


VERDICTS: list[tuple[str, str, Any, float]] = [
    ('OpenSWIMSEEvaluator', 'First [9.0], then [1.0, 2.5]', [1.0, 2.0], 0.125**0.5),
    ('OpenSWIMSEEvaluator', '[1.0]', [1.0, 2.0], 2**0.5),
    ('OpenSWIMSEEvaluator', '[1, 2]', [3.0, 4.0], 12.5**0.5),
    ('OpenSWIMSEEvaluator', '[x', [3.0, 4.0], 12.5**0.5),
    ('AverageRougeScoreEvaluator', '正确答案：水稻', '水稻', 1),
    ('AverageRougeScoreEvaluator', '水稻', '水稻, 小麦', 0.5),
    ('AverageRougeScoreEvaluator', '水稻.小麦', '水稻.大麦', 2 / 3),
    ('AccScoreStr_Evaluator', 'It is RICE.', 'rice', 1),
    ('ZebraLogicMCEvaluator', 'the answer is: (b)', 'B', 1),
    ('ZebraLogicMCEvaluator', '(A) no\n B \n', 'B', 1),
    ('ZebraLogicMCEvaluator', 'Of (A) and (B)', 'A', 0),
    ('ZebraLogicMCEvaluator', '', 'A', 0),
    ('ZebraLogicGridEvaluator', DRAWN, TABLE, 5 / 6),
    ('ZebraLogicGridEvaluator', DRAWN.rpartition('\n')[0], TABLE, 0),
    ('ZebraLogicGridEvaluator', '1 ADA TEA', TABLE, 3 / 6),
    ('ProcessBenchEvaluator', r'\boxed{2} so \boxed{ 1 }', '1', 1),
    ('ProcessBenchEvaluator', 'Step 1.', '1', 0),
    ('ProcessBenchEvaluator', r'\boxed{none}', 'none', 1),
    ('BBEHEvaluator', r'So the answer is x. The answer is: **\boxed{Ada}**' + '\nOk.', '"Ada"', 1),
    ('BBEHEvaluator', 'The answer is a , b', 'A,B', 1),
    ('BBEHEvaluator', 'b', 'a', 0),
    ('BBEHEvaluator_mcq', 'The final answer is (b)', '(B)', 1),
]


@in_one
@pytest.mark.parametrize(('name', 'reply', 'gold', 'expected'), VERDICTS)
def test_a_reply_is_worth_what_the_package_says(name: str, reply: str, gold: Any, expected: float) -> None:
    mark = load_object(METRICS[name])().mark(Answer(reply, gold))
    assert mark.score == pytest.approx(expected)


def test_every_metric_has_a_case() -> None:
    of_all_rows = {'F1ScoreEvaluator', 'GUE_Evaluator', 'FTSEvaluator', 'AccScoreStr_Evaluator'}
    of_all_rows.add('ReasoningGymEvaluator')  # asks a package
    here = {name for name, path in METRICS.items() if '.sciences:' in path or '.reasoning:' in path}
    assert {name for name, *_ in VERDICTS} | of_all_rows == here | {'AccScoreStr_Evaluator'}


def test_some_scores_are_of_all_rows() -> None:
    letters = score('F1ScoreEvaluator', ('A, B', 'A,C'), ('C', 'C'))
    assert letters.value == pytest.approx(100 * 2 / 3)
    verdicts = [('positive', 'positive'), ('positive', 'negative'), ('', 'negative'), ('negative', 'positive')]
    assert score('GUE_Evaluator', *verdicts).value == 0
    assert score('GUE_Evaluator', *verdicts[:1], *verdicts[2:3]).value == 100
    steps = score('ProcessBenchEvaluator', (r'\boxed{1}', '1'), (r'\boxed{1}', '2'), (r'\boxed{-1}', '-1'))
    assert (steps.further or {})['f1'] == pytest.approx(100 * 2 / 3)


@in_one
@pytest.mark.parametrize(
    ('name', 'reply', 'row', 'expected'),
    [
        ('elbench_safety_postprocess', '[[0]] at first. [[1]]', {'judge': {'task': 't'}}, {'category/t': 1}),
        ('elbench_safety_postprocess', '评分：0', {}, 0),
        ('elbench_highlevel_edu_postprocess', '[[11]] or [[7]]', {}, 0.7),
        ('elbench_highlevel_edu_postprocess', 'seven', {}, None),
        ('clbench_llmjudge_postprocess', '```json\n{"Overall Score": "1"}```', {'context_category': 'c'}, {'category/c': 1}),
        ('clbench_llmjudge_postprocess', 'Overall Score: 10', {}, None),
        ('inverse_ifeval_judge_postprocess', '{"answer_score": 0}', {'language': 'zh'}, {'category/zh': 0}),
        ('inverse_ifeval_judge_postprocess', '【评分】：1 分', {}, 1),
    ],
)  # fmt: skip
def test_a_judge_s_points_are_read(name: str, reply: str, row: dict[str, Any], expected: Any) -> None:
    reading = read_dict_postprocessor(name)
    if expected is None:
        with pytest.raises(Exception, match='no verdict'):
            reading.read(reply, Answer('x', values=row))
    else:
        mark = reading.read(reply, Answer('x', values=row))
        assert (mark.parts if isinstance(expected, dict) else mark.score) == pytest.approx(expected)


def test_molecules_are_compared_by_their_structure_or_the_extra_is_named() -> None:
    rows = [('<SMILES> OCC </SMILES>', '<SMILES> CCO </SMILES>'), ('<SMILES> C( </SMILES>', '<SMILES> CCO </SMILES>')]
    try:
        import rdkit  # noqa: F401
    except ImportError:
        with pytest.raises(MissingExtraError, match=re.escape("pip install 'rolecall[molecules]'")):
            score('FTSEvaluator', *rows)
        return
    card = score('FTSEvaluator', *rows)
    assert (card.value, (card.further or {})['valid_score']) == (50, 50)


PROBLEM = {'problem': 'What is {x}?', 'subject': 'Physics', 'answer_type': 'Numerical', 'unit': 'm'}
SEVERAL = {'is_multiple_answer': True, 'answer_type': 'Numerical,Interval', 'unit': ''}


@in_one
@pytest.mark.parametrize(
    ('more', 'expected'),
    [
        ({}, 'International Physics competition. The answer of The problem should be a numerical value. Please'),
        ({}, r'"So the final answer is \boxed{answer}(unit)." and give'),
        ({}, '\nWhat is {x}?\n\nPlease reason'),
        (SEVERAL, 'with the answers in order being a numerical value, an interval. '),
        ({**SEVERAL, 'answer_type': 'Interval-1'}, 'each of them should be an interval. '),
        ({'answer_type': 'Tuple'}, 'competition. Please calculate'),
        ({'question_type': 'Theorem proof', 'answer_type': '?'}, 'theorem proving problem from an International Physics'),
        ({'language': 'Chinese'}, '以下是中国物理竞赛中的解答题，答案类型为数值。'),
        ({'language': 'Chinese', **SEVERAL}, '答案类型分别为数值、区间。'),
    ],
)  # fmt: skip
def test_olympiad_bench_words_each_row_by_its_columns(more: dict[str, Any], expected: str) -> None:
    row = {**PROBLEM, **more}
    [speech] = build_template({'type': 'OlympiadBenchTemplate'}).script().fill(row)
    [message] = build_template({'type': 'OlympiadBenchRawTemplate'}).script().fill(row)
    assert isinstance(speech, dict)
    assert (speech['role'], message) == ('HUMAN', {'role': 'user', 'content': speech['prompt']})
    assert expected in speech['prompt']


def test_a_judge_s_prompt_may_stand_in_the_row_and_values_are_not_read_as_fields() -> None:
    template = build_template({'type': 'InverseIFEvalJudgePromptTemplate'})
    row = {'judge_prompt_template': '{prompt} / {response} / {else}', 'judge_system_prompt': 's'}
    messages = template.script().fill({**row, 'prompt': '{response}', 'prediction': 'P'})
    assert messages == [{'role': 'system', 'content': 's'}, {'role': 'user', 'content': '{response} / P / {else}'}]
    with pytest.raises(RenderError, match='judge_prompt_template'):
        template.script().fill({'prediction': 'P'})


GROWING = ('[', '[[', 'boxed{', '<SMILES>', '|', '|a', 'A\n', '\n', ' ', 'the answer is ', 'Overall Score', 'no ')


@pytest.mark.parametrize('name', ['OpenSWIMSEEvaluator', 'ZebraLogicMCEvaluator', 'ZebraLogicGridEvaluator', 'ProcessBenchEvaluator'])  # fmt: skip
def test_long_degenerate_replies_are_read(name: str) -> None:
    gold: Any = {'OpenSWIMSEEvaluator': [1.0], 'ZebraLogicGridEvaluator': TABLE}.get(name, '1')
    metric = load_object(METRICS[name])()
    for unit, end in product(GROWING, ('', ']', '}')):
        assert metric.mark(Answer(unit * 3000 + end, gold)) is not None
