"""Chat modules against a server on loopback, in both formats."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from rolecall import AlpacaPrompter, ChatPrompter, ConfigError, OnlineChatModule, RolecallError
from rolecall.apps.chat import SOURCES, ModuleError, NoAnswerError, ToolRoundsError
from rolecall.errors import PrompterError
from rolecall.models.model_names import ALIASES
from rolecall.models.protocol import ModelError
from servers import Server, in_order, serve

KEY = 'sk-very-secret-0123456789'
TOOL = {'type': 'function', 'function': {'name': 'today', 'parameters': {'type': 'object', 'properties': {}}}}


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for source in SOURCES.values():
        for variable in source.variables:
            monkeypatch.delenv(variable, raising=False)
    for variable in ('OPENAI_BASE_URL', 'ANTHROPIC_BASE_URL'):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def server() -> Iterator[Server]:
    with serve() as running:
        yield running


def module_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(base_url=server.url, model='toy', **options)


def claude_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule('claude', base_url=server.url, model='toy', api_key=KEY, **options)


def calling(*names_and_arguments: tuple[str, Any]) -> dict[str, Any]:
    """An answer of the server that calls tools, in OpenAI's form."""
    calls = [
        {
            'id': f'c{number}',
            'type': 'function',
            'function': {
                'name': name,
                'arguments': arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(names_and_arguments)
    ]
    return {'message': {'role': 'assistant', 'content': None, 'tool_calls': calls}, 'finish_reason': 'tool_calls'}


class Answers:
    """Answers of a server, one after the other; the last for ever."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)

    def first(self, answer: Any) -> None:
        self._answers.insert(0, answer)

    def __call__(self, _body: Mapping[str, Any]) -> Any:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


# Wording


def test_a_module_without_a_prompter_sends_the_input_alone(server: Server) -> None:
    assert module_of(server)('Hi') == 'Answer to Hi'
    assert server.bodies == [{'model': 'toy', 'messages': [{'role': 'user', 'content': 'Hi'}]}]


def test_the_document_s_example(server: Server) -> None:
    prompter = AlpacaPrompter('Context: {context}. Question: {input}. Answer.')
    module = OnlineChatModule('openai', model='toy', base_url=server.url, api_key=KEY).prompt(prompter)
    module({'context': 'background', 'input': 'words'})
    sent = server.bodies[0]['messages']
    assert sent == prompter.generate_prompt({'context': 'background', 'input': 'words'}, return_dict=True)['messages']


@pytest.mark.parametrize('instruction', ['Be brief.', {'system': 'Be brief.', 'user': 'Now: '}])
def test_an_instruction_becomes_a_chat_prompter(server: Server, instruction: Any) -> None:
    module_of(server).prompt(instruction)('Hi')
    assert server.bodies[0]['messages'] == ChatPrompter(instruction).generate_prompt('Hi', return_dict=True)['messages']


def test_history_as_pairs_and_as_messages(server: Server) -> None:
    module = module_of(server)
    module('And you?', history=[['How are you?', 'Fine.']])
    module('And you?', history=[{'role': 'user', 'content': 'How are you?'}, {'role': 'assistant', 'content': 'Fine.'}])
    assert server.bodies[0] == server.bodies[1]
    assert [message['role'] for message in server.bodies[0]['messages']] == ['user', 'assistant', 'user']


def test_prompting_gives_a_new_module_and_leaves_the_prompter_alone(server: Server) -> None:
    prompter = ChatPrompter('Be brief.', system='You are A.')
    plain = module_of(server)
    one, other = plain.prompt(prompter), claude_of(server).prompt(prompter)
    one('Hi'), other('Hi'), plain('Hi')
    assert one.prompter is prompter
    assert prompter.model is None
    first, second, third = server.bodies
    assert first['messages'][0]['content'] == 'You are A.\nBe brief.\n\n'
    assert second['system'] == 'You are A.\nBe brief.\n\n'
    assert third['messages'] == [{'role': 'user', 'content': 'Hi'}]


def test_prompting_with_nothing_takes_the_prompter_away(server: Server) -> None:
    module_of(server).prompt('Be brief.').prompt(None)('Hi')
    assert server.bodies[0]['messages'] == [{'role': 'user', 'content': 'Hi'}]


def test_sampling_of_the_module_and_of_the_call(server: Server) -> None:
    module = module_of(server, temperature=0.5, seed=1, min_p=0.1)
    module('Hi', temperature=0, max_tokens=5, stop='END')
    body = server.bodies[0]
    assert {key: body[key] for key in body if key not in ('model', 'messages')} == {
        'temperature': 0,
        'seed': 1,
        'min_p': 0.1,
        'max_tokens': 5,
        'stop': ['END'],
    }


def test_a_parameter_that_is_a_slip_is_told_before_anything_is_sent(server: Server) -> None:
    module = module_of(server)
    for call in (module, module.stream):
        with pytest.raises(ModuleError, match="Did you mean 'temperature'"):
            call('Hi', temprature=0)
    module('Hi', min_tokens=1, min_new_tokens=1, extra_body={'top_a': 0.1}, tool_choice='none', logit_bias={})
    assert len(server.calls) == 1


def test_tools_of_a_call_are_sent_and_calls_come_back() -> None:
    with serve(calling(('today', {'x': 1}))) as server:
        reply = module_of(server).reply('When?', tools=[TOOL])
    assert server.bodies[0]['tools'] == [TOOL]
    assert reply.tool_calls[0]['function'] == {'name': 'today', 'arguments': {'x': 1}}
    assert reply.text == ''


def test_tools_of_a_call_to_claude() -> None:
    used = {'type': 'tool_use', 'id': 't', 'name': 'today', 'input': {}}
    with serve({'content': [used], 'stop_reason': 'tool_use'}) as server:
        reply = claude_of(server).reply('When?', tools=[TOOL])
    assert server.bodies[0]['tools'] == [{'name': 'today', 'input_schema': {'type': 'object', 'properties': {}}}]
    assert reply.tool_calls[0]['function']['name'] == 'today'


def test_a_reply_shows_what_was_sent_and_said(server: Server) -> None:
    reply = module_of(server).prompt('Be brief.').reply('Hi')
    assert reply.prompt == server.bodies[0]['messages']
    assert reply.said == ({'role': 'assistant', 'content': 'Answer to Hi'},)
    assert reply.usage.output_tokens == 3


def test_thinking_is_kept_apart() -> None:
    with serve('<think>2 and 2</think>\n\nFour') as server:
        reply = module_of(server).reply('2+2')
    assert (reply.text, reply.reasoning) == ('Four', '2 and 2')


def test_what_is_no_answer_is_an_error_that_has_the_reply() -> None:
    with serve({'message': {'content': ''}, 'finish_reason': 'content_filter'}) as server:
        module = module_of(server)
        assert module.reply('Hi').outcome == 'filtered'
        with pytest.raises(NoAnswerError, match='no answer .filtered: content_filter') as caught:
            module('Hi')
    assert caught.value.reply.outcome == 'filtered'


MESSAGE = {'role': 'user', 'content': 'Hi'}
PARTS = {'role': 'user', 'content': [{'type': 'text', 'text': 'a'}, {'type': 'image_url', 'image_url': {'url': 'u'}}]}


@pytest.mark.parametrize(
    ('instruction', 'asked', 'kept'),
    [
        ('Go.', 'Hi', [MESSAGE]),
        ('Go.', 3, [{'role': 'user', 'content': '3'}]),
        ('Go.', [MESSAGE], [MESSAGE]),
        ('Go.', [PARTS], [PARTS]),
        ('You are a {role}.', {'role': 'pirate', 'input': 'Hi'}, [MESSAGE]),
        ('You are a {role}.', {'role': 'pirate', 'input': [PARTS]}, [PARTS]),
        ('Write as {role}: {content}', {'role': 'user', 'content': 'x'}, [{'role': 'user', 'content': 'user\nx'}]),
        ('Sum {input}.', {'input': [1, 2]}, [{'role': 'user', 'content': '[1, 2]'}]),
        ('Sum {input}.', {'input': {'a': 1}}, [{'role': 'user', 'content': '{"a": 1}'}]),
        ('Sum {input}.', '1+1', [{'role': 'user', 'content': '1+1'}]),
    ],
)
def test_history_holds_what_the_user_said_as_the_prompter_reads_it(
    server: Server, instruction: str, asked: Any, kept: Any
) -> None:
    module = module_of(server).prompt(instruction)
    reply = module.reply(asked, history=[['a', 'b']])
    assert reply.history == [['a', 'b'], *kept, {'role': 'assistant', 'content': reply.text}]
    module(asked, history=reply.history)
    assert server.bodies[1]['messages'][3:-1] == [*kept, {'role': 'assistant', 'content': reply.text}]


def test_history_is_nobody_else_s(server: Server) -> None:
    asked, before = {'role': 'user', 'content': [{'type': 'text', 'text': 'a'}], 'name': 'Ada'}, ['a', 'b']
    reply = module_of(server).reply([asked], history=[before])
    kept = reply.history
    asked['content'][0]['text'] = before[0] = 'changed'  # type: ignore[index]
    assert reply.history == kept
    kept[1]['content'][0]['text'] = kept[2]['content'] = 'changed'
    assert 'changed' not in str(reply.history)
    assert reply.said[0]['content'] == reply.text


# Hooks


def leaving(*_given: Any) -> Any:
    sys.exit('bye')


@pytest.mark.parametrize(
    ('hook', 'sentence'),
    [
        (leaving, 'the pre_hook leaving raised SystemExit: bye'),
        (lambda *_given: 1 / 0, 'lambda> raised ZeroDivisionError: division by zero'),
        (lambda *_given: None, r'lambda> must return \(input, history, tools, label\), got None'),
    ],
)
def test_what_a_hook_raises_is_an_error_of_its_call(server: Server, hook: Any, sentence: str) -> None:
    module = module_of(server)
    hooked = module.prompt(ChatPrompter('Go.').pre_hook(hook))
    with pytest.raises(PrompterError, match=sentence):
        asyncio.run(asyncio.wait_for(hooked.acall('Hi'), 60))
    for call in (hooked, hooked.reply, lambda given: list(hooked.stream(given))):
        with pytest.raises(PrompterError, match=sentence):
            call('Hi')
    assert module('Hi') == 'Answer to Hi'


def test_a_hook_is_run_once_a_call_and_what_it_makes_of_the_input_was_said() -> None:
    seen: list[Any] = []

    def hook(given: Any, history: Any, tools: Any, label: Any) -> Any:
        seen.append(given)
        return {'context': 'Whales.', 'input': given.strip()}, [['a', 'b'], *(history or ())], tools, label

    with serve(Answers(calling(('add', {'x': 1})), 'It is 2.')) as server:
        prompter = ChatPrompter('Answer from {context}').pre_hook(hook)
        reply = module_of(server).prompt(prompter).with_tools([add]).reply(' Hi ')
    assert seen == [' Hi ']
    assert [message['content'] for message in server.bodies[1]['messages'][1:4]] == ['a', 'b', 'Hi']
    assert reply.history[0] == {'role': 'user', 'content': 'Hi'}


def test_a_hook_that_waits_lets_others_go_on_and_may_ask_a_module(server: Server) -> None:
    others = threading.Event()
    module = module_of(server)

    def waiting(given: Any, *rest: Any) -> Any:
        return (module(f'{given} {others.wait(60)}'), *rest)

    with ThreadPoolExecutor() as threads:
        answer = threads.submit(module.prompt(ChatPrompter('Go.').pre_hook(waiting)), 'Hi')
        assert module('Hi') == 'Answer to Hi'
        others.set()
        assert answer.result(60) == 'Answer to Answer to Hi True'


# Sources and keys


@pytest.mark.parametrize('name', [*SOURCES, *ALIASES])
def test_every_source_can_be_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCES[ALIASES.get(name, name)]
    if source.keys:
        monkeypatch.setenv(source.keys[0], KEY)
    monkeypatch.setenv('AZURE_OPENAI_ENDPOINT', 'https://acme.openai.azure.com')
    module = OnlineChatModule(name, model='deployed' if name == 'azure' else None)
    assert module.source == source.name
    assert module.base_url.startswith('http')
    assert source.base_url is None or module.base_url == source.base_url
    assert KEY not in repr(module) + repr(vars(module))


def test_without_a_source_the_first_key_in_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModuleError, match='no source given, and no API key found in the environment'):
        OnlineChatModule()
    monkeypatch.setenv('KIMI_API_KEY', KEY)
    assert OnlineChatModule().source == 'kimi'
    monkeypatch.setenv('LAZYLLM_DEEPSEEK_API_KEY', KEY)
    assert OnlineChatModule(model='deepseek-reasoner').source == 'deepseek'


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'source': 'opnai'}, "unknown source 'opnai'. Did you mean 'openai'"),
        ({'source': 'opnai/gpt-4o'}, "unknown source 'opnai/gpt-4o'. Did you mean 'openai'"),
        ({'source': 'localhost:8000/v1'}, r"For a server, write OnlineChatModule\('http://localhost:8000/v1'\)"),
        ({'source': 'meta-llama/Llama-3'}, r"use TrainableModule\('meta-llama/Llama-3'\); .* 'openrouter/meta-llama/"),
        ({'source': 'gpt-4o'}, r"write OnlineChatModule\('openai/gpt-4o'\)"),
        ({'source': 'acme-7b'}, "write model='acme-7b'"),
        ({'source': 'http://h/v1', 'base_url': 'http://g/v1'}, 'given twice'),
        ({'source': 'openai', 'retries': -1}, 'retries must be a whole number'),
        ({'source': 'openai', 'temprature': 0}, "Did you mean 'temperature'"),
        ({'source': 'openai', 'timeout': 'long'}, 'expected a number'),
        ({'source': 'openai', 'headers': {'X-Team': 'a\nb'}}, "'X-Team' cannot be sent"),
        ({'source': 'anthropic', 'headers': {'X Team': 'a'}}, "'X Team' cannot be sent"),
        ({'source': 'openai', 'max_tokens': 1, 'max_out_len': 2}, 'given twice'),
        ({'base_url': 'nowhere'}, 'not a server address'),
        ({'base_url': ''}, "base_url must be the URL of a server, or None for the default, got ''"),
        ({'source': 'openai', 'base_url': ' '}, 'base_url must be the URL of a server'),
    ],
)
def test_what_cannot_be_built_says_why(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises((ModuleError, ConfigError), match=sentence):
        OnlineChatModule(**options)


def test_the_key_comes_from_the_environment(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('DASHSCOPE_API_KEY', KEY)
    OnlineChatModule('qwen', model='toy', base_url=server.url)('Hi')
    assert server.calls[0].headers['Authorization'] == f'Bearer {KEY}'


def test_a_key_goes_to_no_server_it_is_not_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    module_of(server)('Hi')
    OnlineChatModule('ollama', model='toy', base_url=server.url)('Hi')
    OnlineChatModule(server.url, 'toy')('Hi')
    assert not any(KEY in str(call.headers) for call in server.calls)


def test_a_missing_key_is_told_at_the_call() -> None:
    with pytest.raises(ModelError, match='DEEPSEEK_API_KEY'):
        OnlineChatModule('deepseek')('Hi')


@pytest.mark.parametrize('make', [module_of, claude_of])
def test_a_bad_key_is_one_request_and_an_error_without_the_key(make: Any) -> None:
    with serve(key='the right one') as server:
        module = OnlineChatModule('claude' if make is claude_of else 'openai', 'toy', server.url, KEY)
        for call in (module, lambda given: list(module.stream(given))):
            with pytest.raises(ModelError, match='the key is missing, wrong') as caught:
                call('Hi')
            assert caught.value.status == 401
            assert KEY not in f'{caught.value} {caught.value.__cause__} {caught.value!r} {module!r}'
        assert len(server.calls) == 2
        assert 'Incorrect API key' in str(caught.value)


# Trouble


def test_too_many_requests_are_tried_again_after_the_time_the_server_says() -> None:
    with serve(faults=in_order('rate_limit', 'rate_limit'), retry_after='0.3') as server:
        began = time.monotonic()
        assert module_of(server)('Hi') == 'Answer to Hi'
        assert time.monotonic() - began > 0.6
        assert [call.fault for call in server.calls] == ['rate_limit', 'rate_limit', None]


@pytest.mark.parametrize('fault', ['error', 'drop', 'malformed', 'rate_limit', 'cut_stream'])
def test_trouble_before_the_first_piece_is_tried_again(fault: str) -> None:
    with serve(faults=in_order(fault)) as server:
        stream = module_of(server).stream('Hi')
        assert ''.join(stream) == stream.reply.text == 'Answer to Hi'
        assert len(server.calls) == 2


def test_an_answer_that_breaks_off_is_an_error_and_is_not_said_twice() -> None:
    async def half() -> AsyncIterator[bytes]:
        yield b'data: {"choices": [{"index": 0, "delta": {"content": "Once"}}]}\n\n'

    with serve(lambda _body: web.Response(body=half(), content_type='text/event-stream')) as server:
        stream = module_of(server).stream('Hi')
        assert next(stream) == 'Once'
        with pytest.raises(ModelError, match='broke off after 4 characters'):
            next(stream)
        assert len(server.calls) == 1


def test_a_server_that_stays_in_trouble_is_given_up() -> None:
    with serve(faults=lambda _number, _body: 'error') as server:
        module = module_of(server, retries=1)
        for _ in range(2):  # nothing of a call stays behind
            with pytest.raises(ModelError, match='no answer after 2 attempts.*the server failed') as caught:
                module('Hi')
            assert caught.value.status == 500
        assert len(server.calls) == 4


def test_a_time_out_is_an_error(server: Server) -> None:
    server.latency = 30
    with pytest.raises(ModelError, match='no answer within 0.1 s'):
        module_of(server, timeout=0.1, retries=0)('Hi')


def test_a_server_may_be_started_anew_between_calls_and_within_one() -> None:
    with serve() as first:
        module = module_of(first)
        assert module('one') == 'Answer to one'
        port = urlsplit(first.url).port
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(module, 'two')
        time.sleep(0.2)
        with serve(port=port):
            assert answer.result(60) == 'Answer to two'
            assert module('three') == 'Answer to three'
    with serve(port=port):
        assert ''.join(module.stream('four')) == 'Answer to four'


def test_wrong_input_is_the_prompter_s_error_and_nothing_is_sent(server: Server) -> None:
    module = module_of(server).prompt(AlpacaPrompter('{a} and {b}'))
    with pytest.raises(PrompterError, match='a string input fills one slot'):
        module('x')
    with pytest.raises(PrompterError, match='a string input fills one slot'):
        list(module.stream('x'))
    assert server.calls == []


@pytest.mark.parametrize('given', [3, ['a'], object()])
def test_a_module_is_prompted_with_words(server: Server, given: Any) -> None:
    with pytest.raises(ModuleError, match='expected a prompter'):
        module_of(server).prompt(given)


# Streams


@pytest.mark.parametrize('make', [module_of, claude_of])
def test_the_pieces_of_a_stream_are_the_answer(server: Server, make: Any) -> None:
    module = make(server)
    stream = module.stream('one two three')
    assert list(stream) == ['Answer', ' to', ' one', ' two', ' three']
    assert stream.reply.text == module('one two three')
    assert stream.reply.usage.output_tokens == 3
    assert list(stream) == []
    assert server.bodies[0]['stream'] is True
    assert 'stream' not in server.bodies[1]


def test_a_stream_says_no_thoughts() -> None:
    with serve('<think> 2 and 2 </think>\n\nIt is four') as server:
        stream = module_of(server).stream('2+2')
        assert ''.join(stream) == 'It is four'
        assert stream.reply.reasoning == '2 and 2'


def test_the_reply_of_a_stream_can_be_had_without_its_pieces(server: Server) -> None:
    assert module_of(server).stream('Hi').reply.text == 'Answer to Hi'


def test_a_module_that_streams_gives_the_whole_answer(server: Server) -> None:
    assert module_of(server, stream=True)('Hi') == 'Answer to Hi'
    assert server.bodies[0]['stream'] is True


class Slow:
    """An answer that never ends, and knows when nobody listens any more."""

    def __init__(self) -> None:
        self.begun, self.left = threading.Event(), threading.Event()

    def __call__(self, _body: Mapping[str, Any]) -> web.Response:
        return web.Response(body=self._events(), content_type='text/event-stream')

    async def _events(self) -> AsyncIterator[bytes]:
        self.begun.set()
        try:
            while True:
                yield b'data: {"choices": [{"index": 0, "delta": {"content": "word "}}]}\n\n'
                await asyncio.sleep(0.01)
        finally:
            self.left.set()


@pytest.mark.parametrize('how', ['close', 'with', 'break', 'stop'])
def test_a_stream_that_is_let_go_stops_the_server(how: str) -> None:
    slow = Slow()
    with serve(slow) as server:
        module = module_of(server)
        if how == 'break':
            for piece in module.stream('Hi'):
                assert piece == 'word '
                break
        else:
            stream = module.stream('Hi')
            assert next(stream) == 'word '
            if how == 'with':
                with stream:
                    next(stream)
            elif how == 'close':
                stream.close()
            else:
                module.stop()
                with pytest.raises(ModuleError, match='was stopped before the answer was complete'):
                    list(stream)
        assert slow.left.wait(60)
        if how in ('with', 'close'):
            assert list(stream) == []
            with pytest.raises(ModuleError, match='closed before the answer was complete'):
                _ = stream.reply


# Event loops and threads


def test_the_async_twins() -> None:
    async def main(module: OnlineChatModule) -> None:
        assert await module.acall('Hi') == 'Answer to Hi'
        assert (await module.areply('Hi')).usage.output_tokens == 3
        stream = module.astream('Hi there')
        with pytest.raises(ModuleError, match='not complete'):
            _ = stream.reply
        assert [piece async for piece in stream] == ['Answer', ' to', ' Hi', ' there']
        assert stream.reply.text == 'Answer to Hi there'
        assert (await module.astream('Hi').whole()).text == 'Answer to Hi'
        answers = await asyncio.gather(*(module.acall(str(number)) for number in range(30)))
        assert answers == [f'Answer to {number}' for number in range(30)]
        assert module('plain') == 'Answer to plain'  # in a running loop, as in a notebook

    with serve() as server:
        module = module_of(server)
        for _ in range(2):
            asyncio.run(main(module))


@pytest.mark.parametrize('how', ['call', 'stream', 'aclose', 'break'])
def test_cancelling_stops_the_server(how: str) -> None:
    slow = Slow()

    async def main(module: OnlineChatModule) -> None:
        if how in ('aclose', 'break'):
            stream = module.astream('Hi')
            async for _ in stream:
                break
            if how == 'aclose':
                await stream.aclose()
            else:
                del stream
        else:
            work = module.acall('Hi') if how == 'call' else module.astream('Hi').whole()
            task = asyncio.ensure_future(work)
            assert await asyncio.to_thread(slow.begun.wait, 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.to_thread(slow.left.wait, 60)

    with serve(slow) as server:
        asyncio.run(main(module_of(server, stream=True)))


def test_many_threads_share_a_module(server: Server) -> None:
    module = module_of(server)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(module, map(str, range(64)))) == [f'Answer to {number}' for number in range(64)]


def test_a_module_is_a_context(server: Server) -> None:
    with module_of(server) as module:
        assert module('Hi') == 'Answer to Hi'
    assert module('Hi') == 'Answer to Hi'

    async def main() -> None:
        async with module_of(server) as module:
            assert await module.acall('Hi') == 'Answer to Hi'

    asyncio.run(main())


# Tools


def add(x: int, y: int = 1) -> int:
    """Add two numbers."""
    return x + y


def fail(why: str) -> None:
    raise KeyError(why)


def test_calls_are_made_until_the_model_answers() -> None:
    answers = Answers(calling(('add', {'x': 1, 'y': 2})), calling(('add', {'x': 3})), 'It is 4.')
    with serve(answers) as server:
        module = module_of(server).prompt('Calculate.').with_tools([add])
        reply = module.reply('1+2+1', temperature=0)
    first, second, third = server.bodies
    assert first['tools'][0]['function']['name'] == 'add'
    assert [message['role'] for message in third['messages']] == [
        *('system', 'user', 'assistant', 'tool', 'assistant', 'tool'),
    ]
    assert second['messages'][-1] == {'role': 'tool', 'tool_call_id': 'c0', 'name': 'add', 'content': '3'}
    assert third['temperature'] == 0
    assert reply.text == 'It is 4.'
    assert reply.prompt == first['messages']
    assert [message['role'] for message in reply.said] == ['assistant', 'tool', 'assistant', 'tool', 'assistant']
    assert reply.usage.output_tokens == 9


def test_calls_of_claude() -> None:
    used = {'type': 'tool_use', 'id': 't1', 'name': 'add', 'input': {'x': 1}}
    with serve(Answers({'content': [used], 'stop_reason': 'tool_use'}, 'It is 2.')) as server:
        assert claude_of(server).prompt('Calculate.').with_tools([add])('1+1') == 'It is 2.'
    sent = server.bodies[1]
    assert sent['system'].endswith('Calculate.\n\n')
    assert sent['messages'][1:] == [
        {'role': 'assistant', 'content': [used]},
        {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 't1', 'content': '2'}]},
    ]


@pytest.mark.parametrize(
    ('name', 'arguments', 'told'),
    [
        ('fail', {'why': 'no'}, "Error: KeyError: 'no'"),
        ('ad', {}, "Error: unknown tool 'ad'. Did you mean 'add'?"),
        ('add', '{"x": 1', 'Error: the arguments must be a JSON object, got \'{"x": 1\'.'),
        ('add', {}, "Error: the parameter 'x' is missing."),
        ('add', {'x': 1, 'z': 2}, "Error: unknown parameter 'z'; known: x, y."),
        ('add', {'x': 'one'}, "Error: x must be integer, got 'one'."),
    ],
)
def test_what_goes_wrong_in_a_call_is_told_to_the_model(name: str, arguments: Any, told: str) -> None:
    with serve(Answers(calling((name, arguments)), 'Sorry.')) as server:
        assert module_of(server).with_tools([add, fail])('Hi') == 'Sorry.'
    assert server.bodies[1]['messages'][-1]['content'] == told


async def leave_later() -> None:
    sys.exit(3)


def leave() -> None:
    sys.exit(3)


@pytest.mark.parametrize('function', [leave, leave_later])
def test_a_tool_that_ends_the_program_ends_its_call_alone(function: Any) -> None:
    answers = Answers(calling((function.__name__, {})), 'Done.')
    with serve(answers) as server:
        module = module_of(server)
        assert asyncio.run(asyncio.wait_for(module.with_tools([function]).acall('Hi'), 60)) == 'Done.'
        answers.first(calling((function.__name__, {})))
        assert module.with_tools([function])('Hi') == 'Done.'
        assert module('Hi') == 'Done.'
    told = [body['messages'][-1]['content'] for body in server.bodies]
    assert told == ['Hi', 'Error: SystemExit: 3', 'Hi', 'Error: SystemExit: 3', 'Hi']


def test_several_calls_at_once_are_made_side_by_side() -> None:
    meeting = threading.Barrier(2, timeout=60)

    def meet(who: str) -> dict[str, str]:
        meeting.wait()
        return {'hello': who}

    with serve(Answers(calling(('meet', {'who': 'a'}), ('meet', {'who': 'b'})), 'Done.')) as server:
        assert module_of(server).with_tools([meet])('Hi') == 'Done.'
    assert [message['content'] for message in server.bodies[1]['messages'][-2:]] == ['{"hello": "a"}', '{"hello": "b"}']


@pytest.mark.parametrize('make', [module_of, claude_of])
def test_a_conversation_goes_on_with_what_was_said(make: Any) -> None:
    used = {'type': 'tool_use', 'id': 'c0', 'name': 'add', 'input': {'x': 1}}
    claude = {'content': [used], 'stop_reason': 'tool_use'}
    with serve(Answers(claude if make is claude_of else calling(('add', {'x': 1})), 'It is 2.')) as server:
        module = make(server)
        reply = module.prompt('Calculate.').with_tools([add]).reply('1+1')
        module('Sure?', history=[*reply.prompt, *reply.said])
    before, after = server.bodies[1], server.bodies[2]
    assert after.get('system') == before.get('system')
    assert after['messages'] == [
        *before['messages'],
        {'role': 'assistant', 'content': 'It is 2.'},
        {'role': 'user', 'content': 'Sure?'},
    ]


def test_a_model_that_never_answers_is_stopped() -> None:
    with serve(calling(('add', {'x': 1}))) as server:
        with pytest.raises(ToolRoundsError, match='no answer after 3 rounds') as caught:
            module_of(server).with_tools([add], max_rounds=3)('Hi')
        assert len(server.calls) == 4
    assert [message['role'] for message in caught.value.said] == ['assistant', 'tool'] * 3 + ['assistant']


def test_a_stream_with_tools_says_the_words_of_every_round() -> None:
    asking = calling(('add', {'x': 1}))
    asking['message']['content'] = 'Let me see.'
    with serve(Answers(asking, 'It is 2.')) as server:
        stream = module_of(server).with_tools([add]).stream('1+1')
        assert ''.join(stream) == 'Let me see.It is 2.'
    assert stream.reply.text == 'It is 2.'
    assert stream.reply.said[0]['content'] == 'Let me see.'


def test_async_tools_run_where_the_caller_is() -> None:
    seen: list[object] = []

    async def look(word: str) -> str:
        """Look a word up."""
        seen.append(asyncio.get_running_loop())
        return word.upper()

    async def main(module: OnlineChatModule) -> None:
        assert await module.acall('Hi') == 'Done.'
        assert seen == [asyncio.get_running_loop()]

    with serve(Answers(calling(('look', {'word': 'a'})), 'Done.')) as server:
        asyncio.run(main(module_of(server).with_tools([look])))
        assert server.bodies[1]['messages'][-1]['content'] == 'A'
    with serve(Answers(calling(('look', {'word': 'b'})), 'Done.')) as server:
        assert module_of(server).with_tools([look])('Hi') == 'Done.'


def test_a_tool_may_ask_a_module_itself(server: Server) -> None:
    inner = module_of(server)

    def ask(question: str) -> str:
        return inner(question)

    async def block(question: str) -> str:
        return inner(question)

    calls = calling(('ask', {'question': 'what'}), ('block', {'question': 'why'}))
    with serve(Answers(calls, 'Done.')) as outer:
        assert module_of(outer).with_tools([ask, block])('Hi') == 'Done.'
    first, second = (message['content'] for message in outer.bodies[1]['messages'][-2:])
    assert first == 'Answer to what'
    assert 'use `await module.acall' in second


def test_tools_are_given_once(server: Server) -> None:
    module = module_of(server).with_tools([add])
    with pytest.raises(ModuleError, match='already has tools'):
        module('Hi', tools=[TOOL])
    with pytest.raises(RolecallError, match='cannot be passed again'):
        module.prompt(ChatPrompter('Hi', tools=[TOOL]))('Hi')


@pytest.mark.parametrize(
    ('functions', 'options', 'sentence'),
    [
        (add, {}, 'a list of Python functions'),
        ([TOOL], {}, 'a tool must be a Python function'),
        ([add, add], {}, 'the same name'),
        ([lambda x: x], {}, "'<lambda>' is not a valid tool name"),
        ([add], {'max_rounds': 0}, 'at least 1'),
    ],
)
def test_what_is_no_tool_says_why(server: Server, functions: Any, options: Any, sentence: str) -> None:
    with pytest.raises(ModuleError, match=sentence):
        module_of(server).with_tools(functions, **options)
