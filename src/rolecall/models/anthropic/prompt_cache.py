"""Prompt-cache breakpoints: Anthropic's servers cache everything before the mark in a request.

The mark is placed where the part that all rows share ends. It changes no text: a message whose beginning is shared is
written as two blocks, which join to what was there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from rolecall.models.protocol import Message

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
