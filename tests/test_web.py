"""The server of the page: who may ask, and what it answers. A real server on loopback, asked over real sockets."""

import asyncio
import contextlib
import gzip
import http.client
import json
import sqlite3
import threading
import time
import urllib.parse
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from aiohttp import web

from report_runs import made_up_run
from rolecall.cli.main import main
from rolecall.report.page import read_asset
from rolecall.runs.store.codec import encode_result
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import FILE
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard
from rolecall.web.security import AccessRules
from rolecall.web.serve import _listen
from rolecall.web.server import make_app
from rolecall.web.workspace import Workspace

ROOT = Path(__file__).resolve().parent.parent
GSM8K = ROOT / 'examples/gsm8k.py'
SECRET = 'sk-very-secret'
CONFIG = f"""
models = [
    dict(abbr='chatml', type='HuggingFaceCausalLM', path='none', meta_template='chatml'),
    dict(abbr='gpt', type='OpenAI', path='gpt', key='{SECRET}', meta_template=dict(round=[
        dict(role='HUMAN', api_role='HUMAN'), dict(role='BOT', api_role='BOT', generate=True)])),
]
datasets = [dict(abbr='sums', type='Rows', train=[dict(q='0+1=?', a='1')],
    test=[dict(q=f'{{n}}+{{n}}=?', a=str(2 * n)) for n in range(250)],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template='{{q}} {{a}}'),
        prompt_template=dict(type='PromptTemplate', ice_token='</E>', template='</E>Add: {{q}}'),
        retriever=dict(type='FixKRetriever', fix_id_list=[0])))]
"""


@contextlib.contextmanager
def serve_page(*paths):
    """A page on a free port, served by a thread; its port and rules."""
    listening = _listen('127.0.0.1', 0)
    rules = AccessRules.for_address('127.0.0.1', listening.getsockname()[1])
    loop = asyncio.new_event_loop()
    runner = web.AppRunner(make_app(Workspace([Path(path) for path in paths]), rules))

    async def start():
        await runner.setup()
        await web.SockSite(runner, listening).start()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield listening.getsockname()[1], rules
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


class Client:
    """Asks the page as a browser with its cookie would."""

    def __init__(self, port, rules):
        self.port, self.rules = port, rules

    def send(self, path, **options):
        answer, content = self.send_raw(path, **options)
        return answer, content.decode()

    def send_raw(self, path, *, method='GET', host=None, body=None, cookie=True, **headers):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=30)
        given = {
            'Host': host or f'127.0.0.1:{self.port}',
            **{key.replace('_', '-'): value for key, value in headers.items()},
        }
        if cookie:
            given['Cookie'] = f'{self.rules.cookie}={self.rules.token}'
        connection.request(method, path, body=body, headers=given)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer, content

    def get(self, name, **query):
        answer, text = self.send(f'/api/{name}?{urllib.parse.urlencode(query)}')
        assert answer.status == 200, text
        return json.loads(text)


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
    names = [
        'app.js',
        'lib.js',
        'prompt.js',
        'explore.js',
        'edit.js',
        'try.js',
        'compare.js',
        'lint.js',
        'runs.js',
        'chinese.js',
        'app.css',
    ]
    names += ['draw.js', 'report.css', 'origins.css', 'vendor/preact.js', 'vendor/hooks.js', 'vendor/htm.js']
    texts = [index, *(client.send(f'/assets/{name}')[1] for name in names if name in SERVED)]
    assert not any('https://' in text or "from 'http" in text for text in texts)
    assert sum(len(gzip.compress(text.encode())) for text in texts) < 150_000
    assert client.send('/assets/draw.js')[1] == read_asset('draw.js')


SERVED = {
    *(path.name for path in (ROOT / 'src/rolecall/web/assets').iterdir()),
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
        ('rows', {'dataset': 'sums', 'after': 'x'}, "expected an integer, got 'x'"),
    ],
)
def test_a_wrong_question_gets_a_reason(client, name, query, reason):
    answer, text = client.send(f'/api/{name}?{urllib.parse.urlencode(query)}')
    assert answer.status == 422
    assert reason in json.loads(text)['error']


def test_two_requests_are_aligned(client):
    found = client.get('diff', left_dataset='sums', left_model='chatml', right_dataset='sums', right_model='gpt')
    assert not found['same']
    assert found['titles'] == ['sums × chatml · row 0 · gen', 'sums × gpt · row 0 · gen']
    same = client.get('diff', left_dataset='sums', left_model='gpt', right_dataset='sums', right_model='gpt')
    assert same['same']


