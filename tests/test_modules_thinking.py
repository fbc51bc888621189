"""Reasoning in conversations: kept as it came, sent back to the model that wrote it, and streamed apart from the text.

The servers refuse a request whose reasoning or signatures are missing, changed, or not wanted, as the vendors' do.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from rolecall import ChatPrompter, OnlineChatModule
from rolecall.apps.chat import ModuleError
from rolecall.apps.chat.adapters import ModuleCall, TextAdapter
from rolecall.apps.chat.answerer import Answerer, Connection
from rolecall.apps.chat.call_options import CallSettings
from rolecall.apps.chat.conversation import Conversation
from rolecall.apps.chat.streaming import StreamPiece
from rolecall.apps.chat.toolbox import Toolbox
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.models.function import build
from rolecall.models.protocol import ModelError
from rolecall.runs.client.retry import RetryPolicy
from servers import Server, serve
from toys import WordTokenizer

THINKING = {'type': 'thinking', 'thinking': 'I should look it up.', 'signature': 'sig-1'}
REDACTED = {'type': 'redacted_thinking', 'data': 'ENCRYPTED=='}
AGAIN = {'type': 'thinking', 'thinking': 'It is mild.', 'signature': 'sig-2'}


def weather(city: str) -> str:
    """The weather."""
    return f'20 degrees in {city}'


def refuse(message: str) -> web.Response:
    return web.json_response({'error': {'message': message, 'type': 'invalid_request_error'}}, status=400)


def claude(body: Mapping[str, Any]) -> Any:
    """Anthropic's rules: blocks of assistant messages come back as they were, in their order."""
    call = {'type': 'tool_use', 'id': 'toolu_1', 'name': 'weather', 'input': {'city': 'Rome'}}
    first = [THINKING, REDACTED, {'type': 'text', 'text': 'Let me see.'}, call]
    sent = [message['content'] for message in body['messages'] if message['role'] == 'assistant']
    known = [first, [AGAIN, {'type': 'text', 'text': 'No coat.'}]]
    for number, (was, now) in enumerate(zip(known, sent, strict=False)):
        if was != now:
            return refuse(f'messages.{number}: thinking blocks cannot be modified, got {json.dumps(now)}')
    if not sent:
        return {'content': first, 'stop_reason': 'tool_use'}
    return {'content': known[1] if len(sent) == 1 else [{'type': 'text', 'text': 'Bye.'}]}


def deepseek(body: Mapping[str, Any]) -> Any:
    """DeepSeek's rules: reasoning comes back in turns with tool calls, and in no other."""
    turns: list[list[Mapping[str, Any]]] = []
    for message in body['messages']:
        if message['role'] == 'user':
            turns.append([])
        elif message['role'] != 'system':
            turns[-1].append(message)
    for turn in turns:
        uses_tools = any(message.get('tool_calls') for message in turn)
        for message in turn:
            if message['role'] == 'assistant' and ('reasoning_content' in message) != uses_tools:
                return refuse(f'{"Missing" if uses_tools else "Unexpected"} `reasoning_content`: {json.dumps(message)}')
            if uses_tools and message.get('reasoning_content', '') not in ('', 'I look.', 'It is mild.'):
                return refuse(f'reasoning_content was changed: {json.dumps(message)}')
    question = [message['content'] for message in body['messages'] if message['role'] == 'user'][-1]
    if not body.get('tools') or 'coat' not in question:
        return {'reasoning_content': 'Easy.', 'content': 'Fine.'}
    if turns[-1]:
        return {'reasoning_content': 'It is mild.', 'content': 'No coat.'}
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"city": "Rome"}'}}
    thought = '' if 'quick' in question else 'I look.'
    return {
        'finish_reason': 'tool_calls',
        'message': {'content': None, 'reasoning_content': thought, 'tool_calls': [call]},
    }


def gemini(body: Mapping[str, Any]) -> Any:
    """Gemini's rules: the first call of each step comes back with its signature."""
    signed = {'google': {'thought_signature': 'SIGNED+A=='}}
    calls = [
        {'id': f'c{n}', 'type': 'function', 'function': {'name': 'weather', 'arguments': json.dumps({'city': city})}}
        for n, city in enumerate(('Rome', 'Oslo'))
    ]
    calls[0]['extra_content'] = signed
    sent = [message for message in body['messages'] if message['role'] == 'assistant']
    for message in sent:
        if message.get('tool_calls') and [c.get('extra_content') for c in message['tool_calls']] != [signed, None]:
            return refuse('Function call is missing a thought_signature in functionCall parts.')
        if not message.get('tool_calls') and message.get('extra_content') != {'google': {'thought_signature': 'END='}}:
            return refuse(f'the text lost its signature: {json.dumps(message)}')
    if not sent:
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': calls}}
    return {'content': 'No coat.', 'extra_content': {'google': {'thought_signature': 'END='}}}


