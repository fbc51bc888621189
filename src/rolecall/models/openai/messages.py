"""Messages as they go over the wire: media written out, arguments of tool calls as JSON text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from rolecall.models.http.media import data_url, part_url, with_url
from rolecall.render.spans import Request

__all__ = ['is_messages', 'sendable', 'written']

Message = Mapping[str, Any]


def is_messages(request: Request) -> TypeGuard[list[Message]]:
    """Whether a request is messages, rather than a text or token ids."""
    return isinstance(request, list) and all(isinstance(entry, Mapping) for entry in request)


async def sendable(messages: Sequence[Message], *, inline_files: bool) -> Sequence[Message]:
    """The messages as they are `written`. Files are read in a thread."""
    if inline_files and any(_has_media(message) for message in messages):
        return await asyncio.to_thread(written, messages, inline_files=True)
    return written(messages, inline_files=False)


def written(messages: Sequence[Message], *, inline_files: bool) -> Sequence[Message]:
    """The messages to send; plain ones are not touched."""
    if all(isinstance(message.get('content'), str) and 'tool_calls' not in message for message in messages):
        return messages
    return [_written_message(message, inline_files=inline_files) for message in messages]


def _has_media(message: Message) -> bool:
    content = message.get('content')
    return isinstance(content, (list, tuple)) and any(part_url(part) is not None for part in content)


def _written_message(message: Message, *, inline_files: bool) -> Message:
    written = dict(message)
    content = message.get('content')
    if isinstance(content, (list, tuple)):
        written['content'] = [_written_part(part, inline_files=inline_files) for part in content]
    if message.get('tool_calls'):
        written['tool_calls'] = [_written_call(call) for call in message['tool_calls']]
    return written


def _written_part(part: Message, *, inline_files: bool) -> Message:
    url = part_url(part)
    return part if url is None else with_url(part, data_url(url) if inline_files else url)


def _written_call(call: Message) -> Message:
    function = call.get('function') or {}
    arguments = function.get('arguments')
    if isinstance(arguments, str):
        return call
    return {**call, 'function': {**function, 'arguments': json.dumps(arguments or {}, ensure_ascii=False)}}
