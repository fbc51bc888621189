"""The server of the page: who may ask, and what it answers. A real server on loopback, asked over real sockets."""

import gzip
import json
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from aiohttp.test_utils import make_mocked_request

from hostile_requests import requests, status_of
from report_runs import made_up_run
from rolecall.ui.cli.main import main
from rolecall.ui.report import report_html
from rolecall.ui.web.security import AccessRules
from web_pages import CONFIG, PNG, SECRET, Client, serve_page

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp('web') / 'sums.py'
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope='module')
def client(config):
    with serve_page(config) as (port, rules):
        yield Client(port, rules)


@pytest.mark.parametrize(
    ('options', 'status'),
    [
        ({}, 200),
        ({'cookie': False}, 401),
        ({'Cookie': 'rolecall_token=wrong', 'cookie': False}, 401),
        ({'host': 'evil.example'}, 403),
        ({'host': 'evil.example:80'}, 403),
        ({'Origin': 'http://evil.example'}, 403),
        ({'Origin': 'null'}, 403),
        ({'Sec_Fetch_Site': 'cross-site'}, 403),
        ({'Sec_Fetch_Site': 'same-site'}, 403),
    ],
)
def test_only_the_page_itself_may_ask(client, options, status):
    answer, _ = client.send('/api/session', **options)
    assert answer.status == status
    assert 'Access-Control-Allow-Origin' not in answer.headers


def test_the_page_answers_to_the_names_of_loopback(client):
    answer, _ = client.send('/', host=f'localhost:{client.port}')
    assert answer.status == 200


def test_a_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(client):
    answer, _ = client.send(f'/?token={client.rules.token}', cookie=False)
    assert (answer.status, answer.headers['Location']) == (303, '/')
    assert {'HttpOnly', 'SameSite=Strict'} <= set(answer.headers['Set-Cookie'].split('; '))
    assert client.send('/?token=wrong', cookie=False)[0].status == 401


def test_every_answer_has_a_strict_policy(client):
    for path in ('/', '/assets/app.js', '/api/session', '/nothing'):
        answer, _ = client.send(path)
        policy = answer.headers['Content-Security-Policy']
        assert "default-src 'none'" in policy
        assert 'unsafe' not in policy
        assert 'http' not in policy
        assert answer.headers['X-Content-Type-Options'] == 'nosniff'


@pytest.mark.parametrize(
    'path', ['/assets/../server.py', '/assets/%2e%2e/server.py', '/assets/nothing.js', '/api/nothing']
)
def test_only_known_files_are_served(client, path):
    assert client.send(path)[0].status == 404


def test_the_page_loads_nothing_from_elsewhere_and_stays_small(client):
    _, index = client.send('/')
    names = sorted(SERVED)
    texts = [index, *(client.send(f'/assets/{name}')[1] for name in names)]
    assert not any('https://' in text or "from 'http" in text for text in texts)
    assert sum(len(gzip.compress(text.encode())) for text in texts) < 150_000


def test_the_page_and_the_report_draw_prompts_with_the_same_code(client):
    run, previews = made_up_run(rows=2)
    drawing = client.send('/assets/draw.js')[1]
    assert 'drawPrompt' in drawing
    assert drawing.strip() in report_html(run, previews=previews)
    for user in ('prompt.js', 'run_row.js', 'run_compare.js'):
        assert 'drawByOrigin(' in client.send(f'/assets/{user}')[1]


SERVED = {
    *(path.name for path in (ROOT / 'src/rolecall/ui/web/assets').iterdir() if path.suffix in ('.js', '.css')),
    *('draw.js', 'report.css', 'origins.css', 'vendor/preact.js', 'vendor/hooks.js', 'vendor/htm.js'),
}


def test_a_session_lists_datasets_and_models_and_no_keys(client):
    _, text = client.send('/api/session')
    [config] = json.loads(text)['configs']
    assert [one['abbr'] for one in config['datasets']] == ['sums']
    assert [one['abbr'] for one in config['models']] == ['chatml', 'gpt']
    assert SECRET not in text
    for name in ('prompts', 'tokens', 'lint', 'rows'):
        assert SECRET not in client.send(f'/api/{name}?dataset=sums&model=gpt')[1]


def test_rows_come_in_pages_and_can_be_searched(client):
    first = client.get('rows', dataset='sums')
    assert (len(first['rows']), first['total'], first['after']) == (100, 250, 99)
    last = client.get('rows', dataset='sums', after=199)
    assert (len(last['rows']), last['after']) == (50, None)
    assert [one['row'] for one in client.get('rows', dataset='sums', q='77+77')['rows']] == [77]


