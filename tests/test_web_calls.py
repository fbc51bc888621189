"""An application's calls in the page as they happen: what the log holds, and what the server answers of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rolecall import ChatPrompter, OnlineChatModule, TrainableModule
from rolecall.apps.chat import CallLog, ChatModule
from rolecall.models.protocol import ModelError
from rolecall.ui.cli.main import main
from servers import in_order, serve

pytest.importorskip('aiohttp')
from web_pages import Client, serve_page

KEY = 'sk-not-in-the-log-0123456789'


def pay(amount: int) -> str:
    return f'paid {amount}'


def pays(body: Mapping[str, Any]) -> Any:
    if body['messages'][-1]['role'] == 'tool':
        return f'Paid, with {KEY}.'
    call = {'id': 'c1', 'type': 'function', 'function': {'name': 'pay', 'arguments': '{"amount": 5}'}}
    return {'finish_reason': 'tool_calls', 'message': {'content': None, 'tool_calls': [call]}}


def log_a_call(path: Path, module: ChatModule) -> list[dict[str, Any]]:
    module.prompt(ChatPrompter('In {language}.', system='')).watch(CallLog(path))(
        {'language': 'French', 'input': 'Pay 5.'}
    )
    return [json.loads(line) for line in path.read_text('utf-8').splitlines()]


def test_a_log_has_every_step_and_the_origin_of_what_was_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv('OPENAI_API_KEY', KEY)
    with serve(pays, faults=in_order(None, 'error')) as server:
        lines = log_a_call(tmp_path / 'calls.jsonl', OnlineChatModule(server.url, 'toy').with_tools([pay]))
    kinds = ['request', 'reply', 'tool_call', 'tool_result', 'request', 'retry', 'reply', 'usage']
    assert [line['kind'] for line in lines] == kinds
    assert len({line['call'] for line in lines}) == 1
    first, second = (line for line in lines if line['kind'] == 'request')
    assert {'text': 'French', 'message': 0, 'role': 'system', 'kind': 'field', 'name': 'language'} in first['spans']
    assert {'text': 'paid 5', 'message': 3, 'role': 'tool', 'kind': 'field', 'name': 'pay'} in second['spans']
    for line, body in zip((first, second), (server.bodies[0], server.bodies[2]), strict=True):
        texts = [''] * len(body['messages'])
        for span in line['spans']:
            texts[span['message']] += span['text']
        assert texts == [message['content'] or '' for message in body['messages']]
    assert lines[-2]['text'] == 'Paid, with [key].'


def test_a_log_hides_a_key_that_was_given_in_code(tmp_path: Path) -> None:
    key = 'given-in-code-4711'
    with serve(lambda body: f'Your key is {key}.') as server:
        module = OnlineChatModule(server.url, 'toy', api_key=key)
        [*_, line, _usage] = log_a_call(tmp_path / 'calls.jsonl', module)
    assert line['text'] == 'Your key is [key].'


def test_a_call_that_fails_ends_with_its_failure(tmp_path: Path) -> None:
    path = tmp_path / 'calls.jsonl'
    with serve(faults=in_order('400')) as server, pytest.raises(ModelError):
        log_a_call(path, OnlineChatModule(server.url, 'toy'))
    kinds = [json.loads(line)['kind'] for line in path.read_text('utf-8').splitlines()]
    assert kinds == ['request', 'failure']
    assert 'This is a 400' in path.read_text('utf-8')


def test_the_page_gets_what_was_appended_and_waits_for_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / 'calls.jsonl'
    with serve_page(watched=path) as (port, rules), serve(pays) as server:
        client = Client(port, rules)
        assert client.get('session')['calls'] == 'calls.jsonl'
        assert client.get('calls') == {'events': [], 'after': 0}
        log_a_call(path, OnlineChatModule(server.url, 'toy').with_tools([pay]))
        answer = client.get('calls')
        request = answer['events'][0]
        assert (request['kind'], request['model'], request['asked']) == ('request', 'toy', 'Pay 5.')
        assert [block['heading'] for block in request['blocks']] == ['system', 'user']
        styles = {span['text']: span['style'] for block in request['blocks'] for span in block['spans']}
        assert styles['French'] != styles['In ']
        second = [event for event in answer['events'] if event['kind'] == 'request'][1]
        headings = [block['heading'] for block in second['blocks']]
        assert headings == ['system', 'user', 'assistant · pay({"amount": 5})', 'tool']
        with path.open('a') as file:
            file.write(
                'not JSON\n[1]\n{"kind": "request", "spans": [{"kind": "?", "text": 3}, 4]}\n{"kind": "reply", "call": "x", "text": "half'
            )
        later = client.get('calls', after=answer['after'])
        assert later['events'][0]['blocks'][0]['spans'][0]['text'] == '3'
        with path.open('a') as file:
            file.write(' a line"}\n')
        [event] = client.get('calls', after=later['after'])['events']
        assert event['text'] == 'half a line'


def test_a_page_needs_something_to_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(['web', '--no-open']) == 2
    assert 'give a config, a run directory, or --watch FILE' in capsys.readouterr().err
    assert main(['web', '--no-open', '--watch', str(tmp_path)]) == 2
    assert "CallLog('calls.jsonl')" in capsys.readouterr().err


@pytest.mark.heavy
def test_the_prompt_of_a_local_model_has_its_chat_template_as_an_origin(tmp_path: Path) -> None:
    with TrainableModule('smollm2', max_tokens=2) as module:
        request = log_a_call(tmp_path / 'calls.jsonl', module)[0]
    assert {'chat_template', 'field', 'text'} <= {span['kind'] for span in request['spans']}
