"""Secrets stay out of run directories, reports and screens: 31 places to put one × 5 servers that echo it."""

from __future__ import annotations

import asyncio
import base64
import json
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

import rolecall
from hostile import Send, as_json, raw_server
from rolecall.apps.chat.mcp_tools import McpTools
from rolecall.models.backends import build_model
from rolecall.models.protocol import Sampling
from rolecall.redaction import Redactor, StreamRedactor, environment_secrets, find_secrets, is_secret_name, mask_config
from rolecall.runs.result_files import result_lines
from rolecall.runs.run import run_config
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.cli.main import main
from rolecall.ui.report import StoredRun, report_html, report_markdown
from servers import running, serve
from test_runs import dataset

SECRET = 'zQ9/secret+"K7ä x'[:-2]
WORD = 'honeybadger'
PATH = 'zQ9secretK7vv31x'
HEADER = 'zQ9/secret+K7=='
"""What can be sent in a header."""


def keys(value: str) -> dict[str, Any]:
    return {'key': value}


PLACES: dict[str, tuple[str, Callable[[str, str], dict[str, Any]]]] = {
    'key': (HEADER, lambda url, secret: {'models': {'key': secret}}),
    'api_key': (HEADER, lambda url, secret: {'models': {'api_key': secret}}),
    'list of keys': (HEADER, lambda url, secret: {'models': {'key': [secret, 'other-key-1']}}),
    'variable named by key': (HEADER, lambda url, secret: {'models': {'key': 'MY_OWN_KEY'}, 'environ': 'MY_OWN_KEY'}),
    'variable with a dollar': (HEADER, lambda url, secret: {'models': {'key': '$MY_PLACE'}, 'environ': 'MY_PLACE'}),
    'OPENAI_API_KEY': (HEADER, lambda url, secret: {'models': {'key': 'ENV'}, 'environ': 'OPENAI_API_KEY'}),
    'password in the URL': (
        SECRET,
        lambda url, secret: {'models': {'url': url.replace('://', f'://me:{quote(secret, safe="")}@')}},
    ),
    'user in the URL': (
        SECRET,
        lambda url, secret: {'models': {'url': url.replace('://', f'://{quote(secret, safe="")}@')}},
    ),
    'query': (SECRET, lambda url, secret: {'models': {'url': f'{url}?code={quote(secret, safe="")}'}}),
    'query with a plain name': (SECRET, lambda url, secret: {'models': {'url': f'{url}?x={quote_plus(secret)}'}}),
    'Authorization': (HEADER, lambda url, secret: {'models': {'headers': {'Authorization': f'Bearer {secret}'}}}),
    'oddly named header': (HEADER, lambda url, secret: {'models': {'headers': {'X-Auth': secret}}}),
    'harmlessly named header': (HEADER, lambda url, secret: {'models': {'headers': {'X-Trace': secret}}}),
    'extra_headers': (HEADER, lambda url, secret: {'models': {'extra_headers': {'Cookie': secret}}}),
    'extra_body': (SECRET, lambda url, secret: {'models': {'extra_body': {'api_key': secret}}}),
    'deep in extra_body': (SECRET, lambda url, secret: {'models': {'extra_body': {'a': [{'userToken': secret}]}}}),
    'generation_kwargs': (SECRET, lambda url, secret: {'models': {'generation_kwargs': {'auth': {'pass': secret}}}}),
    'openai_extra_kwargs': (SECRET, lambda url, secret: {'models': {'openai_extra_kwargs': {'password': secret}}}),
    'top-level name': (SECRET, lambda url, secret: {'config': {'HF_TOKEN': secret}}),
    'top-level dict': (SECRET, lambda url, secret: {'config': {'settings': {'db': {'credentials': [secret]}}}}),
    'dataset': (SECRET, lambda url, secret: {'datasets': {'access_token': secret}}),
    'organization': (HEADER, lambda url, secret: {'models': {'org': secret}}),
    'word in an organization': (WORD, lambda url, secret: {'models': {'org': secret}}),
    'word in a query': (WORD, lambda url, secret: {'models': {'url': f'{url}?code={secret}'}}),
    'path of the URL': (PATH, lambda url, secret: {'models': {'url': url.replace('/v1', f'/{secret}/v1')}}),
    'a proxy': (SECRET, lambda url, secret: {'config': {'http_proxy': f'http://me:{quote(secret, safe="")}@host:1'}}),
    'pw': (SECRET, lambda url, secret: {'config': {'db_pw': secret}}),
    'cred': (SECRET, lambda url, secret: {'config': {'git_cred': secret}}),
    'personal access token': (SECRET, lambda url, secret: {'config': {'GITHUB_PAT': secret}}),
    'personal access token in the environment': (SECRET, lambda url, secret: {'environ': 'MY_PAT'}),
    'environment': (SECRET, lambda url, secret: {'environ': 'SOME_SERVICE_TOKEN'}),
}