def test_lint_findings_are_those_of_the_linter(client):
    assert 'no-max-out-len' in {finding['rule'] for finding in client.get('lint')['findings']}


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
    vendor = ROOT / 'src/rolecall/web/assets/vendor'
    assert 'MIT' in (vendor / 'preact.LICENSE').read_text()
    assert 'Apache License' in (vendor / 'htm.LICENSE').read_text()


# -- runs --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope='module')
def stored_run(tmp_path_factory):
    """A run of the sums by two models, half of the answers right, one failed."""
    folder = tmp_path_factory.mktemp('runs') / 'friday'
    made, _ = made_up_run(rows=120)
    store = Store(folder)
    store.record_scores(made.cards, [*made.rows, Result('sums', 'api', 500, 'failed', reason='HTTP 500')])
    store.close()
    return folder


@pytest.fixture(scope='module')
def run_client(stored_run):
    with serve_page(stored_run, stored_run) as (port, rules):
        yield Client(port, rules)


def test_a_run_shows_its_scores(run_client):
    found = run_client.get('run')
    assert found['name'] == 'friday'
    assert (found['datasets'], found['models']) == (['sums'], ['api', 'chatml'])
    [line] = found['scores']['lines']
    assert line['dataset'] == 'sums'
    assert all(cell['interval'] for cell in line['cells'])


def test_rows_of_a_run_come_by_key_in_pages(run_client):
    keys, after = [], ''
    while after is not None:
        page = run_client.get('run_rows', after=after)
        keys += [(one['dataset'], one['model'], one['row']) for one in page['rows']]
        after = page['after']
    assert keys == sorted(keys)
    assert len(keys) == len(set(keys)) == 241


@pytest.mark.parametrize(
    ('query', 'count'),
    [
        ({'model': 'chatml'}, 120),
        ({'verdict': 'wrong', 'model': 'api'}, 60),
        ({'outcome': 'failed'}, 1),
        ({'q': 'http 500'}, 1),
        ({'q': 'nowhere'}, 0),
    ],
)
def test_rows_of_a_run_are_filtered(run_client, query, count):
    found, after = [], ''
    while after is not None:
        page = run_client.get('run_rows', after=after, **query)
        found += page['rows']
        after = page['after']
    assert len(found) == count


def test_a_row_of_a_run_has_everything_known_about_it(run_client):
    found = run_client.get('run_row', dataset='sums', model='chatml', row=3)
    assert found['gold'] == '6'
    assert found['replies']
    assert [other['model'] for other in found['others']] == ['api']
    assert run_client.send('/api/run_row?dataset=sums&model=chatml&row=999')[0].status == 422


def test_two_models_of_one_run_are_compared(run_client):
    found = run_client.get('run_compare', left_model='chatml', right_model='api')
    [difference] = found['differences']
    assert difference['rows'] == 120
    assert run_client.get('run_compare', left_run=0, right_run=1)['differences'][0]['difference'] == 0


@pytest.mark.parametrize('after', ['x', '[]', '["a", "b", "c"]', '7'])
def test_a_key_that_is_none_is_refused(run_client, after):
    answer, text = run_client.send(f'/api/run_rows?{urllib.parse.urlencode({"after": after})}')
    assert answer.status == 422
    assert 'not a key of a row' in text


@pytest.mark.heavy
def test_a_million_rows_open_and_turn_pages_quickly(tmp_path):
    folder = tmp_path / 'large'
    store = Store(folder)
    store.record_scores(
        [Scorecard('big', 'm', 'accuracy', 50.0, scored=1_000_000, total=1_000_000, outcomes={'ok': 1_000_000})], []
    )
    store.close()
    with contextlib.closing(sqlite3.connect(folder / FILE)) as db:
        row = encode_result(Result('big', 'm', 7654321, 'ok', replies=('yes',), correct=True))
        numbers = 'WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)'
        db.execute(f"INSERT INTO rows {numbers} SELECT 'big', 'm', i, 'ok', ?, NULL FROM n", (row,))
        db.commit()
    with serve_page(folder) as address:
        client = Client(*address)
        times = []
        for name, query in [
            ('run', {}),
            ('run_rows', {}),
            ('run_rows', {'after': '["big", "m", 999800]'}),
            ('run_row', {'dataset': 'big', 'model': 'm', 'row': 999_999}),
        ]:
            began = time.monotonic()
            client.get(name, **query)
            times.append(time.monotonic() - began)
    assert max(times) < 1.0, times


