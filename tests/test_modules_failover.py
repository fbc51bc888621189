"""Fallbacks and tools together: what runs once, who is asked next, what is sent to whom, and what it cost."""

from __future__ import annotations

import asyncio
import json
import pickle
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from rolecall import OnlineChatModule, TrainableModule
from rolecall.apps.chat import (
    BadAnswerError,
    BatchError,
    CostLimitError,
    Event,
    ModuleError,
    NotStartedError,
    StoppedError,
    Tool,
    ToolContext,
    ToolRoundsError,
    UnfinishedCallError,
)
from rolecall.models.protocol import ModelError
from servers import Server, in_order, running, serve

PRICE = {'input': 1.0, 'output': 10.0}


def module_of(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule(base_url=server.url, model='toy', **{'price': PRICE, **options})


def claude_at(server: Server, **options: Any) -> OnlineChatModule:
    return OnlineChatModule('anthropic', 'toy', base_url=server.url, api_key='k', **{'price': PRICE, **options})


class Till:
    """A tool with a side effect."""

    def __init__(self) -> None:
        self.paid: list[int] = []

    def pay(self, amount: int) -> str:
        """Pay an amount."""
        self.paid.append(amount)
        return f'paid {amount}'


def call_of(name: str, arguments: str, id: str = 'call_1') -> dict[str, Any]:  # noqa: A002
    return {'id': id, 'type': 'function', 'function': {'name': name, 'arguments': arguments}}


def calls(*made: Mapping[str, Any]) -> dict[str, Any]:
    return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': list(made)}}


def pays_once(body: Mapping[str, Any]) -> Any:
    """Call `pay` where it is offered, and answer once its result is there."""
    if 'tools' not in body:
        return 'Hello.'
    results = [message['content'] for message in body['messages'] if message['role'] == 'tool']
    return f'Done: {results[0]}' if results else calls(call_of('pay', '{"amount": 5}'))


@pytest.fixture
def till() -> Till:
    return Till()


@pytest.fixture
def second() -> Iterator[Server]:
    with serve(pays_once) as running:
        yield running


def test_a_fallback_goes_on_after_tools_that_have_run(till: Till, second: Server) -> None:
    with serve(pays_once, faults=in_order(None, '500', '500')) as first:
        reply = module_of(first).with_tools([till.pay]).with_fallbacks(module_of(second)).reply('Pay 5.')
    assert (reply.text, till.paid) == ('Done: paid 5', [5])
    [body] = second.bodies
    assert [message['role'] for message in body['messages']] == ['user', 'assistant', 'tool']
    assert [message['role'] for message in reply.history] == ['user', 'assistant', 'tool', 'assistant']
    call, result = body['messages'][1]['tool_calls'][0]['id'], body['messages'][2]['tool_call_id']
    assert call == result
    assert re.fullmatch('[A-Za-z0-9]{9}', call)  # the strictest vendors and chat templates take no other
    assert reply.prompt == [{'role': 'user', 'content': 'Pay 5.'}]


def test_usage_and_cost_are_those_of_all_models(till: Till, second: Server) -> None:
    with serve(pays_once, faults=in_order(None, '500', '500')) as first:
        module = module_of(first).with_tools([till.pay])
        reply = module.with_fallbacks(module_of(second)).reply('Pay 5.')
        unknown = module_of(second, price=None)
        with serve(pays_once, faults=in_order(None, '500', '500')) as again:
            other = module_of(again).with_tools([till.pay]).with_fallbacks(unknown).reply('Pay 5.')
    failed, answered = reply.attempts
    assert [attempt.model for attempt in reply.attempts] == ['toy', 'toy']
    assert 'failed (500)' in failed.failure
    assert answered.failure == ''
    assert failed.usage.input_tokens is not None
    assert answered.usage.input_tokens is not None
    assert reply.usage.input_tokens == failed.usage.input_tokens + answered.usage.input_tokens
    assert failed.cost is not None
    assert failed.cost > 0
    assert reply.cost == pytest.approx(failed.cost + (answered.cost or 0))
    assert other.cost is None


def test_a_call_that_no_model_finishes_leaves_a_history_to_continue_from(till: Till, second: Server) -> None:
    with serve(pays_once, faults=lambda number, _: None if number == 0 else '500') as first:
        module = module_of(first).with_tools([till.pay])
        with pytest.raises(UnfinishedCallError, match='history=error.history') as caught:
            module('Pay 5.', retries=0)
    error = caught.value
    assert error.status == 500
    assert [message['role'] for message in error.history] == ['user', 'assistant', 'tool']
    assert [attempt.model for attempt in error.attempts] == ['toy']
    assert module_of(second).with_tools([till.pay])('Go on.', history=error.history) == 'Done: paid 5'
    assert till.paid == [5]


def test_a_tool_that_a_timeout_interrupts_has_a_result_that_says_so() -> None:
    def slow() -> str:
        time.sleep(5)
        return 'never read'

    def answer(body: Mapping[str, Any]) -> Any:
        return calls(call_of('quick', '{}', 'a'), call_of('slow', '{}', 'b'))

    with (
        serve(answer) as server,
        pytest.raises(UnfinishedCallError, match=r'no answer within 0\.5 s') as caught,
    ):
        module_of(server).with_tools([slow, quick])('Go.', timeout=0.5)
    results = {message['tool_call_id']: message['content'] for message in caught.value.history[2:]}
    assert results['a'] == 'quick'
    assert 'interrupted' in results['b']


def quick() -> str:
    return 'quick'


def test_ids_of_tool_calls_are_unique_in_a_conversation_with_several_failovers(till: Till, second: Server) -> None:
    def pays_twice(body: Mapping[str, Any]) -> Any:
        asked_at = max(place for place, message in enumerate(body['messages']) if message['role'] == 'user')
        rounds = sum(message['role'] == 'tool' for message in body['messages'][asked_at:])
        return calls(call_of('pay', '{"amount": 5}')) if rounds < 2 else 'Done.'  # each call has the same id

    history: list[Any] = []
    for _ in range(2):
        with serve(pays_twice, faults=in_order(None, None, '500')) as first:
            module = module_of(first).with_tools([till.pay]).with_fallbacks(module_of(second), retries=0)
            history = module.reply('Pay 5 twice.', history=history).history
    ids = [call['id'] for message in history for call in message.get('tool_calls') or ()]
    assert len(set(ids)) == len(ids) == len(till.paid) == 4
    assert [message['tool_call_id'] for message in history if message['role'] == 'tool'] == ids


def test_a_call_that_needs_more_rounds_goes_on_where_it_stopped(till: Till) -> None:
    def pays_thrice(body: Mapping[str, Any]) -> Any:
        rounds = sum(message['role'] == 'tool' for message in body['messages'])
        return calls(call_of('pay', f'{{"amount": {rounds}}}', f'id{rounds}')) if rounds < 3 else 'Done.'

    with serve(pays_thrice) as server:
        module = module_of(server)
        with pytest.raises(ToolRoundsError, match='history=error.history') as caught:
            module.with_tools([till.pay], max_rounds=2)('Pay.')
        error = pickle.loads(pickle.dumps(caught.value))
        assert module.with_tools([till.pay], max_rounds=8)('Go on.', history=error.history) == 'Done.'
    assert till.paid == [0, 1, 2]


def test_a_call_whose_answer_does_not_fit_goes_on_without_paying_again(till: Till, second: Server) -> None:
    module = module_of(second).with_tools([till.pay])
    with pytest.raises(BadAnswerError) as caught:
        module('Pay 5.', returns=int)
    assert [message['role'] for message in caught.value.history] == ['user', 'assistant', 'tool']
    assert module('Go on.', history=caught.value.history) == 'Done: paid 5'
    assert till.paid == [5]


def test_the_error_of_an_unfinished_call_can_be_raised_in_another_process(till: Till) -> None:
    with serve(pays_once, faults=in_order(None, '500')) as first, pytest.raises(UnfinishedCallError) as caught:
        module_of(first).with_tools([till.pay])('Pay 5.', retries=0)
    copied = pickle.loads(pickle.dumps(caught.value))
    assert (str(copied), copied.status, copied.history) == (str(caught.value), 500, caught.value.history)
    assert copied.attempts == caught.value.attempts


def test_nested_fallbacks_are_asked_in_order(second: Server) -> None:
    with serve(faults=lambda *_: '500') as a, serve(faults=lambda *_: '500') as b:
        chain = module_of(a).with_fallbacks(module_of(b).with_fallbacks(module_of(second)), retries=0)
        reply = chain.reply('Hi')
    assert len(reply.attempts) == 3
    assert (len(a.calls), len(b.calls), len(second.calls)) == (1, 1, 1)


@pytest.mark.parametrize('forced', ['required', {'type': 'function', 'function': {'name': 'pay'}}])
def test_a_forced_tool_call_is_forced_once(till: Till, forced: Any) -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        return calls(call_of('pay', '{"amount": 1}')) if body.get('tool_choice') == forced else 'Paid.'

    with serve(answer) as server:
        assert module_of(server).with_tools([till.pay])('Pay.', tool_choice=forced) == 'Paid.'
    assert [body.get('tool_choice') for body in server.bodies] == [forced, None]
    with serve(answer) as server:
        module_of(server).with_tools([till.pay])('Pay.', extra_body={'tool_choice': forced})
    assert [body.get('tool_choice') for body in server.bodies] == [forced, None]
    assert till.paid == [1, 1]


def test_a_forced_tool_call_of_anthropic_is_forced_once(till: Till) -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        if 'tool_choice' not in body:
            return 'Paid.'
        use = {'type': 'tool_use', 'id': 'toolu_1', 'name': 'pay', 'input': {'amount': 2}}
        return {'content': [use], 'stop_reason': 'tool_use'}

    with serve(answer) as server:
        assert claude_at(server).with_tools([till.pay])('Pay.', tool_choice='required') == 'Paid.'
    assert [body.get('tool_choice') for body in server.bodies] == [{'type': 'any'}, None]


@pytest.mark.parametrize('ended', ['length', 'content_filter'])
@pytest.mark.parametrize('streams', [False, True])
def test_a_call_that_may_be_cut_or_was_refused_is_not_run(ended: str, streams: bool) -> None:
    paid = []

    def pay(amount: int = 100) -> str:
        """Pay."""
        paid.append(amount)
        return f'paid {amount}'

    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return 'Not yet.'
        whole, cut = call_of('pay', '{"amount": 1}'), call_of('pay', '', 'call_2')
        return {**calls(whole, cut), 'finish_reason': ended}

    with serve(answer) as server:
        module = module_of(server, stream=streams).with_tools([pay])
        reply = module.reply('Pay.')
    if ended == 'length':
        assert [message['content'] for message in reply.said[1:3]] == [
            'paid 1',
            'Error: the answer reached its length limit (max_tokens), so this call may be incomplete and was not run.',
        ]
    else:
        assert (reply.outcome, reply.tool_calls, len(reply.history)) == ('filtered', (), 2)
    assert paid == [1] * (ended == 'length')


@pytest.mark.parametrize(
    ('budget', 'options', 'why'),
    [
        ((3000, lambda text: len(text) // 3), {}, 'tokens without any history, and the budget is 3,?000'),
        ((3000, lambda text: 1 // ('paid' not in text)), {}, 'ZeroDivisionError'),
        (None, {'max_cost': 1.0}, 'toy does not report the tokens'),
    ],
)
def test_whatever_ends_a_call_after_a_payment_leaves_its_history(
    second: Server, budget: Any, options: Any, why: str
) -> None:
    paid = []

    def pay(amount: int) -> str:
        paid.append(amount)
        return f'paid {amount}' + ' ' * 99_999

    def answer(body: Mapping[str, Any]) -> Any:
        choice = pays_once(body)
        return {'choices': [choice], 'model': 'toy', 'usage': None} if isinstance(choice, dict) else choice

    with serve(answer) as server:
        module = module_of(server).with_tools([pay])
        module = module.with_token_budget(budget[0], count=budget[1]) if budget else module
        with pytest.raises(UnfinishedCallError, match=f'{why}.*Tools have run') as caught:
            module('Pay 5.', **options)
    assert [message['role'] for message in caught.value.history] == ['user', 'assistant', 'tool']
    assert module_of(second).with_tools([pay])('Go on.', history=caught.value.history).startswith('Done: paid 5')
    assert paid == [5]


@pytest.mark.parametrize('choice', ['pay', {'type': 'tool', 'name': 'pay'}])
def test_a_tool_is_chosen_by_its_name_whoever_answers(till: Till, second: Server, choice: Any) -> None:
    module_of(second).with_tools([till.pay])('Pay 5.', tool_choice=choice)
    assert second.bodies[0]['tool_choice'] == {'type': 'function', 'function': {'name': 'pay'}}
    claude_at(second)('Pay 5.', tool_choice=choice)
    assert second.bodies[-1]['tool_choice'] == {'type': 'tool', 'name': 'pay'}
    with pytest.raises(ModuleError, match="tool_choice must be one of auto, none, required, any, or a tool's name"):
        claude_at(second)('Pay 5.', tool_choice=5)


def test_a_choice_that_forces_nothing_stays(till: Till, second: Server) -> None:
    module_of(second).with_tools([till.pay])('Pay 5.', tool_choice='auto')
    assert [body['tool_choice'] for body in second.bodies] == ['auto', 'auto']


@pytest.mark.parametrize('make', [module_of, claude_at])
def test_headers_and_fields_of_a_call_stay_with_its_server(
    second: Server, make: Callable[..., OnlineChatModule]
) -> None:
    addressed: dict[str, Any] = {'headers': {'Authorization': 'Bearer mine'}, 'extra_body': {'user_id': 7}}
    with serve(faults=lambda *_: '400') as first:
        fallback = make(second, headers={'X-Own': 'yes'}, extra_body={'own': 1})
        module_of(first).with_fallbacks(fallback)('Hi', temperature=0.5, **addressed)
    [sent], [reached] = first.calls, second.calls
    assert sent.headers['Authorization'] == 'Bearer mine'
    assert sent.body['user_id'] == 7
    assert reached.headers.get('Authorization') != 'Bearer mine'
    assert reached.headers['X-Own'] == 'yes'
    assert (reached.body.get('user_id'), reached.body['own'], reached.body['temperature']) == (None, 1, 0.5)


def test_headers_of_a_call_reach_another_model_of_the_same_server() -> None:
    with serve(models=('toy', 'other'), faults=in_order('400')) as server:
        module_of(server).with_fallbacks(OnlineChatModule(server.url, 'other'))('Hi', headers={'X-Trace': '1'})
    assert [call.headers['X-Trace'] for call in server.calls] == ['1', '1']


@pytest.mark.parametrize(
    ('when', 'answer', 'options'),
    [
        ('refusal', {'finish_reason': 'content_filter', 'message': {'content': ''}}, {}),
        ('refusal', {'finish_reason': 'stop', 'message': {'content': None, 'refusal': 'No.'}}, {}),
        ('bad_value', 'not a number', {'returns': int}),
    ],
    ids=['filter', 'refusal', 'value'],
)
def test_what_counts_as_a_failure_is_an_argument(when: Any, answer: Any, options: dict[str, Any]) -> None:
    with serve(answer) as first, serve('{"answer": 7}') as last:
        module = module_of(first)
        reply = module.with_fallbacks(module_of(last), when=[when]).reply('Hi', **options)
        assert reply.text == '{"answer": 7}'
        assert len(reply.attempts) == 2
        assert len(last.bodies[0]['messages']) == 1  # answers that did not fit are not shown to the next model
        kept = module.with_fallbacks(module_of(last))
        if options:
            with pytest.raises(BadAnswerError):
                kept.reply('Hi', **options)
        else:
            assert kept.reply('Hi', **options).outcome == 'filtered'


def test_a_context_that_is_too_short_can_count_as_a_failure(second: Server) -> None:
    too_long = {'error': {'message': 'maximum context length is 10 tokens', 'code': 'context_length_exceeded'}}

    def answer(_: Any) -> Any:
        return web.json_response(too_long, status=400)

    with serve(answer) as first:
        assert module_of(first).with_fallbacks(module_of(second)).reply('Hi').outcome == 'too_long'
        assert (
            module_of(first).with_fallbacks(module_of(second), when=['error', 'too_long']).reply('Hi').outcome == 'ok'
        )


@pytest.mark.parametrize(
    ('arguments', 'sentence'),
    [
        ({'when': 'refusal'}, r"Write when=\['refusal'\]"),
        ({'when': []}, 'when has no condition, so no fallback would be asked. Name some of error, refusal, '),
        ({'when': ['refusals']}, "'refusals' is not a condition. Did you mean 'refusal'"),
        ({'retries': -1}, 'retries must be a whole number of at least 0'),
    ],
)
def test_a_condition_that_does_not_exist_is_refused(second: Server, arguments: Any, sentence: str) -> None:
    with pytest.raises(ModuleError, match=sentence):
        module_of(second).with_fallbacks(module_of(second), **arguments)


def test_a_model_with_fallbacks_is_retried_once_and_the_last_as_often_as_it_says(second: Server) -> None:
    with serve(faults=lambda *_: '500') as first:
        module_of(first, retries=4).with_fallbacks(module_of(second))('Hi')
        assert len(first.calls) == 2
        module_of(first).with_fallbacks(module_of(second), retries=0)('Hi')
        assert len(first.calls) == 3
    with serve(faults=lambda *_: '400') as refusing, serve(faults=in_order('500', '500')) as last:
        assert module_of(refusing).with_fallbacks(module_of(last))('Hi')
        assert len(last.calls) == 3


def test_a_local_fallback_is_started_and_stopped_with_its_owner() -> None:
    local = TrainableModule('smollm2', max_tokens=4)
    with serve(faults=lambda *_: '400') as server:
        module = module_of(server).with_fallbacks(local)
        with pytest.raises(NotStartedError, match=r"the fallback TrainableModule\('smollm2'.* is not started"):
            module('Hi')
        assert server.calls == []
        with module:
            assert local.started
            reply = module.reply('Hi', headers={'Authorization': 'Bearer mine'})
            assert (reply.outcome, reply.model, reply.cost) == ('ok', 'smollm2', 0.0)
            for option in ({'user': 'ada'}, {'presence_penalty': 0.5}):
                count = len(server.calls)
                with pytest.raises(ModuleError, match=f"smollm2'.*{next(iter(option))}"):
                    module('Hi', **option)
                assert len(server.calls) == count
        assert not local.started


def test_a_stream_goes_on_with_the_next_model_after_a_tool_round(till: Till, second: Server) -> None:
    def answer(_: Any) -> Any:
        said = {'content': 'Let me pay.', 'tool_calls': [call_of('pay', '{"amount": 5}')]}
        return {'finish_reason': 'tool_calls', 'message': said}

    with serve(answer, faults=in_order(None, '500', '500')) as first:
        stream = module_of(first).with_tools([till.pay]).with_fallbacks(module_of(second)).stream('Pay 5.')
        assert ''.join(stream) == 'Let me pay.Done: paid 5'
    assert till.paid == [5]


def test_an_event_names_the_model_that_failed_and_the_next(second: Server) -> None:
    events: list[Event] = []
    with serve(faults=lambda *_: '400') as first:
        module_of(first).with_fallbacks(module_of(second)).watch(events.append)('Hi')
    [event] = [event for event in events if event.kind == 'fallback']
    assert 'refused (400)' in event.data
    assert event.data.endswith('toy is asked.')


def test_all_models_fail_with_the_error_of_the_last() -> None:
    with (
        serve(faults=lambda *_: '401') as first,
        serve(faults=lambda *_: '403') as last,
        pytest.raises(ModelError) as caught,
    ):
        module_of(first).with_fallbacks(module_of(last))('Hi')
    assert caught.value.status == 403
    assert str(caught.value).count('(401)') == str(caught.value).count('Models asked before: toy: ') == 1
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_model_that_does_not_begin_in_time_is_followed_by_the_next(till: Till, second: Server) -> None:
    with serve(pays_once, latency=1.2) as slow:
        module = module_of(slow).with_tools([till.pay]).with_fallbacks(module_of(second), first_token=0.3)
        started = time.monotonic()
        reply = module.reply('Pay 5.')
        assert time.monotonic() - started < 1.2
    assert 'no token within 0.3 s (first_token)' in reply.attempts[0].failure
    assert (reply.text, till.paid) == ('Done: paid 5', [5])


def test_a_tool_call_counts_as_the_first_token(till: Till, second: Server) -> None:
    """A slow stream of a tool call has begun, so it is waited for."""
    arguments = '{"amount": 5}'

    async def handle(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        response = web.StreamResponse(headers={'Content-Type': 'text/event-stream'})
        await response.prepare(request)
        done = any(message['role'] == 'tool' for message in body['messages'])
        start = {'content': 'Paid.'} if done else {'tool_calls': [{'index': 0, **call_of('pay', '')}]}
        rest = [] if done else [{'tool_calls': [{'index': 0, 'function': {'arguments': c}}]} for c in arguments]
        for delta in [start, *rest]:
            await response.write(f'data: {json.dumps({"choices": [{"index": 0, "delta": delta}]})}\n\n'.encode())
            await asyncio.sleep(0.05)
        end = {'choices': [{'index': 0, 'delta': {}, 'finish_reason': 'stop' if done else 'tool_calls'}]}
        await response.write(f'data: {json.dumps(end)}\n\ndata: [DONE]\n\n'.encode())
        return response

    with running(handle) as url:
        module = OnlineChatModule(url, 'toy').with_tools([till.pay])
        reply = module.with_fallbacks(module_of(second), first_token=0.4).reply('Pay.')
    assert (reply.text, till.paid, second.calls) == ('Paid.', [5], [])


# Approval, dependencies, retries and limits


def refuse(context: ToolContext[None]) -> str | bool:
    return 'more than 3 needs a signature' if context.arguments['amount'] > 3 else True


async def refuse_later(context: ToolContext[None]) -> str | bool:
    return refuse(context)


def fail_to_decide(_: ToolContext[None]) -> bool:
    raise RuntimeError('nobody is at the desk')


@pytest.mark.parametrize(
    ('approve', 'amount', 'result'),
    [
        (refuse, 2, 'paid 2'),
        (refuse, 5, 'Error: the call of pay was not approved: more than 3 needs a signature.'),
        (refuse_later, 5, 'Error: the call of pay was not approved: more than 3 needs a signature.'),
        (lambda _: False, 2, 'Error: the call of pay was not approved.'),
        (lambda _: 1, 2, 'Error: the call of pay was not approved.'),
        (fail_to_decide, 2, 'Error: RuntimeError: nobody is at the desk'),
    ],
)
def test_a_tool_runs_only_if_it_is_approved(till: Till, approve: Any, amount: int, result: str) -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        results = [message['content'] for message in body['messages'] if message['role'] == 'tool']
        return results[0] if results else calls(call_of('pay', json.dumps({'amount': amount})))

    with serve(answer) as server:
        module = module_of(server)
        assert module.with_tools([till.pay], approve=approve)('Pay.') == result
        assert module.with_tools([Tool(till.pay, approve=approve)], approve=lambda _: True)('Pay.') == result
    assert till.paid == ([2, 2] if result == 'paid 2' else [])


def test_arguments_that_do_not_fit_are_not_put_up_for_approval(till: Till) -> None:
    def answer(body: Mapping[str, Any]) -> Any:
        results = [message['content'] for message in body['messages'] if message['role'] == 'tool']
        return results[0] if results else calls(call_of('pay', '{"amount": "much"}'))

    asked: list[Any] = []
    with serve(answer) as server:
        module = module_of(server).with_tools([till.pay], approve=lambda context: bool(asked.append(context)))
        assert 'amount must be integer' in module('Pay.')
    assert asked == []


def test_dependencies_reach_tools_and_not_the_model(till: Till, second: Server) -> None:
    def pay(amount: int, context: ToolContext[Till]) -> str:
        return f'{context.name} {context.call_id}: {context.deps.pay(amount)}'

    module = module_of(second).with_tools([pay])
    assert module('Pay 5.', deps=till) == 'Done: pay call_1: paid 5'
    assert module.batch(['Pay 5.'], deps=till) == ['Done: pay call_1: paid 5']
    assert till.paid == [5, 5]
    parameters = second.bodies[0]['tools'][0]['function']['parameters']
    assert list(parameters['properties']) == ['amount']
    with pytest.raises(ModuleError, match='the tool pay needs dependencies: pass deps=… with the call'):
        module('Pay 5.')


def test_a_model_cannot_set_the_dependencies_of_a_tool(till: Till) -> None:
    def pay(amount: int, context: ToolContext[Till]) -> str:
        return context.deps.pay(amount)

    def answer(body: Mapping[str, Any]) -> Any:
        results = [message['content'] for message in body['messages'] if message['role'] == 'tool']
        return results[0] if results else calls(call_of('pay', '{"amount": 1, "context": {"deps": 2}}'))

    with serve(answer) as server:
        assert module_of(server).with_tools([pay])('Pay.', deps=till).startswith("Error: unknown parameter 'context'")
    assert till.paid == []


def test_a_tool_is_retried_and_timed_as_it_says(second: Server) -> None:
    tries: list[int] = []

    def pay(amount: int) -> str:
        tries.append(amount)
        if len(tries) < 3:
            raise ConnectionError('busy')
        return 'paid at last'

    module = module_of(second)
    assert module.with_tools([Tool(pay, retries=2)])('Pay.') == 'Done: paid at last'
    tries.clear()
    assert module.with_tools([pay])('Pay.') == 'Done: Error: ConnectionError: busy'
    tries.clear()
    assert module.with_tools([Tool(pay, retries=2, timeout=0.1)])('Pay.').startswith(
        'Done: Error: the tool pay did not'
    )
    assert len(tries) == 1
    copied = pickle.loads(pickle.dumps(Tool(call_of, retries=2, timeout=0.1)))
    assert (copied.retries, copied.timeout) == (2, 0.1)


@pytest.mark.parametrize(
    ('options', 'sentence'),
    [
        ({'retries': -1}, 'retries must be a whole number'),
        ({'timeout': 0}, 'timeout must be a number of seconds'),
        ({'approve': 'yes'}, 'approve must be a function of a ToolContext'),
    ],
)
def test_an_option_of_a_tool_that_makes_no_sense_is_refused(till: Till, options: Any, sentence: str) -> None:
    with pytest.raises(ModuleError, match=sentence):
        Tool(till.pay, **options)


def test_a_call_stops_at_its_limit_of_money(till: Till, second: Server) -> None:
    def answer(_: Any) -> Any:
        return calls(call_of('pay', '{"amount": 1}'))

    with serve(answer) as server:
        module = module_of(server).with_tools([till.pay])
        with pytest.raises(CostLimitError, match=r'no answer for \$0\.0000\d+; max_cost is \$5e-05') as caught:
            module('Pay.', max_cost=0.00005)
    assert caught.value.cost >= 0.00005
    assert len(server.calls) == len(till.paid) == 2
    answer_after = module_of(second).with_tools([till.pay])('Go on.', history=caught.value.history, max_cost=1)
    assert answer_after.startswith('Done')
    with pytest.raises(ModuleError, match='the price of toy is not known'):
        module_of(second, price=None)('Hi', max_cost=1)
    with pytest.raises(ModuleError, match='max_cost must be a number of US dollars above 0'):
        module_of(second)('Hi', max_cost=0)


def test_a_tool_that_cancels_itself_fails_alone(till: Till) -> None:
    async def look(what: str) -> str:
        """Look something up."""
        lookup = asyncio.ensure_future(asyncio.sleep(5))
        lookup.cancel()
        return str(await lookup)

    def answer(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return ' '.join(message['content'] for message in body['messages'] if message['role'] == 'tool')
        return calls(call_of('look', '{"what": "a"}', 'c1'), call_of('pay', '{"amount": 5}', 'c2'))

    with serve(answer) as server:
        module = module_of(server).with_tools([look, till.pay])
        told = 'Error: CancelledError: it cancelled itself paid 5'
        assert (module('Pay.'), asyncio.run(module.acall('Pay.'))) == (told, told)
    assert till.paid == [5, 5]


def test_a_cancelled_call_cancels_its_async_tools_and_begins_nothing_anew() -> None:
    log: list[str] = []

    async def wait(what: str) -> str:
        """Wait."""
        log.append('begun')
        try:
            await asyncio.sleep(30)
        finally:
            log.append('ended')
        return 'over'

    async def cancel(server: Server) -> None:
        task = asyncio.ensure_future(module_of(server).with_tools([wait]).acall('Wait.'))
        while not log:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while len(log) < 2:
            await asyncio.sleep(0.01)

    with serve(lambda _body: calls(call_of('wait', '{"what": "a"}'))) as server:
        asyncio.run(asyncio.wait_for(cancel(server), 20))
        assert len(server.calls) == 1
    assert log == ['begun', 'ended']


def test_calls_of_one_reply_that_share_an_id_get_different_ones(till: Till, second: Server) -> None:
    def pays_twice(body: Mapping[str, Any]) -> Any:
        if body['messages'][-1]['role'] == 'tool':
            return web.json_response({'error': {'message': 'gone'}}, status=404)
        return calls(call_of('pay', '{"amount": 1}', 'c'), call_of('pay', '{"amount": 2}', 'c'))

    with serve(pays_twice) as first:
        module_of(first).with_fallbacks(module_of(second)).with_tools([till.pay])('Pay.')
    results = [message for message in second.bodies[0]['messages'] if message['role'] == 'tool']
    called = [call['id'] for call in second.bodies[0]['messages'][-3]['tool_calls']]
    assert [result['tool_call_id'] for result in results] == called
    assert len(set(called)) == 2
    assert sorted(till.paid) == [1, 2]


def test_stopping_a_module_while_a_tool_runs_leaves_the_conversation(till: Till) -> None:
    def pay_and_stop(amount: int) -> str:
        """Pay an amount."""
        paid = till.pay(amount)
        module.stop()
        return paid

    with serve(lambda _body: calls(call_of('pay_and_stop', '{"amount": 5}'))) as server:
        module = module_of(server).with_tools([pay_and_stop])
        with pytest.raises(StoppedError, match='the module was stopped') as raised:
            module('Pay.')
    assert [message['role'] for message in raised.value.history] == ['user', 'assistant', 'tool']
    assert 'may have taken effect' in raised.value.history[-1]['content']
    assert till.paid == [5]


@pytest.mark.parametrize('fails', ['input', 'on_progress'])
def test_a_batch_that_fails_finishes_the_calls_under_way(till: Till, fails: str) -> None:
    """Whoever asks again about what has no reply pays nothing twice."""

    def answer(body: Mapping[str, Any]) -> Any:
        question = next(message['content'] for message in body['messages'] if message['role'] == 'user')
        if body['messages'][-1]['role'] == 'tool':
            time.sleep(0.02)
            return f'Paid {question}.'
        if question == '3' and fails == 'input':
            return web.json_response({'error': {'message': 'no'}}, status=400)
        return calls(call_of('pay', json.dumps({'amount': int(question)})))

    def watch(done: int, _of: int) -> None:
        if fails == 'on_progress' and done == 3:
            raise ValueError('no room on the page')

    with serve(answer) as server:
        module = module_of(server).with_tools([till.pay])
        with pytest.raises(BatchError, match='input 3 failed|on_progress failed: no room') as raised:
            module.batch(map(str, range(20)), concurrency=4, on_progress=watch)
        replied = [number for number, reply in enumerate(raised.value.replies) if reply is not None]
        assert replied == sorted(till.paid)
        assert len(replied) < 20
        module.batch([str(number) for number in range(20) if number not in replied and number != 3])
    assert len(till.paid) == len(set(till.paid))