def openrouter(body: Mapping[str, Any]) -> Any:
    """OpenRouter's rules: the list of details comes back as it was."""
    details = [
        {'type': 'reasoning.text', 'text': 'I look.', 'signature': 's', 'index': 0},
        {'type': 'reasoning.encrypted', 'data': 'XYZ=', 'index': 1},
    ]
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"city": "Rome"}'}}
    sent = [message for message in body['messages'] if message['role'] == 'assistant' and message.get('tool_calls')]
    if any(message.get('reasoning_details') != details or message.get('reasoning') != 'I look.' for message in sent):
        return refuse(f'reasoning_details changed: {json.dumps(sent)}')
    if sent:
        return 'No coat.'
    said = {'content': '', 'reasoning': 'I look.', 'reasoning_details': details, 'tool_calls': [call]}
    return {'finish_reason': 'tool_calls', 'message': said}


def mistral(body: Mapping[str, Any]) -> Any:
    """Mistral's form: reasoning is a part of the content, and comes back there."""
    content = [
        {'type': 'thinking', 'thinking': [{'type': 'text', 'text': 'I look.'}]},
        {'type': 'text', 'text': 'Let me see.'},
    ]
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'weather', 'arguments': '{"city": "Rome"}'}}
    sent = [message for message in body['messages'] if message['role'] == 'assistant' and message.get('tool_calls')]
    if any(message['content'] != content for message in sent):
        return refuse(f'the content changed: {json.dumps(sent)}')
    if sent:
        return 'No coat.'
    return {'finish_reason': 'tool_calls', 'message': {'content': content, 'tool_calls': [call]}}


VENDORS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    'claude': claude, 'deepseek': deepseek, 'gemini': gemini, 'openrouter': openrouter, 'mistral': mistral,
}  # fmt: skip


