"""Converts messages between OpenAI's and Anthropic's formats.

|               | OpenAI                                         | Anthropic                              |
|---------------|------------------------------------------------|----------------------------------------|
| tool call     | `tool_calls` next to the assistant's content   | `tool_use` blocks in the content       |
| tool result   | a message with role `tool`                     | `tool_result` blocks of the user       |
| image         | `image_url`, a url (also `data:`)              | `image` with a source                  |
| system text   | messages                                       | one text outside the messages          |
| reasoning     | fields of the message, such as `reasoning_content` | `thinking` blocks in the content   |

A message of ours keeps reasoning as its server sent it, under the key `thinking`: `{'vendor': …, 'fields': {…}}`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import PrompterError

Message = dict[str, Any]
Vendor = Literal['openai', 'anthropic']
THINKING = 'thinking'
"""The key of a message under which reasoning is kept."""
_THOUGHTS = ('thinking', 'redacted_thinking')


def openai_messages(message: Message) -> list[Message]:
    """Convert a message of either format to OpenAI's. Tool results become separate messages."""
    content = message.get('content')
    if not isinstance(content, list) or not any(_is_foreign(block) for block in content):
        return [message]
    rest = {key: value for key, value in message.items() if key != 'content'}
    results = [_tool_message(block) for block in content if block.get('type') == 'tool_result']
    calls = [_tool_call(block) for block in content if block.get('type') == 'tool_use']
    parts = [_openai_part(block) for block in content if block.get('type') not in ('tool_result', 'tool_use')]
    if calls:
        rest['tool_calls'] = [*(rest.get('tool_calls') or []), *calls]
    if results and not parts and not calls:
        return results
    return [*results, {'role': rest.pop('role'), 'content': _text_alone(parts), **rest}]


