"""OpenAI's Responses API, against a server that refuses requests of any other shape."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import rolecall
from helpers import bot, human, system, template
from rolecall import ConfigError
from rolecall.models.openai.model import build
from rolecall.models.openai.responses import write_parameters
from rolecall.models.protocol import Model, ModelError, Reply, Sampling
from rolecall.runs import collect_run, run_config
from servers import running
from servers import serve as serve_chat

PARAMETERS = {
    *('model', 'input', 'instructions', 'max_output_tokens', 'temperature', 'top_p', 'tools', 'tool_choice', 'text'),
    *('reasoning', 'include', 'store', 'stream', 'top_logprobs', 'metadata', 'parallel_tool_calls'),
}
ITEMS = {
    'message': {'type', 'role', 'content'},
    'function_call': {'type', 'call_id', 'name', 'arguments'},
    'function_call_output': {'type', 'call_id', 'output'},
    'reasoning': {'type', 'id', 'summary', 'encrypted_content', 'content', 'status'},
}
PARTS = {'user': ('input_text', 'input_image'), 'assistant': ('output_text', 'refusal'), 'system': ('input_text',)}
USAGE = {
    'input_tokens': 40,
    'input_tokens_details': {'cached_tokens': 30},
    'output_tokens': 20,
    'output_tokens_details': {'reasoning_tokens': 15},
    'total_tokens': 60,
}
PNG = bytes.fromhex('89504e470d0a1a0a') + b'picture'


class WrongShapeError(Exception):
    """What the API answers with 400."""


def check(condition: object, message: str) -> None:
    if not condition:
        raise WrongShapeError(message)


def check_body(body: Mapping[str, Any]) -> None:
    check(set(body) <= PARAMETERS, f'Unknown parameter: {sorted(set(body) - PARAMETERS)}')
    check(isinstance(body['input'], list) and body['input'], 'input must be a list of items')
    for item in body['input']:
        kind = item.get('type', 'message')
        check(kind in ITEMS and set(item) <= ITEMS[kind], f'wrong item: {item}')
        if kind == 'message':
            check(item['role'] in ('user', 'assistant', 'system', 'developer'), 'wrong role')
            for part in item['content'] if isinstance(item['content'], list) else ():
                check(part['type'] in PARTS[item['role']], f'wrong part: {part}')
                check(part['type'] != 'input_image' or isinstance(part['image_url'], str), 'image_url must be a string')
        elif kind == 'function_call':
            check(isinstance(item['arguments'], str) and item['call_id'], 'arguments must be a string')
        elif kind == 'function_call_output':
            check(isinstance(item['output'], str) and item['call_id'], 'output must be a string')
    for tool in body.get('tools', ()):
        check(tool['type'] == 'function' and 'function' not in tool and tool['name'], f'wrong tool: {tool}')
    shape = body.get('text', {}).get('format', {'type': 'text'})
    check(shape['type'] != 'json_schema' or {'name', 'schema'} <= set(shape), f'wrong format: {shape}')
    check(body.get('max_output_tokens', 16) >= 16, 'max_output_tokens must be at least 16')


def message(text: str, **part: Any) -> dict[str, Any]:
    content = [{'type': 'output_text', 'text': text, 'annotations': [], **part}]
    return {'type': 'message', 'id': 'msg_1', 'status': 'completed', 'role': 'assistant', 'content': content}


def thought(**more: Any) -> dict[str, Any]:
    return {'type': 'reasoning', 'id': 'rs_1', 'summary': [{'type': 'summary_text', 'text': 'Hm.'}], **more}


def call(name: str, arguments: str) -> dict[str, Any]:
    return {'type': 'function_call', 'id': 'fc_1', 'call_id': 'call_1', 'name': name, 'arguments': arguments}


@dataclass
class ResponsesServer:
    """Answers with the outputs it was given, one after the other, the last one for ever."""

    outputs: list[Any]
    url: str = ''
    bodies: list[Any] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.bodies.append(body)
        try:
            check(request.path == '/v1/responses', f'unknown path {request.path}')
            check_body(body)
        except (WrongShapeError, KeyError) as error:
            return web.json_response({'error': {'message': str(error), 'type': 'invalid_request_error'}}, status=400)
        output = self.outputs.pop(0) if len(self.outputs) > 1 else self.outputs[0]
        if isinstance(output, web.Response):
            return output
        whole = output if isinstance(output, dict) else {'status': 'completed', 'output': output}
        whole = {'id': 'resp_1', 'object': 'response', 'error': None, 'usage': USAGE, **whole}
        return await self._stream(request, whole) if body.get('stream') else web.json_response(whole)

    async def _stream(self, request: web.Request, whole: Mapping[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={'Content-Type': 'text/event-stream'})
        await response.prepare(request)
        events: list[dict[str, Any]] = [{'type': 'response.created', 'response': {'status': 'in_progress'}}]
        for item in whole['output']:
            if item['type'] == 'reasoning':
                events += [{'type': 'response.reasoning_summary_text.delta', 'delta': 'Hm.'}]
            for part in item.get('content', ()):
                events += [{'type': 'response.output_text.delta', 'delta': letter} for letter in part['text']]
            events += [{'type': 'response.output_item.done', 'item': item}]
        events += [{'type': f'response.{whole["status"]}', 'response': whole}]
        for event in events:
            await response.write(f'event: {event["type"]}\ndata: {json.dumps(event)}\n\n'.encode())
        await response.write_eof()
        return response


@contextmanager
def serve(*outputs: Any) -> Iterator[ResponsesServer]:
    server = ResponsesServer(list(outputs))
    with running(server.handle) as server.url:
        yield server


def model(server: ResponsesServer, **more: Any) -> Model:
    entry = {'type': 'OpenAI', 'path': 'gpt-5', 'endpoint': 'responses', 'base_url': server.url, 'key': 'k', **more}
    return build(entry, name='m')


def ask(model: Model, messages: Sequence[Mapping[str, Any]], **sampling: Any) -> Reply:
    async def run() -> Reply:
        try:
            [reply] = await model.generate([list(messages)], Sampling(**sampling))
            return reply
        finally:
            await model.close()

    return asyncio.run(run())


USER = [{'role': 'user', 'content': 'Hi'}]


@pytest.mark.parametrize('stream', [False, True], ids=['whole', 'stream'])
def test_a_question_and_its_answer(stream: bool) -> None:
    with serve([thought(), message('Four')]) as server:
        dialogue = [
            {'role': 'system', 'content': 'Be brief.'},
            {'role': 'user', 'content': '2+2?'},
            {'role': 'assistant', 'content': 'Four'},
            {'role': 'user', 'content': 'Sure?'},
        ]
        reply = ask(model(server, stream=stream), dialogue, max_out_len=50, temperature=0.5)
        [body] = server.bodies
    assert (reply.text, reply.reasoning, reply.outcome, reply.reason) == ('Four', 'Hm.', 'ok', 'stop')
    usage = reply.usage
    assert (usage.input_tokens, usage.cached_tokens, usage.output_tokens, usage.reasoning_tokens) == (40, 30, 20, 15)
    assert (body['instructions'], body['max_output_tokens'], body['store']) == ('Be brief.', 50, False)
    assert [item['role'] for item in body['input']] == ['user', 'assistant', 'user']


def test_text_is_passed_on_while_it_arrives() -> None:
    with serve([thought(), message('Four')]) as server:
        pieces: list[str] = []
        one: Any = model(server)
        reply = asyncio.run(_stream(one, pieces))
    assert (''.join(pieces), len(pieces) > 1, reply.text) == ('Four', True, 'Four')


async def _stream(one: Any, pieces: list[str]) -> Reply:
    try:
        reply: Reply = await one.stream(USER, Sampling(), pieces.append)
        return reply
    finally:
        await one.close()


@pytest.mark.parametrize('stream', [False, True], ids=['whole', 'stream'])
@pytest.mark.parametrize(
    ('output', 'expected'),
    [
        (
            {'status': 'incomplete', 'incomplete_details': {'reason': 'max_output_tokens'}, 'output': [message('Fo')]},
            ('ok', 'length'),
        ),
        (
            {'status': 'incomplete', 'incomplete_details': {'reason': 'max_output_tokens'}, 'output': [thought()]},
            ('thinking_exhausted', 'length'),
        ),
        (
            {'status': 'incomplete', 'incomplete_details': {'reason': 'content_filter'}, 'output': [message('')]},
            ('filtered', 'content_filter'),
        ),
    ],
    ids=['cut', 'thinking', 'filtered'],
)
def test_an_answer_that_is_not_complete_says_so(output: Any, expected: tuple[str, str], stream: bool) -> None:
    with serve(output) as server:
        reply = ask(model(server, stream=stream), USER)
    assert (reply.outcome, reply.reason) == expected


def test_a_refusal_is_filtered() -> None:
    refusal = {'type': 'message', 'role': 'assistant', 'content': [{'type': 'refusal', 'refusal': 'No.'}]}
    with serve([refusal]) as server:
        reply = ask(model(server), USER)
    assert (reply.outcome, reply.reason) == ('filtered', 'No.')


@pytest.mark.parametrize(
    ('answer', 'transient', 'told'),
    [
        (
            {'status': 'failed', 'error': {'code': 'server_error', 'message': 'It broke'}, 'output': []},
            True,
            'It broke',
        ),
        (web.json_response({'error': {'message': 'slow down'}}, status=429), True, 'too many requests'),
        (web.json_response({'nothing': 1}), True, 'cannot be read'),
        ({'status': 'failed', 'error': None, 'output': []}, True, "its status is 'failed'"),
        ({'status': 'queued', 'output': []}, True, "its status is 'queued'"),
    ],
    ids=['failed', '429', 'malformed', 'failed without a reason', 'not answered yet'],
)
def test_errors_are_those_of_the_other_endpoints(answer: Any, transient: bool, told: str) -> None:
    with serve(answer) as server, pytest.raises(ModelError, match=told) as caught:
        ask(model(server), USER)
    assert caught.value.transient is transient


def test_errors_in_a_stream_are_errors() -> None:
    from rolecall.models.openai.responses import StreamedResponse

    for event in (
        {'type': 'error', 'code': 'rate_limit_error', 'message': 'slow'},
        {'type': 'response.failed', 'response': {'error': {'code': 'server_error', 'message': 'slow'}}},
    ):
        with pytest.raises(ModelError, match='slow') as caught:
            StreamedResponse().take(event)
        assert caught.value.transient


def test_images_become_input_images(tmp_path: Path) -> None:
    (tmp_path / 'cat.png').write_bytes(PNG)
    parts = [
        {'type': 'text', 'text': 'What is this?'},
        {'type': 'image_url', 'image_url': {'url': str(tmp_path / 'cat.png'), 'detail': 'low'}},
    ]
    with serve([message('A cat')]) as server:
        ask(model(server, inline_files=True), [{'role': 'user', 'content': parts}])
        [body] = server.bodies
    text, image = body['input'][0]['content']
    assert text == {'type': 'input_text', 'text': 'What is this?'}
    assert (image['type'], image['detail'], image['image_url'][:22]) == ('input_image', 'low', 'data:image/png;base64,')


def test_a_schema_becomes_the_format_of_the_text() -> None:
    schema = {
        'type': 'object',
        'properties': {'a': {'type': 'string'}},
        'required': ['a'],
        'additionalProperties': False,
    }
    with serve([message('{"a": "b"}')]) as server:
        ask(model(server), USER, extra={'json_schema': schema})
        [body] = server.bodies
    assert body['text'] == {'format': {'type': 'json_schema', 'name': 'answer', 'schema': schema, 'strict': True}}


def test_log_probabilities_of_the_answer() -> None:
    with serve([message('Four', logprobs=[{'token': 'Four', 'logprob': -0.5}])]) as server:
        reply = ask(model(server, logprobs=True), USER)
        [body] = server.bodies
    assert (reply.logprobs, body['include']) == ((('Four', -0.5),), ['message.output_text.logprobs'])


def test_reasoning_goes_back_with_the_calls_that_followed_it() -> None:
    """A module calls a tool; the request after that carries the reasoning, the call and its result."""

    def add(a: int, b: int) -> int:
        """Add two numbers.

        Args:
            a: one
            b: the other
        """
        return a + b

    first = [thought(encrypted_content='gAAA'), call('add', '{"a": 2, "b": 3}')]
    with serve(first, [message('Five')]) as server:
        module = rolecall.OnlineChatModule(
            source='openai', model='gpt-5', base_url=server.url, api_key='k', endpoint='responses', stream=False
        )
        assert module.with_tools([add])('2+3?') == 'Five'
        before, after = server.bodies
    assert before['include'] == ['reasoning.encrypted_content']
    assert before['tools'][0]['strict'] is False
    kinds = [item.get('type', 'message') for item in after['input']]
    assert kinds == ['message', 'reasoning', 'function_call', 'function_call_output']
    assert after['input'][1]['encrypted_content'] == 'gAAA'
    assert after['input'][3] == {'type': 'function_call_output', 'call_id': 'call_1', 'output': '5'}


@pytest.mark.parametrize(
    ('entry', 'place'),
    [
        ({'score': 'prompt_logprobs'}, 'm.score'),
        ({'prefill': True}, 'm.prefill'),
        ({'endpoint': 'answers'}, 'm.endpoint'),
    ],
)
def test_what_the_endpoint_does_not_have_is_refused(entry: dict[str, Any], place: str) -> None:
    with pytest.raises(ConfigError, match=place):
        build({'type': 'OpenAI', 'path': 'x', 'endpoint': 'responses', **entry}, name='m')


@pytest.mark.parametrize(
    ('name', 'value', 'usual'),
    [('stop', ['\n'], []), ('n', 2, 1), ('frequency_penalty', 1, 0), ('presence_penalty', 1.0, 0)],
)
def test_parameters_without_an_equivalent_are_refused_not_ignored(name: str, value: Any, usual: Any) -> None:
    with pytest.raises(ModelError, match=f'Leave {name} out'):
        write_parameters({name: value}, keeps_reasoning=False)
    assert name not in write_parameters({name: usual}, keeps_reasoning=False)


def test_stop_sequences_are_refused_not_ignored() -> None:
    with serve([message('Four')]) as server, pytest.raises(ModelError, match='has no stop sequences'):
        ask(model(server), USER, stop=('\n',))


def test_stop_words_are_refused_before_a_run_and_sent_where_the_error_says(tmp_path: Path) -> None:
    rows = [{'q': '1+1', 'a': '2'}]
    infer: dict[str, Any] = {'prompt_template': {'type': 'PromptTemplate', 'template': '{q}'}}
    dataset = {'abbr': 'd', 'test': rows, 'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'}}
    stops = {**infer, 'inferencer': {'type': 'GenInferencer', 'stopping_criteria': ['Q:']}}
    with serve_chat('2') as server:
        entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': 'k'}
        for options, inferring, written in (
            ({}, stops, "stop=['Q:']"),
            ({'presence_penalty': 0.5}, infer, 'presence_penalty=0.5'),
        ):
            config = {'models': [entry | options], 'datasets': [{**dataset, 'infer_cfg': inferring}]}
            config['models'][0]['endpoint'] = 'responses'
            with pytest.raises(ConfigError) as refused:
                run_config(config, out=tmp_path / 'run')
            parameter = 'stopping_criteria' if 'stop' in written else 'presence_penalty'
            assert str(refused.value) == (
                f'datasets[0] × models[0]\n  {written} is set, and the Responses API of model m does not have it.\n'
                f"  Leave {parameter} out, or set endpoint='chat' in the model entry."
            )
            config['models'][0]['endpoint'] = 'chat'
            assert run_config(config, out=tmp_path / parameter).outcomes == {'ok': 1}
    assert not (tmp_path / 'run').exists()


def test_a_whole_run_through_the_endpoint_and_by_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from batch_servers import serve_batches

    monkeypatch.setenv('OPENAI_API_KEY', 'k')
    prompt = template({'begin': [system('Be brief.')], 'round': [human('{q}'), bot('{a}')]})
    dataset = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': f'{i}?', 'a': f'Answer to {i}?'} for i in range(3)],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': prompt, 'inferencer': {'type': 'GenInferencer', 'max_out_len': 16}},
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }
    with serve_batches() as server:
        entry = {'abbr': 'm', 'type': 'OpenAI', 'path': 'gpt-5', 'endpoint': 'responses', 'base_url': server.url}
        config = {'datasets': [dataset], 'models': [{**entry, 'key': 'k'}]}
        live = run_config(config, out=tmp_path / 'live')
        assert [card.value for card in live.scorecards] == [100.0]
        run_config(config, out=tmp_path / 'batch', batch=True)
        assert sorted(map(str, server.bodies().values())) == sorted(map(str, server.live))
        server.process()
        came = collect_run(tmp_path / 'batch', config=config)
    assert came.run is not None
    assert [card.value for card in came.run.scorecards] == [100.0]
