"""A number that can be repeated: prompts worded again, rows asked again, a run in one file, a plan sealed before it."""

from __future__ import annotations

import json
import sqlite3
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from explained_cases import CASES, config, dataset, few_shot, reasons
from rolecall.insight.reproduction import reproduce
from rolecall.runs import RunReader, run_config
from rolecall.ui.cli.main import main

LOGS = Path(__file__).parent / 'data' / 'logs'
TALKS = """def answer(prompt):
    return 'The answer is 4.'
"""
CONFIG = """datasets = [dict(
    abbr='sums', type='File', path='sums.csv', reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{words}\\n{{q}}')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor='stated_number_postprocess'))]
models = [dict(abbr='m', type='answers.answer', revision='1')]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path('sums.csv').write_text('q,a\n2+2,4\n1+3,4\n1+1,2\n')
    Path('answers.py').write_text(TALKS)
    Path('config.py').write_text(CONFIG.format(words='Add.'))
    return tmp_path


def say(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    assert main(list(words)) == code
    captured = capsys.readouterr()
    return captured.out + captured.err


def test_a_run_is_worded_and_answered_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    output = say(capsys, 'runs', 'reproduce', 'runs/a')
    assert 'sums × m: identical, all requests of 3 rows' in output
    assert 'not asked again: the model is code of the run; --config names its config.' in output
    assert 'around it: nothing has changed' in output
    output = say(capsys, 'runs', 'reproduce', 'runs/a', '--config', 'config.py')
    assert 'asked again: 3 of 3 replies the same, 3 with the same score' in output


def test_the_first_character_that_differs_is_shown_with_its_origin(capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    Path('other.py').write_text(CONFIG.format(words='Add up.'))
    output = say(capsys, 'runs', 'reproduce', 'runs/a', '--config', 'other.py', '--ask', '0', code=1)
    assert 'sums × m: 3 of 3 rows are worded differently' in output
    assert "row 0, character 3 (text): sent 'Add.\\n2+2', now 'Add up.\\n2+2'" in output
    assert 'changed since: wording' in output
    Path('sums.csv').write_text('q,a\n2+2,4\n1+2,3\n1+1,2\n')
    record = json.loads(say(capsys, 'runs', 'reproduce', 'runs/a', '--ask', '0', '--json', code=1))
    [pair] = record['pairs']
    assert (pair['same'], pair['first']['row'], pair['first']['origin']) == (2, 1, 'field q')
    assert pair['changed'] == ['rows']


@pytest.mark.parametrize(
    ('change', 'message', 'code'),
    [
        ("UPDATE requests SET request = replace(request, 'Add', 'Sub')", 'missing or damaged for 3 of 3 rows', 3),
        ('DELETE FROM requests', 'missing or damaged for 3 of 3 rows', 3),
        ('DELETE FROM rows WHERE row = 2', 'missing or damaged for 1 of 3 rows', 3),
        ('UPDATE rows SET score = 0 WHERE row = 0', 'missing or damaged for 1 of 3 rows', 3),
        ("UPDATE scores SET card = replace(card, '66.6', '96.6')", 'not that of its replies, which is 66.7', 1),
    ],
)
def test_a_directory_that_was_changed_by_hand_is_not_identical(
    change: str, message: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    with sqlite3.connect('runs/a/run.sqlite') as store:
        assert store.execute(change).rowcount
    store.close()
    assert message in say(capsys, 'runs', 'reproduce', 'runs/a', '--ask', '0', code=code)


def test_what_has_changed_around_a_run_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    with sqlite3.connect('runs/a/run.sqlite') as store:
        [(text,)] = store.execute('SELECT manifest FROM starts')
        manifest = json.loads(text)
        manifest['packages'] |= {'jinja2': '1.0', 'gone': '2'}
        store.execute('UPDATE starts SET manifest = ?', (json.dumps(manifest),))
    store.close()
    output = say(capsys, 'runs', 'reproduce', 'runs/a', '--ask', '0')
    assert 'around it: jinja2 1.0 → ' in output
    assert 'gone 2 → not installed' in output
    Path('answers.py').write_text(TALKS.replace('4.', '5.'))
    Path('config.py').write_text(
        CONFIG.format(words='Add.').replace("'1'", "'2'").replace('answers.', 'other_answers.')
    )
    Path('other_answers.py').write_text(TALKS.replace('4.', '5.'))
    output = say(capsys, 'runs', 'reproduce', 'runs/a', '--config', 'config.py')
    assert 'asked again: 0 of 3 replies the same' in output
    assert 'changed since: engine' in output


def test_a_run_whose_data_are_gone_says_so_and_one_with_many_inline_rows_is_worded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    Path('sums.csv').unlink()
    assert 'cannot be worded again' in say(capsys, 'runs', 'reproduce', 'runs/a', code=3)
    many = {**dataset(), 'test': dataset()['test'] * 3}
    run_config(config(many, reasons), out='runs/many', lint=False)
    assert reproduce('runs/many', ask=0).exit_code == 0
    for cause in ('BOS', 'metric', 'system text'):
        run_config(CASES[cause][0], out=f'runs/{cause}', lint=False)
        assert reproduce(f'runs/{cause}', ask=0).exit_code == 0


def test_a_bundle_is_opened_reproduced_and_compared_elsewhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = config({**few_shot(1), 'path': None}, reasons)
    run_config(shown, out='runs/shots', lint=False)
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    for name in ('a', 'shots'):
        assert f'Wrote {name}.rolecall' in say(capsys, 'export', 'bundle', f'runs/{name}')
    elsewhere = tmp_path / 'elsewhere'
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert '66.7' in say(capsys, 'report', '../a.rolecall')
    assert 'identical, all requests of 3 rows' in say(capsys, 'runs', 'reproduce', '../a.rolecall', '--ask', '0')
    assert 'identical, all requests of 60 rows' in say(capsys, 'runs', 'reproduce', '../shots.rolecall', '--ask', '0')
    assert 'sums × m' in say(capsys, 'compare', '../a.rolecall', '../runs/a')
    assert 'have the same score' in say(capsys, 'explain', '../a.rolecall', '../runs/a')
    with RunReader('../a.rolecall') as reader:
        place = reader.directory
        assert reader.title == 'a'
    assert not place.exists()


def test_a_bundle_keeps_media_and_secrets_as_wanted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Path('pictures').mkdir()
    Path('pictures/one.png').write_bytes(b'\x89PNG')
    Path('sums.csv').write_text('q,a\npictures/one.png,4\n')
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    say(capsys, 'export', 'bundle', 'runs/a', '-o', 'plain')
    say(capsys, 'export', 'bundle', 'runs/a', '-o', 'media', '--media', '--config', 'config.py')
    names = {name: zipfile.ZipFile(f'{name}.rolecall').namelist() for name in ('plain', 'media')}
    assert names['plain'] == ['run.sqlite', 'rows/0.jsonl']
    assert names['media'] == [*names['plain'], 'media/pictures/one.png']
    monkeypatch.setenv('ACME_API_KEY', 'sk-very-secret-123456')
    Path('sums.csv').write_text('q,a\nsk-very-secret-123456,4\n')
    say(capsys, 'run', 'config.py', '--out', 'runs/b', '--force')
    assert 'test row 0: holds a secret' in say(capsys, 'export', 'bundle', 'runs/b', code=2)
    assert 'Wrote b.rolecall' in say(capsys, 'export', 'bundle', 'runs/b', '--keep-secrets')


@pytest.mark.parametrize('name', ['../evil.txt', 'media/../../evil.txt', 'lock'])
def test_a_bundle_that_holds_something_else_is_refused(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile('bad.rolecall', 'w') as packed:
        packed.writestr(name, 'x')
    assert 'does not belong in a bundle' in say(capsys, 'report', 'bad.rolecall', code=2)
    Path('cut.rolecall').write_bytes(Path('bad.rolecall').read_bytes()[:20])
    assert 'not a bundle that can be opened' in say(capsys, 'report', 'cut.rolecall', code=2)


def run_sealed(capsys: pytest.CaptureFixture[str], *options: Any, code: int = 0) -> str:
    return say(capsys, 'run', 'config.py', '--out', 'runs/sealed', '--force', *options, code=code)


def test_a_sealed_run_says_whether_it_went_as_planned(capsys: pytest.CaptureFixture[str]) -> None:
    output = ' '.join(run_sealed(capsys, '--seal', '3').split())
    assert ', margin 3: as planned.' in output
    assert ': as planned.' in ' '.join(say(capsys, 'report', 'runs/sealed', '--markdown').split())
    gate = ['compare', 'runs/sealed', 'runs/sealed', '--gate', '--margin']
    assert 'was sealed with a margin of 3, not 5.' in say(capsys, *gate, '5', code=3)
    assert 'was sealed' not in say(capsys, *gate, '3', code=3)
    text = CONFIG.format(words='Add.').replace("pred_postprocessor='", "unparsed='exclude', pred_postprocessor='")
    Path('config.py').write_text(text)
    output = ' '.join(run_sealed(capsys).split())
    assert 'margin 3; changed afterwards: metric of sums × m.' in output
    output = ' '.join(run_sealed(capsys, '--limit', '2').split())
    assert 'sums × m on 2 rows instead of all rows' in output
    assert 'runs/sealed was sealed with a margin of 3, not 5.' in run_sealed(capsys, '--seal', '5', code=2)
    assert 'margin 3; changed afterwards: metric of sums × m.' in ' '.join(run_sealed(capsys, '--seal', '3').split())


def test_a_seal_comes_before_the_first_request(capsys: pytest.CaptureFixture[str]) -> None:
    run_sealed(capsys)
    output = run_sealed(capsys, '--seal', code=2)
    assert 'a seal is written before the first request' in output
    assert 'Name another directory with --out' in output
    assert 'as planned' in say(capsys, 'run', 'config.py', '--out', 'runs/other', '--force', '--seal')


@pytest.mark.parametrize('seal', ['-1', 'nan', 'inf'])
def test_a_margin_that_is_none_is_refused(seal: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert 'seal must be at least 0 points' in run_sealed(capsys, f'--seal={seal}', code=2)


@pytest.mark.parametrize('command', [('runs', 'reproduce'), ('export', 'bundle')])
def test_what_is_not_a_run_is_named(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert 'nowhere: no run found (run.sqlite is missing).' in say(capsys, *command, 'nowhere', code=2)


@pytest.mark.parametrize(
    'place',
    [
        ('models', 0, 'type'),
        ('models', 0, 'meta_template'),
        ('datasets', 0, 'eval_cfg', 'evaluator'),
        ('datasets', 0, 'eval_cfg', 'pred_postprocessor'),
        ('datasets', 0, 'infer_cfg', 'retriever'),
        ('datasets', 0, 'infer_cfg', 'prompt_template'),
        ('datasets', 0, 'eval_cfg', 'another_key'),
        ('models', 0, 'function'),
        ('models', 0, 'score'),
    ],
)
@pytest.mark.parametrize('path', ['trap:spring', 'trap.spring', 'rolecall.registry.load_object'])
def test_code_that_a_run_directory_names_is_never_imported(
    place: tuple[Any, ...], path: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend('.')
    monkeypatch.delitem(sys.modules, 'trap', raising=False)
    Path('trap.py').write_text('open("sprung", "w").close()\n\n\ndef spring(*words):\n    return "4"\n')
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    with sqlite3.connect('runs/a/run.sqlite') as store:
        [(text,)] = store.execute('SELECT config FROM starts')
        config = inner = json.loads(text)
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = path
        store.execute('UPDATE starts SET config = ?', (json.dumps(config),))
    store.close()
    say(capsys, 'export', 'bundle', 'runs/a')
    for words in (
        ['runs', 'reproduce', 'runs/a'],
        ['runs', 'reproduce', 'a.rolecall', '--ask', '2'],
        ['explain', 'runs/a', 'a.rolecall'],
    ):
        main(words)
    assert not Path('sprung').exists()


def test_the_model_of_a_bundle_is_asked_only_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    say(capsys, 'export', 'bundle', 'runs/a')
    words = ('runs', 'reproduce', 'a.rolecall', '--config', 'config.py')
    assert 'asked again' not in say(capsys, *words)
    assert 'asked again: 2 of 2 replies' in say(capsys, *words, '--ask', '2')


def change_stored(column: str, change: Any) -> None:
    """Edit a table's JSON in a run directory, as a stranger can."""
    with sqlite3.connect('runs/a/run.sqlite') as store:
        [(text,)] = store.execute(f'SELECT {column} FROM starts')
        stored = json.loads(text)
        change(stored)
        store.execute(f'UPDATE starts SET {column} = ?', (json.dumps(stored),))
    store.close()