def text_reply(said: str) -> dict[str, Any]:
    return {'choices': [{'message': {'content': said}, 'finish_reason': 'stop'}]}


def echoes(secret: str) -> dict[str, Callable[[bytes], Any]]:
    """What five servers answer to a request: each gives back all that it got, and the secret in every spelling."""
    spelt = [
        secret,
        json.dumps(secret),
        quote(secret, safe=''),
        quote_plus(secret).replace('%2B', '%2b'),
        base64.b64encode(f'me:{secret}'.encode()).decode(),
        base64.urlsafe_b64encode(secret.encode()).decode(),
    ]

    def everything(request: bytes) -> str:
        return ' | '.join([request.decode('utf-8', 'replace'), *spelt])

    call = {'id': '1', 'type': 'function', 'function': {'name': 'f', 'arguments': '{}'}}
    return {
        'answer': lambda request: as_json(text_reply(everything(request))),
        'reasoning': lambda request: as_json(
            {'choices': [{'message': {'content': 'x', 'reasoning': everything(request)}, 'finish_reason': 'stop'}]}
        ),
        'tool call': lambda request: as_json(
            {
                'choices': [
                    {
                        'message': {
                            'content': '',
                            'tool_calls': [
                                {**call, 'function': {'name': 'f', 'arguments': json.dumps({'a': everything(request)})}}
                            ],
                        },
                        'finish_reason': everything(request),
                    }
                ]
            }
        ),
        'refusal': lambda request: as_json({'error': {'message': everything(request)}}, status='400 Bad Request'),
        'error in a reply': lambda request: as_json({'error': {'message': everything(request), 'code': '422'}}),
    }


def spellings(secret: str) -> list[str]:
    """How the secret must not be found."""
    data = secret.encode()
    packed = [base64.b64encode(bytes(shift) + data).decode()[4:-4] for shift in range(3)]
    return [secret, json.dumps(secret)[1:-1], quote(secret, safe=''), quote_plus(secret), *packed]


def texts_in(run: Path) -> Iterator[str]:
    """Everything in a run directory, packed cells unpacked."""
    for file in run.rglob('*'):
        if file.is_file():
            yield file.read_bytes().decode('utf-8', 'replace')
    with sqlite3.connect(run / 'run.sqlite') as db:
        for (table,) in db.execute("select name from sqlite_master where type = 'table'").fetchall():
            for row in db.execute(f'select * from "{table}"'):
                for cell in row:
                    if isinstance(cell, bytes):
                        for unpack in (zlib.decompress, lambda data: zlib.decompress(data, -15), bytes):
                            try:
                                yield unpack(cell).decode('utf-8', 'replace')
                            except zlib.error:
                                continue
                    else:
                        yield str(cell)


