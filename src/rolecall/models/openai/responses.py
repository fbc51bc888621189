"""OpenAI's Responses API: messages become input items, output items become a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.models.http.body import check_depth
from rolecall.models.http.failures import embedded_error
from rolecall.models.http.media import media_key, part_url
from rolecall.models.openai.wire import parse_arguments, read_count, read_logprobs, read_served
from rolecall.models.protocol import Message, ModelError, Outcome, Reply, Usage

Item = Mapping[str, Any]

_NOT_SENT = ('seed', 'min_tokens')
"""Parameters that the API does not have, and that change no answer's meaning."""
_REFUSED: dict[str, tuple[str, tuple[Any, ...]]] = {
    'stop': ('stop sequences', ('', [], ())),
    'n': ('several answers to one request (n)', (1,)),
    'frequency_penalty': ('frequency_penalty', (0,)),
    'presence_penalty': ('presence_penalty', (0,)),
}
"""Parameters the API does not have: their description, and the values that have no effect."""
REFUSED = tuple(_REFUSED)
_ANSWERED = ('completed', 'incomplete', None)
"""Statuses of a finished answer."""
_ENDED = {'max_output_tokens': 'length', 'content_filter': 'content_filter'}
_REASONING_EVENTS = ('response.reasoning_summary_text.delta', 'response.reasoning_text.delta')
_KEPT = 'reasoning_items'
"""The key of a tool call under which the reasoning before it is kept for the next request."""


def write_parameters(body: Mapping[str, Any], *, keeps_reasoning: bool) -> dict[str, Any]:
    """The parameters of a chat request in the terms of the Responses API. Nothing is stored at the vendor's."""
    parameters = {name: value for name, value in body.items() if name not in _NOT_SENT}
    for name, (what, usual) in _REFUSED.items():
        if (dropped := parameters.pop(name, None)) is not None and dropped not in usual:
            raise ModelError(f"OpenAI's Responses API has no {what}. Leave {name} out, or use endpoint='chat'.")
    include = list(parameters.pop('include', ()))
    if (effort := parameters.pop('reasoning_effort', None)) is not None:
        parameters['reasoning'] = {'effort': effort, **parameters.get('reasoning', {})}
    if (shape := parameters.pop('response_format', None)) is not None:
        parameters['text'] = {**parameters.get('text', {}), 'format': _write_format(shape)}
    if parameters.get('tools'):
        parameters['tools'] = [_write_tool(tool) for tool in parameters['tools']]
        include += ['reasoning.encrypted_content'] if keeps_reasoning else []
    if 'tool_choice' in parameters:
        parameters['tool_choice'] = _write_choice(parameters['tool_choice'])
    if parameters.pop('logprobs', None):
        include.append('message.output_text.logprobs')
    return {'store': False, **parameters, **({'include': include} if include else {})}


def _write_format(shape: Mapping[str, Any]) -> dict[str, Any]:
    inner = shape.get('json_schema')
    return {'type': shape['type'], **inner} if isinstance(inner, Mapping) else dict(shape)


def _write_tool(tool: Item) -> Item:
    function = tool.get('function')
    # Without it, this API enforces strict schemas, which chat API tools need not satisfy.
    return {'type': 'function', 'strict': False, **function} if isinstance(function, Mapping) else tool


def _write_choice(choice: Any) -> Any:
    if isinstance(choice, Mapping) and isinstance(choice.get('function'), Mapping):
        return {'type': 'function', 'name': choice['function']['name']}
    return choice


def write_input(messages: Sequence[Message]) -> dict[str, Any]:
    """`input`, and `instructions` if the dialogue begins with a system message.

    >>> write_input([{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}])
    {'input': [{'role': 'user', 'content': 'Hi'}], 'instructions': 'Be brief.'}
    """
    first = messages[0] if messages else {}
    leads = first.get('role') in ('system', 'developer') and isinstance(first.get('content'), str)
    items = [item for message in messages[1 if leads else 0 :] for item in _write_items(message)]
    return {'input': items, **({'instructions': first['content']} if leads else {})}


def _write_items(message: Message) -> Iterator[Item]:
    role, content = message['role'], message.get('content')
    if role == 'tool':
        output = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
        yield {'type': 'function_call_output', 'call_id': message.get('tool_call_id'), 'output': output}
        return
    calls = message.get('tool_calls') or ()
    for call in calls:
        yield from call.get(_KEPT) or ()
    if content or not calls:
        yield {'role': role, 'content': _write_content(content, role)}
    for call in calls:
        yield _write_call(call)


def _write_content(content: Any, role: str) -> Any:
    if content is None or isinstance(content, str):
        return content or ''
    return [_write_part(part, role) for part in content]


def _write_part(part: Item, role: str) -> Item:
    url = part_url(part)
    if url is not None:
        if media_key(part) != 'image_url':
            raise ModelError(f"OpenAI's Responses API takes images, not {media_key(part)}. Use endpoint='chat'.")
        detail = part['image_url'].get('detail') if isinstance(part['image_url'], Mapping) else None
        return {'type': 'input_image', 'image_url': url, **({'detail': detail} if detail else {})}
    if part.get('type') == 'text':
        return {'type': 'output_text' if role == 'assistant' else 'input_text', 'text': part['text']}
    return part


