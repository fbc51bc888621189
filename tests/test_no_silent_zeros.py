"""A run that would come to nothing says so: before it starts, or in its last lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rolecall import ConfigError, RunReader, run_config
from rolecall.runs.run_scorer import warn_about_replies
from rolecall.runs.store.results import Result
from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.cli.main import main

CONFIG = """
def answer(prompt):
    return REPLY

models = [dict(abbr='mine', type=answer, MODEL)]
datasets = [dict(
    abbr='qa', type='Rows', test=[dict(q=f'Question {i}?', a=f'Answer {i}') for i in range(5)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='TEMPLATE')),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator'), EXTRACT),
)]
"""


def write(folder: Path, **parts: str) -> str:
    text = CONFIG
    for name, usual in (('REPLY', "''"), ('TEMPLATE', '{q}'), ('MODEL', ''), ('EXTRACT', '')):
        text = text.replace(name, parts.get(name, usual))
    path = folder / 'config.py'
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ('parts', 'warning'),
    [
        (
            {},
            'qa × mine: every reply is empty. Look at a prompt with rolecall view; an instruct model needs its chat template.',
        ),
        ({'REPLY': "'yes'"}, "qa × mine: every row has the same answer, 'yes'."),
        (
            {'REPLY': "'no letter'", 'EXTRACT': "pred_postprocessor=dict(type='first-option', options='XYZ')"},
            "qa × mine: no answer was found in any reply. The first reply is 'no letter': is the extraction right?",
        ),
    ],
)
def test_a_run_that_came_to_nothing_says_so_in_its_last_line(
    parts: dict[str, str], warning: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(['run', write(tmp_path, **parts), '--out', str(tmp_path / 'run'), '-q'])
    lines = capsys.readouterr().err.splitlines()
    assert f'WARNING: {warning}' in lines[-2:]


@pytest.mark.parametrize(
    ('metric', 'reply'),
    [
        ('AccEvaluator', "'It is ' + prompt.replace('Question', 'Answer').rstrip('?') + '.'"),
        ('exact', "'Hm, ' + prompt.replace('Question', 'Answer').rstrip('?') * (not '3' in prompt) + ' or so'"),
    ],
)
def test_a_score_that_another_metric_would_change_says_so_above_it_and_how(
    metric: str, reply: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(write(tmp_path, REPLY=reply))
    path.write_text(path.read_text().replace('AccEvaluator', metric))
    main(['run', str(path), '--out', str(tmp_path / 'run')])
    lines = capsys.readouterr().err.splitlines()
    (warned,) = [at for at, line in enumerate(lines) if 'replies contain the gold answer' in line]
    (scored,) = [at for at, line in enumerate(lines) if ' rows scored' in line]
    assert warned < scored
    assert 'repeat the command with --metric contains' in lines[warned]
    path.write_text(path.read_text().replace(metric, 'contains'))
    main(['run', str(path), '--out', str(tmp_path / 'run')])
    assert '\n0 requests to send' in capsys.readouterr().err
    with RunReader(tmp_path / 'run') as run:
        assert [card.value for card in run.scorecards()] == [100.0 if metric == 'AccEvaluator' else 80.0]


@pytest.mark.parametrize(
    ('golds', 'warning'),
    [
        (['', ' ', 'x'], 'no gold answer in 2 of 3 rows: counted as wrong. Is the answer column the right one?'),
        (
            [float('nan'), 'x'],
            'no gold answer in 1 of 2 rows: counted as wrong. Is the answer column the right one?',
        ),
        ([{'text': 'x'}] * 2, 'every gold answer is an object, which no reply equals. Name a value inside it: text.'),
    ],
)
def test_gold_answers_that_no_reply_can_match_are_warned_about(golds: list[Any], warning: str) -> None:
    results = [
        Result('d', 'm', row, 'ok', prediction=str(row), replies=(str(row),), gold=gold, correct=False)
        for row, gold in enumerate(golds)
    ]
    assert warn_about_replies(results, Scorecard('d', 'm', 'accuracy', 0.0)) == [f'd × m: {warning}']


@pytest.mark.parametrize(
    'results',
    [
        [],
        [Result('d', 'm', 0, 'ok', prediction='', replies=('',))],
        [Result('d', 'm', i, 'ok', prediction='a', replies=('a',), gold='a') for i in range(9)],
        [Result('d', 'm', i, 'failed') for i in range(9)],
        [Result('d', 'm', i, 'ok', prediction='a', gold=str(i)) for i in range(3)],
        [Result('d', 'm', i, 'ok', prediction=str(i), replies=(str(i),), gold='x') for i in range(9)],
    ],
)
def test_ordinary_results_cause_no_warning(results: list[Result]) -> None:
    assert warn_about_replies(results, Scorecard('d', 'm', 'accuracy', 0.0)) == []


def test_lint_errors_stop_a_run_before_anything_is_sent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = write(tmp_path, TEMPLATE='{qq}'), tmp_path / 'run'
    assert main(['run', path, '--out', str(out)]) == 2
    assert capsys.readouterr().err.endswith(
        'lint\n  1 error found before the run; nothing was sent.\n'
        '  Correct the config, or run it as it is with --force (force=True).\n'
    )
    assert not out.exists()
    assert main(['run', path, '--out', str(out), '--force']) == 0
    assert '1 lint error ignored.' in capsys.readouterr().err
    with pytest.raises(ConfigError, match='same-prompt'):
        run_config(path, out=out, force=False)


def test_rows_that_fail_alone_do_not_stop_a_run(tmp_path: Path) -> None:
    path = write(tmp_path, REPLY='prompt')
    text = Path(path).read_text().replace('for i in range(5)]', "for i in range(5)] + [dict(q=dict(x=b'1'), a='')]")
    Path(path).write_text(text)
    assert main(['run', path, '--out', str(tmp_path / 'run'), '-q']) == 1
    with RunReader(tmp_path / 'run') as run:
        assert [result.outcome for result in run.results()] == ['ok'] * 5 + ['failed']


def test_warnings_are_counted_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(['run', write(tmp_path, TEMPLATE='{q} {who}'), '--out', str(tmp_path / 'run'), '-q'])
    assert '2 lint warnings (unfilled-field, no-max-out-len); rolecall lint shows remedies.' in capsys.readouterr().err


def test_keys_without_effect_are_named_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, MODEL="max_concurrency=64, attr='service', run_cfg=dict(num_gpus=0)")
    text = Path(path).read_text().replace('type=answer,', "type='Function', function=answer,")
    Path(path).write_text(text)
    main(['run', path, '--out', str(tmp_path / 'run')])
    lines: list[Any] = capsys.readouterr().err.splitlines()
    assert lines[0] == "rolecall: mine: the key 'max_concurrency' has no effect. Did you mean 'concurrency'?"
    assert lines[1] == 'rolecall: keys of OpenCompass or AISBench without effect here: attr, run_cfg.'


@pytest.mark.parametrize(('metric', 'gold'), [('number', '6'), ('math', r'\frac{1}{2}')])
def test_a_number_is_read_where_the_config_names_no_reader(metric: str, gold: str) -> None:
    scorer = build_scorer({'evaluator': {'type': metric}})
    assert scorer.score([Scorable(0, 'ok', f'I would say the answer is ${gold}$.', gold)]).value == 100
