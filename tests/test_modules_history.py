"""Token budgets of histories, token counts before a call, what it cost afterwards, and what is reported on the way."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from rolecall import OnlineChatModule
from rolecall.apps.chat import Event, ModuleError, Retry, Spent, ToolFailure
from rolecall.models.protocol import ModelError
from servers import Server, in_order, serve
from small_models import make_tokenizer

TEMPLATE = '{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}'
LONG = 'word ' * 50


def module_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(base_url=server.url, model='toy', **options)


def count_words(text: str) -> int:
    return len(text.split())


def user(text: str) -> dict[str, Any]:
    return {'role': 'user', 'content': text}


def calling(number: int) -> list[dict[str, Any]]:
    """A turn with a tool call: question, call, result, answer."""
    call = {'id': f'c{number}', 'type': 'function', 'function': {'name': 'add', 'arguments': '{}'}}
    return [
        user(f'question {number} {LONG}'),
        {'role': 'assistant', 'content': '', 'tool_calls': [call]},
        {'role': 'tool', 'tool_call_id': f'c{number}', 'name': 'add', 'content': 'three'},
        {'role': 'assistant', 'content': f'answer {number}'},
    ]


@pytest.mark.parametrize('budget', [110, 200, 300, 1000])
def test_whole_turns_are_dropped_from_the_start(budget: int) -> None:
    history = [{'role': 'system', 'content': 'Be kind.'}, *(part for n in range(4) for part in calling(n))]
    with serve() as server:
        module = module_of(server).with_token_budget(budget, count=count_words)
        reply = module.reply('Hi', history=history)
    sent = server.bodies[0]['messages']
    assert sent[0] == history[0]
    kept = (len(sent) - 2) // 4
    assert sent[1:-1] == history[len(history) - 4 * kept :]
    assert list(reply.dropped) == history[1 : len(history) - 4 * kept]
    assert reply.history[:-2] == history  # nothing is lost for the caller
    assert kept == {110: 1, 200: 2, 300: 3, 1000: 4}[budget]


def test_pairs_and_anthropic_s_tool_results_are_whole_turns_too() -> None:
    use = {'role': 'assistant', 'content': [{'type': 'tool_use', 'id': 't', 'name': 'add', 'input': {}}]}
    result = {'role': 'user', 'content': [{'type': 'tool_result', 'tool_use_id': 't', 'content': LONG}]}
    pair = ['Hello ' + LONG, 'Hi']
    with serve() as server:
        module = module_of(server).with_token_budget(75, count=count_words)
        reply = module.reply('Now?', history=[user('q'), use, result, pair])
    assert reply.dropped == (user('q'), use, result)


def test_a_budget_holds_while_tools_answer_at_length() -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return 'Done.'
        call = {'id': 'c', 'type': 'function', 'function': {'name': 'read', 'arguments': '{}'}}
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}

    def read() -> str:
        return LONG

    seen: list[Event] = []
    with serve(answer) as server:
        module = module_of(server).with_tools([read]).with_token_budget(160, count=count_words).watch(seen.append)
        reply = module.reply('Go', history=[[f'one {LONG}', 'a'], [f'two {LONG}', 'b']])
    assert [len(body['messages']) for body in server.bodies] == [5, 5]
    assert reply.dropped == ([f'one {LONG}', 'a'],)
    assert [event.kind for event in seen].index('trim') > 2


def test_a_budget_is_counted_by_the_model_s_tokenizer(tmp_path: Path) -> None:
    folder = make_tokenizer(tmp_path, bos=False)
    with serve() as server:
        module = module_of(server, tokenizer_path=str(folder), chat_template=TEMPLATE, max_seq_len=40, max_tokens=10)
        counted = module.count_tokens('three two one')
        assert counted is not None
        assert counted == asyncio.run(module.acount_tokens('three two one'))
        assert module.count_tokens('three two one', history=[['a', 'b']]) > counted
        assert server.calls == []
        reply = module.with_token_budget().reply('three', history=[['one two three four', 'five']] * 9)
        left = module.count_tokens('three', history=reply.history[len(reply.dropped) : -2])
        more = module.count_tokens('three', history=reply.history[len(reply.dropped) - 1 : -2])
        assert left is not None
        assert more is not None
        assert left <= 30 < more


def test_a_vendor_s_counting_endpoint_counts_tools_too() -> None:
    def today() -> str:
        """The date."""
        return 'Monday'

    def answer(body: Mapping[str, Any]) -> Any:
        return web.json_response({'input_tokens': 100 + 10 * len(body.get('tools', ())) + len(body['messages'])})

    with serve(answer) as server:
        module = OnlineChatModule('claude', base_url=server.url, model='toy', api_key='k')
        assert module.count_tokens('Hi') == 101
        assert module.count_tokens('Hi', tools=[today], history=[['a', 'b']]) == 113
        assert {call.path for call in server.calls} == {'/v1/messages/count_tokens'}


def test_what_cannot_be_counted_is_not_known() -> None:
    with serve() as server:
        module = module_of(server)
        assert module.count_tokens('Hi') is None
        with pytest.raises(ModuleError, match='no tokenizer of the model was found. Give the module tokenizer_path=…'):
            module.with_token_budget(5)('Hi', history=[['a', 'b']])
        with pytest.raises(ModuleError, match='the context length of the model is not known'):
            module.with_token_budget(count=count_words)('Hi', history=[['a', 'b']])
        with pytest.raises(ModuleError, match='tokens without any history, and the budget is 3'):
            module.with_token_budget(3, count=count_words)('one two three four', history=[['a', 'b']])
        for wrong in (0, -1, 'many', True):
            with pytest.raises(ModuleError, match='tokens must be a whole number of at least 1'):
                module.with_token_budget(wrong)  # type: ignore[arg-type]
        assert server.calls == []


@pytest.mark.parametrize(
    ('model', 'price', 'cost'),
    [
        ('gpt-4o-mini', None, (0.15 + 2 * 0.075 + 3 * 0.6) / 1e6),
        ('toy', {'input': 1.0, 'output': 10.0}, 33 / 1e6),
        ('toy', None, None),
    ],
)
def test_a_reply_says_what_it_cost(model: str, price: Any, cost: float | None) -> None:
    with serve(models=(model,)) as server:
        reply = OnlineChatModule(base_url=server.url, model=model, **({'price': price} if price else {})).reply('Hi')
    assert reply.usage.input_tokens == 3
    assert reply.cost == (None if cost is None else pytest.approx(cost))


def test_retries_tool_failures_usage_and_price_are_reported_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> str:
        raise RuntimeError('the database is gone')

    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return 'Sorry.'
        calls = [
            {'id': f'c{n}', 'type': 'function', 'function': {'name': name, 'arguments': '{"x": 1}' if n else '{}'}}
            for n, name in enumerate(('broken', 'broken', 'brocken'))
        ]
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': calls}}

    seen: list[Event] = []
    with serve(answer, faults=in_order('error')) as server, caplog.at_level(logging.DEBUG, logger='rolecall'):
        module = module_of(server, price={'input': 1, 'output': 1}).with_tools([broken]).watch(seen.append)
        assert module('Secret question') == 'Sorry.'
    kinds = [event.kind for event in seen]
    assert kinds[:3] == ['request', 'retry', 'reply']
    assert kinds[3:6] == ['tool_call'] * 3
    assert kinds[6:] == ['tool_failure', 'tool_result'] * 3 + ['request', 'reply', 'usage']
    retry, failure = seen[1].data, seen[6].data
    assert isinstance(retry, Retry)
    assert isinstance(retry.error, ModelError)
    assert retry.error.status == 500
    assert isinstance(failure, ToolFailure)
    assert isinstance(failure.error, RuntimeError)
    assert isinstance(seen[-1].data, Spent)
    assert seen[-1].data.cost is not None
    log = caplog.text
    for line in (
        'request: 1 message', 'retry: in ', 'The server had an error', 'reply: ok, 0 characters, 3 tool calls',
        'tool call: broken(', 'tool failure: broken failed, and the model is told so: RuntimeError: the database is gone',
        "unknown tool 'brocken'. Did you mean 'broken'?", "unknown parameter 'x'", 'Traceback',
        'tool result: broken returned', 'usage: ', ' output tokens, $0.0000',
    ):  # fmt: skip
        assert line in log
    assert 'Secret question' not in log


def test_a_tool_failure_is_logged_by_default(caplog: pytest.LogCaptureFixture) -> None:
    called_off = threading.Event()

    def slow() -> str:
        return str(called_off.wait(60))

    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return 'Sorry.'
        call = {'id': 'c', 'type': 'function', 'function': {'name': 'slow', 'arguments': '{}'}}
        return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}

    with serve(answer) as server:
        assert module_of(server).with_tools([slow], timeout=0.1)('Hi') == 'Sorry.'
    called_off.set()
    assert [(record.levelname, record.name) for record in caplog.records] == [('WARNING', 'rolecall')]
    assert 'the tool slow did not return within 0.1 s (with_tools(…, timeout=…))' in caplog.text


def test_streams_use_fallbacks_until_text_was_streamed() -> None:
    said = {'message': {'content': 'Hello there'}, 'finish_reason': 'stop'}
    with serve(faults=lambda *_: '503') as down, serve() as up, serve(said, faults=lambda *_: 'cut_stream') as cut:
        good = module_of(up)
        assert ''.join(module_of(down, retries=0).with_fallbacks(good).stream('Hi')) == 'Answer to Hi'
        with pytest.raises(ModelError, match='broke off after 5 characters'):
            list(module_of(cut, retries=0).with_fallbacks(good).stream('Hi'))