def _is_foreign(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get('type') in ('tool_use', 'tool_result', 'image')


def _text_alone(parts: Sequence[Mapping[str, Any]]) -> Any:
    """Parts as one string if they are all text; None if there are none."""
    if all(part.get('type') == 'text' for part in parts):
        return '\n'.join(part['text'] for part in parts) if parts else None
    return list(parts)


def _tool_message(block: Mapping[str, Any]) -> Message:
    content = block.get('content', '')
    blocks = content if isinstance(content, list) else [{'type': 'text', 'text': text_of(content)}]
    text = _text_alone(list(map(_openai_part, blocks))) or ''
    if block.get('is_error') and isinstance(text, str):  # OpenAI's format has no error flag
        text = f'Error: {text}'
    return {'role': 'tool', 'tool_call_id': block.get('tool_use_id'), 'content': text}


def _tool_call(block: Mapping[str, Any]) -> Message:
    arguments = json.dumps(block.get('input', {}), ensure_ascii=False)
    return {'id': block.get('id'), 'type': 'function', 'function': {'name': block['name'], 'arguments': arguments}}


def _openai_part(block: Message) -> Message:
    source = block.get('source')
    if block.get('type') != 'image' or not isinstance(source, Mapping):
        return block
    if source.get('type') == 'base64':
        return {'type': 'image_url', 'image_url': {'url': f'data:{source["media_type"]};base64,{source["data"]}'}}
    return {'type': 'image_url', 'image_url': {'url': source.get('url', '')}}


def holds_thinking(message: Mapping[str, Any]) -> bool:
    """Whether a message has reasoning that `restore_fields` has to look at."""
    content = message.get('content')
    return THINKING in message or (isinstance(content, list) and any(map(_is_signed_thought, content)))


def restore_fields(message: Mapping[str, Any]) -> Message:
    """The message for an OpenAI-compatible server or a chat template: with the reasoning that came in that form.

    >>> kept = {'vendor': 'openai', 'fields': {'reasoning_content': '2 and 2'}}
    >>> restore_fields({'role': 'assistant', 'content': '4', 'thinking': kept})
    {'role': 'assistant', 'content': '4', 'reasoning_content': '2 and 2'}
    """
    fields = _stored_fields(message, 'openai')
    restored = {key: value for key, value in message.items() if key != THINKING}
    content = restored.get('content')
    if isinstance(content, list):
        restored['content'] = [part for part in content if not _is_signed_thought(part)]
    if 'content' in fields and join_texts(fields['content']) != content:
        fields = {key: value for key, value in fields.items() if key != 'content'}
    return {**restored, **fields}


def _restore_blocks(message: Mapping[str, Any], parse: Callable[[Any], Any] | None = None) -> list[Message] | None:
    """The content of an assistant message as Anthropic's server sent it; None if none was kept.

    If the text or the tool calls have changed since, the thinking comes first, as the API demands.
    """
    blocks = _stored_fields(message, 'anthropic').get('content')
    if not isinstance(blocks, (list, tuple)) or not blocks:
        return None
    called = [block.get('id') for block in blocks if block.get('type') == 'tool_use']
    calls = message.get('tool_calls') or ()
    if called == [call.get('id') for call in calls] and join_texts(blocks) == message.get('content'):
        return [dict(block) for block in blocks]
    thoughts = [dict(block) for block in blocks if block.get('type') in _THOUGHTS]
    content = message.get('content')
    speech = [{'type': 'text', 'text': content}] if isinstance(content, str) and content else content or []
    return [*thoughts, *speech, *(_tool_use(call, parse) for call in calls)]


def join_texts(blocks: Any) -> str:
    """The texts of content blocks as one string.

    >>> join_texts([{'type': 'thinking', 'thinking': 'Hm.'}, {'type': 'text', 'text': 'Four'}])
    'Four'
    """
    return ''.join(str(block.get('text', '')) for block in blocks if block.get('type') == 'text')


def _stored_fields(message: Mapping[str, Any], vendor: Vendor) -> Mapping[str, Any]:
    thinking = message.get(THINKING)
    fields = thinking.get('fields') if isinstance(thinking, Mapping) and thinking.get('vendor') == vendor else None
    return fields if isinstance(fields, Mapping) else {}


def _is_signed_thought(part: Any) -> bool:
    """Whether a content part is one of Anthropic's, which no other server takes."""
    kind = part.get('type') if isinstance(part, Mapping) else None
    return kind == 'redacted_thinking' or (kind == 'thinking' and 'signature' in part)


def anthropic_messages(
    messages: Sequence[Mapping[str, Any]], parse: Callable[[Any], Any] | None = None
) -> tuple[list[int], list[tuple[int, Message]]]:
    """The indices of system messages, and the other messages in Anthropic's format.

    Each comes with the index of its source message. Consecutive tool results become one message, as Anthropic
    requires. `parse` reads the arguments of tool calls; by default those that are not JSON are refused.
    """
    system = [i for i, message in enumerate(messages) if message['role'] in ('system', 'developer')]
    converted: list[tuple[int, Message]] = []
    last_role = ''
    for i, message in enumerate(messages):
        if i in system:
            continue
        if message['role'] == 'tool':
            result = _tool_result(message)
            if last_role == 'tool':
                converted[-1][1]['content'].append(result)
            else:
                converted.append((i, {'role': 'user', 'content': [result]}))
        else:
            converted.append((i, {'role': message['role'], 'content': _anthropic_content(message, parse)}))
        last_role = message['role']
    return system, converted


def _tool_result(message: Mapping[str, Any]) -> Message:
    content = message.get('content')
    result = list(map(_anthropic_part, content)) if isinstance(content, (list, tuple)) else text_of(content)
    return {'type': 'tool_result', 'tool_use_id': message.get('tool_call_id'), 'content': result}


def _anthropic_content(message: Mapping[str, Any], parse: Callable[[Any], Any] | None) -> Any:
    if (blocks := _restore_blocks(message, parse)) is not None:
        return blocks
    content, calls = message.get('content'), message.get('tool_calls')
    if isinstance(content, (list, tuple)):
        content = list(map(_anthropic_part, content))
    if not calls:
        return '' if content is None else content
    parts = content if isinstance(content, list) else [{'type': 'text', 'text': content}] if content else []
    return [*parts, *(_tool_use(call, parse) for call in calls)]


def _anthropic_part(part: Any) -> Any:
    image = part.get('image_url') if isinstance(part, Mapping) and part.get('type') == 'image_url' else None
    if image is None:
        return part
    url = str(image.get('url', '') if isinstance(image, Mapping) else image)
    if not url.startswith('data:'):
        return {'type': 'image', 'source': {'type': 'url', 'url': url}}
    kind, _, data = url.removeprefix('data:').partition(';base64,')
    return {'type': 'image', 'source': {'type': 'base64', 'media_type': kind, 'data': data}}


def _tool_use(call: Mapping[str, Any], parse: Callable[[Any], Any] | None = None) -> Message:
    function = call['function']
    return {
        'type': 'tool_use',
        'id': call.get('id'),
        'name': function['name'],
        'input': (parse or parse_arguments)(function.get('arguments')),
    }


def parse_arguments(arguments: Any) -> Any:
    """The arguments of a tool call as data; OpenAI sends them as a JSON string.

    >>> parse_arguments('{"x": 1}'), parse_arguments(None)
    ({'x': 1}, {})
    """
    if not isinstance(arguments, str):
        return arguments or {}
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        raise PrompterError(f'tool call arguments must be JSON, got {arguments!r:.60}.') from None


def calls_of(message: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The tool calls of an assistant message, as (name, arguments as JSON)."""
    for call in message.get('tool_calls') or ():
        function = call['function']
        arguments = function.get('arguments')
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments or {}, ensure_ascii=False)
        yield function['name'], arguments