def _write_call(call: Item) -> Item:
    function = call['function']
    arguments = function.get('arguments')
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    return {'type': 'function_call', 'call_id': call.get('id'), 'name': function['name'], 'arguments': text}


def read_response(answer: Item, *, seconds: float | None = None) -> Reply:
    """The reply in a response.

    >>> said = {'type': 'message', 'content': [{'type': 'output_text', 'text': 'Four'}]}
    >>> read_response({'status': 'completed', 'output': [said]}).text
    'Four'
    """
    if answer.get('status', 'completed') not in _ANSWERED:
        raise ValueError(f'its status is {answer["status"]!r:.40}')
    items = answer['output']
    parts = [part for item in items if item['type'] == 'message' for part in item['content']]
    text = ''.join(part['text'] for part in parts if part['type'] == 'output_text')
    refused = ''.join(str(part['refusal']) for part in parts if part['type'] == 'refusal')
    thoughts = [item for item in items if item['type'] == 'reasoning']
    calls = _read_calls(items)
    ended = _read_end(answer, calls)
    outcome: Outcome = 'ok'
    if refused or ended == 'content_filter':
        outcome, ended = 'filtered', refused or ended
    elif thoughts and not text and not calls and ended == 'length':
        outcome = 'thinking_exhausted'
    scored = [token for part in parts if part['type'] == 'output_text' for token in part.get('logprobs') or ()]
    return Reply(
        text,
        outcome,
        ended,
        '\n'.join(filter(None, map(_read_thought, thoughts))),
        calls,
        _read_usage(answer.get('usage'), seconds),
        logprobs=read_logprobs({'content': scored}) if scored else (),
        served=read_served(answer),
    )


def _read_end(answer: Item, calls: Sequence[Item]) -> str:
    """Why the answer ended, in the words of the chat API."""
    if answer.get('status') == 'incomplete':
        details = answer.get('incomplete_details')
        why = str(details.get('reason') if isinstance(details, Mapping) else '')[:400]
        return _ENDED.get(why, why or 'length')
    return 'tool_calls' if calls else 'stop'


def _read_calls(items: Sequence[Item]) -> tuple[Item, ...]:
    """The tool calls, the first with the reasoning before them: the next request has to carry it."""
    calls: list[Item] = []
    for item in items:
        if item['type'] == 'function_call':
            check_depth(item)
            function = {'name': item['name'], 'arguments': parse_arguments(item.get('arguments'))}
            calls.append({'id': item.get('call_id'), 'type': 'function', 'function': function})
    reasoning = [check_depth(item) for item in items if item['type'] == 'reasoning' and item.get('encrypted_content')]
    return tuple([{**calls[0], _KEPT: reasoning}, *calls[1:]] if calls and reasoning else calls)


def _read_thought(item: Item) -> str:
    parts = [*(item.get('summary') or ()), *(item.get('content') or ())]
    return '\n'.join(str(part['text']) for part in parts if part.get('text'))


def _read_usage(reported: object, seconds: float | None) -> Usage:
    usage = reported if isinstance(reported, Mapping) else {}
    details = [usage.get(name) for name in ('input_tokens_details', 'output_tokens_details')]
    sent, received = (detail if isinstance(detail, Mapping) else {} for detail in details)
    return Usage(
        read_count(usage.get('input_tokens')),
        read_count(usage.get('output_tokens')),
        read_count(sent.get('cached_tokens')),
        seconds,
        read_count(received.get('reasoning_tokens')),
    )


class StreamedResponse:
    """Takes the events of a stream; the last one carries the whole response.

    >>> response = StreamedResponse()
    >>> response.take({'type': 'response.output_text.delta', 'delta': 'Fo'})
    True
    >>> response.take({'type': 'response.completed', 'response': {'status': 'completed', 'output': []}})
    False
    >>> response.finished
    True
    """

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._response: dict[str, Any] | None = None

    def take(self, event: Any) -> bool:
        """Whether one event adds text or reasoning; unknown types are ignored."""
        kind = event.get('type')
        if kind == 'response.output_item.done':
            self._items.append(event['item'])
        elif kind in ('response.completed', 'response.incomplete'):
            self._response = dict(event['response'])
        elif kind in ('response.failed', 'error'):
            error = event['response'].get('error') if kind == 'response.failed' else event
            raise embedded_error('the stream', error or 'the response failed')
        return bool(self.read_text(event) or self.read_thinking(event))

    @property
    def finished(self) -> bool:
        return self._response is not None

    def join(self) -> dict[str, Any]:
        response = self._response or {}
        return {**response, 'output': response.get('output') or self._items}

    @staticmethod
    def read_text(event: Any) -> str:
        text = event.get('delta') if event.get('type') == 'response.output_text.delta' else ''
        return text if isinstance(text, str) else ''

    @staticmethod
    def read_thinking(event: Any) -> str:
        text = event.get('delta') if event.get('type') in _REASONING_EVENTS else ''
        return text if isinstance(text, str) else ''
