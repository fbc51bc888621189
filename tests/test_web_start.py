"""What the page does with runs besides showing them: starts, watches and controls them, names them, slices them."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from rolecall.ui.cli.main import main
from web_pages import Client, serve_page

CONFIG = """
models:
  - abbr: slow
    type: Function
    function: web_start_own.answer
    price: {input: 1.0, output: 2.0}
  - abbr: fast
    type: Function
    function: web_start_own.answer
datasets:
  - abbr: sums
    type: Rows
    # a comment
    test: [{q: 1+1, a: '2', kind: easy}, {q: 2+2, a: '4', kind: hard, era: new}, {q: 3+3, a: '6', kind: hard}]
    reader_cfg: {input_columns: [q], output_column: a}
    infer_cfg:
      prompt_template: {type: PromptTemplate, template: 'Add: {q}'}
    eval_cfg: {evaluator: {type: AccEvaluator}}
"""
OWN = 'import pathlib, time\ndef answer(prompt):\n    while pathlib.Path("hold").exists(): time.sleep(0.05)\n    return "4"\n'


@pytest.fixture
def client(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(Path(main.__code__.co_filename).parents[3]), str(tmp_path)]))
    Path('sums.yaml').write_text(CONFIG)
    Path('web_start_own.py').write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    with serve_page('sums.yaml') as (port, rules):
        yield Client(port, rules)


def wait_for(ask, reached):
    for _ in range(600):
        if reached(state := ask()):
            return state
        time.sleep(0.05)
    raise AssertionError(state)


def test_a_run_is_planned_started_watched_and_controlled(client):
    status, [plan] = client.post('plan', config=0, options={'model': 'slow', 'limit': 2})
    assert (status, plan['requests'], plan['out']) == (200, 2, 'runs/sums')
    assert plan['lines'][0].startswith('sums × slow: 2 rows, 2 requests')
    Path('hold').touch()
    status, [started] = client.post('start', config=0, options={'model': 'slow', 'limit': 2, 'max_cost': ''})
    assert status == 200, started
    state = wait_for(lambda: client.get('started', number=started['started']), lambda seen: seen['run'] is not None)
    run = wait_for(lambda: client.get('run', run=state['run']), lambda seen: seen['live'])
    assert (run['name'], run['control']) == ('sums', {'paused': False, 'concurrency': None, 'dropped': []})
    assert client.post('control', run=0, options={'paused': True, 'concurrency': 3})[1] == [
        {'paused': True, 'concurrency': 3, 'dropped': []}
    ]
    status, [answer] = client.post('control', run=0, options={'drop': 'nobody'})
    assert (status, 'nobody is not a model of runs/sums: slow' in answer['error']) == (422, True)
    assert client.post('control', run=0, options={'paused': False})[1][0]['paused'] is False
    Path('hold').unlink()
    state = wait_for(lambda: client.get('started', number=0), lambda seen: seen['code'] is not None)
    assert state['code'] == 0, state
    status, [answer] = client.post('control', run=0, options={'paused': True})
    assert (status, 'no run is under way here' in answer['error']) == (422, True)
    assert client.get('session')['runs'] == [{'path': 'runs/sums', 'name': 'sums'}]
    assert client.get('run', run=0)['scores']['lines'][0]['cells'][0]['score'] == '50.0'
    rows = client.get('run_rows', run=0)['rows']
    assert [row['questionCell'] for row in rows] == ['1+1', '2+2']
    assert [row['row'] for row in client.get('run_rows', run=0, q='2+')['rows']] == [1]


def test_a_run_with_nothing_left_to_send_is_shown(client):
    for number in range(2):
        client.post('start', config=0, options={'model': 'fast'})
        state = wait_for(
            lambda number=number: client.get('started', number=number), lambda seen: seen['code'] is not None
        )
        assert (state['code'], state['run']) == (0, 0), state
    assert client.post('plan', config=0, options={'model': 'fast'})[1][0]['requests'] == 0


def test_the_page_answers_while_a_run_is_planned(client):
    hold = (
        "import pathlib, time\npathlib.Path('reading').touch()\nwhile pathlib.Path('hold').exists(): time.sleep(0.05)\n"
    )
    rest = 'import yaml\nconfig = yaml.safe_load(pathlib.Path("sums.yaml").read_text())\nmodels, datasets = config["models"], config["datasets"]\n'
    Path('sums.py').write_text(hold + rest)
    Path('hold').touch()
    with serve_page('sums.py') as (port, rules), ThreadPoolExecutor(1) as thread:
        page = Client(port, rules)
        planned = thread.submit(page.post, 'plan', config=0, options={'model': 'fast'})
        wait_for(lambda: Path('reading').exists(), bool)
        assert page.get('runs') == {'runs': []}
        assert not planned.done()
        Path('hold').unlink()
        status, [plan] = planned.result(30)
    assert (status, plan.get('requests')) == (200, 3), plan


def test_a_run_that_cannot_start_says_why(client):
    Path('sums.yaml').write_text(CONFIG.replace('AccEvaluator', 'NoSuchEvaluator'))
    client.post('start', config=0, options={})
    state = wait_for(lambda: client.get('started', number=0), lambda seen: seen['code'] is not None)
    assert (state['begun'], state['run']) == (False, None)
    assert 'NoSuchEvaluator' in state['printed']


@pytest.mark.parametrize(
    ('route', 'options'),
    [
        ('plan', {'limit': 'two'}),
        ('start', {'out': '/tmp/elsewhere'}),
        ('start', {'model': ['slow']}),
        ('plan', {'limit': True}),
        ('control', {'paused': 'yes'}),
        ('control', {'concurrency': 0}),
        ('note', {'name': 3}),
    ],
)
def test_options_of_another_kind_are_refused(client, route, options):
    assert main(['run', 'sums.yaml', '--model', 'fast', '-q']) == 0
    with serve_page('sums.yaml', 'runs') as (port, rules):
        status, [answer] = Client(port, rules).post(route, config=0, run=0, options=options)
    assert status == 422, answer


def test_a_run_is_named_and_sliced_on_the_page(client, capsys):
    assert main(['run', 'sums.yaml', '--model', 'fast', '-q']) == 0
    with serve_page('runs') as (port, rules):
        page = Client(port, rules)
        options = {'name': 'first try', 'tags': 'paper, draft', 'note': 'short'}
        assert page.post('note', run=0, options=options)[1] == [
            {'name': 'first try', 'note': 'short', 'tags': ['paper', 'draft']}
        ]
        page.post('note', run=0, options={'tags': 'paper'})
        [run] = page.get('runs')['runs']
        assert (run['own_name'], run['own_note'], run['own_tags']) == ('first try', 'short', ['paper'])
        assert page.get('run')['columns'] == ['q', 'a', 'kind', 'era', 'length', 'answer_position', 'class']
        [table] = page.get('run_slices', by='kind')['tables']
        assert table['heads'] == ['kind', 'fast']
        assert [row[0] for row in table['rows']] == ['easy', 'hard']
    capsys.readouterr()
    main(['runs', 'list'])
    assert 'first try  #paper' in capsys.readouterr().out


def test_a_sweep_is_shown_with_its_variants(client):
    sweep = ['sweep', 'sums.yaml', '--model', 'fast', '--axis', 'casing', '--out', 'runs/sweep', '-q']
    assert main(sweep) == 0
    with serve_page('runs') as (port, rules):
        [swept] = Client(port, rules).get('run')['swept']
    assert 'as written' in swept['variants']
    assert swept['line'].startswith('sums × fast: 33.3')


def test_an_edited_yaml_config_stays_yaml(client, capsys):
    edits = [[['dataset', 'infer_cfg', 'prompt_template', 'template'], 'Sum: {q}']]
    body = {'config': 0, 'dataset': 'sums', 'model': 'fast', 'row': 0, 'edits': edits}
    status, [answer] = client.post('save', **body, name='edited.yaml')
    assert status == 200, answer
    assert "template: 'Sum: {q}'" in answer['source']
    capsys.readouterr()
    assert main(['view', 'edited.yaml', '--model', 'fast', '--row', '0', '--plain']) == 0
    assert 'Sum: \nfield q +1+1' in capsys.readouterr().out
    assert client.post('save', **body, name='edited.py')[0] == 422