@pytest.mark.parametrize('key', ['pred_postprocessor', 'evaluator'])
def test_a_function_of_ours_that_imports_is_not_called_with_stored_replies(
    key: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend('.')
    monkeypatch.delitem(sys.modules, 'trap', raising=False)
    Path('trap.py').write_text('open("sprung", "w").close()\nspring = 4\n')
    Path('answers.py').write_text(TALKS.replace('The answer is 4.', 'trap:spring'))
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    gadget = {key: 'rolecall.registry.load_object'}
    change_stored('config', lambda config: config['datasets'][0]['eval_cfg'].update(gadget))
    main(['explain', 'runs/a', 'runs/a'])
    main(['runs', 'reproduce', 'runs/a'])
    assert 'is not imported from a run directory' in capsys.readouterr().out
    assert not Path('sprung').exists()


def test_the_model_of_a_run_directory_trusts_no_code_of_a_repository(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path('weights')
    folder.mkdir()
    auto = {'AutoConfig': 'trap.Settings', 'AutoModelForCausalLM': 'trap.Model', 'AutoTokenizer': ['trap.Words', None]}
    (folder / 'config.json').write_text(json.dumps({'model_type': 'trap', 'auto_map': auto}))
    (folder / 'tokenizer_config.json').write_text(json.dumps({'auto_map': auto}))
    (folder / 'trap.py').write_text('open("sprung", "w").close()\n')
    say(capsys, 'run', 'config.py', '--out', 'runs/a', '--force')
    trust = {'type': 'HuggingFaceCausalLM', 'path': str(folder.absolute()), 'trust_remote_code': True}
    trust |= {'tokenizer_kwargs': {'trust_remote_code': True}, 'model_kwargs': {'trust_remote_code': True}}
    change_stored('config', lambda config: config['models'][0].update(trust))
    main(['runs', 'reproduce', 'runs/a', '--ask', '1'])
    main(['explain', 'runs/a', 'runs/a'])
    assert not Path('sprung').exists()


def test_code_that_the_settings_of_an_imported_log_name_is_not_imported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend('.')
    monkeypatch.delitem(sys.modules, 'trap', raising=False)
    Path('trap.py').write_text('open("sprung", "w").close()\n')
    say(capsys, 'runs', 'import', 'opencompass', str(LOGS / 'opencompass'), '--out', 'runs/a')

    def name_code(manifest: Any) -> None:
        for scoring in (scoring for own in manifest['imported']['settings'].values() for scoring in own.values()):
            scoring['evaluator'] = {'type': 'trap.spring'}

    change_stored('manifest', name_code)
    assert 'how the log read and scored replies cannot be repeated here' in say(capsys, 'explain', 'runs/a', 'runs/a')
    assert not Path('sprung').exists()
