"""Datasets that cannot run: reported together, few words for many, and left out on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.experiment.lint.linter import lint_config
from rolecall.runs.run import run_config
from rolecall.ui.cli.main import main

FILE = """
def entry(abbr, **others):
    return dict(abbr=abbr, reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=5)),
        **{'eval_cfg': dict(evaluator='AccEvaluator'), **others})

datasets = [
    *[entry(f'lost{n}', type='File', path=f'data/part{n}.jsonl') for n in range(110)],
    entry('good', type='Rows', test=[dict(q='1', a='1'), dict(q='2', a='2')]),
    entry('unscored', type='Rows', test=[dict(q='1', a='1')], eval_cfg=dict(evaluator='AccEvalutor')),
    entry('columnless', type='Rows', test=[dict(a='1')]),
    entry('wordless', type='Rows', test=[dict(q='1', a='1')]) | dict(infer_cfg=dict()),
]
models = [dict(abbr='m', type='tests.test_keep_going.echo')]
"""


def echo(prompt: str) -> str:
    return prompt


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / 'config.py'
    path.write_text(FILE)
    return path


def test_without_it_nothing_runs_and_everything_is_told_in_few_words(config: Path, tmp_path: Path) -> None:
    text = config.read_text().replace('| dict(infer_cfg=dict())', '')
    config.write_text(text)
    with pytest.raises(ConfigError) as refused:
        run_config(config, out=tmp_path / 'run')
    problems = refused.value.problems
    assert len(problems) == 3
    assert 'data/part0.jsonl: no such file' in problems[0].what
    assert 'The same holds for 109 more, to datasets[109].' in problems[0].remedy
    assert "unknown metric 'AccEvalutor'" in problems[1].what
    assert 'row-fails' in problems[2].where  # of a dataset without other problems
    assert not (tmp_path / 'run').exists()


def test_what_can_run_runs_and_the_rest_is_reported(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(['run', str(config), '--out', str(tmp_path / 'run'), '--keep-going']) == 1
    told = capsys.readouterr()
    assert 'good' in told.out
    assert 'left out: ' in told.err
    assert 'prompt_template' in told.err
    assert 'The same holds for 109 more' in told.err
    assert "Did you mean 'AccEvaluator'" in told.err
    summary = run_config(config, out=tmp_path / 'run', keep_going=True)
    assert [(card.dataset, card.value) for card in summary.scorecards] == [('good', 100.0)]
    assert (len(summary.skipped), summary.exit_code) == (4, 1)
    assert any("no column 'q'" in problem.what for problem in summary.skipped)


def test_it_is_an_error_where_nothing_is_left(config: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='no such file'):
        run_config(config, out=tmp_path / 'run', keep_going=True, dataset='lost*')


def test_a_pair_that_does_not_fit_is_left_out_alone(tmp_path: Path) -> None:
    speech: dict[str, Any] = {
        'begin': [{'role': 'SYSTEM', 'prompt': 'Be brief.'}],
        'round': [{'role': 'HUMAN', 'prompt': '{q}'}],
    }
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': '1', 'a': '1'}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': speech},
            'inferencer': {'type': 'GenInferencer'},
        },
        'eval_cfg': {'evaluator': 'AccEvaluator'},
    }
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    models = [{'abbr': 'plain', 'type': echo}, {'abbr': 'api', 'type': echo, 'meta_template': meta}]
    summary = run_config({'datasets': [dataset], 'models': models}, out=tmp_path, keep_going=True, lint=False)
    assert [card.model for card in summary.scorecards] == ['plain']
    assert 'SYSTEM' in summary.skipped[0].what


def test_the_linter_tells_the_same_in_few_words(config: Path) -> None:
    config.write_text(config.read_text().replace('| dict(infer_cfg=dict())', ''))
    found = {finding.rule: finding for finding in lint_config(config)}
    assert found['cannot-score'].where == 'unscored'
    assert "unknown metric 'AccEvalutor'" in found['cannot-score'].message
    assert 'more, to' in found['rows-not-at-hand'].where or 'lost' in found['rows-not-at-hand'].where


def test_models_data_and_evaluators_are_reported_together(tmp_path, capsys):
    config = tmp_path / 'config.py'
    config.write_text("""
base = dict(reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=9)),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')))
datasets = [dict(base, abbr=f'd{n}', path=f'missing/x{n}.jsonl') for n in range(110)]
datasets += [dict(base, abbr='odd', path='missing/y.jsonl', eval_cfg=dict(evaluator=dict(type='AcEvaluator')))]
models = [dict(type='OpenAy', abbr='a', path='gpt-4o'), dict(type='OpenAI', abbr='b', path='x', generation_kwargs=dict(temperatur=1))]
""")
    assert main(['run', str(config), '--out', str(tmp_path / 'run')]) != 0
    told = capsys.readouterr().err
    assert "models[0].type\n  unknown model 'OpenAy'." in told
    assert "models[1].generation_kwargs.temperatur\n  unknown key 'temperatur'." in told
    assert "datasets[110].eval_cfg.evaluator\n  unknown metric 'AcEvaluator'." in told
    assert told.count('no such file or folder') == 1
    assert 'The same holds for 110 more, to datasets[110].' in told
    assert main(['lint', str(config)]) == 1
    shown = capsys.readouterr().out
    assert shown.count('rows-not-at-hand') == 1
    assert 'The same holds for 110 more, to odd.' in shown
    assert all(rule in shown for rule in ('unknown-model  a', 'wrong-sampling', 'cannot-score  odd'))