@pytest.mark.parametrize('place', PLACES)
def test_a_secret_that_servers_echo_is_nowhere(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    secret, put = PLACES[place]
    servers = echoes(secret)

    monkeypatch.setenv('ROLECALL_CACHE', str(tmp_path / 'cache'))

    def respond(send: Send, request: bytes) -> None:
        if request.startswith(b'GET'):
            told = {'root': f'/models/{secret}', 'max_model_len': 9999, 'meta': {'ftype': secret}}
            as_json({'data': [{'id': f'server {name}', **told} for name in servers]})(send, request)
            return
        name = next(name for name in servers if f'server {name}'.encode() in request)
        servers[name](request)(send, request)

    with raw_server(respond) as url:
        given = put(url, secret)
        if 'environ' in given:
            monkeypatch.setenv(given['environ'], secret)
        models = [
            {
                'abbr': name,
                'type': 'OpenAI',
                'path': f'server {name}',
                'url': url,
                'retry': 0,
                **given.get('models', {}),
            }
            for name in servers
        ]
        rows = dataset([{'question': 'Q', 'answer': 'A'}], '{question}') | given.get('datasets', {})
        config = {'models': models, 'datasets': [rows], **given.get('config', {})}
        run_config(config, out=tmp_path / 'run')
    with RunReader(tmp_path / 'run') as archive:
        stored = StoredRun(archive)
        outcomes = {result.model: result.outcome for result in archive.results()}
        shown = [report_html(stored), report_markdown(stored), *result_lines(tmp_path / 'run'), str(archive.config())]
    assert set(outcomes) == set(servers)
    assert outcomes['answer'] == 'ok'
    file = tmp_path / 'config.py'
    file.write_text('\n'.join(f'{name} = {value!r}' for name, value in config.items()))
    main(['config', 'show', str(file)])
    main(['config', 'show', '--json', str(file)])
    said = capsys.readouterr()
    remembered = (tmp_path / 'cache' / 'servers.json').read_text('utf-8')
    everything = '\n'.join([*map(str, shown), *texts_in(tmp_path / 'run'), said.out, said.err, remembered])
    assert '[key]' in everything or '***' in everything
    found = [spelling for spelling in spellings(secret) if spelling in everything]
    assert found == [], [everything[max(0, (at := everything.index(one)) - 80) : at + 80] for one in found]


def test_a_judge_that_echoes_the_keys_of_others_shows_none(tmp_path: Path) -> None:
    def respond(send: Send, request: bytes) -> None:
        as_json(text_reply(f'[A] {SECRET} {HEADER}' if b'judge' in request else 'x'))(send, request)

    with raw_server(respond) as url:
        judge = {'type': 'OpenAI', 'path': 'judge', 'url': url, 'key': 'own-key-1'}
        rows = dataset([{'question': 'Q', 'answer': 'A'}], '{question}')
        rows['eval_cfg'] = {'evaluator': {'type': 'GenericLLMEvaluator', 'judge_cfg': judge}}
        model = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'url': url, 'key': HEADER}
        run_config({'models': [model], 'datasets': [rows], 'HF_TOKEN': SECRET}, out=tmp_path)
    everything = '\n'.join(texts_in(tmp_path))
    assert '[A] [key] [key]' in everything
    assert [spelling for secret in (SECRET, HEADER) for spelling in spellings(secret) if spelling in everything] == []


@pytest.mark.parametrize('status', ['400 Bad Request', '200 OK'])
@pytest.mark.parametrize('kind', ['text', 'message', 'code'])
def test_no_part_of_a_secret_is_left_where_an_error_is_shortened(tmp_path: Path, status: str, kind: str) -> None:
    secret = 'zQ9-secret-<b>-K7-which-is-long'

    def respond(send: Send, request: bytes) -> None:
        texts = [f'{"a" * before}{secret}' for before in (0, 65, 390)]
        text = texts[int(request.split(b'place ')[1][:1]) if b'place ' in request else 0]
        body = text.encode() if kind == 'text' else json.dumps({'error': {kind: text}}).encode()
        send(b'HTTP/1.1 %b\r\nContent-Length: %d\r\n\r\n' % (status.encode(), len(body)) + body)

    with raw_server(respond) as url:
        rows = dataset([{'question': f'place {place}', 'answer': 'A'} for place in range(3)], '{question}')
        model = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'url': url, 'key': secret, 'retry': 0}
        run_config({'models': [model], 'datasets': [rows]}, out=tmp_path)
    everything = '\n'.join(texts_in(tmp_path))
    assert '[key]' in everything
    assert 'zQ9' not in everything


