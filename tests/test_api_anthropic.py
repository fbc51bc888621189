"""Anthropic's messages API against a real server on loopback."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.models.anthropic.model import build
from rolecall.models.protocol import ModelError, Reply, Sampling
from servers import in_order, serve

KEY = 'sk-ant-secret-0123456789'
HELLO = [{'role': 'user', 'content': 'Hello'}]


def ask(entry: dict[str, Any], request: Any = HELLO, **sampling: Any) -> Reply:
    async def run() -> Reply:
        model = build({'type': 'Claude', 'path': 'toy', 'key': KEY, **entry}, name='toy')
        try:
            return (await model.generate([request], Sampling(**sampling)))[0]
        finally:
            await model.close()

    return asyncio.run(run())


@pytest.mark.parametrize('tail', ['', '/', '/v1', '/v1/', '/v1/messages'])
def test_system_is_apart_and_the_headers_are_its_own(tail: str) -> None:
    with serve() as server:
        reply = ask({'base_url': server.url + tail}, [{'role': 'system', 'content': 'Be brief.'}, *HELLO])
        call = server.calls[0]
        assert call.path == '/v1/messages'
        assert call.body == {'model': 'toy', 'max_tokens': 4096, 'system': 'Be brief.', 'messages': HELLO}
        assert call.headers['x-api-key'] == KEY
        assert call.headers['anthropic-version'] == '2023-06-01'
        assert 'Authorization' not in call.headers
    assert (reply.text, reply.reason) == ('Answer to Hello', 'stop')
    assert (reply.usage.input_tokens, reply.usage.cached_tokens, reply.usage.output_tokens) == (14, 4, 3)


def test_parameters_reach_the_server_under_its_names() -> None:
    thinking = {'type': 'enabled', 'budget_tokens': 1024}
    with serve() as server:
        ask(
            {'base_url': server.url, 'max_out_len': 7, 'temperature': 0.5, 'thinking': thinking},
            seed=3, min_out_len=1, top_k=4, stop=('Q:',), extra={'tool_choice': 'required', 'tools': [
                {'type': 'function', 'function': {'name': 'look', 'description': 'Look', 'parameters': {'type': 'object'}}},
                {'name': 'native', 'input_schema': {}},
            ]},
        )  # fmt: skip
        assert server.bodies[0] == {
            'model': 'toy',
            'max_tokens': 7,
            'temperature': 0.5,
            'thinking': thinking,
            'top_k': 4,
            'stop_sequences': ['Q:'],
            'tool_choice': {'type': 'any'},
            'tools': [
                {'name': 'look', 'description': 'Look', 'input_schema': {'type': 'object'}},
                {'name': 'native', 'input_schema': {}},
            ],
            'messages': HELLO,
        }


def blocks(*content: dict[str, Any], stop_reason: str = 'end_turn') -> dict[str, Any]:
    return {'content': list(content), 'stop_reason': stop_reason}


TEXT = {'type': 'text', 'text': 'Four'}
THINKING = {'type': 'thinking', 'thinking': '2 and 2'}
USE = {'type': 'tool_use', 'id': 't1', 'name': 'look', 'input': {'city': 'Rome'}}
CALL = {'id': 't1', 'type': 'function', 'function': {'name': 'look', 'arguments': {'city': 'Rome'}}}


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize(
    ('said', 'expected'),
    [
        (blocks(TEXT), Reply('Four', reason='stop')),
        (blocks(), Reply('', reason='stop')),
        (blocks(TEXT, stop_reason='stop_sequence'), Reply('Four', reason='stop')),
        (blocks(TEXT, stop_reason='max_tokens'), Reply('Four', reason='length')),
        (blocks(THINKING, TEXT), Reply('Four', reason='stop', reasoning='2 and 2')),
        (blocks(THINKING, stop_reason='max_tokens'), Reply('', 'thinking_exhausted', 'length', '2 and 2')),
        (blocks(TEXT, stop_reason='refusal'), Reply('Four', 'filtered', 'refusal')),
        (blocks(TEXT, USE, stop_reason='tool_use'), Reply('Four', reason='tool_calls', tool_calls=(CALL,))),
        (blocks(TEXT, stop_reason='pause_turn'), Reply('Four', reason='pause_turn')),
    ],
)
def test_answers_are_read_the_same_whole_and_streamed(said: dict[str, Any], expected: Reply, stream: bool) -> None:
    with serve(said) as server:
        reply = ask({'base_url': server.url, 'stream': stream})
    assert (reply.text, reply.outcome, reply.reason, reply.reasoning, reply.tool_calls) == (
        expected.text,
        expected.outcome,
        expected.reason,
        expected.reasoning,
        expected.tool_calls,
    )
    assert (reply.usage.input_tokens, reply.usage.output_tokens) == (14, 3)


def test_tool_calls_and_their_results_are_blocks() -> None:
    dialogue = [
        *HELLO,
        {'role': 'assistant', 'content': 'Let me see.', 'tool_calls': [CALL, {**CALL, 'id': 't2'}]},
        {'role': 'tool', 'tool_call_id': 't1', 'content': 'sunny'},
        {'role': 'tool', 'tool_call_id': 't2', 'content': 'rainy'},
        {'role': 'user', 'content': 'And now?'},
    ]
    with serve() as server:
        ask({'base_url': server.url}, dialogue)
        assert server.bodies[0]['messages'][1:] == [
            {'role': 'assistant', 'content': [{'type': 'text', 'text': 'Let me see.'}, USE, {**USE, 'id': 't2'}]},
            {
                'role': 'user',
                'content': [
                    {'type': 'tool_result', 'tool_use_id': 't1', 'content': 'sunny'},
                    {'type': 'tool_result', 'tool_use_id': 't2', 'content': 'rainy'},
                ],
            },
            {'role': 'user', 'content': 'And now?'},
        ]


def test_pictures_become_blocks(tmp_path: Path) -> None:
    file = tmp_path / 'a.png'
    file.write_bytes(b'\x89PNG\r\n\x1a\n')
    urls = ['https://example.com/a.png', 'data:image/gif;base64,AAAA', f'file://{file}']
    content = [{'type': 'text', 'text': 'See'}, *({'type': 'image_url', 'image_url': {'url': url}} for url in urls)]
    with serve() as server:
        ask({'base_url': server.url}, [{'role': 'user', 'content': content}])
        assert server.bodies[0]['messages'][0]['content'] == [
            {'type': 'text', 'text': 'See'},
            {'type': 'image', 'source': {'type': 'url', 'url': urls[0]}},
            {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/gif', 'data': 'AAAA'}},
            {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': 'iVBORw0KGgo='}},
        ]


@pytest.mark.parametrize(
    ('request_', 'words'),
    [
        ('a text', 'takes messages'),
        ([*HELLO, {'role': 'system', 'content': 'x'}], 'system messages only before the dialogue'),
        (
            [{'role': 'user', 'content': [{'type': 'audio_url', 'audio_url': {'url': 'a.wav'}}]}],
            'does not support audio_url',
        ),
    ],
)
def test_what_the_format_cannot_carry_is_an_error(request_: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words) as caught:
        ask({'base_url': 'http://127.0.0.1:9'}, request_)
    assert not caught.value.transient


def test_a_stream_that_reports_an_error_may_be_tried_again() -> None:
    from aiohttp import web

    overloaded = 'data: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    refusing = serve(lambda _body: web.Response(text=overloaded, content_type='text/event-stream'))
    with refusing as server, pytest.raises(ModelError, match='Overloaded') as caught:
        ask({'base_url': server.url, 'stream': True})
    assert (caught.value.transient, caught.value.status) == (True, 529)


def test_a_stream_that_breaks_off_may_be_tried_again() -> None:
    with serve(faults=in_order('cut_stream')) as server, pytest.raises(ModelError, match='ended early') as caught:
        ask({'base_url': server.url, 'stream': True})
    assert caught.value.transient


def test_a_prompt_that_is_too_long_is_the_rows_outcome() -> None:
    from aiohttp import web

    error = {
        'type': 'error',
        'error': {'type': 'invalid_request_error', 'message': 'prompt is too long: 9 > 8 maximum'},
    }
    with serve(lambda _body: web.json_response(error, status=400)) as server:
        assert ask({'base_url': server.url}).outcome == 'too_long'


def test_a_key_appears_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(key='another') as server, pytest.raises(ModelError) as caught:
        ask({'base_url': server.url})
    assert KEY not in repr(caught.value)
    assert KEY not in str(build({'type': 'Claude', 'path': 'toy', 'key': KEY}, name='toy').identity)
    monkeypatch.delenv('ANTHROPIC_API_KEY', raising=False)
    with pytest.raises(ModelError, match='ANTHROPIC_API_KEY'):
        ask({'key': 'ENV'})


def test_scores_are_refused_and_wrong_options_named() -> None:
    model = build({'type': 'Claude', 'path': 'toy', 'key': KEY}, name='toy')
    assert not model.capabilities.score
    with pytest.raises(ModelError, match='does not return log-probabilities'):
        asyncio.run(model.score(['x']))
    with pytest.raises(ConfigError, match='toy.path'):
        build({'type': 'Claude', 'max_out_len': 1}, name='toy')
