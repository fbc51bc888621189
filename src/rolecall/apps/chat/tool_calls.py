"""Parses tool calls that models write into their text, in the formats of common chat templates."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from typing import Any

from rolecall.models.http.body import check_depth
from rolecall.models.openai.wire import parse_arguments
from rolecall.models.protocol import OnText

Call = Mapping[str, Any]

_TAGGED = re.compile(r'<tool_call>(.*?)(?:</tool_call>|\Z)', re.DOTALL)
_BRACKETED = re.compile(r'\[TOOL_CALLS\]\s*(.*)\Z', re.DOTALL)
_FENCED = re.compile(r'\A\s*```(?:json|tool_call)?(.*)```\s*\Z', re.DOTALL)
_LABELLED = re.compile(r'\A\s*<\|python_tag\|>\s*(.*)\Z', re.DOTALL)
_MARKERS = ('<tool_call>', '[TOOL_CALLS]')
_MAY_BE_CALL = re.compile(r'\s*(?:[{\[]|`{1,2}\Z|```(?:json\b|tool_call\b|\s|[a-z_]*\Z)|<(?:\Z|\|))')
"""The beginning of a text that may turn out to be nothing but calls."""
_UNREADABLE = (ValueError, RecursionError)
_ARGUMENTS = ('arguments', 'parameters', 'args')


def calls_in(text: str, names: Collection[str]) -> tuple[str, tuple[Call, ...]]:
    """The text without its tool calls, and the calls in API form, without ids.

    Tagged calls always count; untagged JSON only if it names an offered tool. Unreadable calls stay in the text.

    >>> said, calls = calls_in('Let me see.<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>', ['add'])
    >>> said, calls[0]['function']
    ('Let me see.', {'name': 'add', 'arguments': {'x': 1}})
    >>> calls_in('{"name": "Ada"}', ['add'])
    ('{"name": "Ada"}', ())
    """
    for form in (_TAGGED, _BRACKETED):
        calls = tuple(call for match in form.finditer(text) for call in _calls(match[1]))
        if calls:
            return form.sub(lambda match: '' if _calls(match[1]) else match[0], text).rstrip(), calls
    bare = next((match[1] for form in (_FENCED, _LABELLED) if (match := form.match(text))), text)
    calls = _calls(bare)
    if calls and all(call['function']['name'] in names for call in calls):
        return '', calls
    return text, ()


class CallFilter:
    """Passes text on while it is generated, up to where a tool call may begin.

    >>> pieces = []
    >>> answer = CallFilter(pieces.append)
    >>> for piece in 'Let me', ' see. <tool', '_call>{"name": "add"}':
    ...     answer.take(piece)
    >>> answer.finish('Let me see.')
    >>> pieces
    ['Let me', ' see.']
    """

    def __init__(self, on_text: OnText) -> None:
        self._on_text = on_text
        self._text = ''
        self._passed_on = 0
        self._is_call = False

    def take(self, piece: str) -> None:
        """Handle one piece of the model's text."""
        self._text += piece
        if not self._is_call:
            self._pass_on_to(self._find_safe_end())

    def finish(self, answer: str) -> None:
        """Pass on the rest of the answer, once its calls have been taken out."""
        if answer.startswith(self._text[: self._passed_on]):
            self._text = answer
            self._pass_on_to(len(answer))

    def _pass_on_to(self, end: int) -> None:
        if end > self._passed_on:
            self._on_text(self._text[self._passed_on : end])
            self._passed_on = end

    def _find_safe_end(self) -> int:
        """The end of the text that is no part of a call, whatever follows."""
        text = self._text
        if self._passed_on == 0 and _MAY_BE_CALL.match(text):
            return 0
        starts = [at for marker in _MARKERS if (at := text.find(marker, self._passed_on)) >= 0]
        self._is_call = bool(starts)
        end = min(starts, default=len(text))
        for marker in () if starts else _MARKERS:
            lengths = range(min(len(text), len(marker) - 1), 0, -1)
            partial = next((length for length in lengths if marker.startswith(text[-length:])), 0)
            end = min(end, len(text) - partial)
        return len(text[:end].rstrip())  # white space before a call is not part of the answer


def _calls(text: str) -> tuple[Call, ...]:
    """The calls in a piece of JSON; empty unless every item is a call."""
    try:
        parsed = json.loads(text.strip())
        calls = [_call(item) for item in (parsed if isinstance(parsed, list) else [parsed])]
    except _UNREADABLE:
        return ()
    readable = tuple(call for call in calls if call is not None)
    return readable if len(readable) == len(calls) else ()


def _call(item: Any) -> Call | None:
    inner = item.get('function', item) if isinstance(item, dict) else None
    name = inner.get('name') if isinstance(inner, dict) else inner
    if not isinstance(name, str):
        return None
    holder = inner if isinstance(inner, dict) else item
    arguments: Any = next((holder[key] for key in _ARGUMENTS if key in holder), {})
    return {'type': 'function', 'function': {'name': name, 'arguments': _decode_arguments(arguments)}}


def _decode_arguments(arguments: Any) -> Any:
    """The arguments as values; as they are written where they cannot be read, so that the tool can refuse them."""
    if isinstance(arguments, str):
        return parse_arguments(arguments)
    try:
        return check_depth(arguments)
    except ValueError:
        return json.dumps(arguments)
