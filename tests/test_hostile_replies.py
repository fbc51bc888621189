"""Replies made to break a run: the row fails and says why, memory stays bounded, everything else carries on."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from hostile import Respond, Send, as_json, bomb, endless, http, peak_memory, raw_server
from rolecall.models.backends import build_model
from rolecall.models.http.body import UnreadableReplyError
from rolecall.models.http.failures import retry_after
from rolecall.models.protocol import ModelError, Reply, Sampling
from rolecall.runs.client.retry import Attempts, Retrier, RetryPolicy

DEEP = b'[' * 100_000 + b']' * 100_000
MESSAGES: list[Any] = [{'role': 'user', 'content': 'Hi'}]
LIMIT = 1 << 20


def ask(respond: Respond, **entry: Any) -> Reply:
    """The reply to one request; an error is raised."""

    async def once(url: str) -> Reply:
        model = build_model(
            {'type': 'OpenAI', 'path': 'toy', 'key': 'k', 'timeout': 20} | entry | {'url': url}, name='m'
        )
        try:
            [reply] = await model.generate([MESSAGES], Sampling())
            return reply
        finally:
            await model.close()

    with raw_server(respond) as url:
        return asyncio.run(once(url))


def openai(**choice: Any) -> dict[str, Any]:
    return {'choices': [{'message': {'content': 'Four'}, 'finish_reason': 'stop'} | choice]}


def tool_call(arguments: Any) -> dict[str, Any]:
    return {'id': '1', 'type': 'function', 'function': {'name': 'f', 'arguments': arguments}}


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def events(*data: bytes) -> Respond:
    return http(b''.join(b'data: ' + one + b'\n\n' for one in data), kind='text/event-stream')


FAILING: dict[str, tuple[Respond, dict[str, Any], str]] = {
    'deep reply': (http(DEEP), {}, 'nested too deeply'),
    'deep reply, streamed': (events(DEEP), {'stream': True}, 'nested too deeply'),
    'deep error': (http(DEEP, status='400 Bad Request'), {}, 'the request was refused (400)'),
    'deep error message': (
        http(b'{"error": {"message": ' + DEEP + b'}}', status='400 Bad Request'),
        {},
        'the request was refused (400)',
    ),
    'deep error in a 200': (http(b'{"error": ' + b'[' * 900 + b']' * 900 + b'}'), {}, 'the server failed (500)'),
    'deep content': (as_json(openai(message={'content': deep(900)})), {}, 'cannot be read'),
    'deep finish_reason': (as_json(openai(finish_reason=deep(900))), {}, ''),
    'deep tool call': (
        as_json(openai(message={'tool_calls': [tool_call(deep(900))]})),
        {},
        'nested more than 100 deep',
    ),
    'deep reply of Anthropic': (http(DEEP), {'type': 'Claude'}, 'nested too deeply'),
    'deep tool input of Anthropic': (
        as_json({'content': [{'type': 'tool_use', 'id': '1', 'name': 'f', 'input': deep(900)}]}),
        {'type': 'Claude'},
        'nested more than 100 deep',
    ),
    'a code of 5,000 digits': (
        as_json({'error': {'code': '9' * 5000, 'message': 'no'}}),
        {},
        'the server failed (500)',
    ),
    'a number of 5,000 digits': (http(b'{"choices": ' + b'9' * 5000 + b'}'), {}, 'not JSON'),
    'events that are not objects': (events(b'5'), {'stream': True}, 'cannot be read'),
    'an index that is a list': (
        events(b'{"choices": [{"index": [], "delta": {"content": "x"}}]}'),
        {'stream': True},
        'cannot be read',
    ),
    'indexes of several types': (
        events(b'{"choices": [{"index": 1, "delta": {}}, {"index": "a", "delta": {}}]}', b'[DONE]'),
        {'stream': True},
        'cannot be read',
    ),
    'a packing that was not asked for': (http(b'x', Content_Encoding='br'), {}, 'cannot be unpacked'),
    'gzip that is none': (http(b'{"choices": 1}', Content_Encoding='gzip'), {}, 'cannot be unpacked'),
    'gzip cut off': (http(gzip.compress(b'{}' * 999)[:-9], Content_Encoding='gzip'), {}, 'cannot be read'),
    'a null byte as reply': (http(b'\0'), {}, 'not JSON'),
}


@pytest.mark.parametrize('case', FAILING)
def test_a_reply_made_to_break_the_reader_fails_the_row_and_says_why(case: str) -> None:
    respond, entry, why = FAILING[case]
    if not why:
        assert len(ask(respond, **entry).reason) <= 400
        return
    with pytest.raises(ModelError) as raised:
        ask(respond, **entry)
    assert why in str(raised.value)
    assert len(str(raised.value)) < 1000


LARGE: dict[str, tuple[Respond, dict[str, Any]]] = {
    'endless': (endless(b'x' * 65536), {}),
    'endless spaces': (endless(b' ' * 65536), {}),
    'endless stream without line breaks': (
        endless(b'data: ' + b'x' * 65536, kind='text/event-stream'),
        {'stream': True},
    ),
    'endless stream of comments': (endless(b': ping\n\n' * 999, kind='text/event-stream'), {'stream': True}),
    'endless stream of data lines': (endless(b'data: x\n' * 999, kind='text/event-stream'), {'stream': True}),
    'gzip bomb': (http(bomb(100), Content_Encoding='gzip'), {}),
    'deflate bomb': (http(bomb(100, 15), Content_Encoding='deflate'), {}),
    'raw deflate bomb': (http(bomb(100, -15), Content_Encoding='deflate'), {}),
    'large reply': (as_json(openai(message={'content': 'x' * 9_000_000})), {}),
    'endless, Anthropic': (endless(b'x' * 65536), {'type': 'Claude'}),
}


@pytest.mark.parametrize('case', LARGE)
def test_a_reply_larger_than_the_bound_fails_the_row_in_constant_memory(case: str) -> None:
    respond, entry = LARGE[case]
    with peak_memory() as peak, pytest.raises(ModelError, match=r'reply larger than 1,048,576 bytes') as raised:
        ask(respond, max_reply_bytes=LIMIT, **entry)
    assert not raised.value.transient
    assert peak() < 12 * LIMIT


@pytest.mark.parametrize('respond', [endless(b'x' * 65536), http(bomb(100), Content_Encoding='gzip')])
def test_an_error_reply_without_end_is_read_only_as_far_as_it_explains(respond: Respond) -> None:
    def refuse(send: Send, request: bytes) -> None:
        respond(lambda data: send(data.replace(b'200 OK', b'400 Bad Request')), request)

    with peak_memory() as peak, pytest.raises(ModelError, match=r'the request was refused \(400\)'):
        ask(refuse)
    assert peak() < 8 * LIMIT


@pytest.mark.parametrize('encoding', ['gzip', 'deflate', 'identity'])
def test_packed_replies_are_unpacked(encoding: str) -> None:
    body = json.dumps(openai(message={'content': 'naïve ' * 50_000})).encode()
    packed = {'gzip': gzip.compress, 'deflate': zlib.compress}.get(encoding, bytes)(body)
    assert ask(http(packed, Content_Encoding=encoding)).text == 'naïve ' * 50_000


@pytest.mark.parametrize(
    ('reported', 'read'),
    [
        (10**400, None),
        (-5, None),
        (1.5, None),
        ('12', None),
        (True, None),
        ([], None),
        (10**13, None),
        (12, 12),
        (0, 0),
    ],
)
def test_a_token_count_that_is_no_sane_number_is_unknown(reported: Any, read: int | None) -> None:
    usage = {
        'prompt_tokens': reported,
        'completion_tokens': reported,
        'prompt_tokens_details': {'cached_tokens': reported},
    }
    found = ask(as_json(openai() | {'usage': usage})).usage
    assert (found.input_tokens, found.output_tokens, found.cached_tokens) == (read, read, read)
    blocks = [{'type': 'text', 'text': 'Four'}]
    counts = {'input_tokens': reported, 'output_tokens': reported}
    found = ask(as_json({'content': blocks, 'usage': counts}), type='Claude').usage
    assert (found.input_tokens, found.output_tokens) == (read, read)


def test_tool_arguments_nested_too_deeply_stay_text() -> None:
    reply = ask(as_json(openai(message={'tool_calls': [tool_call(DEEP.decode())]})))
    assert reply.tool_calls[0]['function']['arguments'] == DEEP.decode()
    reply = ask(as_json(openai(message={'tool_calls': [tool_call(json.dumps(deep(200)))]})))
    assert isinstance(reply.tool_calls[0]['function']['arguments'], str)


@pytest.mark.parametrize(
    'written',
    [
        'Wed, 21 Oct 2026 07:28:00 +9999999999',
        'Wed, 21 Oct 99999 07:28:00 GMT',
        'Wed, 21 Oct 0001 00:00:00 +2359',
        'Fri, 31 Dec 9999 23:59:59 -2359',
        '9' * 400,
        '9' * 5000,
        '1e300',
        '-1e300',
    ],
)
def test_an_absurd_retry_after_is_bounded_or_ignored(written: str) -> None:
    assert 0 <= (retry_after({'Retry-After': written}) or 0) <= 86_400
    assert 0 <= (retry_after({'retry-after-ms': written}) or 0) <= 86_400
    with pytest.raises(ModelError, match=r'too many requests \(429\)') as raised:
        ask(http(b'', status='429 Too Many Requests', Retry_After=written))
    assert 0 <= (raised.value.retry_after or 0) <= 86_400


@pytest.mark.parametrize(
    'logprobs',
    [
        {'tokens': ['H', 'i'], 'token_logprobs': [None, 'x']},
        {'tokens': ['H', 'i'], 'token_logprobs': [None, 1e300]},
        {'tokens': ['H', 'token_id:' + '9' * 400], 'token_logprobs': [None, -1.0]},
        {'tokens': ['H', 5], 'token_logprobs': [None, -1.0]},
        {'tokens': 5, 'token_logprobs': 5},
        [],
    ],
)
def test_log_probabilities_that_are_none_are_an_error(logprobs: Any) -> None:
    async def score(url: str) -> Any:
        model = build_model({'type': 'OpenAICompletions', 'path': 'toy', 'score': 'echo', 'url': url}, name='m')
        try:
            return await model.score(['Hi'])
        finally:
            await model.close()

    answer = {'choices': [{'text': 'Hi', 'logprobs': logprobs}]}
    with raw_server(as_json(answer)) as url, pytest.raises(ModelError) as raised:
        asyncio.run(score(url))
    assert 'cannot be read' in str(raised.value) or 'no prompt log-probabilities' in str(raised.value)


def test_one_hostile_reply_does_not_stop_a_run_or_its_report(tmp_path: Path) -> None:
    from rolecall.runs.run import run_config
    from rolecall.runs.store.run_reader import RunReader
    from rolecall.ui.report import StoredRun, report_html, report_markdown
    from test_runs import dataset

    def respond(send: Send, request: bytes) -> None:
        hostile = {b'row 3': http(DEEP), b'row 5': endless(b'x' * 65536)}
        for marker, answer in hostile.items():
            if marker in request:
                return answer(send, request)
        counts = {'prompt_tokens': 10**400, 'completion_tokens': 2}
        return as_json(openai(message={'content': 'Four'}) | {'usage': counts})(send, request)

    with raw_server(respond) as url:
        rows = [{'question': f'row {number}', 'answer': 'Four'} for number in range(8)]
        model = {
            'abbr': 'm',
            'type': 'OpenAI',
            'path': 'toy',
            'url': url,
            'key': 'k',
            'retry': 1,
            'max_reply_bytes': LIMIT,
        }
        summary = run_config({'models': [model], 'datasets': [dataset(rows, '{question}')]}, out=tmp_path)
    assert summary is not None
    with RunReader(tmp_path) as archive:
        stored = StoredRun(archive)
        page, text = report_html(stored), report_markdown(stored)
        outcomes = [result.outcome for result in archive.results()]
    assert sorted(outcomes) == ['failed'] * 2 + ['ok'] * 6
    assert 'reply larger than' in page
    assert 'nested too deeply' in page
    assert text


@pytest.mark.parametrize(
    ('encoding', 'transient'), [('x-gzip', False), ('gzip, gzip', False), ('br', False), ('gzip', True)]
)
def test_a_reply_that_cannot_be_unpacked_says_what_to_change(encoding: str, transient: bool) -> None:
    with pytest.raises(ModelError, match=r'cannot be unpacked.*turn compression off') as caught:
        ask(http(b'no archive', Content_Encoding=encoding))
    assert caught.value.transient is transient


def test_replies_that_cannot_be_read_are_retried_a_few_times_only() -> None:
    broken = ModelError('broken.', transient=True)
    garbage = UnreadableReplyError('toy: garbage.', transient=True, status=200)

    async def fail(errors: list[ModelError]) -> None:
        retrier, attempts = Retrier('toy', RetryPolicy(first_pause=0, longest_pause=0)), Attempts()
        for error in errors:
            await retrier.handle(error, attempts)

    asyncio.run(fail([broken, broken, *[garbage] * 4]))
    with pytest.raises(ModelError, match='no answer after 7 attempts'):
        asyncio.run(fail([broken, broken, *[garbage] * 5]))


@pytest.mark.parametrize('encoding', ['br', 'gzip'])
def test_a_list_of_models_that_cannot_be_unpacked_is_an_error(encoding: str) -> None:
    with pytest.raises(ModelError, match='cannot be (unpacked|read)'):
        ask(http(gzip.compress(b'{}')[:9], Content_Encoding=encoding), type='VLLMCustomAPIChat', path='')
