"""What every API model shares: addresses, keys, streams, failures, pace."""

from __future__ import annotations

import asyncio
import socket
import time
import traceback
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolecall.errors import ConfigError
from rolecall.models.http.address import read_address
from rolecall.models.http.body import EVENT_END, EventReader
from rolecall.models.http.connection import _is_final, run_together
from rolecall.models.http.failures import retry_after
from rolecall.models.openai.model import build
from rolecall.models.protocol import ModelError, Reply, Sampling
from servers import in_order, serve

KEY = 'sk-very-secret-0123456789'
HELLO = [{'role': 'user', 'content': 'Hello'}]


def ask(entry: dict[str, Any], request: Any = HELLO, **sampling: Any) -> Reply:
    """One request through a model made from the entry."""

    async def run() -> Reply:
        model = build({'type': 'OpenAI', 'path': 'toy', 'key': KEY, **entry}, name='toy')
        try:
            return (await model.generate([request], Sampling(**sampling)))[0]
        finally:
            await model.close()

    return asyncio.run(run())


def failure(entry: dict[str, Any], request: Any = HELLO) -> ModelError:
    with pytest.raises(ModelError) as caught:
        ask(entry, request)
    return caught.value


@pytest.mark.parametrize(
    ('written', 'root'),
    [
        ('http://h:8000', 'http://h:8000/v1'),
        ('http://h:8000/', 'http://h:8000/v1'),
        ('http://h:8000/v1', 'http://h:8000/v1'),
        ('http://h:8000/v1/', 'http://h:8000/v1'),
        ('http://h:8000//v1//', 'http://h:8000/v1'),
        (' http://h:8000/v1/chat/completions ', 'http://h:8000/v1'),
        ('http://h:8000/v1/chat/completions/', 'http://h:8000/v1'),
        ('http://h:8000/v1/completions', 'http://h:8000/v1'),
        ('http://h/prefix', 'http://h/prefix/v1'),
        ('http://h/prefix/v1', 'http://h/prefix/v1'),
        ('http://h/chat/completions', 'http://h'),
        ('https://example.com/api/paas/v4/', 'https://example.com/api/paas/v4'),
        ('https://example.com/v1beta/openai/', 'https://example.com/v1beta/openai'),
        ('https://example.com/compatible-mode/v1', 'https://example.com/compatible-mode/v1'),
        ('http://[::1]:8000/v1', 'http://[::1]:8000/v1'),
    ],
)
def test_every_spelling_of_a_base_url_leads_to_the_same_endpoint(written: str, root: str) -> None:
    address = read_address(written, endpoints=('chat/completions', 'completions'))
    assert address.endpoint('chat/completions') == f'{root}/chat/completions'


def test_the_query_of_a_url_is_sent_and_its_login_is_not_shown() -> None:
    address = read_address(
        'https://me:pass@h/openai/deployments/x/chat/completions?api-version=1', endpoints=('chat/completions',)
    )
    assert address.endpoint('chat/completions') == 'https://h/openai/deployments/x/chat/completions?api-version=1'
    assert address.credentials == ('me', 'pass')
    assert 'pass' not in repr(address)


@pytest.mark.parametrize('written', ['h:8000', 'ftp://h', 'http://', 'http://h:99999', '', 'YOUR_API_BASE'])
def test_what_is_no_address_is_refused_before_the_run(written: str) -> None:
    with pytest.raises(ConfigError, match=r'toy\.base_url'):
        build({'type': 'OpenAI', 'path': 'toy', 'base_url': written or 'x'}, name='toy')


