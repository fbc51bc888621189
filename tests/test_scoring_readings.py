"""Replies a person has judged: what is read from them, and whether they are right."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.metrics import symbolic
from rolecall.scoring.postprocessors import read_postprocessor
from rolecall.scoring.readers.asked_form import find_asked_forms
from rolecall.scoring.readers.native import read_choice
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main

FEW_SHOT = (
    'We add. Final Answer: The final answer is $12$. I hope it is correct.\n\n'
    'Problem:\nWhat is 2+2?\n\nSolution: The sum is \\boxed{4}. Final Answer: The final answer is $4$.'
)
READ = [  # postprocessor, reply, what it says
    ('extract_non_reasoning_content', '<think>a<think>b</think>c</think>d', 'd'),
    ('math_postprocess', '1/2', '1/2'),
    ('math_postprocess_v2', '1/2', '1/2'),
    ('math_postprocess', r'2\sqrt{5}', r'2\sqrt{5}'),
    ('math_postprocess', '(1,2)', '(1,2)'),
    ('math_postprocess', '(1, 2)', '(1, 2)'),
    ('math_postprocess', 'So we get 1/2.', '1/2'),
    ('math_postprocess', 'Therefore (1, 2) solves it', '(1, 2)'),
    ('math_postprocess', 'x = 5', '5'),
    ('math_postprocess', 'y = 2x+1', 'y = 2x+1'),
    ('math_postprocess', 'We have x^2+1', 'x^2+1'),
    ('math_postprocess', 'They pay 1,200 dollars', '1200'),
    ('math_postprocess', '$1,200', '1200'),
    ('math_postprocess', 'It is 12%', '12%'),
    ('math_postprocess', 'It is 3.5m', '3.5'),
    ('math_postprocess', 'The area is 12 m^2', '12'),
    ('math_postprocess', 'a ratio of 3:4', '3:4'),
    ('math_postprocess', 'no idea', ''),
    ('math_postprocess', FEW_SHOT, '12'),
    ('math_postprocess_v2', FEW_SHOT, '12'),
    ('math_postprocess', 'Problem: What is 3+4?\nSolution: The answer is 7', '7'),
    ('math_postprocess', 'First restate.\nProblem: What is 3+4?\nThe answer is 7', '7'),
    ('gsm8k', '答案是-3', '-3'),
    ('gsm8k', '温度是 -3 度', '-3'),
    ('gsm8k', 'from 5-3', '3'),
    ('gsm8k', '(5)-3', '3'),
    ('math_postprocess', '答案是-3', '-3'),
    ({'type': 'first_option_postprocess', 'options': 'ABCD', 'cushion': False}, 'Option B', 'B'),
    ({'type': 'first_option_postprocess', 'options': 'ABCD', 'cushion': False}, '选项B', 'B'),
    ({'type': 'first_option_postprocess', 'options': 'ABCD', 'cushion': False}, 'perhaps B', 'B'),
    ({'type': 'first_option_postprocess', 'options': 'ABCD'}, 'B\n\nQuestion: next?\nThe answer is C.', 'B'),
    ({'type': 'last_option_postprocess', 'options': 'ABCD'}, 'B\n\nQ: next?\nThe answer is C.', 'B'),
    ({'type': 'last_option_postprocess', 'options': 'ABCD'}, 'Let us see.\nQuestion: which?\nIt is C.', 'C'),
    ('bbh_freeform', 'No, it is not.', 'No'),
    ('bbh_freeform', 'So the answer is John F. Kennedy. He was president.', 'John F. Kennedy'),
    ('bbh_freeform', 'Noah', 'Noah'),
    ('gsm8k', r'\boxed{70{,}000}', '70000'),
    ('gsm8k', r'It is 12,\!345 in all', '12345'),
    ('gsm8k', '70\u202f000', '70000'),
    ('math_postprocess_v2', r'So \fbox{7}.', '7'),
    ('math_postprocess_v2', 'The answer is approximately 3.14', '3.14'),
    ('math_postprocess_v2', 'The answer is not 5 but 6.', '6'),
    ('math_postprocess_v2', 'The answer is 1/2 and not 1/3', '1/2'),
    ('math_postprocess_v2', 'The answer is 1/2, not 1/3', '1/2'),
    ('math_postprocess_v2', '答案约为3.5', '3.5'),
    ('math_postprocess_v2', 'The solution set is {1, 2}', '{1, 2}'),
    ('general', 'about -5 degrees', 'about -5 degrees'),
    ('general', 'well-known', 'wellknown'),
    ('general', 'A', 'A'),
    ('general', 'The answer is A', 'answer is A'),
    ('general', 'at 12:30 or 2/3', 'at 12:30 or 2/3'),
    *(
        ({'type': 'first_option_postprocess', 'options': 'ABCD'}, reply, found)
        for reply, found in [
            ('the answer is b', 'B'),
            ('answer: c', 'C'),
            ('option d', 'D'),
            ('b) Paris', 'B'),
            ('the answer is a dog', ''),
            ('Both A and B look right, but the best is C.', 'C'),
        ]
    ),
]


@pytest.mark.parametrize(('postprocessor', 'reply', 'found'), READ)
def test_a_reply_is_read_as_a_person_reads_it(postprocessor: Any, reply: str, found: str) -> None:
    assert (read_postprocessor(postprocessor, read_as='own')(reply) or '') == found


def scored(evaluator: Any, prediction: Any, gold: Any, **more: Any) -> Scorecard:
    rows = [Scorable(0, 'ok', prediction, gold, more.pop('values', {}))]
    config = {'evaluator': evaluator, 'read_as': 'own', **more}
    return build_scorer(config, judge=lambda values: str(values['prediction'])).score(rows)


COMPARED = [  # evaluators, prediction, gold, right
    ('MATH', r'\boxed{\$18.90}', r'\$18.90', True),
    ('MATH', '18.90', r'\$18.90', True),
    ('MATH', r'$\$18.90$', '18.90', True),
    ('MATH', '19.90', r'\$18.90', False),
    ('MATH', '(1,2)', r'\{1,2\}', False),
    ('MATH', r'\left\{1,2\right\}', '[1,2]', False),
    ('MATH', r'\{2,1\}', r'\{1,2\}', True),
    ('MATH', '(2,1)', '(1,2)', False),
    ('MATH', '1,2', r'\{1,2\}', True),
    ('MATH', r'\boxed{(1,2)}', '(1, 2)', True),
    ('MATH', '{1, 2}', r'\{2,1\}', True),
    ('MATH', '3 1/2', '3.5', True),
    ('MATH', '3 1/2', '1.5', False),
    ('MATH', '5 dollars', '5', True),
    ('MATH', '5 people', '6', False),
    ('MATH', '2 million', '2', False),
    ('BBH', 'No, it is not.', 'no', True),
    ('BBH', 'John F. Smith', 'John F. Kennedy', False),
    ('BBH', 'The answer is John F. Kennedy.', 'John F. Kennedy', True),
    ('BBH', 'No one knows', 'no', False),
]


@pytest.mark.parametrize(
    ('evaluator', 'prediction', 'gold', 'right'),
    [
        (f'{kind}{form}', prediction, gold, right)
        for kind, prediction, gold, right in COMPARED
        for form in (('Evaluator', 'VerifyEvaluator') if kind == 'MATH' else ('Evaluator',))
    ],
)
def test_two_answers_are_compared_as_a_person_compares_them(
    evaluator: str, prediction: str, gold: str, right: bool
) -> None:
    assert scored(evaluator, prediction, gold).verdicts[0].correct is right


JUDGED = [  # dict_postprocessor, judge's reply, row, metric, score, further numbers
    ({'type': 'generic_llmjudge_academic_postprocess', 'metric_name': 'score'}, 'A', {}, 'score', 1.0, {}),
    ('generic_llmjudge_academic_postprocess', 'B', {}, 'accuracy', 0.0, {}),
    ('simpleqa_postprocess', 'A', {}, 'accuracy', 1.0, {'f1': 100.0, 'accuracy_given_attempted': 100.0}),
    ('simpleqa_postprocess', 'C', {}, 'accuracy', 0.0, {'f1': 0.0, 'attempted': 0.0}),
    ('simpleqa_postprocess', 'C\n\nA reply was not given.', {}, 'accuracy', 0.0, {'attempted': 0.0}),
    ('livereasonbench_postprocess', 'NOT_ATTEMPTED', {}, 'accuracy', 0.0, {'attempted': 0.0}),
    ('livereasonbench_postprocess', 'B', {}, 'accuracy', 0.0, {'attempted': 100.0}),
    ('chem_exam_score_llmjudge_postprocess', '<NUMBER>1</NUMBER> or <NUMBER>0.5</NUMBER>', {}, 'final_score', 0.5, {}),
    ('chem_exam_score_llmjudge_postprocess', r'\boxed{.25}', {}, 'final_score', 0.25, {}),
    ('chem_exam_score_llmjudge_postprocess', 'no score', {}, 'final_score', 0.0, {}),
    ('numerical_llmjudge_postprocess', 'It is 3.5 eV', {}, 'mae', 1.5, {}),
    (
        'medmcqa_llmjudge_postprocess',
        'A',
        {'subject_name': 'Anatomy', 'topic_name': None, 'choice_type': 'single'},
        'accuracy',
        1.0,
        {'category/Anatomy': 100.0, 'category/single': 100.0},
    ),
    (
        'fofo_postprocess',
        "{'format_correctness': 1}",
        {'judge': {'domain': 'Law', 'format': 'JSON', 'format_type': 'general'}},
        'accuracy',
        1.0,
        {'category/Law': 100.0, 'category/JSON': 100.0},
    ),
    (
        'fofo_postprocess',
        '"format_correctness": 0',
        {'judge': {'domain': 'Law', 'format': 'JSON', 'format_type': 'special'}},
        'accuracy',
        0.0,
        {'category/Law': 0.0},
    ),
    (
        'alignbench_postprocess',
        "好 {'事实正确性': 1} … {'事实正确性': 9, '综合得分': 7}",
        {'judge': {'capability': '数学计算'}},
        'accuracy',
        7.0,
        {'事实正确性': 9.0, 'category/数学计算': 7.0, '中文推理总分': 7.0, '总分': 7.0},
    ),
]


@pytest.mark.parametrize(('reading', 'reply', 'row', 'metric', 'score', 'further'), JUDGED)
def test_a_judge_s_reply_is_read_by_its_benchmark_s_rule(
    reading: Any, reply: str, row: dict[str, Any], metric: str, score: float, further: dict[str, float]
) -> None:
    run = scored({'type': 'GenericLLMEvaluator', 'dict_postprocessor': reading}, reply, 2, values=row)
    found = run.details.get('further', {})
    assert (run.metric, run.verdicts[0].score) == (metric, score)
    assert {name: found.get(name) for name in further} == further


@pytest.mark.parametrize(
    ('reading', 'reply'),
    [
        ('fofo_postprocess', 'fine'),
        ('alignbench_postprocess', "{'综合得分': 11}"),
        ('alignbench_postprocess', "{'清晰度': 9}"),
        ('numerical_llmjudge_postprocess', 'nothing'),
        ('generic_llmjudge_postprocess', '<think>It may well be B'),
    ],
)
def test_a_judge_s_reply_without_a_score_is_not_a_mark(reading: str, reply: str) -> None:
    with pytest.raises(Exception, match="no verdict in the judge's reply"):
        scored({'type': 'LMEvaluator', 'dict_postprocessor': reading}, reply, 2)


def test_f1_of_attempts_is_the_harmonic_mean_of_both_accuracies() -> None:
    rows = [Scorable(row, 'ok', reply, '') for row, reply in enumerate('AABC')]
    scorer = build_scorer(
        {'evaluator': {'type': 'GenericLLMEvaluator', 'dict_postprocessor': 'simpleqa_postprocess'}},
        judge=lambda values: str(values['prediction']),
    )
    further = scorer.score(rows).details['further']
    assert further['accuracy_given_attempted'] == pytest.approx(200 / 3)
    assert further['f1'] == pytest.approx(2 * 50 * 200 / 3 / (50 + 200 / 3))


def test_an_unknown_option_of_a_judge_s_reading_is_refused_before_the_run() -> None:
    entry = {'type': 'generic_llmjudge_postprocess', 'metric_nam': 'x'}
    with pytest.raises(ConfigError, match="has no option 'metric_nam'"):
        build_scorer({'evaluator': {'type': 'GenericLLMEvaluator', 'dict_postprocessor': entry}}, judge=str)


def test_a_user_s_reading_has_options_and_lacks_none() -> None:
    def read_grade(reply: str, best: str) -> bool:
        return reply == best

    entry = {'type': read_grade, 'best': 'A'}
    assert scored({'type': 'GenericLLMEvaluator', 'dict_postprocessor': entry}, 'A', '').value == 100.0
    with pytest.raises(ConfigError, match="needs the option 'best'"):
        build_scorer({'evaluator': {'type': 'GenericLLMEvaluator', 'dict_postprocessor': read_grade}}, judge=str)


def test_the_work_on_an_expression_is_limited_but_not_the_time_it_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, '_SECONDS', 0.02)
    finished = []
    with symbolic.limit_work():
        time.sleep(0.1)
        finished.append('waiting')
    with symbolic.limit_work():
        while True:
            pass
    assert finished == ['waiting']


@pytest.mark.parametrize(
    ('prompt', 'examples', 'reply', 'answer'),
    [
        ('End with "Decision => [A-D]".', [], 'Decision => C. The final answer is often B.\nDecision => D', 'D'),
        ('Write <pick>letter</pick>.', [], '{"answer": "A"} was my draft. <pick>B</pick>', 'B'),
        ('Reply as {"why": "…", "pick": "…"}.', [], '{"why": "The answer is A", "pick": "C"}', 'C'),
        ('', ['2 + 2?\n>>> A', '3 + 3?\n>>> C'], 'Option B is correct, it seems.\n>>> D', 'D'),
        ('End with "Decision => [A-D]".', [], 'Decision => C. Wait, no: B.', 'B'),
        ('End with "Decision => [A-D]".', [], 'The answer is A.', 'A'),
    ],
)
def test_the_form_that_the_prompt_asks_for_wins_over_what_stands_before_it(
    prompt: str, examples: list[str], reply: str, answer: str
) -> None:
    reading = read_choice(reply, 'ABCD', forms=find_asked_forms(prompt, examples))
    assert reading is not None
    assert reading.counts
    assert reading.value == answer


def test_a_run_tells_the_reader_which_form_its_prompt_asks_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {
        'models': [{'abbr': 'm', 'type': lambda prompt: 'I looked at B. Decision => C\nB is what most people take.'}],
        'datasets': [
            {
                'abbr': 'd',
                'test': [{'q': 'x', 'a': 'C'}],
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {
                    'prompt_template': {'template': '{q}\nEnd with "Decision => [letter]".'},
                    'inferencer': {'type': 'GenInferencer', 'max_out_len': 9},
                },
                'eval_cfg': {
                    'evaluator': 'accuracy',
                    'pred_postprocessor': {'type': 'choice_postprocess', 'choices': 'ABCD'},
                },
            }
        ],
    }
    rolecall.run(config, out=tmp_path / 'run')
    assert main(['score', str(tmp_path / 'run'), '--row', '0']) == 0
    printed = capsys.readouterr().out
    assert 'row 0: right' in printed
    assert 'asked form' in printed


@pytest.mark.parametrize(
    ('reply', 'value'),
    [
        ('So Sara may use the pool.', 'yes'),
        ('So Sara may not use the pool.', 'no'),
        ('Penguins can fly.', 'yes'),
        ('Penguins cannot fly.', 'no'),
        ('It is possible that they can fly.', None),
        ('To do so takes a day.', None),
    ],
)
def test_a_sentence_that_affirms_what_was_asked_counts_as_one_that_denies_it(reply: str, value: str | None) -> None:
    reading = read_choice(reply, ['yes', 'no'])
    assert (reading.value if reading and reading.counts else None) == value
