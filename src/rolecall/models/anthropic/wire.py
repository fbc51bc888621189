"""Anthropic's wire format: writes messages and tools, marks what the server shall cache, reads replies and streams.

A mark for the cache is placed where the part that all rows share ends. It changes no text: a message whose beginning is
shared is written as two blocks, which join to what was there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Literal

from rolecall.core.prompters.vendors import anthropic_messages
from rolecall.models.http.body import ReplyFieldError, check_depth
from rolecall.models.http.media import MediaReader, part_url, with_url
from rolecall.models.openai.wire import parse_arguments, read_count, read_served
from rolecall.models.protocol import Message, ModelError, Outcome, Reply, Usage

Block = Mapping[str, Any]

_ANYWHERE = MediaReader()
_CHOICES = {'auto': 'auto', 'required': 'any', 'none': 'none'}
_LONGEST_REASON = 400
_ANSWER, _VALUE, _ONLY = 'give_answer', 'give_value', 'answer'
THINKING_BLOCKS = ('thinking', 'redacted_thinking')
_ENDED = {
    'end_turn': 'stop',
    'stop_sequence': 'stop',
    'max_tokens': 'length',
    'model_context_window_exceeded': 'length',
    'tool_use': 'tool_calls',
}


def write_anthropic_messages(messages: Sequence[Block], media: MediaReader = _ANYWHERE) -> dict[str, Any]:
    """`messages`, and `system` if there is any. Reads local files.

    >>> write_anthropic_messages([{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hi'}])
    {'messages': [{'role': 'user', 'content': 'Hi'}], 'system': 'Be brief.'}
    """
    systems, dialogue = anthropic_messages([_read_media(message, media) for message in messages], parse_arguments)
    body: dict[str, Any] = {'messages': [message for _, message in dialogue]}
    if not systems:
        return body
    if dialogue and systems[-1] > dialogue[0][0]:
        raise ModelError("Anthropic's format allows system messages only before the dialogue.")
    return {**body, 'system': _join_system([messages[i].get('content') or '' for i in systems])}


def _join_system(contents: Sequence[Any]) -> Any:
    if all(isinstance(content, str) for content in contents):
        return '\n'.join(contents)
    listed = [[{'type': 'text', 'text': content}] if isinstance(content, str) else content for content in contents]
    return [block for content in listed for block in content]


def _read_media(message: Block, media: MediaReader) -> Block:
    """The message with the pictures of local files in it."""
    content = message.get('content')
    if not isinstance(content, (list, tuple)):
        return message
    parts = []
    for part in content:
        url = part_url(part)
        if url is not None and part['type'] != 'image_url':
            raise ModelError(f"Anthropic's format does not support {part['type']} parts.")
        parts.append(part if url is None else with_url(part, media.data_url(url)))
    return {**message, 'content': parts}


def write_tools(tools: Sequence[Block]) -> list[Block]:
    """Tools in Anthropic's form; those already in it are unchanged."""
    return [_write_tool(tool['function']) if 'function' in tool else tool for tool in tools]


def _write_tool(function: Block) -> Block:
    described = {'description': function['description']} if function.get('description') else {}
    schema = function.get('parameters') or {'type': 'object', 'properties': {}}
    return {'name': function['name'], **described, 'input_schema': schema}


def write_tool_choice(choice: Any) -> Any:
    """The tool choice in Anthropic's form.

    >>> write_tool_choice('required'), write_tool_choice({'type': 'function', 'function': {'name': 'look'}})
    ({'type': 'any'}, {'type': 'tool', 'name': 'look'})
    """
    if isinstance(choice, str):
        return {'type': _CHOICES.get(choice, choice)}
    return {'type': 'tool', 'name': choice['function']['name']} if 'function' in choice else choice


def write_answer_tool(schema: Mapping[str, Any], tools: Sequence[Block], *, thinks: bool = False) -> dict[str, Any]:
    """Makes a model answer with JSON: it must call a tool with that schema, besides the tools it may call.

    A model that `thinks` cannot be forced to call a tool (the API rejects that), so it is only asked to.
    """
    name = _ANSWER
    if schema.get('type') != 'object':
        name, schema = _VALUE, {'type': 'object', 'properties': {_ONLY: schema}, 'required': [_ONLY]}
    about = 'Give the final answer. Always answer by calling this tool.' if thinks else 'Give the final answer.'
    answer = {'name': name, 'description': about, 'input_schema': schema}
    choice = {'type': 'auto'} if thinks else {'type': 'any'} if tools else {'type': 'tool', 'name': name}
    return {'tools': [*tools, answer], 'tool_choice': choice}


def take_tool_answer(reply: Reply) -> Reply:
    """The reply whose text is the answer passed to the tool of `write_answer_tool`."""
    answers = [call for call in reply.tool_calls if call['function']['name'] in (_ANSWER, _VALUE)]
    if not answers:
        return reply
    arguments = answers[0]['function']['arguments']
    value = json.loads(arguments) if isinstance(arguments, str) else arguments
    if answers[0]['function']['name'] == _VALUE and isinstance(value, Mapping) and set(value) == {_ONLY}:
        value = value[_ONLY]
    others = tuple(call for call in reply.tool_calls if call not in answers)
    thoughts = [block for block in reply.thinking.get('content', ()) if block['type'] in THINKING_BLOCKS]
    return replace(
        reply,
        text=json.dumps(value, ensure_ascii=False),
        reason='stop',
        tool_calls=others,
        thinking={'content': thoughts} if thoughts else {},
    )


def read_message(answer: Block, *, seconds: float | None = None) -> Reply:
    """The reply in a response.

    >>> read_message({'content': [{'type': 'text', 'text': 'Four'}], 'stop_reason': 'end_turn'}).text
    'Four'
    """
    blocks = answer.get('content') if isinstance(answer, Mapping) else None
    if not isinstance(blocks, list):
        raise ReplyFieldError('`content` is missing' if blocks is None else '`content` is not a list')
    text = ''.join(block['text'] for block in blocks if block['type'] == 'text')
    thinking = ''.join(block['thinking'] for block in blocks if block['type'] == 'thinking')
    calls = tuple(_read_call(block) for block in blocks if block['type'] == 'tool_use')
    stopped = str(answer.get('stop_reason') or '')[:_LONGEST_REASON]
    ended = _ENDED.get(stopped, stopped)
    thought = any(block['type'] in THINKING_BLOCKS for block in blocks)
    outcome: Outcome = 'filtered' if stopped == 'refusal' else 'ok'
    if thought and not text and not calls and ended == 'length':
        outcome = 'thinking_exhausted'
    signed = {'content': check_depth(list(blocks))} if thought else {}
    usage, served = _read_usage(answer.get('usage'), seconds), read_served(answer)
    return Reply(text, outcome, ended, thinking, calls, usage, thinking=signed, served=served)


def _read_call(block: Block) -> Block:
    check_depth(block)
    return {'id': block['id'], 'type': 'function', 'function': {'name': block['name'], 'arguments': block['input']}}


def _read_usage(reported: object, seconds: float | None) -> Usage:
    usage = reported if isinstance(reported, Mapping) else {}
    names = ('input_tokens', 'cache_read_input_tokens', 'cache_creation_input_tokens', 'output_tokens')
    fresh, cached, stored, output = (read_count(usage.get(name)) for name in names)
    sent = None if fresh is None else fresh + (cached or 0) + (stored or 0)
    return Usage(sent, output, cached, seconds, cache_written_tokens=stored)


class StreamedMessage:
    """Assembles a streamed reply."""

    def __init__(self) -> None:
        self._write_blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[int, list[str]] = {}
        self._signatures: dict[int, str] = {}
        self._usage: dict[str, Any] = {}
        self._stop_reason: str | None = None
        self.finished = False

    def take(self, event: Any) -> bool:
        """Whether one event adds text or thinking; unknown types are ignored."""
        kind = event.get('type')
        if kind == 'message_start':
            self._usage |= event['message'].get('usage') or {}
        elif kind == 'content_block_start':
            self._write_blocks[event['index']] = dict(event['content_block'])
            self._pieces[event['index']] = []
        elif kind == 'content_block_delta':
            delta = event['delta']
            piece = delta.get('text') or delta.get('thinking') or delta.get('partial_json')
            if piece:
                self._pieces[event['index']].append(piece)
            if signature := delta.get('signature'):
                self._signatures[event['index']] = self._signatures.get(event['index'], '') + signature
        elif kind == 'message_delta':
            self._stop_reason = event['delta'].get('stop_reason') or self._stop_reason
            self._usage |= {name: value for name, value in (event.get('usage') or {}).items() if value is not None}
        elif kind == 'message_stop':
            self.finished = True
        return bool(self.read_text(event) or self.read_thinking(event))

    def join(self) -> dict[str, Any]:
        blocks = [
            _join_block(block, ''.join(self._pieces[index]), self._signatures.get(index))
            for index, block in sorted(self._write_blocks.items())
        ]
        return {'content': blocks, 'stop_reason': self._stop_reason, 'usage': self._usage}

    @staticmethod
    def read_text(event: Any) -> str:
        return _read_delta(event, 'text')

    @staticmethod
    def read_thinking(event: Any) -> str:
        return _read_delta(event, 'thinking')


def _join_block(block: dict[str, Any], text: str, signature: str | None) -> dict[str, Any]:
    if block['type'] == 'tool_use':
        return {**block, 'input': parse_arguments(text)}
    if block['type'] in ('text', 'thinking'):
        signed = {} if signature is None else {'signature': signature}
        return {**block, block['type']: block.get(block['type'], '') + text, **signed}
    return block


def _read_delta(event: Any, key: str) -> str:
    delta = event.get('delta') or {}
    text = delta.get(key) if event.get('type') == 'content_block_delta' else ''
    return text if isinstance(text, str) else ''


SharedPrefix = tuple[Sequence[Message], str]
"""The messages with which all requests of a dataset begin, and the text with which the next one begins."""

Lifetime = Literal['5m', '1h']

_MINIMUMS = {
    'claude-opus-4-5*': 4096,
    'claude-opus-4-6*': 4096,
    'claude-opus-4-7*': 2048,
    'claude-haiku-4-5*': 4096,
    'claude-3-5-haiku*': 2048,
    'claude-3-haiku*': 2048,
}
"""Tokens that a prefix must have to be kept, by pattern of the model's name, as documented in 2026."""
_USUAL_MINIMUM = 1024
_BYTES_PER_TOKEN = 3.0
"""A low estimate: marking a prefix that is slightly too short has no effect and costs nothing."""
_SYSTEM = ('system', 'developer')


def find_minimum(model: str) -> int:
    """The tokens that a prefix must have for a model's server to keep it.

    >>> find_minimum('claude-haiku-4-5-20251001'), find_minimum('claude-sonnet-4-5')
    (4096, 1024)
    """
    name = model.rpartition('/')[2]
    return next((least for pattern, least in _MINIMUMS.items() if fnmatchcase(name, pattern)), _USUAL_MINIMUM)


def measure_shared(request: Sequence[Message], prefixes: Sequence[SharedPrefix]) -> tuple[int, str]:
    """How much of a request is shared: whole messages, and the beginning of the next. The longest prefix counts."""
    longest: tuple[int, str] = (0, '')
    for messages, beginning in prefixes:
        count = len(messages)
        if (count, len(beginning)) <= (longest[0], len(longest[1])) or list(request[:count]) != list(messages):
            continue
        following = request[count].get('content') if count < len(request) else None
        begins = beginning.strip() and isinstance(following, str) and following.startswith(beginning)
        if begins and str(following)[len(beginning) :].strip():
            longest = (count, beginning)
        elif count > longest[0]:
            longest = (count, '')
    return longest


def mark_shared(
    body: dict[str, Any],
    request: Sequence[Message],
    prefixes: Sequence[SharedPrefix],
    *,
    least: int,
    lifetime: Lifetime = '5m',
) -> dict[str, Any]:
    """The body with a mark at the end of its shared part; unchanged if that part is shorter than `least` tokens."""
    mark = {'type': 'ephemeral'} if lifetime == '5m' else {'type': 'ephemeral', 'ttl': lifetime}
    count, beginning = measure_shared(request, prefixes)
    tools: list[Any] = list(body.get('tools') or ())
    before = len(_encode(tools)) if tools else 0
    size = before + len(_encode([*request[:count], beginning])) if count or beginning else 0
    if size >= least * _BYTES_PER_TOKEN:
        marked = _mark_messages(body, request, count, beginning, mark)
        if marked is not None:
            return marked
    if before >= least * _BYTES_PER_TOKEN:
        return {**body, 'tools': [*tools[:-1], {**tools[-1], 'cache_control': mark}]}
    return body


def _mark_messages(
    body: dict[str, Any], request: Sequence[Message], count: int, beginning: str, mark: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The body with the mark in its messages or its system prompt; None where it has no place."""
    systems = [message for message in request if message.get('role') in _SYSTEM]
    if count < len(systems) or (count == len(systems) and not beginning):
        return _mark_system(body, systems[:count], beginning, mark)
    place = count - len(systems) - (0 if beginning else 1)
    messages = body['messages']
    if place >= len(messages) or len(messages) != len(request) - len(systems):  # results of tools were merged
        return None
    content = _mark_content(messages[place]['content'], beginning, mark)
    if content is None:
        return None
    return {**body, 'messages': [*messages[:place], {**messages[place], 'content': content}, *messages[place + 1 :]]}


def _mark_system(
    body: dict[str, Any], shared: Sequence[Message], beginning: str, mark: Mapping[str, Any]
) -> dict[str, Any] | None:
    system = body.get('system')
    texts = [message.get('content') or '' for message in shared]
    if not isinstance(system, str) or not all(isinstance(text, str) for text in texts):
        return None
    start = '\n'.join([*texts, beginning] if beginning else texts)
    content = _mark_content(system, start if start != system else '', mark) if system.startswith(start) else None
    return None if content is None else {**body, 'system': content}


def _mark_content(content: Any, beginning: str, mark: Mapping[str, Any]) -> list[Any] | None:
    """The blocks of a content with the mark on the last, or on the block that ends with the beginning."""
    if isinstance(content, str):
        if not beginning:
            return [{'type': 'text', 'text': content, 'cache_control': mark}] if content.strip() else None
        rest = content[len(beginning) :]
        if not beginning.strip() or not rest.strip():  # blocks of white space are refused
            return None
        first = {'type': 'text', 'text': beginning, 'cache_control': mark}
        return [first, {'type': 'text', 'text': rest}]
    if beginning or not content or content[-1].get('type') in ('thinking', 'redacted_thinking'):
        return None
    return [*content[:-1], {**content[-1], 'cache_control': mark}]


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode('utf-8', 'surrogatepass')
