"""Chat completions and completions against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from rolecall.errors import ConfigError
from rolecall.models.openai.model import build
from rolecall.models.protocol import ModelError, Reply, Sampling, Usage, split_reasoning
from servers import by_share, in_order, serve
from test_api_http import HELLO, KEY, ask, failure

CALLS = [{'id': 'c1', 'type': 'function', 'function': {'name': 'look', 'arguments': '{"city": "Rome", "n": 2}'}}]
PARSED = ({'id': 'c1', 'type': 'function', 'function': {'name': 'look', 'arguments': {'city': 'Rome', 'n': 2}}},)


def choice(content: str | None, finish_reason: str = 'stop', **message: Any) -> dict[str, Any]:
    return {'message': {'role': 'assistant', 'content': content, **message}, 'finish_reason': finish_reason}


def test_messages_go_out_as_they_are_and_the_answer_comes_back() -> None:
    with serve() as server:
        reply = ask({'base_url': server.url})
        assert (reply.text, reply.outcome, reply.reason) == ('Answer to Hello', 'ok', 'stop')
        assert server.calls[0].path == '/v1/chat/completions'
        assert server.bodies == [{'model': 'toy', 'messages': HELLO}]
        assert reply.usage.seconds is not None
        assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cached_tokens) == (3, 3, 2)


@pytest.mark.parametrize('request_', ['Once upon a time', [5, 6, 7]])
def test_texts_and_token_ids_go_to_completions(request_: Any) -> None:
    with serve() as server:
        reply = ask({'type': 'VLLMCustomAPI', 'model': 'toy', 'url': server.url}, request_)
        assert reply.text == f'Answer to {request_}'
        assert server.calls[0].path == '/v1/completions'
        assert server.bodies[0]['prompt'] == request_


def test_a_text_that_is_left_to_the_server_is_not_cut_after_sixteen_tokens() -> None:
    with serve() as server:
        ask({'endpoint': 'completions', 'base_url': server.url}, 'x')
        ask({'endpoint': 'completions', 'base_url': server.url, 'generation_kwargs': {'max_tokens': 7}}, 'x')
        assert [body['max_tokens'] for body in server.bodies] == [512, 7]


@pytest.mark.parametrize(
    ('entry', 'request_', 'words'),
    [
        ({}, 'a text', 'takes messages, not text'),
        ({}, [1, 2], 'takes messages, not text'),
        ({'endpoint': 'completions'}, HELLO, 'takes text, not messages'),
        ({'endpoint': 'completions'}, [1, 'two'], 'mixes token ids and text'),
    ],
)
def test_a_request_of_the_wrong_kind_is_refused_in_words(entry: dict[str, Any], request_: Any, words: str) -> None:
    error = failure({'base_url': 'http://127.0.0.1:9', **entry}, request_)
    assert words in str(error)
    assert not error.transient


@pytest.mark.parametrize(
    ('entry', 'sampling', 'sent'),
    [
        ({'temperature': 0.5, 'max_out_len': 9}, {}, {'temperature': 0.5, 'max_tokens': 9}),
        (
            {'temperature': 0.5, 'max_out_len': 9},
            {'temperature': 0, 'max_out_len': 3},
            {'temperature': 0, 'max_tokens': 3},
        ),
        ({}, {'min_out_len': 2, 'top_p': 0.9, 'top_k': 5}, {'min_tokens': 2, 'top_p': 0.9, 'top_k': 5}),
        ({}, {'seed': 3, 'stop': ('\n', 'Q:')}, {'seed': 3, 'stop': ['\n', 'Q:']}),
        (
            {'generation_kwargs': {'ignore_eos': False}},
            {'extra': {'logit_bias': {}}},
            {'ignore_eos': False, 'logit_bias': {}},
        ),
        ({'openai_extra_kwargs': {'top_p': 0.95}}, {}, {'top_p': 0.95}),
        ({'extra_body': {'temperature': 1}}, {'temperature': 0}, {'temperature': 1}),
        ({'max_tokens_key': 'max_completion_tokens'}, {'max_out_len': 3}, {'max_completion_tokens': 3}),
        ({'model': 'o3-mini'}, {'max_out_len': 3}, {'model': 'o3-mini', 'max_completion_tokens': 3}),
        ({'prefill': True}, {}, {}),
    ],
)
def test_parameters_reach_the_server_under_its_names(
    entry: dict[str, Any], sampling: dict[str, Any], sent: dict[str, Any]
) -> None:
    with serve(models=('toy', 'o3-mini')) as server:
        ask({'base_url': server.url, **entry}, **sampling)
        assert server.bodies == [{'model': 'toy', 'messages': HELLO} | sent]


def test_a_prefill_is_continued_where_the_entry_says_the_server_can() -> None:
    started = [*HELLO, {'role': 'assistant', 'content': 'Well,'}]
    with serve() as server:
        ask({'base_url': server.url, 'prefill': True}, started)
        ask({'base_url': server.url}, started)
        assert server.bodies[0]['continue_final_message'] is True
        assert server.bodies[0]['add_generation_prompt'] is False
        assert set(server.bodies[1]) == {'model', 'messages'}


@pytest.mark.parametrize('stream', [False, True])
@pytest.mark.parametrize(
    ('said', 'expected'),
    [
        (choice('Four'), Reply('Four', reason='stop')),
        (choice(''), Reply('', reason='stop')),
        (choice(None), Reply('', reason='stop')),
        (choice('Four', 'length'), Reply('Four', reason='length')),
        (choice('4', reasoning_content='2 and 2'), Reply('4', reason='stop', reasoning='2 and 2')),
        (choice('4', reasoning='2 and 2'), Reply('4', reason='stop', reasoning='2 and 2')),
        (choice('<think>\n2 and 2\n</think>\n\n4'), Reply('4', reason='stop', reasoning='2 and 2')),
        (choice('2 and 2</think>4'), Reply('4', reason='stop', reasoning='2 and 2')),
        (choice('<think>2 and', 'length'), Reply('', 'thinking_exhausted', 'length', '2 and')),
        (choice('', 'length', reasoning_content='2 and'), Reply('', 'thinking_exhausted', 'length', '2 and')),
        (choice('4', 'length', reasoning_content='2 and 2'), Reply('4', 'ok', 'length', '2 and 2')),
        (choice('<think> is a tag'), Reply('<think> is a tag', reason='stop')),
        (choice('A <think>tag</think>'), Reply('A <think>tag</think>', reason='stop')),
        (choice('', 'content_filter'), Reply('', 'filtered', 'content_filter')),
        (choice(None, refusal='I cannot help'), Reply('', 'filtered', 'I cannot help')),
        (choice(None, 'tool_calls', tool_calls=CALLS), Reply('', reason='tool_calls', tool_calls=PARSED)),
    ],
)
def test_answers_are_read_the_same_whole_and_streamed(said: dict[str, Any], expected: Reply, stream: bool) -> None:
    with serve(said) as server:
        reply = ask({'base_url': server.url, 'stream': stream})
        assert server.bodies[0].get('stream', False) is stream
        assert reply.usage.output_tokens == 3
        assert (reply.text, reply.outcome, reply.reason, reply.reasoning, reply.tool_calls) == (
            expected.text,
            expected.outcome,
            expected.reason,
            expected.reasoning,
            expected.tool_calls,
        )


def test_thinking_may_have_other_tags() -> None:
    with serve('<seed:think>hm</seed:think>4') as server:
        assert ask({'base_url': server.url, 'think_tag': '</seed:think>'}).text == '4'


def test_a_text_without_thinking_is_left_exactly_as_it_is() -> None:
    assert split_reasoning('  four \n').answer == '  four \n'


def test_content_in_parts_is_one_text() -> None:
    parts = [
        {'type': 'thinking', 'thinking': [{'type': 'text', 'text': 'hm'}]},
        {'type': 'text', 'text': 'Fo'},
        {'type': 'text', 'text': 'ur'},
    ]
    with serve({'message': {'content': parts}, 'finish_reason': 'stop'}) as server:
        reply = ask({'base_url': server.url})
    assert (reply.text, reply.reasoning) == ('Four', 'hm')


def test_several_answers_to_one_request_come_back_together() -> None:
    with serve() as server:
        for stream in (False, True):
            reply = ask({'base_url': server.url, 'stream': stream}, extra={'n': 3})
            assert [reply.text, *(other.text for other in reply.others)] == ['Answer to Hello'] * 3


def test_tools_go_out_and_arguments_are_written_as_json_once() -> None:
    tools = [{'type': 'function', 'function': {'name': 'look', 'parameters': {}}}]
    dialogue: list[Mapping[str, Any]] = [
        *HELLO,
        {'role': 'assistant', 'content': None, 'tool_calls': list(PARSED)},
        {'role': 'tool', 'tool_call_id': 'c1', 'content': 'sunny'},
    ]
    with serve() as server:
        ask({'base_url': server.url}, dialogue, extra={'tools': tools})
        body = server.bodies[0]
        assert body['tools'] == tools
        arguments = body['messages'][1]['tool_calls'][0]['function']['arguments']
        assert json.loads(arguments) == {'city': 'Rome', 'n': 2}
        assert body['messages'][2] == dialogue[2]


def test_arguments_that_are_no_json_are_kept_as_they_came() -> None:
    call = {'id': 'c', 'type': 'function', 'function': {'name': 'look', 'arguments': '{"city": '}}
    with serve(choice(None, 'tool_calls', tool_calls=[call])) as server:
        assert ask({'base_url': server.url}).tool_calls[0]['function']['arguments'] == '{"city": '


def test_a_streamed_text_is_collected() -> None:
    with serve() as server:
        reply = ask({'type': 'VLLMCustomAPIStream', 'model': 'toy', 'url': server.url}, 'Once upon')
        assert (reply.text, reply.usage.output_tokens) == ('Answer to Once upon', 3)
        assert server.bodies[0]['stream_options'] == {'include_usage': True}


def test_a_stream_that_breaks_off_may_be_tried_again() -> None:
    with serve(faults=in_order('cut_stream')) as server:
        error = failure({'base_url': server.url, 'stream': True})
    assert error.transient
    assert 'ended early' in str(error)


def test_a_server_that_does_not_stream_is_understood() -> None:
    from aiohttp import web

    whole = {'choices': [{**choice('Four'), 'index': 0}]}
    with serve(lambda _body: web.json_response(whole)) as server:
        assert ask({'base_url': server.url, 'stream': True}).text == 'Four'


@pytest.mark.parametrize(
    ('error', 'transient', 'status'),
    [
        ({'message': 'slow down', 'code': 429}, True, 429),
        ({'message': 'overloaded'}, True, 500),
        ({'message': 'bad', 'code': 400}, False, 400),
    ],
)
def test_an_error_inside_an_answer_that_began_well_is_an_error(
    error: dict[str, Any], transient: bool, status: int
) -> None:
    from aiohttp import web

    with serve(lambda _body: web.json_response({'error': error})) as server:
        found = failure({'base_url': server.url})
    assert (found.transient, found.status) == (transient, status)
    with serve(
        lambda _body: web.Response(text=f'data: {json.dumps({"error": error})}\n\n', content_type='text/event-stream')
    ) as server:
        found = failure({'base_url': server.url, 'stream': True})
    assert (found.transient, found.status) == (transient, status)


@pytest.mark.parametrize(
    ('error', 'outcome'),
    [
        ({'message': 'The response was filtered', 'code': 'content_filter'}, 'filtered'),
        ({'message': 'Invalid prompt', 'code': 'invalid_prompt'}, 'filtered'),
        ({'message': "This model's maximum context length is 4096 tokens. However, you requested 5000"}, 'too_long'),
        (
            {'message': 'the request exceeds the available context size', 'type': 'exceed_context_size_error'},
            'too_long',
        ),
        ({'message': 'no', 'code': 'context_length_exceeded'}, 'too_long'),
    ],
)
def test_a_refusal_that_concerns_the_row_is_its_outcome(error: dict[str, str], outcome: str) -> None:
    from aiohttp import web

    with serve(lambda _body: web.json_response({'error': error}, status=400)) as server:
        reply = ask({'base_url': server.url})
    assert (reply.text, reply.outcome, reply.reason) == ('', outcome, error['message'])


def test_a_served_model_is_found_where_the_entry_leaves_it_open() -> None:
    with serve(models=('served',)) as server:
        ask({'type': 'VLLMCustomAPIChat', 'path': '', 'model': '', 'url': server.url, 'api_key': ''})
        assert [call.path for call in (*server.lookups, *server.calls)] == ['/v1/models', '/v1/chat/completions']
        assert server.bodies[0]['model'] == 'served'
    with serve(models=('a', 'b')) as server:
        error = failure({'type': 'VLLMCustomAPIChat', 'path': '', 'url': server.url})
        assert 'offers 2 models (a, b)' in str(error)


def test_half_a_surrogate_pair_can_be_sent() -> None:
    with serve() as server:
        assert ask({'base_url': server.url}, [{'role': 'user', 'content': 'a\ud800 中'}]).outcome == 'ok'
        assert server.bodies[0]['messages'][0]['content'] == 'a\ud800 中'


def test_what_the_entry_asks_for_is_part_of_the_identity_and_how_it_is_sent_is_not() -> None:
    base = {'type': 'OpenAI', 'path': 'toy', 'base_url': 'http://h/v1'}
    plain = build(base, name='a').identity
    assert build({**base, 'key': 'x', 'timeout': 3, 'query_per_second': 2}, name='b').identity == plain
    assert build({**base, 'stream': True}, name='b').identity == plain
    assert build({**base, 'temperature': 0.3}, name='b').identity != plain
    assert build({**base, 'base_url': 'http://g/v1'}, name='b').identity != plain
    assert build({**base, 'extra_body': {'x': 1}}, name='b').identity != plain


@pytest.mark.parametrize(
    ('entry', 'where', 'words'),
    [
        ({'path': ''}, 'm.path', 'name for the model'),
        ({'max_out_len': 'many'}, 'm.max_out_len', 'whole number'),
        ({'timeout': 'long'}, 'm.timeout', 'number'),
        ({'stream': 'yes'}, 'm.stream', 'True or False'),
        ({'generation_kwargs': [1]}, 'm.generation_kwargs', 'a dict'),
        ({'score': 'yes'}, 'm.score', "one of 'echo', 'prompt_logprobs'"),
        ({'score': 'echo'}, 'm.score', 'endpoint'),
        ({'endpoint': 'chatty'}, 'm.endpoint', "one of 'chat', 'completions'"),
        ({'temprature': 1}, 'm.temprature', "Did you mean 'temperature'?"),
        ({'openai_api_base': ['http://a', 'http://b']}, 'm.openai_api_base', 'one model entry for each'),
        ({'key': 5}, 'm.key', 'a string'),
    ],
)
def test_wrong_options_are_named_before_the_run(entry: dict[str, Any], where: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build({'type': 'OpenAI', 'path': 'toy', **entry}, name='m')
    assert [problem.where for problem in caught.value.problems] == [where]
    assert words in str(caught.value)


def test_all_wrong_options_are_reported_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        build({'type': 'OpenAI', 'path': 'toy', 'stream': 1, 'timeout': '', 'max_seq_len': -1}, name='m')
    assert {problem.where for problem in caught.value.problems} == {'m.stream', 'm.timeout', 'm.max_seq_len'}


def test_shipped_entries_of_the_reference_systems_load() -> None:
    meta = {'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]}
    opencompass = dict(
        abbr='k2', type='OpenAISDKStreaming', path='kimi-k2', key='your-api-key-here', meta_template=meta, retry=10,
        query_per_second=1, openai_api_base='https://api.example.cn/v1', batch_size=1, temperature=1, max_seq_len=131072,
        stream=True, verbose=True, stream_chunk_size=1,
    )  # fmt: skip
    aisbench = dict(
        attr='service', type='VLLMCustomAPIChat', abbr='vllm', path='', model='', stream=False, request_rate=0, retry=2,
        use_timestamp=False, api_key='', host_ip='localhost', host_port=8080, url='', max_out_len=512, batch_size=1,
        trust_remote_code=False, generation_kwargs=dict(temperature=0.01, ignore_eos=False), returns_tool_calls=True,
    )  # fmt: skip
    first, second = build(opencompass, name='k2'), build(aisbench, name='vllm')
    assert (first.max_seq_len, first.identity['temperature']) == (131072, 1)
    assert second.identity['server'] == 'http://localhost:8080/v1'
    assert second.identity['ignore_eos'] is False
    assert second.identity['max_tokens'] == 512


def test_tokens_are_counted_where_the_tokenizer_is_at_hand() -> None:
    model = build({'type': 'OpenAI', 'path': 'toy'}, name='m')
    assert model.count([1, 2, 3]) == 3
    assert model.count('Hello') is None
    assert model.count(HELLO) is None


def test_with_faults_of_every_kind_all_requests_are_answered_once() -> None:
    async def run(url: str) -> list[Reply]:
        model = build({'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': KEY}, name='toy')

        async def until_answered(number: int) -> Reply:
            for _ in range(20):
                try:
                    return (await model.generate([[{'role': 'user', 'content': f'Question {number}'}]], Sampling()))[0]
                except ModelError as error:
                    if not error.transient:
                        raise
            raise AssertionError('never answered')

        try:
            return await asyncio.gather(*map(until_answered, range(200)))
        finally:
            await model.close()

    with serve(faults=by_share(rate_limit=0.05, error=0.05, drop=0.02, malformed=0.02, truncated=0.02)) as server:
        replies = asyncio.run(run(server.url))
        assert [reply.text for reply in replies] == [f'Answer to Question {number}' for number in range(200)]
        assert set(server.answered.values()) == {1}
        assert len(server.calls) > 200


def test_usage_that_the_server_does_not_tell_is_unknown() -> None:
    from aiohttp import web

    with serve(lambda _body: web.json_response({'choices': [choice('x')]})) as server:
        usage = ask({'base_url': server.url}).usage
    assert usage == Usage(seconds=usage.seconds)
