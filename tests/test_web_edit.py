"""Editing and trying prompts in the page, over real sockets."""

import http.client
import json
import time
from pathlib import Path

import pytest

pytest.importorskip('aiohttp')
from rolecall.models.tokenizers.tokenizer import load_tokenizer
from rolecall.ui.cli.main import main
from servers import logprob_of, serve
from small_gguf import make_gguf
from web_pages import CONFIG, SECRET, Client, serve_page


@pytest.fixture(scope='module')
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp('web') / 'sums.py'
    path.write_text(CONFIG)
    return path


@pytest.fixture(scope='module')
def client(config):
    with serve_page(config) as (port, rules):
        yield Client(port, rules)


TEMPLATE = ['dataset', 'infer_cfg', 'prompt_template', 'template']


def edit(client, *edits, to='edit', **more):
    body = {'config': 0, 'dataset': 'sums', 'model': 'chatml', 'row': 3, 'edits': list(edits), **more}
    status, [found] = client.post(to, **body)
    return status, found


def fields_of(found, **wanted):
    return [field for field in found['fields'] if all(field[key] == value for key, value in wanted.items())]


def test_the_texts_and_options_of_a_prompt_can_be_edited(client):
    _, found = edit(client)
    assert {tuple(field['path']): field['value'] for field in fields_of(found, kind='text')}[
        tuple(TEMPLATE)
    ] == '</E>Add: {q}'
    assert found['columns'] == ['q', 'a']
    assert found['roles'][:3] == ['HUMAN', 'BOT', 'SYSTEM']
    assert SECRET not in json.dumps(edit(client, model='gpt'))


SPEECHES = "dict(type='PromptTemplate', template=dict(begin=['</E>'], round=[dict(role='HUMAN', prompt='{q}!'), {'role': 'BOT', 'prompt': ''}]), ice_token='</E>')"


def test_a_meta_template_given_by_name_can_be_edited_and_exchanged(client, capsys):
    _, found = edit(client)
    begins = [field for field in fields_of(found, group='meta_template', kind='text') if field['path'][-1] == 'begin']
    assert begins[0]['value'] == '<|im_start|>user\n'
    speeches = [TEMPLATE[:-1], {'source': SPEECHES}]
    change = [begins[0]['path'], '<<USER>> ']
    _, found = edit(client, speeches, change)
    assert '<<USER>> 3+3=?!' in found['prompts'][0]['request']
    exchanged = [['model', 'meta_template'], 'llama2']
    [prompt] = edit(client, speeches, exchanged)[1]['prompts']
    assert '[INST]' in prompt['request']
    assert 'llama2' in {why.get('named') for why in prompt['explanations'].values()}
    for edits in ([change], [speeches, exchanged], [speeches, exchanged, [begins[0]['path'], 'ME: ']]):
        status, saved = edit(client, *edits, to='save', name=f'meta{len(str(edits))}.py')
        assert status == 200, saved
        assert main(['view', saved['saved'], '--model', 'chatml', '--row', '3', '--json']) == 0
        assert json.loads(capsys.readouterr().out)['request'] == edit(client, *edits)[1]['prompts'][0]['request']


def test_a_part_can_be_edited_as_source_and_then_in_the_form(client, capsys):
    source = [TEMPLATE[:-1], {'source': SPEECHES}]
    status, found = edit(client, source)
    assert status == 200, found
    assert '3+3=?!' in found['prompts'][0]['request']
    [asked, answer] = [field for field in fields_of(found, group='prompt_template') if field['rolePath']]
    assert asked['rolePath'][-3:] == ['round', 0, 'role']
    rules = [[asked['rolePath'], 'SYSTEM'], [asked['path'], 'Say {q}']]
    assert 'the dataset has no HUMAN speech' in edit(client, source, *rules)[1]['error']
    _, found = edit(client, source, *rules, [answer['rolePath'], 'HUMAN'], [answer['path'], 'Now.'])
    assert '<|im_start|>system\nSay 3+3=?' in found['prompts'][0]['request']
    both = [source, [asked['path'], 'Say {q}']]
    _, found = edit(client, *both)
    _, saved = edit(client, *both, to='save', name='source.py')
    assert main(['view', saved['saved'], '--model', 'chatml', '--row', '3', '--json']) == 0
    assert json.loads(capsys.readouterr().out)['request'] == found['prompts'][0]['request']


def test_a_model_given_by_name_can_be_edited_and_saved(tmp_path, capsys):
    path = tmp_path / 'named.py'
    start, end = CONFIG.index('models = ['), CONFIG.index('datasets = [')
    path.write_text(CONFIG[:start] + "models = ['openai/gpt-4o-mini']\n" + CONFIG[end:])
    with serve_page(path) as address:
        client = Client(*address)
        [model] = client.get('session')['configs'][0]['models']
        change = [['model', 'meta_template'], {'source': "dict(round=[dict(role='HUMAN', api_role='SYSTEM')])"}]
        status, found = edit(client, change, model=model['abbr'])
        assert status == 200, found
        _, saved = edit(client, change, model=model['abbr'], to='save', name='saved.py')
        assert main(['view', saved['saved'], '--row', '3', '--json']) == 0
        assert json.loads(capsys.readouterr().out)['request'] == found['prompts'][0]['request']