def module_of(vendor: str, server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(vendor, base_url=server.url, model='toy', api_key='k', retries=0, **options)


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> Iterator[tuple[str, Server]]:
    with serve(VENDORS[request.param]) as server:
        yield request.param, server


@pytest.mark.parametrize('streamed', [False, True], ids=['whole', 'streamed'])
def test_reasoning_survives_tool_loops_and_histories(vendor: tuple[str, Server], streamed: bool) -> None:
    name, server = vendor
    module = module_of(name, server, stream=streamed).with_tools([weather])
    reply = module.reply('Do I need a coat in Rome?')
    assert reply.text == 'No coat.'
    stored = json.loads(json.dumps(reply.history))  # a history that was written to a file is as good
    assert module.reply('And now? No coat?', history=stored).outcome == 'ok'
    assert all('thinking' not in message for message in server.bodies[-1]['messages'])


def test_reasoning_survives_a_stream_that_is_read_in_pieces(vendor: tuple[str, Server]) -> None:
    name, server = vendor
    stream = module_of(name, server).with_tools([weather]).stream('Do I need a coat in Rome?')
    pieces = list(stream.pieces())
    texts = {kind: ''.join(piece.text for piece in pieces if piece.kind == kind) for kind in ('text', 'thinking')}
    assert texts['text'].endswith('No coat.')
    assert stream.reply.text == 'No coat.'
    if name in ('claude', 'deepseek', 'openrouter', 'mistral'):
        assert texts['thinking'].startswith('I ')
        assert pieces[0].kind == 'thinking'
    assert 'I should' not in texts['text']
    assert 'I look' not in texts['text']


def test_an_async_stream_gives_the_same_pieces() -> None:
    async def read(server: Server) -> list[StreamPiece]:
        stream = module_of('claude', server).with_tools([weather]).astream('Coat?')
        return [piece async for piece in stream.pieces()]

    with serve(claude) as server:
        one = list(module_of('claude', server).with_tools([weather]).stream('Coat?').pieces())
        assert asyncio.run(read(server)) == one
        assert ''.join(text for kind, text in one if kind == 'thinking') == 'I should look it up.It is mild.'
        assert list(module_of('claude', server).with_tools([weather]).stream('Coat?'))[-1] == ' coat.'


def test_deepseek_gets_its_reasoning_in_turns_with_tools_and_in_no_other() -> None:
    with serve(deepseek) as server:
        module = module_of('deepseek', server).with_tools([weather])
        easy = module.reply('Hello')
        assert easy.reasoning == 'Easy.'
        coat = module.reply('And a coat?', history=easy.history)
        quick = module.reply('a quick coat?', history=coat.history)
        assert [reply.text for reply in (coat, quick)] == ['No coat.', 'No coat.']
        assert quick.said[0]['thinking']['fields'] == {'reasoning_content': ''}
        with pytest.raises(ModelError, match='Missing `reasoning_content`'):
            module_of('deepseek', server, resend_thinking='never').with_tools([weather])('Coat? coat')
        with pytest.raises(ModelError, match='Unexpected `reasoning_content`'):
            module_of('deepseek', server, resend_thinking='always')('Hi', history=easy.history)


def test_reasoning_goes_to_no_other_model() -> None:
    with serve(claude) as one, serve(gemini) as two, serve() as other:
        signed = module_of('claude', one).with_tools([weather]).reply('Coat?').history
        signed += module_of('gemini', two).with_tools([weather]).reply('Coat?').history
        for source in ('openai', 'claude'):
            module_of(source, other)('Hi', history=signed)
            sent = json.dumps(other.bodies[-1])
            assert 'sig-1' not in sent
            assert 'ENCRYPTED' not in sent
            assert 'SIGNED' not in sent
            assert 'thought' not in sent
            assert 'No coat.' in sent
            assert 'Let me see.' in sent


def test_an_edited_answer_keeps_its_thinking_first() -> None:
    with serve(claude) as server:
        history = module_of('claude', server).with_tools([weather]).reply('Coat?').history
    edited = copy.deepcopy(history)
    edited[1]['content'] = 'I look.'
    with serve() as server:
        by = f'{server.url}/v1 toy'
        for message in edited:
            if 'thinking' in message:
                message['thinking']['by'] = by
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        module('Hi', history=edited)
        sent = server.bodies[0]['messages'][1]['content']
    assert [block['type'] for block in sent] == ['thinking', 'redacted_thinking', 'text', 'tool_use']
    assert sent[0] == THINKING
    assert sent[2]['text'] == 'I look.'


def test_prompters_write_kept_reasoning_in_the_vendor_s_form_alone() -> None:
    with serve(claude) as server:
        history = module_of('claude', server).with_tools([weather]).reply('Coat?').history
    prompter = ChatPrompter('Be brief.')
    native = prompter.generate_prompt('Hi', history, format='anthropic')['messages']
    assert native[1]['content'][:2] == [THINKING, REDACTED]
    other = prompter.generate_prompt('Hi', history, format='openai')['messages']
    assert 'sig-1' not in json.dumps(other)
    assert all('thinking' not in message for message in other)
    again = prompter.generate_prompt('Hi', native, format='openai')['messages']  # the vendor's own messages as history
    assert 'sig-1' not in json.dumps(again)
    assert prompter.generate_prompt('Hi', native, format='anthropic')['messages'][1]['content'][:2] == [
        THINKING,
        REDACTED,
    ]


def test_a_chat_template_gets_the_reasoning_of_the_tool_loop() -> None:
    template = (
        '{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}'
        '{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}({{ m.reasoning_content }}){% endif %}'
        '{{ m.content }}{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments | tojson }}){% endfor %}{% endfor %}'
        '{% if add_generation_prompt %}<assistant>{% endif %}'
    )
    seen: list[Any] = []

    def answer(request: Any) -> str:
        seen.append(request)
        call = '<tool_call>{"name": "weather", "arguments": {"city": "Rome"}}</tool_call>'
        return f'<think>I look.</think>{call}' if len(seen) == 1 else '<think>Mild.</think>No coat.'

    adapter = TextAdapter(ChatTemplate(template), tokenizer=WordTokenizer)
    connection = Connection(build({'type': answer}, name='f'), adapter, RetryPolicy(seconds=None, retries=0))
    toolbox = Toolbox([weather], max_rounds=2)
    asked = ModuleCall('Coat?', None, toolbox.schemas)
    reply = asyncio.run(
        Conversation([Answerer('toy', connection, CallSettings())], toolbox=toolbox).hold(ChatPrompter(), asked)
    )
    assert (reply.text, reply.reasoning) == ('No coat.', 'Mild.')
    assert '<assistant>(I look.)' in seen[1]
    assert reply.usage.reasoning_tokens == WordTokenizer().count('I look.') + WordTokenizer().count('Mild.')


def test_reasoning_tokens_are_counted_over_all_rounds() -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        usage = {'prompt_tokens': 9, 'completion_tokens': 7, 'completion_tokens_details': {'reasoning_tokens': 5}}
        reply = deepseek(body)
        choice = reply if 'message' in reply else {'message': reply, 'finish_reason': 'stop'}
        return {'choices': [{**choice, 'index': 0}], 'usage': usage}

    with serve(answer) as server:
        usage = module_of('deepseek', server).with_tools([weather]).reply('a coat?').usage
    assert (usage.output_tokens, usage.reasoning_tokens) == (14, 10)


def test_a_thinking_claude_is_asked_for_values_and_not_forced() -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        if body['tool_choice']['type'] != 'auto':
            return refuse('Thinking may not be enabled when tool_choice forces tool use.')
        sent = [message for message in body['messages'] if message['role'] == 'assistant']
        if any(block['type'] == 'tool_use' for message in sent for block in message['content']):
            return refuse('tool_use ids were found without tool_result blocks')
        if sent and sent[0]['content'][0] != THINKING:
            return refuse('the thinking is missing')
        value = {'answer': 4} if sent else {'answer': 'four'}
        return {'content': [THINKING, {'type': 'tool_use', 'id': 't', 'name': 'give_answer', 'input': value}]}

    with serve(answer) as server:
        module = module_of('claude', server, thinking={'type': 'enabled', 'budget_tokens': 1024})
        assert module('2 + 2?', returns=int) == 4


def test_a_wrong_policy_is_refused() -> None:
    with pytest.raises(ModuleError, match="resend_thinking must be one of 'always', 'tool_turns', 'never', got 'yes'"):
        OnlineChatModule('openai', resend_thinking='yes')