def test_a_prompt_comes_with_origins_and_where_they_were_written(client, config):
    [prompt] = client.get('prompts', dataset='sums', model='chatml', row=3)['prompts']
    spans = [span for block in prompt['blocks'] for span in block['spans']]
    assert ''.join(span['text'] for span in spans) == prompt['request']
    asked = next(span for span in spans if span['text'] == '3+3=?')
    why = prompt['explanations'][asked['why']]
    assert (why['column'], why['value']) == ('q', '3+3=?')
    assert why['file'].startswith(f'{config}:')
    shown = next(span for span in spans if span['inShot'] and span['text'] == '0+1=?')
    assert prompt['explanations'][shown['why']]['shot'] == {'number': 1, 'row': 0, 'values': {'q': '0+1=?', 'a': '1'}}


def test_what_the_page_shows_is_what_view_shows(client, config, capsys):
    assert main(['view', str(config), '--json', '--row', '5']) == 0
    shown = [json.loads(line)['request'] for line in capsys.readouterr().out.splitlines()]
    asked = [
        client.get('prompts', dataset='sums', model=model, row=5)['prompts'][0]['request']
        for model in ('chatml', 'gpt')
    ]
    assert shown == asked


@pytest.mark.parametrize(
    ('name', 'query', 'reason'),
    [
        ('prompts', {'dataset': 'nope'}, "no dataset named 'nope'"),
        ('prompts', {'dataset': 'sums', 'model': 'nope'}, "no model named 'nope'"),
        ('prompts', {'dataset': 'sums', 'model': 'gpt', 'row': 9999}, 'sums has no row 9999'),
        ('prompts', {'dataset': 'sums', 'model': 'gpt', 'row': -1}, 'sums has no row -1'),
        ('tokens', {'dataset': 'sums', 'model': 'gpt', 'number': 4}, 'has no request 4'),
        ('rows', {'dataset': 'sums', 'config': 7}, 'no config number 7'),
        ('rows', {'dataset': 'sums', 'after': 'x'}, "expected an integer of at most 15 digits, got 'x'"),
        ('rows', {'dataset': 'sums', 'after': '--5'}, "got '--5'"),
        ('prompts', {'dataset': 'sums', 'model': 'gpt', 'row': '9' * 20}, f"got '{'9' * 20}'"),
    ],
)
def test_a_wrong_question_gets_a_reason(client, name, query, reason):
    answer, text = client.send(f'/api/{name}?{urllib.parse.urlencode(query)}')
    assert answer.status == 422
    assert reason in json.loads(text)['error']


def test_two_requests_are_aligned(client):
    found = client.get('diff', left_dataset='sums', left_model='chatml', right_dataset='sums', right_model='gpt')
    assert not found['same']
    assert [side['model'] for side in found['sides']] == ['chatml', 'gpt']
    same = client.get('diff', left_dataset='sums', left_model='gpt', right_dataset='sums', right_model='gpt')
    assert same['same']


def test_lint_findings_are_those_of_the_linter(client):
    assert 'no-max-out-len' in {finding['rule'] for finding in client.get('lint')['findings']}


def test_findings_of_one_pair_come_alone(client):
    found = client.get('lint', dataset='sums', model='chatml')['findings']
    assert {finding['where'] for finding in found} <= {'sums', 'chatml', 'sums × chatml'}


def test_the_text_of_a_template_leads_to_its_very_line(client, config):
    [prompt] = client.get('prompts', dataset='sums', model='chatml', row=3)['prompts']
    places = {
        span['text']: prompt['explanations'][span['why']] for block in prompt['blocks'] for span in block['spans']
    }
    assert places['Add: ']['place'] == 'datasets[0].infer_cfg.prompt_template.template'
    line = next(number for number, text in enumerate(CONFIG.splitlines(), 1) if 'Add: ' in text)
    assert places['Add: ']['file'] == f'{config}:{line}'
    assert places['3+3=?']['place'] == 'datasets[0].infer_cfg.prompt_template.template'


JUDGED = """
models = [dict(abbr='m', type='OpenAI', path='m'), dict(abbr='critic', type='OpenAI', path='c', key='sk-critic-key')]
datasets = [dict(abbr='talk', type='Rows', test=[dict(q='Why?', a='Because.')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='{q}'), inferencer=dict(type='GenInferencer', max_out_len=9)),
    eval_cfg=dict(evaluator=dict(type='GenericLLMEvaluator', judge_cfg='critic',
        prompt_template=dict(type='PromptTemplate', template='Gold {a}. Said {prediction}. Right?'))))]
"""