def test_the_retriever_can_be_exchanged_and_keeps_the_options_it_knows(client):
    status, found = edit(client, [['dataset', 'infer_cfg', 'retriever', 'type'], 'RandomRetriever'])
    assert status == 200, found
    assert '0+1=?' not in found['prompts'][0]['request'] or found['prompts'][0]['shots'] == [0]
    [choice] = fields_of(found, group='retriever', kind='choice')
    assert choice['value'] == 'RandomRetriever'
    _, found = edit(client, [['dataset', 'infer_cfg', 'retriever', 'type'], ''])
    assert found['prompts'][0]['request'] == 'Add: 3+3=?'


def test_sampling_shows_what_counts_and_the_cost_follows(tmp_path):
    path = tmp_path / 'priced.py'
    path.write_text(
        CONFIG.replace(
            "path='gpt'", "path='gpt', max_out_len=100, price=dict(input=1.0, output=10.0), tokenizer_path='none'"
        )
    )
    with serve_page(path) as address:
        client = Client(*address)
        _, found = edit(client, model='gpt')
        [length] = fields_of(found, label='max_out_len')
        assert (length['value'], length['effective']) == ('', '100')
        assert found['costs'] == [None]  # without a tokenizer nothing can be counted
        _, found = edit(client, [['dataset', 'infer_cfg', 'inferencer', 'max_out_len'], '7'], model='gpt')
        assert fields_of(found, label='max_out_len')[0]['effective'] == '7'


def test_a_cost_is_what_the_tokens_cost(tmp_path):
    """Counted by the tokenizer of the model's file, which is read once however often the prompt is edited."""
    weights, path = make_gguf(tmp_path / 'small.gguf').path, tmp_path / 'priced.py'
    model = f"dict(abbr='small', type='LlamaCpp', path='{weights}', chat_template=False, max_out_len=100, price=dict(input=1.0, output=10.0))"
    path.write_text(CONFIG.replace('models = [', f'models = [{model},'))
    with serve_page(path) as address:
        client = Client(*address)
        for text, meta in (('</E>{q}', 'chatml'), ('</E>Say {q}', 'llama2')):
            edits = [TEMPLATE, text], [['model', 'meta_template'], meta]
            status, found = edit(client, *edits, model='small')
            assert status == 200, found
            tokenizer = load_tokenizer(weights)
            tokens = len(tokenizer.encode(found['prompts'][0]['request'])) + tokenizer.adds_bos
            assert found['tokens'] == [tokens]
            [cost] = found['costs']
            assert cost == pytest.approx({'input': tokens / 1e6, 'most': tokens / 1e6 + 100 * 10 / 1e6})
    assert load_tokenizer(weights) is load_tokenizer(weights)


def test_a_part_of_an_edited_prompt_comes_from_its_own_model(tmp_path):
    path = tmp_path / 'second.py'
    path.write_text(CONFIG.replace('models = [', "models = [dict(abbr='first', type='OpenAI', path='x'),"))
    with serve_page(path) as address:
        client = Client(*address)
        speech = "dict(type='PromptTemplate', ice_token='</E>', template=dict(begin=['</E>'], round=[dict(role='HUMAN', prompt='{q}')]))"
        _, found = edit(client, [TEMPLATE[:-1], {'source': speech}])
        places = {why.get('place', '') for why in found['prompts'][0]['explanations'].values()}
        assert {place for place in places if place.startswith('models')} == {'models[1].meta_template'}
        status, found = edit(client, [['model', 'meta_template'], {'source': 'dict(round=7)'}])
        assert status == 422
        assert 'models[1].meta_template' in found['error']


def test_an_edit_is_compared_with_the_original(client):
    _, found = edit(client, [TEMPLATE, '</E>Sum: {q}'], compare=0)
    assert not found['changes']['same']
    assert edit(client, compare=0)[1]['changes']['same']
    assert edit(client)[1]['changes'] is None


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
        (['dataset', 'infer_cfg', 'retriever', 'type'], 'x', "unknown retriever 'x'"),
        (['dataset', 'infer_cfg', 'retriever', 'type'], 'os.system', 'unknown retriever'),
        (['model', 'meta_template'], 'acme.template', 'unknown meta template'),
        (TEMPLATE[:-1], {'source': "__import__('os').getcwd()"}, 'is not a value'),
        (TEMPLATE[:-1], {'source': "dict(type='acme.Template', template='</E>{q}')"}, 'not the name of a built-in'),
        (TEMPLATE[:-1], {'source': "dict(type='PromptTemplate'"}, 'cannot be read'),
        (TEMPLATE[:-1], {'source': '[' * 5000}, 'cannot be read'),
        (TEMPLATE[:-1], {'source': 'dict(**{})'}, 'infer_cfg'),
        (TEMPLATE, {'source': "'x'"}, 'cannot be edited'),
        (TEMPLATE, 7, 'cannot be edited'),
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


