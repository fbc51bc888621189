"""Options of a call, answers as values, batches, fallbacks and events, against a server on loopback."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest

from rolecall import ConfigError, OnlineChatModule, TrainableModule
from rolecall.chat import BadAnswerError, Event, ModuleError, ToolCallsError
from rolecall.models.llama.json_grammar import json_grammar
from rolecall.models.protocol import ModelError
from rolecall.runs.run import run_config
from servers import Server, in_order, serve


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def module_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(base_url=server.url, model='toy', **options)


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'api_key': 'k'}, "'api_key' is not an option of a call. Give it to OnlineChatModule"),
        ({'base_url': 'http://x'}, "'base_url' is not an option of a call."),
        ({'system': 'Be brief.'}, 'Set the instruction with module.prompt'),
        ({'llm_chat_history': []}, r'Write history=\[…\]'),
        ({'max_retries': 1}, 'Write retries=…'),
        ({'temprature': 0}, "unknown option 'temprature'. Did you mean 'temperature'"),
        ({'zzz': 0}, r'goes into extra_body=\{…\}'),
        ({'temperature': 'hot'}, "temperature must be a number, got 'hot'"),
        ({'max_tokens': -1}, 'max_tokens must be a whole number of tokens of at least 1, got -1'),
        ({'top_p': -0.5}, 'top_p must not be negative'),
        ({'timeout': 0}, 'timeout must be a number of seconds above 0'),
        ({'retries': -1}, 'retries must be a whole number of at least 0'),
        ({'headers': ['a']}, 'headers must be a mapping'),
        ({'headers': {'A': 1}}, 'headers must have strings as values'),
        ({'returns': object()}, 'cannot be described|says nothing about the answer'),
    ],
    ids=lambda value: value if isinstance(value, str) else next(iter(value)) + '=' + type(next(iter(value.values()))).__name__,
)  # fmt: skip
def test_an_option_is_honoured_or_refused(server: Server, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModuleError, match=sentence):
        module_of(server)('Hi', **options)
    assert server.calls == []


def test_headers_and_fields_of_one_call_are_sent_with_it_alone(server: Server) -> None:
    module = module_of(server, extra_body={'top_a': 1, 'b': 2}, headers={'X-Every': 'yes'})
    module('Hi', headers={'X-Once': 'now'}, extra_body={'top_a': 3})
    module('Hi')
    assert [(call.body['top_a'], call.body['b']) for call in server.calls] == [(3, 2), (1, 2)]
    assert [call.headers.get('X-Once') for call in server.calls] == ['now', None]
    assert {call.headers.get('X-Every') for call in server.calls} == {'yes'}
    assert all('extra_headers' not in call.body for call in server.calls)


@pytest.mark.parametrize('fault', ['hang', 'rate_limit', 'error'])
def test_a_timeout_bounds_the_whole_call(fault: str) -> None:
    with serve(faults=lambda *_: fault) as server:
        began = time.monotonic()
        with pytest.raises(ModelError, match=r'no answer within 0\.7 s \(timeout\), retries included'):
            module_of(server)('Hi', timeout=0.7)
        assert time.monotonic() - began < 5


def test_retries_of_one_call() -> None:
    with serve(faults=in_order('error', 'error')) as server:
        with pytest.raises(ModelError):
            module_of(server)('Hi', retries=0)
        assert len(server.calls) == 1
        assert module_of(server)('Hi', retries=3) == 'Answer to Hi'


class Point(TypedDict):
    x: int
    y: int


@dataclass
class City:
    name: str
    size: Literal['small', 'large']
    twins: list[str]


POINT = {'type': 'object', 'properties': {'x': {'type': 'integer'}, 'y': {'type': 'integer'}}, 'required': ['x', 'y']}


@pytest.mark.parametrize(
    ('returns', 'said', 'value'),
    [
        (Point, '{"x": 1, "y": 2}', {'x': 1, 'y': 2}),
        (City, '{"name": "Ulm", "size": "small", "twins": []}', City('Ulm', 'small', [])),
        (list[int], '[1, 2]', [1, 2]),
        (bool, 'true', True),
        (POINT, '{"x": 1, "y": 2, "z": 3}', {'x': 1, 'y': 2, 'z': 3}),
        (Point, 'Here it is:\n```json\n{"x": 1, "y": 2}\n```', {'x': 1, 'y': 2}),
    ],
    ids=['TypedDict', 'dataclass', 'list', 'bool', 'schema', 'fenced'],
)
def test_an_answer_is_a_value_of_the_type_asked_for(returns: Any, said: str, value: Any) -> None:
    with serve(said) as server:
        assert module_of(server)('Where?', returns=returns) == value
    sent = server.bodies[0]['response_format']
    assert (sent['type'], sent['json_schema']['name']) == ('json_schema', 'answer')


def test_a_pydantic_model_is_validated() -> None:
    pydantic = pytest.importorskip('pydantic')

    class Person(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        name: str
        age: int = pydantic.Field(ge=0)

    with serve('{"name": "Ada", "age": 36}') as server:
        person = module_of(server)('Who?', returns=Person)
    assert (type(person), person.age) == (Person, 36)
    assert server.bodies[0]['response_format']['json_schema']['strict'] is True
    with (
        serve('{"name": "Ada", "age": -1}') as server,
        pytest.raises(BadAnswerError, match='greater than or equal to 0'),
    ):
        module_of(server)('Who?', returns=Person)


def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason() -> None:
    answers = iter(['{"x": 1}', 'no JSON', '{"x": 1, "y": 2}'])
    with serve(lambda _: next(answers)) as server:
        reply = module_of(server).reply('Where?', returns=Point)
    assert reply.value == {'x': 1, 'y': 2}
    told = [message['content'] for message in server.bodies[2]['messages']]
    assert told[:2] == ['Where?', '{"x": 1}']
    assert "lacks 'y'" in told[2]
    assert 'not JSON' in told[4]


def test_an_answer_that_never_fits_is_an_error_with_the_reply() -> None:
    with serve('{"x": "left"}') as server:
        with pytest.raises(BadAnswerError, match='asked for 3 times') as raised:
            module_of(server)('Where?', returns=POINT)
        assert len(server.calls) == 3
    assert raised.value.reply.text == '{"x": "left"}'


def test_claude_answers_through_a_tool() -> None:
    used = {'type': 'tool_use', 'id': 't', 'name': 'give_answer', 'input': {'x': 1, 'y': 2}}
    with serve({'content': [used], 'stop_reason': 'tool_use'}) as server:
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        assert module('Where?', returns=Point) == {'x': 1, 'y': 2}
    sent = server.bodies[0]
    assert sent['tool_choice'] == {'type': 'tool', 'name': 'give_answer'}
    assert [tool['name'] for tool in sent['tools']] == ['give_answer']


def test_claude_wraps_a_value_that_is_no_object() -> None:
    used = {'type': 'tool_use', 'id': 't', 'name': 'give_answer', 'input': {'answer': [1, 2]}}
    with serve({'content': [used], 'stop_reason': 'tool_use'}) as server:
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        assert module('Which?', returns=list[int]) == [1, 2]


def test_tool_calls_without_text_are_no_empty_answer() -> None:
    call = {'id': 'c', 'type': 'function', 'function': {'name': 'today', 'arguments': '{}'}}
    answer = {'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}, 'finish_reason': 'tool_calls'}

    def today() -> str:
        """The date."""
        return 'Monday'

    with serve(answer) as server, pytest.raises(ToolCallsError, match=r'tool calls \(today\)'):
        module_of(server)('When?', tools=[today])


def test_a_batch_keeps_its_order(server: Server) -> None:
    seen: list[tuple[int, int]] = []
    module = module_of(server)
    inputs = [f'q{number}' for number in range(20)]
    answers = module.batch(inputs, concurrency=3, on_progress=lambda done, total: seen.append((done, total)))
    assert answers == [f'Answer to {given}' for given in inputs]
    assert seen[-1] == (20, 20)
    assert len(server.calls) == 20
    assert asyncio.run(module.abatch(inputs[:2])) == answers[:2]


def test_errors_of_a_batch_stand_in_their_places() -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        return body['messages'][-1]['content']

    with serve(answer, faults=lambda _, body: '400' if body['messages'][-1]['content'] == 'bad' else None) as server:
        module = module_of(server, retries=0)
        good, bad = module.batch(['good', 'bad'], return_errors=True)
        assert good == 'good'
        assert isinstance(bad, ModelError)
        with pytest.raises(ModelError):
            module.batch(['good', 'bad'])


def test_a_fallback_answers_for_a_module_that_cannot(server: Server) -> None:
    with serve(faults=lambda *_: 'error') as broken:
        module = module_of(broken, retries=0).prompt('Be brief.').with_fallbacks(module_of(server))
        assert module('Hi') == 'Answer to Hi'
        assert module.batch(['a', 'b']) == ['Answer to a', 'Answer to b']
    assert server.bodies[0]['messages'][0]['content'].strip().endswith('Be brief.')
    with pytest.raises(ModuleError, match='a fallback must be a module'):
        module.with_fallbacks('openai')


def test_events_tell_what_happened_and_cannot_break_a_call(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []
    module_of(server).watch(seen.append)('Hi')
    assert [event.kind for event in seen] == ['request', 'reply']
    assert seen[1].data.usage.output_tokens

    def broken(_: Event) -> None:
        raise ValueError('no')

    assert module_of(server).watch(broken)('Hi') == 'Answer to Hi'
    assert 'on_event raised ValueError: no' in caplog.text


@pytest.mark.parametrize(
    ('schema', 'rule'),
    [
        (
            {'type': 'array', 'items': {'type': 'integer'}, 'minItems': 2, 'maxItems': 3},
            r'integer ("," space integer){1,2}',
        ),
        ({'type': 'object', 'additionalProperties': False}, 'root ::= "{" space "}"'),
        ({'anyOf': [{'type': 'string'}, {'type': 'null'}]}, 'root ::= string | null'),
        ({'const': 'a"b'}, 'root ::= "\\"a\\\\\\"b\\""'),
    ],
)
def test_a_schema_becomes_a_grammar(schema: Any, rule: str) -> None:
    assert rule in json_grammar(schema)


@pytest.mark.parametrize('schema', [5, {'type': 'weird'}, {'$ref': 'http://x'}, {'$ref': '#/$defs/none'}])
def test_a_schema_that_cannot_be_used_is_refused(schema: Any) -> None:
    with pytest.raises(ModelError, match='schema'):
        json_grammar(schema)


def test_an_evaluation_holds_answers_to_a_schema(server: Server, tmp_path: Path) -> None:
    template = {'type': 'PromptTemplate', 'template': '{q}'}
    inferencer = {'type': 'GenInferencer', 'output_schema': POINT}
    entry = {
        'abbr': 'd',
        'type': 'Rows',
        'test': [{'q': 'Where?', 'a': 'x'}],
        'reader_cfg': {'input_columns': ['q'], 'output_column': 'a'},
        'infer_cfg': {'prompt_template': template, 'inferencer': inferencer},
    }
    model = {'abbr': 'm', 'type': 'OpenAI', 'path': 'toy', 'base_url': server.url, 'key': 'k'}
    run_config({'models': [model], 'datasets': [entry]}, out=tmp_path / 'run')
    assert server.bodies[0]['response_format']['json_schema']['schema'] == POINT
    with pytest.raises(ConfigError, match='cannot be held to a JSON Schema'):
        run_config({'models': [{'abbr': 'f', 'type': str.upper}], 'datasets': [entry]}, out=tmp_path / 'other')
    inferencer['output_schema'] = 'point'  # type: ignore[assignment]
    with pytest.raises(ConfigError, match='must be a JSON Schema'):
        run_config({'models': [model], 'datasets': [entry]}, out=tmp_path / 'third')


@dataclass
class Facts:
    size: Literal['small', 'large']
    old: bool
    founded: int | None


@pytest.mark.heavy
def test_the_embedded_model_can_only_answer_with_the_type_asked_for() -> None:
    pytest.importorskip('xllamacpp')
    with TrainableModule('smollm2', max_seq_len=512, max_tokens=60) as module:
        drawn = module.batch(['Describe Paris.', 'Say hello.', 'Count to 3.'], returns=Facts, temperature=1.5, seed=3)
    assert all(isinstance(facts, Facts) and facts.size in ('small', 'large') for facts in drawn)