# -- editing -----------------------------------------------------------------------------------------------------------

TEMPLATE = ['dataset', 'infer_cfg', 'prompt_template', 'template']


def edit(client, *edits, to='edit', **more):
    body = json.dumps({'config': 0, 'dataset': 'sums', 'model': 'chatml', 'row': 3, 'edits': list(edits), **more})
    origin = f'http://127.0.0.1:{client.port}'
    answer, text = client.send(f'/api/{to}', method='POST', body=body, Origin=origin, Content_Type='application/json')
    return answer.status, json.loads(text)


def test_the_texts_and_options_of_a_prompt_can_be_edited(client):
    found = client.get('fields', dataset='sums', model='chatml')
    texts = {json.dumps(field['path']): field['value'] for field in found['fields'] if field['kind'] == 'text'}
    assert texts[json.dumps(TEMPLATE)] == '</E>Add: {q}'
    assert found['columns'] == ['q', 'a']
    assert SECRET not in json.dumps(client.get('fields', dataset='sums', model='gpt'))


def test_an_edit_changes_the_prompt_and_its_findings(client):
    status, found = edit(client, [TEMPLATE, '</E>Sum of {q} and {nope}'])
    assert status == 200
    assert 'Sum of 3+3=? and {nope}' in found['prompts'][0]['request']
    assert 'unfilled-field' in {finding['rule'] for finding in found['findings']}
    status, found = edit(client, [['dataset', 'infer_cfg', 'retriever', 'fix_id_list'], '[]'])
    assert '0+1' not in found['prompts'][0]['request']
    assert 'Add: 3+3=?' in client.get('prompts', dataset='sums', model='chatml', row=3)['prompts'][0]['request']


@pytest.mark.parametrize(
    ('path', 'value', 'reason'),
    [
        (['model', 'key'], 'x', 'cannot be edited'),
        (['model', 'type'], 'x', 'cannot be edited'),
        (['dataset', 'type'], 'x', 'cannot be edited'),
        (['dataset', 'infer_cfg', 'retriever', 'type'], 'x', 'cannot be edited'),
        (['dataset', 'infer_cfg', 'prompt_template', 'nothing'], 'x', 'cannot be edited'),
        ([], 'x', 'cannot be edited'),
        (['dataset', 'infer_cfg', 'retriever', 'fix_id_list'], '__import__("os").getcwd()', 'expected a Python value'),
        (['dataset', 'infer_cfg', 'retriever', 'fix_id_list'], '[99]', '99'),
        (TEMPLATE, 'no place for examples', 'ice_token'),
    ],
)
def test_an_edit_that_cannot_be_made_is_refused_with_its_reason(client, path, value, reason):
    status, found = edit(client, [path, value])
    assert status == 422
    assert reason in found['error']


def test_a_request_from_elsewhere_cannot_edit(client):
    body = json.dumps({'config': 0, 'dataset': 'sums', 'edits': []})
    assert client.send('/api/edit', method='POST', body=body, Content_Type='application/json')[0].status == 403
    evil = {'Origin': 'http://evil.example', 'Content_Type': 'application/json'}
    assert client.send('/api/edit', method='POST', body=body, **evil)[0].status == 403
    form = {'Origin': f'http://127.0.0.1:{client.port}', 'Content_Type': 'text/plain'}
    assert client.send('/api/edit', method='POST', body=body, **form)[0].status == 403