@pytest.mark.parametrize(
    ('entry', 'root'),
    [
        ({'type': 'VLLMCustomAPIChat', 'host_ip': '10.0.0.1', 'host_port': 9000}, 'http://10.0.0.1:9000/v1'),
        ({'type': 'VLLMCustomAPIChat', 'host_ip': '::1', 'host_port': 9000}, 'http://[::1]:9000/v1'),
        ({'type': 'VLLMCustomAPIChat', 'host_ip': 'h', 'host_port': 1, 'enable_ssl': True}, 'https://h:1/v1'),
        ({'type': 'VLLMCustomAPIChat', 'host_ip': 'h', 'host_port': 1, 'url': 'other:2'}, 'http://other:2/v1'),
        ({'type': 'VLLMCustomAPI', 'url': ''}, 'http://localhost:8080/v1'),
        ({'type': 'OpenAI', 'path': 'x', 'openai_api_base': 'http://h/v1/chat/completions'}, 'http://h/v1'),
        ({'type': 'OpenAISDK', 'path': 'x', 'openai_api_base': ['http://h/v1/']}, 'http://h/v1'),
        ({'type': 'OpenAI', 'path': 'x'}, 'https://api.openai.com/v1'),
    ],
)
def test_entries_of_every_kind_name_their_server(
    entry: dict[str, Any], root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv('OPENAI_BASE_URL', raising=False)
    assert build(entry, name='m').identity['server'] == root


@pytest.mark.parametrize(
    ('key', 'environment', 'sent'),
    [
        ('ENV', {'OPENAI_API_KEY': 'from-env'}, 'Bearer from-env'),
        (None, {'OPENAI_API_KEY': 'from-env'}, None),
        ('MY_KEY', {'MY_KEY': 'mine'}, 'Bearer mine'),
        ('$mine', {}, None),
        ('sk-literal', {'OPENAI_API_KEY': 'from-env'}, 'Bearer sk-literal'),
        ('EMPTY', {}, 'Bearer EMPTY'),
        ('', {'OPENAI_API_KEY': 'from-env'}, None),
        (None, {}, None),
        ('ENV', {'OPENAI_API_KEY': ' padded\n'}, 'Bearer padded'),
    ],
)
def test_a_key_is_a_literal_or_stands_in_the_environment(
    key: str | None, environment: dict[str, str], sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with serve() as server:
        if key == '$mine':
            assert 'mine is not set' in str(failure({'base_url': server.url, 'key': key}))
            return
        ask({'base_url': server.url, 'key': key})
        assert server.calls[0].headers.get('Authorization') == sent


@pytest.mark.parametrize('key', ['ENV', 'YOUR_API_KEY', '$SOME_KEY', 'SOME_TOKEN'])
def test_a_variable_that_is_not_set_is_named(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    error = failure({'base_url': 'http://127.0.0.1:9', 'key': key})
    assert 'is not set' in str(error)
    assert not error.transient


def test_a_key_in_the_environment_goes_to_the_server_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', 'from-env')
    with serve(key='from-env') as server:
        monkeypatch.setenv('OPENAI_BASE_URL', f'{server.url}/')
        ask({'key': None})
        ask({'base_url': f'{server.url}/v1', 'key': None})
        monkeypatch.setenv('OPENAI_BASE_URL', 'no address')
        error = failure({'base_url': server.url, 'key': None})
        assert "OPENAI_API_KEY was not sent: it may belong to another server. Set key='ENV'" in str(error)
        ask({'base_url': server.url, 'key': 'ENV'})
        sent = [call.headers.get('Authorization') for call in server.calls]
    assert sent == ['Bearer from-env', 'Bearer from-env', None, 'Bearer from-env']


def test_the_official_server_is_not_asked_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv('OPENAI_API_KEY', raising=False)
    assert 'OPENAI_API_KEY' in str(failure({'base_url': 'https://api.openai.com', 'key': None}))


def test_several_keys_take_turns() -> None:
    async def run(url: str) -> None:
        model = build({'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': ['key-a', 'key-b']}, name='toy')
        for _ in range(3):
            await model.generate([HELLO], Sampling())
        await model.close()

    with serve() as server:
        asyncio.run(run(server.url))
        assert [call.headers['Authorization'][-1] for call in server.calls] == ['a', 'b', 'a']


def _everything_shown(error: BaseException) -> str:
    return repr(error) + ''.join(traceback.format_exception(type(error), error, error.__traceback__))


@pytest.mark.parametrize(
    'fault', ['401', '400', '500', 'rate_limit', 'drop', 'malformed', 'truncated', 'echo', 'refused']
)
def test_a_key_appears_in_no_error_repr_log_or_identity(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level('DEBUG')
    with serve(
        key='another' if fault == 'echo' else None, faults=in_order(fault) if fault != 'echo' else None
    ) as server:
        entry = {
            'base_url': 'http://127.0.0.1:9/v1' if fault == 'refused' else server.url,
            'headers': {'x-token': 'tok-42424242'},
        }
        error = failure(entry)
        model = build({'type': 'OpenAI', 'path': 'toy', 'key': KEY, **entry}, name='toy')
        shown = [_everything_shown(error), repr(model), str(model.identity), caplog.text]
        assert not any(secret in text for text in shown for secret in (KEY, 'tok-42424242'))
    if fault == 'echo':
        assert '[key]' in str(error)


@pytest.mark.parametrize(
    ('fault', 'transient', 'status'),
    [
        ('rate_limit', True, 429),
        ('408', True, 408),
        ('409', True, 409),
        ('error', True, 500),
        ('502', True, 502),
        ('529', True, 529),
        ('drop', True, None),
        ('malformed', True, 200),
        ('truncated', True, None),
        ('empty', True, 200),
        ('400', False, 400),
        ('401', False, 401),
        ('403', False, 403),
        ('404', False, 404),
        ('422', False, 422),
    ],
)
def test_failures_say_whether_to_try_again(fault: str, transient: bool, status: int | None) -> None:
    with serve(faults=in_order(fault)) as server:
        error = failure({'base_url': server.url})
        assert (error.transient, error.status) == (transient, status)
        assert server.url in str(error)
        assert "'toy'" in str(error)
        if fault.isdecimal():
            assert f'This is a {fault}' in str(error)


@pytest.mark.parametrize(
    ('written', 'low', 'high'),
    [
        ('7', 7, 7),
        ('0.5', 0.5, 0.5),
        (format_datetime(datetime.now(timezone.utc) + timedelta(seconds=3000), usegmt=True), 60, 3001),
        (format_datetime(datetime.now(timezone.utc) - timedelta(seconds=3000), usegmt=True), 0, 0),
    ],
    ids=['seconds', 'part of a second', 'a date to come', 'a date gone by'],
)
def test_retry_after_is_seconds_or_a_date(written: str, low: float, high: float) -> None:
    with serve(faults=in_order('rate_limit'), retry_after=written) as server:
        error = failure({'base_url': server.url})
        assert error.retry_after is not None
        assert low <= error.retry_after <= high


@pytest.mark.parametrize('written', ['soon', '-1', 'nan', 'inf', ''])
def test_a_retry_after_that_means_nothing_is_passed_over(written: str) -> None:
    assert retry_after({'Retry-After': written}) is None


def test_an_account_without_credit_is_not_asked_again() -> None:
    from aiohttp import web

    refused = {'error': {'message': 'You exceeded your current quota', 'code': 'insufficient_quota'}}
    with serve(lambda _body: web.json_response(refused, status=429)) as server:
        error = failure({'base_url': server.url})
    assert not error.transient
    assert 'out of credit' in str(error)


def test_a_server_that_is_not_there_is_named() -> None:
    error = failure({'base_url': 'http://127.0.0.1:9/v1'})
    assert error.transient
    assert 'http://127.0.0.1:9/v1' in str(error)
    assert 'is unreachable' in str(error)


def test_a_slow_server_is_a_time_out() -> None:
    with serve(faults=in_order('hang')) as server:
        error = failure({'base_url': server.url, 'timeout': 0.2})
    assert error.transient
    assert 'within 0.2 seconds' in str(error)


def test_an_unknown_model_is_named() -> None:
    with serve() as server:
        error = failure({'base_url': server.url, 'path': 'nobody'})
    assert not error.transient
    assert "model 'nobody': there is no such model, or the base URL is wrong (404)" in str(error)
    assert 'does not exist' in str(error)


def test_a_key_is_not_carried_to_where_a_server_redirects() -> None:
    from aiohttp import web

    with serve() as target:
        moved = web.Response(status=307, headers={'Location': f'{target.url}/v1/chat/completions?secret=1'})
        with serve(lambda _body: moved) as server:
            error = failure({'base_url': server.url})
        assert target.calls == []
    assert f'{target.url}/v1/chat/completions: use that' in str(error)
    assert 'secret' not in str(error)


@pytest.mark.parametrize(('code', 'final'), [(socket.EAI_NONAME, True), (socket.EAI_AGAIN, False)])
def test_a_host_that_does_not_exist_is_not_asked_for_again(code: int, final: bool) -> None:
    import aiohttp

    key = aiohttp.client_reqrep.ConnectionKey('nowhere.invalid', 80, False, True, None, None, None)
    assert _is_final(aiohttp, aiohttp.ClientConnectorDNSError(key, socket.gaierror(code, 'x'))) is final


@given(st.lists(st.text(max_size=12), max_size=8), st.data())
def test_events_do_not_depend_on_how_the_bytes_arrive(texts: list[str], data: st.DataObject) -> None:
    events = [text.encode().replace(b'\n', b' ').replace(b'\r', b' ') for text in texts]
    stream = b''.join(b'id: 1\r\ndata: %b\r\n\r\n' % event for event in events)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    reader = EventReader()
    found: list[bytes] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[start:stop])
    assert [*found, *reader.feed(EVENT_END)] == events


def test_an_event_may_have_several_lines_of_data() -> None:
    assert EventReader().feed(b'event: x\ndata: {\ndata: }\n\n: comment\n\n') == [b'{\n}']


def test_requests_are_spread_evenly_where_the_entry_limits_them() -> None:
    async def run(url: str) -> float:
        entry = {'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': KEY, 'query_per_second': 50}
        model = build(entry, name='toy')
        started = time.perf_counter()
        await model.generate([HELLO] * 11, Sampling())
        await model.close()
        return time.perf_counter() - started

    with serve() as server:
        assert asyncio.run(run(server.url)) >= 0.2


def test_a_model_outlives_its_event_loop() -> None:
    with serve() as server:
        model = build({'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': KEY}, name='toy')

        async def run() -> str:
            try:
                return (await model.generate([HELLO], Sampling()))[0].text
            finally:
                await model.close()

        assert [asyncio.run(run()) for _ in range(2)] == ['Answer to Hello'] * 2


def test_connections_are_kept_and_used_again() -> None:
    async def run(url: str) -> set[str]:
        model = build({'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': KEY}, name='toy')
        for _ in range(5):
            await model.generate([HELLO], Sampling())
        session = next(iter(model._client._sessions.values()))  # type: ignore[attr-defined]
        kept = {str(connection) for pool in session.connector._conns.values() for connection, _ in pool}
        await model.close()
        return kept

    with serve() as server:
        assert len(asyncio.run(run(server.url))) == 1


def test_when_one_of_several_calls_fails_the_others_are_stopped() -> None:
    stopped = []

    async def fails() -> None:
        raise ModelError('no')

    async def waits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            stopped.append(True)
            raise

    with pytest.raises(ModelError, match='no'):
        asyncio.run(together_of(waits, fails))
    assert stopped == [True]


async def together_of(*functions: Any) -> list[Any]:
    return await run_together([function() for function in functions])


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy of the machine must not be asked for what is on loopback."""
    monkeypatch.setenv('http_proxy', 'http://127.0.0.1:9')