REDIRECTED: dict[str, Callable[[str, Path], Any]] = {
    'chat': lambda url, folder: ask({'type': 'OpenAI', 'path': 'toy', 'url': f'{url}/v1', 'key': HEADER}),
    'headers': lambda url, folder: ask(
        {'type': 'OpenAI', 'path': 'toy', 'url': f'{url}/v1', 'key': '', 'headers': {'X-Key': HEADER}}
    ),
    'responses': lambda url, folder: ask(
        {'type': 'OpenAI', 'path': 'toy', 'url': f'{url}/v1/responses', 'key': HEADER}
    ),
    'anthropic': lambda url, folder: ask({'type': 'Claude', 'path': 'toy', 'url': url, 'key': HEADER}),
    'module': lambda url, folder: rolecall.OnlineChatModule(base_url=f'{url}/v1', model='toy', api_key=HEADER)(
        'Hello?'
    ),
    'batch': lambda url, folder: run_config(
        {
            'models': [{'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'url': f'{url}/v1', 'key': HEADER, 'retry': 0}],
            'datasets': [dataset([{'question': 'Q', 'answer': 'A'}], '{question}')],
        },
        out=folder,
        batch=True,
    ),
    'MCP server': lambda url, folder: McpTools(f'{url}/mcp', headers={'X-Key': HEADER}, timeout=10).start(),
}


def ask(entry: dict[str, Any]) -> Any:
    async def generate() -> Any:
        model = build_model({**entry, 'retry': 0}, name='m')
        try:
            return await model.generate([[{'role': 'user', 'content': 'Hello'}]], Sampling())
        finally:
            await model.close()

    return asyncio.run(generate())


@pytest.mark.parametrize('status', [301, 307, 308])
@pytest.mark.parametrize('client', REDIRECTED)
def test_no_client_sends_its_key_on_to_where_a_server_redirects(client: str, status: int, tmp_path: Path) -> None:
    received: list[tuple[str, str]] = []

    def recording(name: str, *, other: str = '') -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.Response:
            received.append((name, str(request.headers)))
            return web.json_response({}, status=status, headers={'Location': f'{other}{request.path}'})

        return answer

    with (
        running(recording('second')) as second,
        running(recording('first', other=second)) as first,
        suppress(Exception),
    ):
        REDIRECTED[client](first, tmp_path)
    assert {name for name, _ in received} == {'first'}
    assert any(HEADER in headers for _, headers in received)


@pytest.mark.parametrize(
    ('name', 'secret'),
    [
        ('key', True),
        ('openai_api_key', True),
        ('HF_TOKEN', True),
        ('X-Auth', True),
        ('proxyPassword', True),
        ('aws_secret_access_key', True),
        ('Set-Cookie', True),
        ('db_pw', True),
        ('git_cred', True),
        ('GITHUB_PAT', True),
        ('answer_pat', False),
        ('pass_k', False),
        ('max_tokens', False),
        ('max_tokens_key', False),
        ('tokenizer', False),
        ('tokenizer_path', False),
        ('bos_token', False),
        ('ice_token', False),
        ('keyboard', False),
        ('author', False),
        ('monkey', False),
    ],
)
def test_names_say_what_is_secret(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@given(
    secret=st.text(st.characters(codec='utf-8', exclude_categories=['Cs']), min_size=6, max_size=30),
    before=st.text(max_size=4),
    after=st.text(max_size=4),
)
def test_a_secret_is_found_in_every_spelling(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    whole = before + secret + after
    for written in (whole, json.dumps(whole), json.dumps(whole, ensure_ascii=False), quote(whole, safe='')):
        assert '[key]' in redactor.redact(written)
    assert '[key]' in redactor.redact(escape(whole))
    data = whole.encode('utf-8', 'replace')
    assert '[key]' in redactor.redact(data.hex())
    assert '[key]' in redactor.redact(base64.b64encode(data).decode())
    assert '[key]' in redactor.redact(base64.urlsafe_b64encode(data).decode())


@pytest.mark.parametrize(
    'value',
    [
        'sk-abc123def456',
        '7f3a9c2e11bb4d',
        '3f2504e0-4f89-11d3-9a0c-0305e82c3301',
        '8675309867530912',
        'correcthorsebattery',
    ],
)
def test_a_header_or_query_value_that_may_be_a_key_is_hidden_whatever_its_name(value: str) -> None:
    assert value in find_secrets({'headers': {'X-Vendor': value}})
    assert value in find_secrets({'headers': {'X-Vendor': f'sid={value}; theme=dark'}})
    assert value in find_secrets({'url': f'https://h/v1?v={value}'})


def test_columns_of_inline_rows_are_data_whatever_their_names() -> None:
    assert find_secrets({'datasets': [{'test': [{'key': 'Paris'}], 'train': [{'token': 'London'}]}]}) == set()


def test_what_is_no_secret_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {
        'url': 'https://h/v1?api-version=2024-02-01',
        'headers': {
            'Accept': 'application/json',
            'X-Mode': 'fast',
            'Cache-Control': 'no-cache',
            'Beta': 'files-api-2025-04-14',
        },
        'key': 'ENV',
        'tokenizer_path': 'models/qwen',
        'eos_token': '<|im_end|>',
        'max_tokens_key': 'max_tokens',
    }
    assert find_secrets(entry) == set()
    monkeypatch.setenv('EDITOR', 'a-long-editor-name-1')
    assert 'a-long-editor-name-1' not in environment_secrets()
    masked = mask_config(entry)
    assert masked['url'] == entry['url']
    assert masked['key'] == 'ENV'
    assert masked['headers'] == dict.fromkeys(entry['headers'], '***')  # type: ignore[arg-type]


def test_a_config_that_contains_itself_is_masked_to_a_depth() -> None:
    config: dict[str, Any] = {'key': 'sk-123456'}
    config['again'] = config
    assert 'sk-123456' not in str(mask_config(config))[:5000]


# -- texts that come in pieces -----------------------------------------------------------------------------------------


@given(
    st.lists(st.sampled_from('ab-+"/x '), max_size=30).map(''.join),
    st.lists(st.text('ab-+"/', min_size=4, max_size=8), min_size=1, max_size=3),
    st.data(),
)
def test_pieces_are_redacted_as_the_whole_text_is(text: str, secrets: list[str], data: st.DataObject) -> None:
    for secret in secrets:
        at = data.draw(st.integers(0, len(text)))
        text = text[:at] + secret + text[at:]
    shown: list[str] = []
    pieces = StreamRedactor(Redactor(secrets), shown.append)
    left = text
    while left:
        size = data.draw(st.integers(1, 5))
        pieces.take(left[:size])
        left = left[size:]
    pieces.finish()
    assert ''.join(shown) == Redactor(secrets).redact(text)


@pytest.mark.parametrize('make', ['OpenAI', 'Claude'])
def test_a_streamed_answer_shows_no_secret_even_if_it_is_split(make: str) -> None:
    secret = 'sk-very secret-4711'  # the server sends word by word
    with serve(f'Your key is {secret}, is it? sk-very good.') as server:
        entry = {'type': make, 'path': 'toy', 'base_url': server.url, 'key': 'k'}
        model = build_model(entry, name='m')
        model.add_secrets([secret])  # type: ignore[attr-defined]
        shown: list[str] = []
        request = [{'role': 'user', 'content': 'hello'}]

        async def ask() -> Any:
            try:
                return await model.stream(request, Sampling(max_out_len=9), shown.append)  # type: ignore[attr-defined]
            finally:
                await model.close()

        reply = asyncio.run(ask())
    assert ''.join(shown) == reply.text == 'Your key is [key], is it? sk-very good.'


def test_the_working_folder_is_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('PWD', '/home/me/project')
    monkeypatch.setenv('DATABASE_PWD', 'a-real-password')
    assert '/home/me/project' not in environment_secrets()
    assert 'a-real-password' in environment_secrets()


def test_answers_under_a_question_about_passwords_are_no_secrets() -> None:
    question = (
        'Which of these two replies explains better how to choose a password and where to keep the key of a house?'
    )
    assert find_secrets({question: '[[A]]', (question, 'x'): '[[B]]', 'password': 'hunter22'}) == {'hunter22'}


@pytest.mark.parametrize(
    ('url', 'secrets'),
    [
        ('https://hooks.slack.com/services/T024BE7LD/B0HJKL3M4/{}', ['X' * 24]),
        ('https://discord.com/api/webhooks/123456789012345678/{}', ['abcDEF-ghi_JKLmnopqrstuvwxyz0123']),
        (
            'https://acme.webhook.office.com/webhookb2/{}/IncomingWebhook/0123456789abcdef/{}',
            ['6b2e7c1a-11', '8b2e-4444'],
        ),
        ('https://api.telegram.org/{}/sendMessage', ['bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw']),
        ('https://maker.ifttt.com/trigger/done/with/key/{}', ['bXmABCDEFGHIJKLMNOPQR']),
        ('https://open.feishu.cn/open-apis/bot/v2/hook/{}', ['6b2e7c1a-1111-2222-3333-444455556666']),
        ('https://chat.example.com/hooks/{}', ['3g7y5z1x9w8v7u6t5s4r3q2p1o']),
        ('https://files.example.com/d/{}/view', ['1A2b3C4d5E6f7G8h9I0jKLmnOPqr']),
        ('https://huggingface.co/meta-llama/Meta-Llama-3.1-405B-Instruct-FP8/resolve/main/config.json', []),
        ('https://example.com/datasets/x/resolve/3f2a9c2e11bb3f2a9c2e11bb3f2a9c2e11bb3f2a/data.jsonl', []),
    ],
)
def test_secrets_in_the_path_of_a_webhook_are_hidden_whatever_names_it(
    url: str, secrets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = url.format(*secrets)
    shown = json.dumps(mask_config({'notify': url}))
    assert find_secrets({'notify': url}).issuperset(secrets)
    assert [secret for secret in secrets if secret in shown] == []
    assert ('***' in shown) == bool(secrets)
    monkeypatch.setenv('ALERTS', url)
    assert environment_secrets().issuperset(secrets)
