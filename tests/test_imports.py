"""Logs of other harnesses as runs: real ones of lm-eval 0.4.13, Inspect 0.3.285, OpenCompass 0.5.4 and AISBench 3.1."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import rolecall
from helpers import sums_config
from rolecall import run_config
from rolecall.insight import alignment
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store
from rolecall.ui.cli.main import main

LOGS = Path(__file__).parent / 'data' / 'logs'


def open_log(harness: str, source: Path, out: Path) -> RunReader:
    assert main(['runs', 'import', harness, str(source), '--out', str(out)]) == 0
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


@pytest.mark.parametrize(
    ('source', 'expected'),
    [
        ("datasets=[dict(abbr='sums', infer_cfg=dict(inferencer=dict(type='a.b.Gen', max_out_len=-1)))]",
         {'inferencer': {'type': 'Gen', 'max_out_len': -1}, 'model': 'not recorded'}),
        ("datasets=[dict(abbr='sums')]\nmodels=[dict(abbr='internlm', path='p', key='sk-1234567890', temperature=0.5)]",
         {'model': {'path': 'p', 'temperature': 0.5}}),
        ("import os\nopen('EVIL', 'w')\ndatasets=[dict(abbr='sums', eval_cfg=dict(evaluator=dict(type=open('EVIL', 'w'))))]",
         {'evaluator': {'type': "open('EVIL', 'w')"}, 'model': 'not recorded'}),
        ("datasets=[{'abbr': 'sums', 'infer_cfg': {'retriever': {'type': Fix, 'ids': [1, (2, 3)]}}}]",
         {'retriever': {'type': 'Fix', 'ids': [1, [2, 3]]}, 'model': 'not recorded'}),
        ('datasets=[', None),
        ('datasets=' + '[' * 5000 + ']' * 5000, None),
        ('datasets=5\nmodels="x"', None),
        ('\0', None),
    ],
)  # fmt: skip
def test_the_config_of_a_log_is_read_as_data(source: str, expected: Any, tmp_path: Path) -> None:
    root = write_opencompass(tmp_path / 'outputs')
    configs = root / '20260101_120000' / 'configs'
    configs.mkdir()
    (configs / 'run.py').write_text(source)
    with open_log('opencompass', root, tmp_path / 'run') as run:
        settings = run.manifest()['imported']['settings']['internlm']
    assert settings == ('not recorded' if expected is None else {'sums': expected})
    assert not list(tmp_path.rglob('EVIL'))
    assert not Path('EVIL').exists()


def test_a_real_log_of_aisbench_keeps_prompts_replies_answers_and_scores(tmp_path: Path) -> None:
    with open_log('aisbench', LOGS / 'aisbench', tmp_path / 'run') as run:
        [card] = run.scorecards()
        assert (card.dataset, card.metric, card.scored, card.details['unit']) == ('gsm8k', 'accuracy', 3, '%')
        assert card.value == pytest.approx(100 / 3)
        wrong = run.result('gsm8k', 'loop', 1)
        assert wrong is not None
        assert (wrong.replies, wrong.extracted, wrong.correct) == (('I think it is 7.',), '7', False)
        assert run.request(wrong.fingerprint)[0]['role'] == 'user'
        settings = run.manifest()['imported']['settings']['loop']['gsm8k']
    assert settings['inferencer'] == {'type': 'GenInferencer', 'stopping_criteria': ['Question']}
    assert settings['model']['generation_kwargs'] == {'temperature': 0.01, 'ignore_eos': False}


def _answer_as_the_server_did(prompt: Any) -> str:
    asked = prompt if isinstance(prompt, str) else prompt[-1]['content']
    return ['The answer is 18', 'I think.\nThe answer is 3', 'So the answer is (A).'][sum(map(ord, asked)) % 3]


def test_a_real_log_of_opencompass_and_our_run_of_that_benchmark_by_name_are_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with open_log('opencompass', LOGS / 'opencompass' / '20261116_024748', tmp_path / 'theirs') as run:
        [card] = run.scorecards()
        assert (card.dataset, card.metric, card.scored) == ('gsm8k', 'accuracy', 3)
        assert card.value == pytest.approx(100 / 3)
    rows = LOGS.parent.parent.parent / 'examples' / 'data' / 'gsm8k'
    (tmp_path / 'data' / 'gsm8k').mkdir(parents=True)
    for split in ('train', 'test'):
        lines = (rows / f'{split}.jsonl').read_text(encoding='utf-8').splitlines(keepends=True)
        (tmp_path / 'data' / 'gsm8k' / f'{split}.jsonl').write_text(''.join(lines[:3]), encoding='utf-8')
    model = {'abbr': 'loop', 'type': 'Function', 'function': _answer_as_the_server_did, 'chat': True}
    done = rolecall.run('gsm8k', model=model, data=tmp_path / 'data', out=tmp_path / 'ours', quiet=True)
    assert done.scores.value() == pytest.approx(100 / 3)
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'ours')]) == 0
    shown = capsys.readouterr().out
    assert 'prompts: 3 of 3 equal' in shown
    assert 'equal replies: 3 of 3; scored differently: 0' in shown
    assert 'settings, left: {"inferencer": {"max_out_len": 512, "type": "GenInferencer"}' in shown


def test_a_real_chat_log_of_lm_eval_and_our_run_of_its_task_have_equal_prompts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = next((LOGS / 'lm-eval-chat').glob('results_*.json'))
    with open_log('lm-eval', results, tmp_path / 'theirs') as run:
        first = run.result('chat_gsm8k', 'toy', 0)
        assert first is not None
        roles = [message['role'] for message in run.request(first.fingerprint)]
        assert roles == ['system', 'user', 'assistant', 'user']
    task = json.loads(results.read_text())['configs']['chat_gsm8k']
    (tmp_path / 'task.yaml').write_text(json.dumps(task))
    (tmp_path / 'models.py').write_text(
        "def say(prompt):\n    return '#### 1'\n\n\nmodels = [dict(abbr='toy', type='Function', function=say, chat=True)]\n"
    )
    examples = LOGS.parent.parent.parent / 'examples' / 'data' / 'gsm8k'
    for split in ('train', 'test'):
        lines = (examples / f'{split}.jsonl').read_text(encoding='utf-8').splitlines(keepends=True)
        (tmp_path / f'{split}.jsonl').write_text(''.join(lines[:3]), encoding='utf-8')
    rows = [f'{split}={tmp_path / split}.jsonl' for split in ('train', 'test')]
    asked = [
        '--as',
        'lm-eval',
        '--fewshot-as-multiturn',
        '--system',
        'Be brief.',
        '--models',
        str(tmp_path / 'models.py'),
    ]
    assert main(['run', str(tmp_path / 'task.yaml'), '--data', *rows, *asked, '--out', str(tmp_path / 'ours')]) == 0
    capsys.readouterr()
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'ours')]) == 0
    shown = capsys.readouterr().out
    assert 'prompts: 3 of 3 equal' in shown
    assert 'sent differently' not in shown


def test_report_export_and_compare_open_an_imported_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_log('lm-eval', LOGS / 'lm-eval', tmp_path / 'theirs').close()
    assert main(['report', str(tmp_path / 'theirs')]) == 0
    assert main(['export', 'results', str(tmp_path / 'theirs')]) == 0
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'theirs')]) == 0
    shown = capsys.readouterr().out
    assert 'local_arc_easy' in shown
    assert 'prompts: 4 of 4 equal' in shown


def test_a_report_of_a_log_has_its_time_and_compare_only_settings_that_differ(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_log('lm-eval', LOGS / 'lm-eval', tmp_path / 'run').close()
    assert main(['report', str(tmp_path / 'run')]) == 0
    assert 'made by lm-eval (version: 0.4.13; time: 2026-11-16T00:' in ' '.join(capsys.readouterr().out.split())
    assert main(['compare', str(tmp_path / 'run'), str(tmp_path / 'run')]) == 0
    shown = capsys.readouterr().out
    assert shown.count('settings: equal') == 3
    assert 'replies: none; log-probabilities were compared' in shown


def test_the_newest_of_several_logs_of_a_task_is_kept_and_the_others_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(LOGS / 'lm-eval', tmp_path / 'logs')
    for path in list((tmp_path / 'logs').iterdir()):
        text = path.read_text().replace('"exact_match": 0.0', '"exact_match": 1.0')
        text = text.replace('"exact_match,strict-match": 0.0', '"exact_match,strict-match": 1.0')
        if path.name.startswith('results_'):
            told = json.loads(text)
            text = json.dumps({**told, 'date': told['date'] + 3600})
        (tmp_path / 'logs' / path.name.replace('T00-', 'T01-')).write_text(text)
    with open_log('lm-eval', tmp_path / 'logs', tmp_path / 'run') as run:
        values = {card.dataset: card.value for card in run.scorecards()}
        assert (len(values), values['local_gsm8k']) == (3, 100.0)
    shown = capsys.readouterr().out
    assert shown.startswith('12 rows of 1 log ')
    assert 'Left out, since a newer log has them: local_arc_easy × tiny of 2026-11-16T00:' in shown


def test_scores_without_rows_are_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / 'logs').mkdir()
    [results] = (LOGS / 'lm-eval').glob('results_*')
    shutil.copy(results, tmp_path / 'logs')
    with open_log('lm-eval', tmp_path / 'logs', tmp_path / 'run') as run:
        assert {card.dataset for card in run.scorecards()} >= {'local_arc_easy', 'local_gsm8k'}
    assert 'no rows: prompts, replies and answers are not recorded' in capsys.readouterr().out
    assert main(['report', str(tmp_path / 'run')]) == 0
    assert 'local_arc_easy' in capsys.readouterr().out


def test_compare_aligns_rows_by_content_and_says_what_differs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = write_opencompass(tmp_path / 'outputs')
    open_log('opencompass', theirs, tmp_path / 'theirs').close()
    rows = [{'q': '2+2=?  ', 'a': '4'}, {'q': 'What is 9-3 then?', 'a': '6'}, {'q': '1+1=?', 'a': '2'}]
    config = sums_config(rows, lambda request: 'five' if '2+2' in str(request) else 'It is 2')
    run_config(config, out=tmp_path / 'ours')
    capsys.readouterr()
    assert main(['compare', str(tmp_path / 'theirs'), str(tmp_path / 'ours')]) == 0
    shown = capsys.readouterr().out
    assert 'left: made by OpenCompass, version not recorded' in shown
    assert 'ours: 1 row found again by content' in shown
    assert 'scored differently: 1' in shown
    assert "read as '2' (left), 'It is 2' (right)" in shown


def write_eval(path: Path, **samples: Any) -> None:
    """A log of Inspect whose evaluation has not ended."""
    with zipfile.ZipFile(path, 'w') as members:
        members.writestr('_journal/start.json', json.dumps({'eval': {'task': 'sums', 'model': 'mock'}, 'plan': {}}))
        for name, sample in samples.items():
            members.writestr(f'samples/{name}_epoch_1.json', json.dumps(sample))


def write_predictions(folder: Path, text: str) -> None:
    (folder / 'predictions' / 'm').mkdir(parents=True)
    (folder / 'predictions' / 'm' / 'sums.json').write_text(text)


def test_a_log_of_inspect_that_has_not_ended_keeps_its_samples(tmp_path: Path) -> None:
    right = {'value': 'C', 'answer': '2'}
    write_eval(tmp_path / 'log.eval', one={'id': 1, 'input': '1+1=?', 'target': '2', 'scores': {'match': right}})
    with open_log('inspect', tmp_path / 'log.eval', tmp_path / 'run') as run:
        assert run.scorecards() == []
        [row] = run.results()
        assert (row.correct, row.extracted) == (True, '2')


def write_samples(folder: Path, lines: bytes) -> None:
    (folder / 'results_x.json').write_text('{"results": {"t": {"acc,none": 0.5}}}')
    (folder / 'samples_t_x.jsonl').write_bytes(lines)


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
        ('lm-eval', lambda folder: write_samples(folder, b'{"doc_id": 0}\n{"doc_id'), ':2: not the JSON of a log'),
        ('lm-eval', lambda folder: write_samples(folder, b'{"doc_id": 0}\n{"doc_id'), 'cut off; remove its last line'),
        ('lm-eval', lambda folder: write_samples(folder, b'{"doc_id": 0}\nnull\n'), ':2: expected a sample'),
        (
            'lm-eval',
            lambda folder: write_samples(folder, b'{}\n{"arguments": [[["?"]]]}\n'),
            ':2: not as lm-eval writes it',
        ),
        ('lm-eval', lambda folder: write_samples(folder, b'{}\n"\xff"\n'), ':2: not the JSON of a log'),
        ('opencompass', lambda folder: None, 'no folder `predictions` found'),
        ('aisbench', lambda folder: (folder / 'predictions').mkdir(), 'no model has predictions'),
        ('aisbench', lambda folder: write_predictions(folder, '{}'), 'no predictions in it'),
        ('opencompass', lambda folder: write_predictions(folder, '{"0": {}, "1": null}'), 'a prediction for row 1'),
        ('inspect', lambda folder: write_eval(folder / 'log.eval'), 'the evaluation has not begun'),
    ],
)
def test_what_is_wrong_with_a_log_is_said(
    harness: str, write: Any, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / 'log'
    source.mkdir()
    write(source)
    assert main(['runs', 'import', harness, str(source), '--out', str(tmp_path / 'run')]) == 2
    assert expected in capsys.readouterr().err


def test_an_import_never_overwrites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(LOGS / 'lm-eval', tmp_path / 'run')
    (tmp_path / 'file').touch()
    for out in (tmp_path / 'run', tmp_path / 'file'):
        assert main(['runs', 'import', 'lm-eval', str(LOGS / 'lm-eval'), '--out', str(out)]) == 2
        assert 'not an empty directory' in capsys.readouterr().err


def test_a_log_is_written_in_a_few_transactions_not_in_one_for_each_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables: list[str] = []
    written = Store._import
    monkeypatch.setattr(Store, '_import', lambda store, put, rows: tables.append(put) or written(store, put, rows))
    open_log('lm-eval', LOGS / 'lm-eval', tmp_path / 'run').close()
    assert len(tables) == len(set(tables)) == 3


def test_only_a_line_feed_ends_a_line_of_a_log(tmp_path: Path) -> None:
    root = write_opencompass(tmp_path / 'outputs', '.jsonl')
    predictions = next(root.rglob('sums.jsonl'))
    predictions.write_text(predictions.read_text().replace('It is 2', 'It\u2028is\x852'), encoding='utf-8')
    with open_log('aisbench', root, tmp_path / 'run') as run:
        first = run.result('sums', 'internlm', 0)
    assert first is not None
    assert first.replies == ('It\u2028is\x852',)


@pytest.mark.parametrize('length', [2, 8, 40], ids=['too short', 'short', 'long'])
def test_rows_are_found_by_the_text_that_only_their_prompt_holds(length: int) -> None:
    def row(number: int, text: str, prompt: str) -> alignment.ContentRow:
        return alignment.ContentRow(SimpleNamespace(row=number, model='m'), {'text': text}, prompt)  # type: ignore[arg-type]

    texts = [f'{chr(97 + i)}' * length for i in range(4)]
    left = [row(i, text, '') for i, text in enumerate(texts)]
    right = [row(9 - i, f'other {i}', f'Q: {text}\nA:') for i, text in enumerate([*texts, texts[0]])]
    pairs = [(one.result.row, other.result.row) for one, other in alignment._match_model(left, right)]
    assert pairs == ([] if length < 8 else [(1, 8), (2, 7), (3, 6)]), 'the first is in two prompts'


def test_rows_with_the_same_question_are_told_apart_by_their_options() -> None:
    def row(number: int, fields: dict[str, str], prompt: str) -> alignment.ContentRow:
        return alignment.ContentRow(SimpleNamespace(row=number, model='m'), fields, prompt)  # type: ignore[arg-type]

    asked = 'Which of these is a fruit?'
    options = [('pear', 'saw'), ('plum', 'cat'), ('pear', 'cat'), ('pear', 'cat')]
    theirs = [row(at, {}, f'Pick one. {asked} A. {a} B. {b}') for at, (a, b) in enumerate(options)]
    ours = [row(at, {'q': asked, 'A': a, 'B': b}, f'{asked} ({a}, {b})') for at, (a, b) in enumerate(options)]
    for left, right in ((theirs, ours[::-1]), (ours[::-1], theirs)):
        pairs = sorted((one.result.row, other.result.row) for one, other in alignment._match_model(left, right))
        assert pairs == [(0, 0), (1, 1), (2, 2), (3, 3)]