TRIED = """
HF_TOKEN = 'hf-another-key'
def shout(request):
    if 'token' in request:
        return HF_TOKEN
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


def test_a_reply_that_repeats_another_secret_of_the_config_is_shown_without_it(trial):
    edits = [[['dataset', 'infer_cfg', 'prompt_template', 'template'], 'token {q}']]
    assert trial(edits=edits)[1][-1]['reply']['text'] == '[key]'


@pytest.mark.parametrize(
    ('more', 'reason'),
    [
        ({'model': 'other'}, 'no model named'),
        ({'number': 5}, 'no request 5'),
        ({'dataset': 'x'}, 'no dataset named'),
        ({'model': 5}, 'expected config, dataset'),
        ({'row': 10**30}, 'expected config, dataset'),
    ],
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


def test_a_reply_that_is_stopped_leaves_no_traceback(tmp_path, caplog):
    path = tmp_path / 'slow.py'
    path.write_text(TRIED.replace('def shout(request):', 'def shout(request):\n    import time; time.sleep(0.4)'))
    with serve_page(path) as (port, rules):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
        body = json.dumps({'config': 0, 'dataset': 'words', 'model': 'loud', 'row': 0})
        headers = {'Origin': f'http://127.0.0.1:{port}', 'Content-Type': 'application/json'}
        connection.request('POST', '/api/try', body, {**headers, 'Cookie': f'{rules.cookie}={rules.token}'})
        assert connection.getresponse().status == 200  # its head; the reply is still being written
        connection.close()
        time.sleep(1)
    assert [record.getMessage() for record in caplog.records if record.levelname == 'ERROR'] == []


CHAT = """
models = [dict(abbr='api', type='OpenAI', path='toy', openai_api_base='{url}', key='sk-hidden-key', retry=0, meta_template=dict(round=[
    dict(role='HUMAN', api_role='HUMAN'), dict(role='BOT', api_role='BOT', generate=True)]))]
datasets = [dict(abbr='words', type='Rows', test=[dict(q='hi', a='HI')], reader_cfg=dict(input_columns=['q'], output_column='a'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='say {{q}}')))]
"""


def try_chat(folder, answer, faults=None):
    """What Try streams of a chat model's reply, and the bodies that its server was sent."""
    with serve(answer, faults=faults) as server:
        (folder / 'chat.py').write_text(CHAT.format(url=server.url))
        with serve_page(folder / 'chat.py') as address:
            client = Client(*address)
            body = json.dumps({'config': 0, 'dataset': 'words', 'model': 'api', 'row': 0})
            origin = f'http://127.0.0.1:{client.port}'
            _, text = client.send('/api/try', method='POST', body=body, Origin=origin, Content_Type='application/json')
        return [json.loads(line) for line in text.splitlines()], server.bodies


def test_a_chat_reply_is_shown_with_the_log_probabilities_of_its_server(tmp_path):
    events, [body] = try_chat(tmp_path, lambda body: 'It is four')
    assert body['logprobs'] is True
    assert events[-2]['reply']['text'] == 'It is four'
    tokens = events[-1]['scored']['tokens']
    assert tokens == [[piece, logprob_of(piece)] for piece in ('It', ' is', ' four')]
    assert events[-1]['scored']['mean'] == pytest.approx(sum(value for _, value in tokens) / 3)


@pytest.mark.parametrize('status', ['400', '403', '422'])
def test_a_server_that_refuses_log_probabilities_is_asked_without(tmp_path, status):
    def refuse(_number, body):
        return status if 'logprobs' in body else None

    events, bodies = try_chat(tmp_path, lambda body: 'four', refuse)
    assert ['logprobs' in body for body in bodies] == [True, False]
    assert events[-1]['reply']['text'] == 'four'


@pytest.mark.parametrize(
    'content',
    [
        None,
        'x',
        [5],
        [{'token': 5, 'logprob': -1}],
        [{'token': 'four'}],
        [{'token': 'four', 'logprob': True}],
        [{'token': 'four', 'logprob': float('nan')}],
        [{'token': 'four', 'logprob': float('-inf')}],
        [{'token': 'four', 'logprob': -1}, {'token': 'x', 'logprob': 10**400}],
        [{'token': 'sk-hid', 'logprob': -1}, {'token': 'den-key', 'logprob': -1}],
    ],
)
def test_log_probabilities_that_are_none_or_tell_a_secret_are_left_out(tmp_path, content):
    def answer(_body):
        message = {'role': 'assistant', 'content': 'four'}
        return {'message': message, 'finish_reason': 'stop', 'logprobs': {'content': content}}

    events, _ = try_chat(tmp_path, answer)
    assert events[-1]['reply']['text'] == 'four'
