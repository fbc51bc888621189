"""Logs of other harnesses as runs: real ones of lm-eval 0.4.13 and Inspect 0.3.285, and OpenCompass' documented layout."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from rolecall import run_config
from rolecall.cli.main import main
from rolecall.runs.store.run_reader import RunReader

LOGS = Path(__file__).parent / 'data' / 'logs'


def open_log(harness: str, source: Path, out: Path) -> RunReader:
    assert main(['import', harness, str(source), '--out', str(out)]) == 0
    return RunReader(out)


def write_opencompass(root: Path, suffix: str = '.json') -> Path:
    asked = [{'role': 'SYSTEM', 'prompt': 'Brief.'}, {'role': 'HUMAN', 'prompt': '1+1=?'}]
    entries = [
        {'origin_prompt': asked, 'prediction': 'It is 2', 'gold': '2'},
        {'origin_prompt': '2+2=?', 'prediction': 'five', 'gold': '4'},
    ]
    predictions = root / '20260101_120000' / 'predictions' / 'internlm'
    predictions.mkdir(parents=True)
    if suffix == '.json':
        text = json.dumps({str(number): one for number, one in enumerate(entries)})
    else:
        text = '\n'.join(json.dumps({'id': number, 'success': True, **one}) for number, one in enumerate(entries))
    (predictions / f'sums{suffix}').write_text(text)
    results = root / '20260101_120000' / 'results' / 'internlm'
    results.mkdir(parents=True)
    details = {'0': {'pred': '2', 'correct': True}, '1': {'pred': '5', 'correct': False}}
    (results / 'sums.json').write_text(json.dumps({'accuracy': 50.0, 'details': details}))
    return root


def test_a_log_of_lm_eval_keeps_prompts_replies_answers_and_scores(tmp_path: Path) -> None:
    with open_log('lm-eval', LOGS / 'lm-eval', tmp_path / 'run') as run:
        cards = {card.dataset: card for card in run.scorecards()}
        assert set(cards) == {'local_arc_easy', 'local_gsm8k', 'local_gsm8k,flexible-extract'}
        assert (cards['local_arc_easy'].metric, cards['local_arc_easy'].value) == ('acc', 0.0)
        weighed = run.result('local_arc_easy', 'tiny', 0)
        assert weighed is not None
        assert len(weighed.prediction) == len(weighed.fingerprints) == 4
        assert str(run.request(weighed.fingerprints[0])).endswith('\nAnswer: stone green')
        written = run.result('local_gsm8k', 'tiny', 0)
        assert written is not None
        assert (written.extracted, written.gold, written.input_tokens) == ('[invalid]', '1', None)
        assert run.manifest()['imported']['version'] == '0.4.13'
        assert run.manifest()['imported']['settings']['tiny']['local_gsm8k']['num_fewshot'] == 2


def test_a_log_of_inspect_keeps_messages_tokens_and_verdicts(tmp_path: Path) -> None:
    pytest.importorskip('pyarrow')
    with open_log('inspect', LOGS / 'inspect' / 'sums.eval', tmp_path / 'run') as run:
        [card] = run.scorecards()
        assert (card.metric, round(card.value or 0, 1), card.scored) == ('match accuracy', 66.7, 3)
        wrong = run.result('sums', 'mockllm/model', 1)
        assert wrong is not None
        assert (wrong.replies, wrong.gold, wrong.correct, wrong.output_tokens) == (('five',), '4', False, 4)
        assert run.request(wrong.fingerprint) == [
            {'role': 'system', 'content': 'Be brief.'},
            {'role': 'user', 'content': '2+2=?'},
        ]


@pytest.mark.parametrize(('harness', 'suffix'), [('opencompass', '.json'), ('aisbench', '.jsonl')])
def test_a_working_directory_of_opencompass_or_aisbench(harness: str, suffix: str, tmp_path: Path) -> None:
    with open_log(harness, write_opencompass(tmp_path / 'outputs', suffix), tmp_path / 'run') as run:
        [card] = run.scorecards()
        assert (card.dataset, card.metric, card.value, card.details['unit']) == ('sums', 'accuracy', 50.0, '%')
        first = run.result('sums', 'internlm', 0)
        assert first is not None
        assert (first.replies, first.extracted, first.correct) == (('It is 2',), '2', True)
        assert run.request(first.fingerprint)[1] == {'role': 'user', 'content': '1+1=?'}
        assert run.manifest()['imported']['version'] == 'not recorded'


def test_report_export_and_compare_open_an_imported_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_log('lm-eval', LOGS / 'lm-eval', tmp_path / 'theirs').close()
    assert main(['report', str(tmp_path / 'theirs')]) == 0
    assert main(['export', 'results', str(tmp_path / 'theirs')]) == 0
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'theirs')]) == 0
    shown = capsys.readouterr().out
    assert 'local_arc_easy' in shown
    assert 'prompts: 4 of 4 equal' in shown


def test_compare_aligns_rows_by_content_and_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = write_opencompass(tmp_path / 'outputs')
    open_log('opencompass', theirs, tmp_path / 'theirs').close()
    rows = [{'q': '2+2=?  ', 'a': '4'}, {'q': 'What is 9-3 then?', 'a': '6'}, {'q': '1+1=?', 'a': '2'}]
    config: dict[str, Any] = {
        'models': [{'abbr': 'm', 'type': lambda request: 'five' if '2+2' in str(request) else 'It is 2'}],
        'datasets': [
            {
                'abbr': 'ours',
                'test': rows,
                'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
                'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': 'Brief.\n{q}'}},
                'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
            }
        ],
    }
    run_config(config, out=tmp_path / 'ours')
    capsys.readouterr()
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'ours')]) == 0
    shown = capsys.readouterr().out
    assert 'left: made by OpenCompass not recorded' in shown
    assert 'ours: 1 row found again by content' in shown
    assert 'scored differently: 1' in shown
    assert "read as '2' (left), 'It is 2' (right)" in shown


@pytest.mark.parametrize(
    ('harness', 'write', 'expected'),
    [
        ('lm-eval', lambda folder: None, 'no results_*.json found'),
        ('lm-eval', lambda folder: (folder / 'results_x.json').write_text('[1'), 'not the JSON of a log'),
        ('lm-eval', lambda folder: (folder / 'results_x.json').write_text('[]'), 'not results of lm-eval'),
        ('inspect', lambda folder: (folder / 'log.eval').write_text('no zip'), 'not a .eval file'),
        (
            'inspect',
            lambda folder: (folder / 'l.json').write_text('{"eval": {}, "samples": [5]}'),
            'as Inspect writes it',
        ),
        (
            'lm-eval',
            lambda folder: (folder / 'results_x.json').write_text('{"results": {"t": 5}}'),
            'as lm-eval writes it',
        ),
        ('opencompass', lambda folder: None, 'no folder `predictions` found'),
        ('aisbench', lambda folder: (folder / 'predictions').mkdir(), 'no model has predictions'),
    ],
)
def test_what_is_wrong_with_a_log_is_said(
    harness: str, write: Any, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / 'log'
    source.mkdir()
    write(source)
    assert main(['import', harness, str(source), '--out', str(tmp_path / 'run')]) == 2
    assert expected in capsys.readouterr().err


def test_an_import_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(LOGS / 'lm-eval', tmp_path / 'run')
    assert main(['import', 'lm-eval', str(LOGS / 'lm-eval'), '--out', str(tmp_path / 'run')]) == 2
    assert 'not empty' in capsys.readouterr().err
