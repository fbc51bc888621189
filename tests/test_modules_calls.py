"""Options of a call, answers as values, batches, fallbacks and events, against a server on loopback."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, TypedDict

import pytest
from aiohttp import web
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rolecall import ChatPrompter, ConfigError, OnlineChatModule, RolecallError, TrainableModule
from rolecall.apps.chat import BadAnswerError, BatchError, CallLog, Event, McpTools, ModuleError, Tool, ToolCallsError
from rolecall.apps.chat.adapters import ModuleCall
from rolecall.apps.chat.answerer import Answerer
from rolecall.apps.chat.background import result_of
from rolecall.apps.chat.call_options import CallSettings
from rolecall.apps.chat.conversation import Conversation
from rolecall.apps.chat.structured import GrowingJson
from rolecall.models.llama.decoding import AnswerGrammar
from rolecall.models.llama.vocabulary import LlamaVocabulary
from rolecall.models.protocol import ModelError
from rolecall.models.tokenizers.tokenizer import find_tokenizer
from rolecall.runs.run import run_config
from servers import Server, in_order, serve
from tables import in_one


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
        ({'key': 'k'}, r'Give it to OnlineChatModule\(…, api_key=…\)'),
        ({'concurrency': 3}, r'It is for module\.batch'),
        ({'concurency': 3}, "Did you mean 'concurrency'?"),
        ({'zzz': 0}, r'goes into extra_body=\{…\}'),
        ({'temperature': 'hot'}, "temperature must be a number, got 'hot'"),
        ({'max_tokens': -1}, 'max_tokens must be a whole number of tokens of at least 1, got -1'),
        ({'top_p': -0.5}, 'top_p must not be negative'),
        ({'top_p': 3}, 'top_p must be at most 1, got 3'),
        ({'presence_penalty': 'high'}, "presence_penalty must be a number, got 'high'"),
        ({'timeout': 0}, 'timeout must be a number of seconds above 0'),
        ({'retries': -1}, 'retries must be a whole number of at least 0'),
        ({'headers': ['a']}, 'headers must be a mapping'),
        ({'headers': {'A': 1}}, 'headers must have strings as values'),
        ({'headers': {'A': 'b\r\nEvil: 1'}}, "headers: 'A' cannot be sent"),
        ({'headers': {'A b': 'c'}}, "headers: 'A b' cannot be sent"),
        ({'extra_body': {'model': 'x'}}, "extra_body must not have 'model'"),
        ({'extra_body': {'a': {1}}}, r"extra_body\['a'\] must be data that JSON can carry"),
        ({'metadata': {'a': object()}}, 'metadata must be data that JSON can carry'),
        ({'returns': int, 'response_format': {'type': 'text'}}, 'returns and response_format both say'),
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


def test_a_timeout_names_the_last_failure() -> None:
    with serve(faults=in_order('error', 'hang')) as server:
        line = module_of(server)._connection()
        conversation = Conversation([Answerer('toy', line, CallSettings(timeout=2.0))])
        with pytest.raises(ModelError, match=r'no answer within 2 s .* The last attempt: .*failed \(500\)') as caught:
            result_of(conversation.answer_in_time(ChatPrompter('Go.'), ModuleCall('Hi')))
    assert caught.value.status == 500


@pytest.mark.parametrize('fault', ['hang', 'rate_limit', 'error'])
def test_a_timeout_bounds_the_whole_call(fault: str) -> None:
    with serve(faults=lambda *_: fault) as server:
        began = time.monotonic()
        with pytest.raises(ModelError, match=r'no answer within 0\.7 s \(timeout\), retries included'):
            module_of(server)('Hi', timeout=0.7)
        assert time.monotonic() - began < 60


@pytest.mark.parametrize(('options', 'longest'), [({}, '60'), ({'timeout': 30}, '30')], ids=['default', 'timeout'])
def test_a_server_that_asks_for_an_hour_gets_an_error_at_once(options: Any, longest: str) -> None:
    seen: list[Event] = []
    with serve(faults=lambda *_: 'rate_limit', retry_after='3600') as server:
        began = time.monotonic()
        with pytest.raises(
            ModelError, match=f'asks for a pause of 3,600 s, and the call waits {longest} s at most'
        ) as caught:
            module_of(server).watch(seen.append)('Hi', **options)
    assert time.monotonic() - began < 60
    assert (caught.value.status, caught.value.retry_after) == (429, 3600)
    assert len(server.calls) == 1
    assert [event.kind for event in seen] == ['request', 'failure']


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


@dataclass
class Trip:
    day: date
    price: Decimal
    seats: dict[int, str]

    def __post_init__(self) -> None:
        if self.price < 0:
            raise ValueError('a price is not negative')


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
        (list[int], '{"answer": [1, 2]}', [1, 2]),
        (
            Trip,
            '{"day": "2026-03-01", "price": 9.5, "seats": {"1": "a"}}',
            Trip(date(2026, 3, 1), Decimal('9.5'), {1: 'a'}),
        ),
        (list[datetime], '["2026-03-01T09:00:00Z"]', [datetime(2026, 3, 1, 9, tzinfo=timezone.utc)]),
        (
            {'type': 'array', 'items': {'$ref': '#/$defs/N'}, '$defs': {'N': {'type': 'integer'}}},
            '{"answer": [4]}',
            [4],
        ),
    ],
    ids=['TypedDict', 'dataclass', 'list', 'bool', 'schema', 'fenced', 'wrapped', 'dates', 'times', 'wrapped schema'],
)
def test_an_answer_is_a_value_of_the_type_asked_for(returns: Any, said: str, value: Any) -> None:
    with serve(said) as server:
        assert module_of(server)('Where?', returns=returns) == value
    sent = server.bodies[0]['response_format']
    assert (sent['type'], sent['json_schema']['name']) == ('json_schema', 'answer')
    assert sent['json_schema']['schema']['type'] == 'object'  # OpenAI takes nothing else


@pytest.mark.parametrize(
    ('returns', 'said', 'why'),
    [
        (Trip, '{"day": "soon", "price": 1, "seats": {}}', "the answer.day must be a date as a string, got 'soon'"),
        (Trip, '{"day": "2026-03-01", "price": -1, "seats": {}}', 'the answer: a price is not negative'),
        ({'type': 'integer', 'minimum': 5}, '3', 'the answer must be at least 5, got 3'),
        ({'type': 'string', 'pattern': '^a', 'maxLength': 2}, '"b"', "the answer must match '^a', got 'b'"),
        ({'type': 'array', 'minItems': 2}, '[1]', 'the answer must have at least this many items: 2'),
        ({'allOf': [{'type': 'integer'}]}, '"b"', 'the answer must be integer'),
        ({'enum': [1]}, 'true', 'the answer must be one of 1; got True'),
    ],
    ids=['date', 'own check', 'minimum', 'pattern', 'items', 'allOf', 'enum'],
)
def test_an_answer_beyond_its_limits_does_not_fit(returns: Any, said: str, why: str) -> None:
    with serve(said) as server, pytest.raises(BadAnswerError, match=re.escape(why)):
        module_of(server)('Where?', returns=returns)


@pytest.mark.parametrize('returns', [list[bytes], dict[str, object | Server], {'type': {1}}], ids=str)
def test_a_type_that_no_answer_can_have_is_refused(returns: Any) -> None:
    with pytest.raises(ModuleError, match='returns: '):
        OnlineChatModule('http://localhost:9', 'toy')('Where?', returns=returns)


def test_a_call_with_returns_that_ends_in_a_tool_call_says_so() -> None:
    call = {'id': 'c', 'type': 'function', 'function': {'name': 'today', 'arguments': '{}'}}
    answer = {'message': {'role': 'assistant', 'content': None, 'tool_calls': [call]}, 'finish_reason': 'tool_calls'}
    with serve(answer) as server:
        with pytest.raises(ToolCallsError, match='today'):
            module_of(server)('When?', tools=[{'type': 'function', 'function': {'name': 'today'}}], returns=Point)
        assert len(server.calls) == 1


def test_a_timeout_bounds_fallbacks_too(server: Server) -> None:
    with serve(faults=lambda *_: 'hang') as first, serve(faults=lambda *_: 'hang') as second:
        module = module_of(first).with_fallbacks(module_of(second), module_of(server))
        assert module_of(server)('Hi') == 'Answer to Hi'  # whatever a first call imports is there now
        with pytest.raises(ModelError, match='no answer within 1.5 s'):
            module('Hi', timeout=1.5)
        assert (len(first.calls), len(second.calls)) == (1, 0)


def test_a_call_is_refused_that_could_not_be_honoured(server: Server) -> None:
    module = module_of(server)
    with pytest.raises(ModuleError, match="extra_body must not have 'messages'"):
        module('Hi', extra_body={'messages': []})
    with pytest.raises(ModuleError, match='inputs must be a list'):
        module.batch('abc')
    with pytest.raises(ModuleError, match='unknown option'):
        module.batch(['a'], return_errors=True, temprature=1)
    with pytest.raises(ModuleError, match='on_event must be a function'):
        module.watch(3)  # type: ignore[arg-type]
    with pytest.raises(ModuleError, match='without any history, and the budget is 3'):
        module.with_token_budget(3, count=len)('far too long')
    assert server.calls == []


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


def test_an_answer_that_was_cut_is_called_so() -> None:
    cut = {'message': {'role': 'assistant', 'content': '{"x": 1, "y'}, 'finish_reason': 'length'}
    with serve(cut) as server, pytest.raises(BadAnswerError, match=r'not JSON: .*cut at its length limit, max_tokens'):
        module_of(server)('Where?', returns=Point)


def test_claude_answers_through_a_tool() -> None:
    used = {'type': 'tool_use', 'id': 't', 'name': 'give_answer', 'input': {'x': 1, 'y': 2}}
    with serve({'content': [used], 'stop_reason': 'tool_use'}) as server:
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        assert module('Where?', returns=Point) == {'x': 1, 'y': 2}
    sent = server.bodies[0]
    assert sent['tool_choice'] == {'type': 'tool', 'name': 'give_answer'}
    assert [tool['name'] for tool in sent['tools']] == ['give_answer']


def test_claude_gives_an_object_with_a_field_called_answer() -> None:
    schema = {'type': 'object', 'properties': {'answer': {'type': 'string'}}, 'required': ['answer']}
    used = {'type': 'tool_use', 'id': 't', 'name': 'give_answer', 'input': {'answer': 'yes'}}
    with serve({'content': [used], 'stop_reason': 'tool_use'}) as server:
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        assert module('Is it?', returns=schema) == {'answer': 'yes'}


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
        with pytest.raises(BatchError, match='input 1 failed: .* 1 of 3 inputs were answered') as caught:
            module.batch(['good', 'bad', 'good'], concurrency=1)
        assert [reply and reply.text for reply in caught.value.replies] == ['good', None, None]
        assert list(caught.value.errors) == [1]
        assert isinstance(caught.value.__cause__, ModelError)


def test_a_batch_has_replies_with_usage_and_a_history_for_each_input(server: Server) -> None:
    module = module_of(server)
    replies = module.batch_replies(['a', 'b'], histories=[[['Who?', 'Me.']], None])
    assert [reply.text for reply in replies] == ['Answer to a', 'Answer to b']
    assert all(reply.usage.output_tokens for reply in replies)
    assert sorted(len(body['messages']) for body in server.bodies) == [1, 3]
    assert asyncio.run(module.abatch_replies(['a']))[0].text == 'Answer to a'
    with pytest.raises(ModuleError, match='one for each of the 2 inputs, got 1'):
        module.batch(['a', 'b'], histories=[None])
    with pytest.raises(ModuleError, match='give one of the two'):
        module.batch(['a'], histories=[None], history=[['a', 'b']])


def test_a_fallback_answers_for_a_module_that_cannot(server: Server) -> None:
    with serve(faults=lambda *_: 'error') as broken:
        module = module_of(broken, retries=0).prompt('Be brief.').with_fallbacks(module_of(server))
        assert module('Hi') == 'Answer to Hi'
        assert module.batch(['a', 'b']) == ['Answer to a', 'Answer to b']
    assert server.bodies[0]['messages'][0]['content'].strip().endswith('Be brief.')
    with pytest.raises(ModuleError, match='fallbacks must be modules, one argument each'):
        module.with_fallbacks('openai')


def test_events_tell_what_happened_and_cannot_break_a_call(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[Event] = []
    module_of(server).watch(seen.append)('Hi')
    assert [event.kind for event in seen] == ['request', 'reply', 'usage']
    assert seen[1].data.usage.output_tokens

    def broken(_: Event) -> None:
        raise ValueError('no')

    assert module_of(server).watch(broken)('Hi') == 'Answer to Hi'
    assert 'on_event raised ValueError: no' in caplog.text


def fits(schema: Any, text: str) -> bool:
    """Whether the embedded model may answer with this text, token by token, and end there."""
    np, vocabulary = pytest.importorskip('numpy'), find_tokenizer({'type': 'Embedded', 'path': 'smollm2'})
    assert isinstance(vocabulary, LlamaVocabulary)
    grammar, logits = AnswerGrammar(vocabulary, schema), np.zeros(vocabulary.size, np.float32)
    for token in vocabulary.encode(text):
        if not np.isfinite(grammar.mask(logits, greedy=False)[token]):
            return False
        grammar.accept(token)
    return all(np.isfinite(grammar.mask(logits, greedy=False)[end]) for end in vocabulary.ends)


NUMBERS = {'type': 'array', 'items': {'type': 'integer'}, 'minItems': 2, 'maxItems': 3}
FIELDS = {'type': 'object', 'properties': {'a': {'type': 'integer'}, 'b': {'type': 'string'}}, 'required': ['a']}


@in_one
@pytest.mark.parametrize(
    ('schema', 'right', 'wrong'),
    [
        (NUMBERS, ['[1, 2]', '[1, 2, 3]'], ['[1]', '[1, 2, 3, 4]', '[1,\n\n\n2]']),
        (FIELDS, ['{"a": 1, "b": "x"}', '{"a": 1}'], ['{"b": "x"}', '{"a": "1"}', 'No.']),
        ({'type': 'object', 'additionalProperties': False}, ['{}'], ['{"a": 1}']),
        ({'anyOf': [{'type': 'string'}, {'type': 'null'}]}, ['"x"', 'null'], ['1']),
        ({'oneOf': [{'type': 'string'}, {'type': 'null'}]}, ['"x"', 'null'], ['1']),
        ({'const': 'a"b'}, ['"a\\"b"'], ['"a"']),
        ({'type': 'string', 'format': 'date'}, ['"2026-11-16"'], ['"soon"']),
        ({'type': 'string', 'minLength': 2, 'maxLength': 4}, ['"abc"'], ['"a"', '"abcde"']),
        ({'type': 'integer', 'minimum': 1, 'maximum': 3}, ['1', '3'], ['0', '4']),
        ({'type': 'integer', 'exclusiveMinimum': -2, 'exclusiveMaximum': 1}, ['-1', '0'], ['-2', '1']),
        ({'type': 'array', 'items': {'type': 'integer'}, 'uniqueItems': True}, ['[1, 1]'], ['["x"]']),
    ],
)
def test_the_embedded_model_is_held_to_a_schema(schema: Any, right: list[str], wrong: list[str]) -> None:
    pytest.importorskip('xllamacpp')
    assert [text for text in right if not fits(schema, text)] == []
    assert [text for text in wrong if fits(schema, text)] == []


@in_one
@pytest.mark.parametrize(
    ('schema', 'why'),
    [
        (5, 'must be an object'),
        ({'type': 'weird'}, 'weird'),
        ({'$ref': 'http://x'}, 'http://x'),
        ({'$ref': '#/$defs/none'}, 'none'),
        ({'type': 'array', 'minItems': 'two'}, 'minItems'),
        ({'type': 'string', 'maxLength': -1}, 'maxLength'),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, why: str) -> None:
    pytest.importorskip('xllamacpp')
    with pytest.raises(ModelError, match=f'the JSON schema of the answer cannot be used: .*{re.escape(why)}'):
        fits(schema, '1')


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


@pytest.mark.parametrize(
    ('body', 'field'),
    [
        ({'choices': []}, '`choices` is empty'),
        ({}, '`choices` is missing'),
        ({'choices': 'x'}, '`choices` is a str, not a list'),
        ({'choices': [{}]}, '`choices[0].message` is missing'),
        ({'choices': [{'message': None}]}, '`choices[0].message` is missing'),
        ([], 'it is a list, not an object'),
    ],
    ids=['empty', 'missing', 'text', 'choice', 'null', 'list'],
)
def test_a_reply_without_an_answer_is_an_error_that_names_the_field(body: Any, field: str) -> None:
    with serve(lambda _: web.json_response(body)) as server:
        module = module_of(server, retries=0)
        for ask in (module, lambda text: list(module.stream(text))):
            with pytest.raises(ModelError, match=re.escape(f"model 'toy': the reply cannot be read ({field})")):
                ask('Hi')


PICTURE = [
    {
        'role': 'user',
        'content': [{'type': 'text', 'text': 'Who?'}, {'type': 'image_url', 'image_url': {'url': 'data:,'}}],
    }
]


def test_a_picture_for_a_text_model_is_an_error_that_names_its_place(server: Server) -> None:
    place = re.escape('input[0].content[1] has type image_url')
    with pytest.raises(ModuleError, match=f'{place}: this model takes text only'):
        module_of(server, media=False)(PICTURE)
    assert server.calls == []
    with serve(faults=lambda *_: '400') as refusing, pytest.raises(ModelError, match=f'This is a 400 .{place}: does'):
        module_of(refusing, retries=0)(PICTURE)


@pytest.mark.parametrize('name', ['temperature', 'max_tokens', 'timeout', 'tools'])
def test_an_option_that_is_set_as_an_attribute_is_an_error(server: Server, name: str) -> None:
    with pytest.raises(ModuleError, match=rf'module\.{name} = … has no effect. .* module\(input, {name}=0\)'):
        setattr(module_of(server), name, 0)
    assert server.calls == []


def test_a_derived_module_that_is_dropped_is_warned_about(server: Server) -> None:
    module = module_of(server)
    for method, argument in (('prompt', 'x'), ('with_token_budget', 5), ('watch', print), ('with_fallbacks', module)):
        scope = {'module': module, 'argument': argument}
        with pytest.warns(UserWarning, match=rf'{method}\(\) returns a new module, which is dropped here'):
            exec(f'module.{method}(argument)', scope)
        exec(f'kept = module.{method}(argument)', scope)


# Values as they grow


@settings(max_examples=200, deadline=None)
@example(value=['\x07 \U0001f600'], cuts=list(range(30)), spaced=False, ascii=True)
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=10,
    ).filter(lambda value: isinstance(value, (dict, list))),
    cuts=st.lists(st.integers(0, 200)),
    spaced=st.booleans(),
    ascii=st.booleans(),
)
def test_json_cut_anywhere_is_read_as_far_as_it_goes(value: Any, cuts: list[int], spaced: bool, ascii: bool) -> None:  # noqa: A002
    text = json.dumps(value, indent=2 if spaced else None, ensure_ascii=ascii)
    ends = [*sorted({cut for cut in cuts if cut < len(text)}), len(text)]
    growing, snapshots = GrowingJson(), []
    for start, end in zip([0, *ends], ends, strict=False):
        snapshots.append(growing.take(text[start:end]))
    assert snapshots[-1] == value
    for snapshot in snapshots:
        json.dumps(snapshot, ensure_ascii=False).encode()  # no half of a surrogate pair


def test_a_value_grows_as_it_is_streamed() -> None:
    said = json.dumps({'name': 'Ada Lovelace', 'age': 36, 'tags': ['first', 'second']})
    with serve(said) as server:
        values = list(module_of(server).stream('Who?', returns=Profile).values())
        assert values[-1] == Profile('Ada Lovelace', 36, ['first', 'second'])
        names = [value['name'] for value in values[:-1] if value.get('name')]
        assert len(set(names)) > 1  # which pieces arrive together is the network's choice
        assert all('Ada Lovelace'.startswith(name) for name in names)

        async def read() -> list[Any]:
            return [value async for value in module_of(server).astream('Who?', returns=Profile).values()]

        assert asyncio.run(read()) == values


def test_values_of_a_stream_need_the_type_of_the_answer(server: Server) -> None:
    with pytest.raises(ModuleError, match=r'values\(\) needs the type of the answer'):
        list(module_of(server).stream('Hi').values())


def test_a_value_that_is_not_an_object_grows_too() -> None:
    with serve('{"answer": ["one", "two"]}') as server:
        values = list(module_of(server).stream('List.', returns=list[str]).values())
    assert values[-1] == ['one', 'two']
    assert ['one'] in values


def test_a_streamed_answer_that_does_not_fit_is_an_error_and_not_begun_again() -> None:
    with serve('{"name": "Ada"}') as server:
        stream = module_of(server).stream('Who?', returns=Profile)
        with pytest.raises(BadAnswerError, match='asked for once'):
            list(stream.values())
    assert len(server.calls) == 1


@dataclass
class Profile:
    name: str
    age: int
    tags: list[str]


# First contact


@pytest.mark.parametrize(
    ('use', 'sentence'),
    [
        (lambda: TrainableModule('gpt-4o').start(), r"use OnlineChatModule\('openai/gpt-4o'\)"),
        (lambda: OnlineChatModule('smollm2'), r"It is a model on this machine: use TrainableModule\('smollm2'\)"),
        (lambda: OnlineChatModule('gpt-4o'), r"It is a model: write OnlineChatModule\('openai/gpt-4o'\)"),
        (lambda: OnlineChatModule('claude-sonnet-4-5'), r"OnlineChatModule\('anthropic/claude-sonnet-4-5'\)"),
        (lambda: OnlineChatModule('openai', stream='yes'), "stream must be True or False, got 'yes'"),
        (lambda: OnlineChatModule('openai', price='cheap'), r"Write price=\{'input': 1.0, 'output': 4.0\}"),
        (lambda: OnlineChatModule('openai', 5), r'model\n  expected a string, got 5\.$'),  # type: ignore[call-overload]
        (lambda: OnlineChatModule('anthropic', 5), r'model\n  expected a string, got 5\.$'),  # type: ignore[call-overload]
        (lambda: TrainableModule('/nope/model').start(), 'folder not found: /nope/model'),
        (lambda: TrainableModule('./nope').start(), r'folder not found: \./nope'),
        (lambda: TrainableModule('/nope/model.gguf').start(), r'file not found: /nope/model\.gguf'),
        (lambda: TrainableModule(None), 'model must be a name, a file or a folder'),  # type: ignore[arg-type]
        (lambda: TrainableModule('smollm2').tune([], 5), 'output must be a folder, got 5'),  # type: ignore[arg-type]
        (lambda: LOCAL.batch(5), 'inputs must be a list with one input for each call, got 5'),  # type: ignore[arg-type]
        (lambda: LOCAL.batch(['a'], on_progress=5), 'on_progress must be a function'),  # type: ignore[arg-type]
        (lambda: LOCAL.with_fallbacks(), 'fallbacks must be modules, one argument each, got none'),
        (lambda: LOCAL.with_fallbacks(LOCAL, when=5), 'when must be a list of conditions, got 5'),  # type: ignore[arg-type]
        (lambda: LOCAL.with_token_budget(9, count=str)('Hi'), "count must return a whole number of tokens, got '"),  # type: ignore[arg-type]
        (lambda: McpTools(5), 'an MCP server is a command or a URL, got 5'),  # type: ignore[arg-type]
        (lambda: ChatPrompter('x').pre_hook(5), 'a pre_hook must be a function'),  # type: ignore[arg-type]
        (lambda: TrainableModule('openai/gpt-4o').start(), r"use OnlineChatModule\('openai/gpt-4o'\)"),
        (lambda: TrainableModule('google/gemini-2.5-pro').start(), r"use OnlineChatModule\('gemini/gemini-2.5-pro'\)"),
        (lambda: TrainableModule('ollama').start(), r"use OnlineChatModule\('ollama'\)"),
        (lambda: TrainableModule('http://h/v1').start(), r"use OnlineChatModule\('http://h/v1'\)"),
        (lambda: TrainableModule('smolm2').start(), "no model 'smolm2'. Did you mean 'smollm2'"),
        (lambda: CallLog('.'), "CallLog needs a file such as 'calls.jsonl', got '.'"),
    ],
)  # fmt: skip
def test_a_misuse_is_an_error_that_says_what_to_write(use: Callable[[], object], sentence: str) -> None:
    with pytest.raises(RolecallError, match=sentence):
        use()


LOCAL: Any = OnlineChatModule('http://127.0.0.1:9/v1', 'toy')
PROMPTER: Any = ChatPrompter('x')


@pytest.mark.parametrize(
    ('function', 'arguments', 'options', 'sentence'),
    [
        (LOCAL, '', {}, r"module\(\): missing a required argument: 'user'. Write module\(user, returns=None, "),
        (LOCAL, 'ab', {}, r'module\(\): too many positional arguments'),
        (LOCAL.stream, '', {}, r"stream\(\): missing a required argument: 'user'"),
        (LOCAL.acall, '', {}, r"acall\(\): missing a required argument: 'user'"),
        (LOCAL.batch, '', {}, r"batch\(\): missing a required argument: 'inputs'"),
        (LOCAL.prompt, '', {'system': 'x'}, r"prompt\(\): got an unexpected keyword argument 'system'. Write prompt\("),
        (LOCAL.with_tools, [[]], {'max_round': 3}, r'Write with_tools\(functions, max_rounds=8, '),
        (LOCAL.with_fallbacks, [LOCAL], {'retry': 3}, r"unexpected keyword argument 'retry'. .*retries=1"),
        (OnlineChatModule, 'abcdef', {}, r'OnlineChatModule\(\): too many positional arguments'),
        (OnlineChatModule, ['openai'], {'modle': 'x'}, "unknown option 'modle'. Did you mean 'model'"),
        (TrainableModule, '', {}, r"TrainableModule\(\): missing a required argument: 'model'"),
        (TrainableModule('a/b').tune, [[]], {}, r"tune\(\): missing a required argument: 'output'"),
        (lambda: LOCAL.tune([], 'out'), '', {}, r"OnlineChatModule has no 'tune'. .*TrainableModule\('owner/model'\)"),
        (lambda: LOCAL.strem('Hi'), '', {}, "has no 'strem'. Did you mean 'stream'"),
        (Tool, '', {}, r"Tool\(\): missing a required argument: 'function'"),
        (McpTools, '', {}, r"McpTools\(\): missing a required argument: 'server'"),
        (ChatPrompter, 'x', {'system_text': 'y'}, r'ChatPrompter\(\): got an unexpected keyword argument'),
        (PROMPTER.generate_prompt, 'a', {'histori': []}, r"generate_prompt\(\): got an unexpected keyword argument"),
    ],
)  # fmt: skip
def test_missing_and_surplus_arguments_are_errors_that_show_the_call(
    function: Any, arguments: Any, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(RolecallError, match=sentence):
        function(*arguments, **options)


class CannotBeRead:
    def __iter__(self) -> Any:
        return iter(5)  # type: ignore[call-overload]


def test_what_a_method_raises_is_no_misuse_of_its_arguments() -> None:
    with pytest.raises(TypeError, match='not iterable'):
        LOCAL.batch(CannotBeRead())
    assert not hasattr(LOCAL, 'tune')


def test_a_field_that_a_proxy_documents_is_sent_by_extra_body() -> None:
    with serve('Hi', models=('claude-sonnet-4-5',)) as server:
        proxy: Any = OnlineChatModule('anthropic', base_url=server.url, api_key='k')
        with pytest.raises(ModuleError, match=r"has no seed\. .* Where a proxy documents it: extra_body=\{'seed': …\}"):
            proxy('Hi', seed=1)
        assert proxy('Hi', extra_body={'seed': 1}) == 'Hi'
    assert server.bodies[-1]['seed'] == 1


def test_the_names_that_errors_suggest_work() -> None:
    assert OnlineChatModule('openai/gpt-4o', api_key='k').model == 'gpt-4o'
    assert OnlineChatModule('anthropic/claude-sonnet-4-5', api_key='k').source == 'anthropic'


def test_an_option_of_calls_that_is_given_to_the_module_says_where_it_belongs() -> None:
    with pytest.raises(ModuleError, match=r"'tools' belongs to a call: module\(input, tools=…\)\."):
        OnlineChatModule('http://127.0.0.1:9', 'toy', tools=[])