def test_a_judges_prompt_is_a_request_of_the_row_too(tmp_path):
    (tmp_path / 'judged.py').write_text(JUDGED)
    with serve_page(tmp_path / 'judged.py') as address:
        client = Client(*address)
        asked, judged = client.get('prompts', dataset='talk', model='m', row=0)['prompts']
        assert (asked['model'], judged['model'], judged['judge']) == ('m', 'critic', True)
        assert 'Gold Because.' in judged['request'][0]['content']
        assert client.get('tokens', dataset='talk', model='m', row=0, number=1) == {'unknown': True}
        same = client.get(
            'diff',
            left_dataset='talk',
            left_model='m',
            left_number=1,
            right_dataset='talk',
            right_model='m',
            right_number=1,
        )
        assert same['same']


@pytest.mark.parametrize(
    ('host', 'header', 'accepted'),
    [
        ('127.0.0.1', 'localhost:80', True),
        ('127.0.0.1', '10.0.0.5:80', False),
        ('10.0.0.5', '10.0.0.5:80', True),
        ('10.0.0.5', 'localhost:80', False),
        ('0.0.0.0', '10.0.0.5:80', True),
        ('0.0.0.0', '[fe80::1]:80', True),
        ('0.0.0.0', '10.0.0.5:81', False),
        ('0.0.0.0', 'evil.example:80', False),
        ('::', '127.0.0.1:80', True),
    ],
)
def test_a_page_off_loopback_answers_to_addresses_and_not_to_names(host, header, accepted):
    rules = AccessRules.for_address(host, 80)
    request = make_mocked_request('GET', '/', headers={'Host': header})
    assert (rules.refusal(request) is None) == accepted


def test_a_broken_config_is_shown_with_its_reason(tmp_path):
    broken = tmp_path / 'broken.py'
    broken.write_text('datasets = [dict(abbr="x")]\n')
    with serve_page(broken) as address:
        [config] = Client(*address).get('session')['configs']
    assert 'infer_cfg' in config['error']


def test_a_path_that_is_neither_config_nor_run_is_refused(tmp_path, capsys):
    assert main(['web', str(tmp_path / 'nothing.py')]) == 2
    assert 'no such file or directory' in capsys.readouterr().err
    assert main(['web', str(tmp_path)]) == 2
    assert 'not a run directory' in capsys.readouterr().err


def test_the_vendored_libraries_carry_their_licences():
    vendor = ROOT / 'src/rolecall/ui/web/assets/vendor'
    assert 'MIT' in (vendor / 'preact.LICENSE').read_text()
    assert 'Apache License' in (vendor / 'htm.LICENSE').read_text()


@pytest.fixture
def pictures(tmp_path):
    """A config whose rows name files: one beside it, one outside, a link that leads out, and what is no picture."""
    folder, outside = tmp_path / 'data', tmp_path / 'outside'
    folder.mkdir()
    outside.mkdir()
    (folder / 'cat.png').write_bytes(PNG)
    (folder / 'page.png').write_text('<html><script>alert(1)</script>')
    (folder / 'draw.svg').write_text('<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>')
    (outside / 'secret.png').write_bytes(PNG)
    (folder / 'link.png').symlink_to(outside / 'secret.png')
    names = [
        'cat.png',
        'link.png',
        str(outside / 'secret.png'),
        '../outside/secret.png',
        '/etc/passwd',
        'draw.svg',
        'nothing.png',
        '/dev/zero',
    ]
    path = folder / 'mm.py'
    path.write_text(
        f'names = {names!r}\n'
        "models = [dict(abbr='gpt', type='OpenAI', path='gpt')]\n"
        "datasets = [dict(abbr='mm', type='Rows', test=[dict(image=name, q='What?', a='') for name in names], reader_cfg=dict(input_columns=['image', 'q'], output_column='a'),"
        " infer_cfg=dict(prompt_template=dict(type='MMPromptTemplate', template=dict(round=[dict(role='HUMAN', prompt_mm={'image': {'type': 'image_url', 'image_url': {'url': 'file://{image}'}}, 'text': '{q}'})])), inferencer=dict(type='GenInferencer', max_out_len=9)))]\n"
    )
    with serve_page(path) as address:
        yield Client(*address)


@pytest.mark.parametrize(
    ('row', 'status'), [(0, 200), (1, 422), (2, 422), (3, 422), (4, 422), (5, 422), (6, 422), (7, 422)]
)
def test_only_pictures_in_the_datasets_own_folder_are_served(pictures, row, status):
    answer, text = pictures.send_raw(f'/api/media?dataset=mm&model=gpt&row={row}')
    assert answer.status == status
    if status == 200:
        assert (answer.headers['Content-Type'], text) == ('image/png', PNG)
    assert pictures.send_raw('/api/media?dataset=mm&model=gpt&row=0&at=7')[0].status == 422


def test_no_hostile_request_is_a_fault_of_the_server(client):
    statuses = {name: status_of(client, request) for name, request in requests(client)}
    assert len(statuses) > 1500
    assert {name: status for name, status in statuses.items() if not 200 <= status < 500} == {}
