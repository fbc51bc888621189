"""First steps: init, YAML and JSON configs, the schema, the list of runs, doctor, completion, opening a report."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import rolecall
from rolecall import load_config, run_config
from rolecall.compat.lm_eval import is_task_source
from rolecall.config_keys import KEYS
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.opening.config_schema import config_schema
from rolecall.experiment.opening.source_options import SourceOptions
from rolecall.models.endpoint_check import check_service
from rolecall.models.model_names import SOURCES, ChatSource
from rolecall.sources.config.plain_configs import is_plain_config
from rolecall.ui.cli.main import main
from servers import running

CONFIG: dict[str, Any] = {
    'models': ['mine:two'],
    'datasets': [
        {
            'abbr': 'qa',
            'type': 'Rows',
            'test': [{'q': '1+1', 'a': '2'}, {'q': '2+2', 'a': '4'}],
            'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
            'infer_cfg': {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}},
            'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
        }
    ],
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path('mine.py').write_text('def two(prompt): return "2"\n')
    return tmp_path


def write_yaml(path: Path, config: Any) -> str:
    import yaml

    path.write_text(yaml.safe_dump(config, sort_keys=False))
    return str(path)


@pytest.mark.parametrize('suffix', ['.yaml', '.yml', '.json'])
def test_a_config_may_be_yaml_or_json(suffix: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / f'config{suffix}'
    path.write_text(json.dumps(CONFIG, indent=1)) if suffix == '.json' else write_yaml(path, CONFIG)
    assert main(['run', str(path), '-q', '--out', 'out']) == 0
    assert 'qa' in capsys.readouterr().out
    assert main(['config', 'show', str(path)]) == 0
    assert load_config(path)['datasets'][0]['abbr'] == 'qa'
    assert re.fullmatch(rf'.*config{suffix}:\d+', load_config(path).locate('datasets[0].infer_cfg') or '')


@pytest.mark.parametrize(
    ('text', 'message'),
    [
        ('datasets: [', 'is not YAML: '),
        ('datasets: 5', 'config.yaml:1: datasets\n  expected a list'),
        ('datasets: []\n1: x', 'expected names, found 1.'),
        ('datasets: &a [*a]', 'an alias refers to a value that contains it.'),
        (
            'datasets:\n- abbr: x\n  infer_cfg: {prompt_templat: x}\n',
            "config.yaml:3: datasets[0].infer_cfg\n  unknown key 'prompt_templat'.",
        ),
    ],
)
def test_a_broken_yaml_config_names_file_and_line(
    text: str, message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('config.yaml').write_text(text)
    assert main(['view', 'config.yaml']) == 2
    assert message in capsys.readouterr().err


def test_words_and_numbers_are_read_as_they_look(folder: Path) -> None:
    Path('c.yaml').write_text(
        'datasets: []\nlabels: [Yes, No, on, off, true]\nrate: 1e-5\nday: 2024-01-01\nversion: 1.5\n'
    )
    config = load_config('c.yaml')
    assert config['labels'] == ['Yes', 'No', 'on', 'off', True]
    assert (config['rate'], config['day'], config['version']) == (1e-5, '2024-01-01', 1.5)


def test_task_files_rows_and_configs_are_told_apart(folder: Path) -> None:
    Path('task.yaml').write_text('task: arc\ndataset_path: x\ndoc_to_text: "{{q}}"\n')
    Path('config.yaml').write_text('description: mine\ndatasets: []\n')
    Path('rows.json').write_text('[{"q": "infer_cfg"}]')
    Path('object.json').write_text('{"data": [{"q": 1}]}')
    assert [is_task_source(name) for name in ('task.yaml', 'config.yaml')] == [True, False]
    names = ('task.yaml', 'config.yaml', 'rows.json', 'object.json', 'nowhere.yaml', 'config.py')
    assert [is_plain_config(name) for name in names] == [False, True, False, False, False, False]


def test_every_key_of_the_schema_says_what_it_means_and_no_text_is_left_over() -> None:
    described: set[str] = set()

    def walk(schema: Any) -> None:
        for key, inner in schema.get('properties', {}).items():
            assert inner['description'] == KEYS[key].meaning
            described.add(key)
            walk(inner)
        for inner in (*schema.get('anyOf', ()), *filter(None, [schema.get('items')])):
            walk(inner)

    walk(config_schema())
    assert described == {key.name for key in KEYS.values() if key.places != {'foreign'}}


def test_the_schema_accepts_configs_and_refuses_slips(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip('jsonschema')
    assert main(['config', 'schema']) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == json.loads(json.dumps(config_schema()))
    validator = jsonschema.Draft202012Validator(schema)
    validator.check_schema(schema)
    assert list(validator.iter_errors(CONFIG)) == []
    for place, wrong in (('models', [5]), ('datasets', [{}]), ('datasets', 'x')):
        assert list(validator.iter_errors({**CONFIG, place: wrong}))
    reader = {**CONFIG['datasets'][0], 'reader_cfg': {'input_colums': []}}
    assert list(validator.iter_errors({**CONFIG, 'datasets': [reader]}))


@pytest.mark.parametrize(
    ('rows', 'told', 'metric'),
    [
        (
            'question,answer\nWho?,Me\nWhen?,Now\n',
            "question 'question', answer 'answer', scored by exact",
            'exact',
        ),
        (
            r'problem,answer' + '\nHalf of 3?,\\frac{3}{2}\nHalf of 5?,\\frac{5}{2}\n',
            'the answers are formulas: scored by --metric math',
            'math',
        ),
        ('question,answer\n1+1,2\n2+2,"1,004"\n', "answer 'answer', scored by number", 'number'),
        (
            'text,label\n' + 'good,positive\nbad,negative\n' * 4,
            "question 'text', answer 'label', scored by accuracy",
            'choice_postprocess',
        ),
        (
            'question,A,B,answer\n' + 'Which?,x,y,A\nWhich?,x,y,B\n' * 4,
            'scored by accuracy',
            r'{question}\nA. {A}\nB. {B}',
        ),
        (
            'question,A,B,C,answer\nWhich?,x,y,z,C\nWho?,x,y,z,A\n',
            'scored by accuracy',
            r'{question}\nA. {A}\nB. {B}\nC. {C}',
        ),
        (
            'passage,question,answer\nA long text,Which?,C\nAnother,Who?,A\n',
            'scored by accuracy',
            r'{passage}\n{question}',
        ),
        (
            '\ufeffquestion;answer;;\r\nWho?;Me;;\r\nWhen?;Now;;\r\n;;;\r\n',
            'scored by exact',
            '# columns of the file: question, answer\n',
        ),
        ('body,summary\n' + 'long text here,x\n', "question 'body', no answer column", 'body'),
        ('"a\nimport os","answer"\nx,y\n', 'scored by exact', 'import os'),
    ],
)
def test_init_writes_a_config_that_loads_and_runs(
    rows: str, told: str, metric: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('data').mkdir()
    Path('data/rows.csv').write_text(rows)
    assert main(['init', 'data/rows.csv', '--yes', '-o', 'eval.py', '--model', 'mine:two']) == 0
    printed = capsys.readouterr()
    assert told in printed.out + printed.err
    text = Path('eval.py').read_text()
    assert metric in text
    assert not re.search(r'^import os', text, re.MULTILINE)
    assert main(['run', 'eval.py', '-q', '--out', 'out', '--force']) == 0


@pytest.mark.parametrize(
    ('row', 'told', 'sent'),
    [
        (
            {'id': 7, 'input': {'context': 'The Nile.', 'question': 'What flows?'}, 'target': {'answers': ['Nile']}},
            "question 'input.question', answer 'target.answers', scored by exact",
            'The Nile.\nWhat flows?',
        ),
        ({'question': 'Which?', 'options': ['x', 'y'], 'answer': 1}, 'scored by accuracy', 'Which?\nA. x\nB. y\n'),
        (
            {'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Who?'}], 'expected': 'Me'},
            "question 'messages', answer 'expected', scored by exact",
            'Be brief.\nWho?',
        ),
    ],
)  # fmt: skip
def test_init_reads_nested_objects_lists_of_options_and_conversations(
    row: dict[str, Any], told: str, sent: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('rows.jsonl').write_text(f'{json.dumps(row)}\n')
    assert main(['init', 'rows.jsonl', '--yes', '--model', 'mine:two']) == 0
    assert told in capsys.readouterr().out
    [preview] = rolecall.preview('rows.py')
    assert str(preview.request).startswith(sent)
    [without_config] = rolecall.preview(Experiment.open('rows.jsonl', SourceOptions(models=('mine:two',))).config)
    assert str(without_config.request).startswith(sent.partition('\nA. ')[0])


def test_columns_that_a_prompt_leaves_out_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path('rows.csv').write_text('id,question,opt1,opt2,answer\n1,Which?,x,y,1\n')
    assert main(['init', 'rows.csv', '--yes', '--model', 'mine:two']) == 0
    assert 'not in the prompt: id, opt1, opt2 (a template of your own can name them).' in capsys.readouterr().err


def test_a_file_in_another_encoding_is_read_if_it_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path('rows.csv').write_bytes('题目,答案\n哪个？,甲\n'.encode('gb18030'))
    assert main(['init', 'rows.csv', '--yes']) == 2
    assert 'name it: --encoding gb18030' in capsys.readouterr().err
    assert main(['init', 'rows.csv', '--yes', '--encoding', 'gb18030', '--model', 'mine:two']) == 0
    assert main(['run', 'rows.py', '-q', '--out', 'out']) == 0
    assert (
        main(['run', 'rows.csv', '--answer', '答案', '--encoding', 'gbk', '--model', 'mine:two', '--out', 'other']) == 0
    )


def test_a_model_of_the_config_is_the_same_by_the_name_that_is_written_there(folder: Path) -> None:
    Path('c.py').write_text(f'models = ["mine:two"]\ndatasets = {CONFIG["datasets"]!r}\n')
    made = Experiment.open('c.py', SourceOptions(models=('mine:two',)))
    assert [model.abbr for model in made.models] == ['two']
    assert len(made.config['models']) == 1


def test_init_asks_and_takes_what_is_typed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path('rows.csv').write_text('a,b,c\nWho?,Me,x\n')
    typed = iter(['d', 'a', 'b', 'exactt', 'contains'])
    monkeypatch.setattr('builtins.input', lambda prompt: next(typed))
    monkeypatch.setattr(sys.stdin, 'isatty', lambda: True)
    assert main(['init', 'rows.csv']) == 0
    [dataset] = load_config('rows.py')['datasets']
    assert (dataset['reader_cfg'], dataset['eval_cfg']['evaluator']) == (
        {'input_columns': ['a'], 'output_column': 'b'},
        {'type': 'contains'},
    )


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['nowhere.csv'], 'nowhere.csv: no such file.'),
        (['rows.csv', '--yes'], 'rows.py exists. Give another name with -o, or replace it with --force.'),
        (['rows.csv', '-o', 'x.yaml'], 'x.yaml: the config is written as Python; give a name that ends in .py.'),
        (['rows.csv', '-o', 'x.py', '--model', 'smolm2'], "unknown model 'smolm2'."),
        (['empty.csv', '--yes'], 'empty.csv: the file has no rows.'),
    ],
)
def test_init_refuses_what_it_cannot_do(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path('rows.csv').write_text('a,b\n1,2\n')
    Path('empty.csv').write_text('a,b\n')
    Path('rows.py').write_text('')
    assert main(['init', *arguments]) == 2
    assert message in capsys.readouterr().err


def test_runs_are_listed_with_their_scores(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['runs', 'list']) == 2
    assert 'runs: no such folder.' in capsys.readouterr().err
    Path('runs/empty').mkdir(parents=True)
    assert main(['runs', 'list']) == 2
    for name in ('one', 'deep/two'):
        run_config(CONFIG, out=f'runs/{name}')
    Path('runs/broken').mkdir()
    Path('runs/broken/run.sqlite').write_bytes(b'nothing')
    capsys.readouterr()
    assert main(['runs', 'list']) == 0
    lines = capsys.readouterr().out.splitlines()
    newest = (
        'runs/deep/two' if lines[0].startswith('runs/deep') else 'runs/one'
    )  # both, where a second has begun for neither
    assert lines[0].startswith(f'{newest}  20')
    assert lines[1] == '  qa × two: accuracy 50.00 [9.45, 90.55], 2 of 2 rows scored'
    assert main(['runs', 'list', '--json']) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert sorted(one['run'] for one in found[:2]) == ['runs/deep/two', 'runs/one']
    assert found[2]['run'] == 'runs/broken'
    assert found[0]['scores'][0]['value'] == 50.0
    assert found[2]['error']
    assert main(['runs', 'list', 'deep', '--json']) == 0
    assert [json.loads(line)['run'] for line in capsys.readouterr().out.splitlines()] == ['runs/deep/two']
    assert main(['runs', 'list', 'deeper']) == 2
    assert 'runs: none of 3 runs matches.' in capsys.readouterr().err


def test_members_of_large_groups_are_folded_in_the_list_of_runs(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [{**CONFIG['datasets'][0], 'abbr': f'qa-{number}'} for number in range(8)]
    run_config({**CONFIG, 'datasets': many, 'groups': {'all': [one['abbr'] for one in many]}}, out='runs/one')
    capsys.readouterr()
    assert main(['runs', 'list']) == 0
    _, group, folded = capsys.readouterr().out.splitlines()
    assert group.startswith('  all × two: accuracy 50.00')
    assert folded == '  8 scores folded into groups: rolecall report runs/one --all'


@pytest.fixture
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (name for source in SOURCES.values() for name in source.variables):
        monkeypatch.delenv(variable, raising=False)


def test_doctor_says_what_is_at_hand(no_keys: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['doctor', '--offline']) == 0
    shown = capsys.readouterr().out
    for word in ('rolecall', 'extra api', 'extra llama', 'model smollm2', 'keys', 'none in the environment'):
        assert word in shown
    assert main(['doctor', '--offline', '--json']) == 0
    assert {json.loads(line)['what'] for line in capsys.readouterr().out.splitlines()} >= {'rolecall', 'keys'}
    assert main(['doctor', '--repair', 'x']) == 2


def test_a_key_and_an_endpoint_are_tried(no_keys: None, monkeypatch: pytest.MonkeyPatch) -> None:
    from aiohttp import web

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get('Authorization') != 'Bearer sk-right':
            return web.json_response({'error': 'no'}, status=401)
        return web.json_response({'data': [{'id': 'a'}, {'id': 'b'}]})

    with running(answer) as url:
        service = ChatSource('deepseek', f'{url}/v1', keys=('DEEPSEEK_API_KEY',))
        monkeypatch.setenv('DEEPSEEK_API_KEY', 'sk-right')
        assert check_service(service).status == 'works, 2 models'
        monkeypatch.setenv('DEEPSEEK_API_KEY', 'sk-wrong')
        refused = check_service(service)
    assert (refused.works, refused.status) == (False, 'the key was refused (401)')
    gone = check_service(service, timeout=1)
    assert not gone.works
    assert gone.status.startswith('not reachable')
    assert 'sk-wrong' not in str(gone)


@pytest.mark.parametrize('name', ['deepseek', 'anthropic'])
def test_a_key_is_not_sent_on_to_where_an_endpoint_redirects(
    name: str, no_keys: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from aiohttp import web

    paths: list[str] = []

    async def receive(request: web.Request) -> web.Response:
        paths.append(request.path)
        return web.json_response({'data': []})

    with running(receive) as other:

        async def redirect(request: web.Request) -> web.Response:
            return web.Response(status=302, headers={'Location': f'{other}/models'})

        with running(redirect) as url:
            monkeypatch.setenv('SOME_KEY', 'sk-right')
            service = ChatSource(name, f'{url}/v1', keys=('SOME_KEY',), anthropic=name == 'anthropic')
            check = check_service(service)
        assert (check.works, paths) == (False, [])
        assert check.status == 'redirects (302), which is not followed with a key: set the final address'
        assert check_service(dataclasses.replace(service, base_url=f'{other}/v1')).works


def test_completion_knows_commands_options_and_choices(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for shell in ('bash', 'zsh', 'fish'):
        assert main(['completion', shell]) == 0
        (tmp_path / shell).write_text(capsys.readouterr().out)
    for shell in filter(shutil.which, ('bash', 'zsh', 'fish')):
        subprocess.run([shell, '-n', str(tmp_path / shell)], check=True)
    script = f"""source {tmp_path / 'bash'}
    try() {{ COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _rolecall; echo "${{COMPREPLY[*]}}"; }}
    try rolecall ru; try rolecall export s; try rolecall run --max-o; try rolecall run --ask p; try rolecall completion z"""
    done = subprocess.run(['bash', '-c', script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.splitlines() == ['run runs', 'sft', '--max-out-len', 'perplexity', 'zsh zsh']
    assert '-l max-out-len' in (tmp_path / 'fish').read_text()


def test_a_report_is_opened_in_a_browser(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, 'open', lambda url: opened.append(url) or len(opened) == 1)
    run_config(CONFIG, out='runs/one')
    assert main(['report', 'runs/one', '--open']) == 0
    assert opened == [(folder / 'runs/one/report.html').as_uri()]
    assert Path('runs/one/report.html').is_file()
    assert main(['report', 'runs/one', '--open', '--html', 'page.html']) == 0
    assert 'no browser could be started; open page.html yourself.' in capsys.readouterr().err
    assert main(['report', 'runs/one', '--open', '--csv']) == 2