def test_an_edited_config_is_saved_under_a_new_name_and_sends_what_was_shown(client, config, capsys):
    change = [TEMPLATE, '</E>It\'s "{q}"?\n']
    status, found = edit(client, change, to='save', name='edited.py')
    assert status == 200, found
    assert main(['view', found['saved'], '--model', 'chatml', '--row', '3', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['request'] == edit(client, change)[1]['prompts'][0]['request']
    status, again = edit(client, change, to='save', name='edited.py')
    assert (status, 'exists' in again['error']) == (422, True)
    assert config.read_text() == CONFIG


@pytest.mark.parametrize('name', ['../x.py', '/tmp/x.py', 'x.txt', 'a/b.py', '.py', 'x.py\n'])
def test_a_config_is_only_saved_beside_the_original(client, name):
    status, _ = edit(client, [TEMPLATE, '</E>{q}'], to='save', name=name)
    assert status == 422


# -- trying ------------------------------------------------------------------------------------------------------------

TRIED = """
def shout(request):
    if 'boom' in request:
        raise ValueError('sk-hidden-key is wrong')
    return request.upper()
models = [dict(abbr='loud', type='Function', function=shout, api_key='sk-hidden-key')]
datasets = [dict(abbr='words', type='Rows', test=[dict(q='hi', a='HI'), dict(q='boom', a='')],
    reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='say {q}'), inferencer=dict(type='GenInferencer', max_out_len=9)))]
"""


@pytest.fixture
def trial(tmp_path):
    path = tmp_path / 'tried.py'
    path.write_text(TRIED)
    with serve_page(path) as address:
        client = Client(*address)
        origin = f'http://127.0.0.1:{client.port}'

        def ask(name='try', **more):
            body = {'config': 0, 'dataset': 'words', 'model': 'loud', 'row': 0, **more}
            answer, text = client.send(
                f'/api/{name}', method='POST', body=json.dumps(body), Origin=origin, Content_Type='application/json'
            )
            return answer.status, [json.loads(line) for line in text.splitlines()]

        yield ask


def test_a_prompt_is_sent_to_its_model(trial):
    status, events = trial()
    assert status == 200
    assert events[-1]['reply']['text'] == 'SAY HI'
    assert events[-1]['reply']['outcome'] == 'ok'
    edits = [[['dataset', 'infer_cfg', 'prompt_template', 'template'], 'shout {q}']]
    assert trial(edits=edits)[1][-1]['reply']['text'] == 'SHOUT HI'


def test_a_model_that_fails_says_why_without_its_key(trial):
    _, events = trial(row=1)
    said = json.dumps(events)
    assert 'is wrong' in said
    assert 'sk-hidden-key' not in said


@pytest.mark.parametrize(
    ('more', 'reason'),
    [({'model': 'other'}, 'no model named'), ({'number': 5}, 'no request 5'), ({'dataset': 'x'}, 'no dataset named')],
)
def test_only_requests_of_the_config_are_sent(trial, more, reason):
    status, [found] = trial(**more)
    assert status == 422
    assert reason in found['error']


def test_a_reply_is_kept_as_a_row_beside_the_config(trial):
    for _ in range(2):
        status, [found] = trial('keep', reply='HI!', request='say hi')
        assert status == 200
    lines = Path(found['kept']).read_text().splitlines()
    assert [json.loads(line)['reply'] for line in lines] == ['HI!', 'HI!']
    assert json.loads(lines[0])['q'] == 'hi'


# -- media -------------------------------------------------------------------------------------------------------------

PNG = bytes.fromhex(
    '89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef0000000049454e44ae426082'
)


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


# -- labels ------------------------------------------------------------------------------------------------------------


def label(client, **given):
    body = json.dumps({'run': 0, 'dataset': 'sums', 'model': 'chatml', 'row': 3, **given})
    origin = f'http://127.0.0.1:{client.port}'
    answer, text = client.send('/api/label', method='POST', body=body, Origin=origin, Content_Type='application/json')
    return answer.status, json.loads(text)


def test_a_human_label_is_kept_in_the_run_and_compared_with_the_verdicts(run_client, stored_run):
    verdicts = {row: run_client.get('run_row', dataset='sums', model='chatml', row=row)['verdict'] for row in (3, 4)}
    for row, verdict in verdicts.items():
        status, _ = label(run_client, row=row, label=verdict)
        assert status == 200
    assert run_client.get('run_row', dataset='sums', model='chatml', row=3)['label'] == verdicts[3]
    assert run_client.get('run')['agreement']['agree'] == 2
    label(run_client, row=3, label='wrong' if verdicts[3] == 'correct' else 'correct')
    agreement = run_client.get('run')['agreement']
    assert (agreement['agree'], agreement['rows']) == (1, 2)
    assert agreement['low'] < 0.5 < agreement['high']
    assert len(run_client.get('run_rows', verdict='disagrees')['rows']) == 1
    label(run_client, row=3, label='')
    assert run_client.get('run')['agreement']['rows'] == 1
    assert (stored_run / 'labels.jsonl').read_text().count('\n') == 4


@pytest.mark.parametrize(
    'given', [{'label': 'maybe'}, {'row': 9999, 'label': 'wrong'}, {'run': 9, 'label': 'wrong'}, {'label': 7}]
)
def test_a_label_that_is_none_is_refused(run_client, given):
    assert label(run_client, **given)[0] == 422
