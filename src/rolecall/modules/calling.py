"""Calls of tools in the texts of models that write them out, in the forms chat templates teach."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

__all__ = ['calls_in']

Call = Mapping[str, Any]

_TAGGED = re.compile(r'<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)', re.DOTALL)
_BRACKETED = re.compile(r'\[TOOL_CALLS\]\s*(.*)\Z', re.DOTALL)
_FENCED = re.compile(r'\A\s*```(?:json|tool_call)?\s*(.*?)\s*```\s*\Z', re.DOTALL)
_LABELLED = re.compile(r'\A\s*<\|python_tag\|>\s*(.*)\Z', re.DOTALL)
_ARGUMENTS = ('arguments', 'parameters', 'args')


def calls_in(text: str, names: Collection[str]) -> tuple[str, tuple[Call, ...]]:
    """The text without the calls in it, and the calls, as an API would give them.

    Tagged calls count whatever they name; JSON without any tag only if it names a tool that was offered.

    >>> said, calls = calls_in('Let me see.<tool_call>{"name": "add", "arguments": {"x": 1}}</tool_call>', ['add'])
    >>> said, calls[0]['function']
    ('Let me see.', {'name': 'add', 'arguments': {'x': 1}})
    >>> calls_in('{"name": "Ada"}', ['add'])
    ('{"name": "Ada"}', ())
    """
    for form in (_TAGGED, _BRACKETED):
        found = [call for match in form.finditer(text) for call in _calls(match[1])]
        if found:
            return form.sub('', text).strip(), _numbered(found)
    bare = next((match[1] for form in (_FENCED, _LABELLED) if (match := form.match(text))), text)
    found = list(_calls(bare))
    if found and all(name in names for name, _ in found):
        return '', _numbered(found)
    return text, ()


def _numbered(found: list[tuple[str, Any]]) -> tuple[Call, ...]:
    return tuple(
        {'id': f'call_{number}', 'type': 'function', 'function': {'name': name, 'arguments': arguments}}
        for number, (name, arguments) in enumerate(found)
    )


def _calls(written: str) -> Iterator[tuple[str, Any]]:
    try:
        found = json.loads(written)
    except ValueError:
        return
    for call in found if isinstance(found, list) else [found]:
        inner = call.get('function', call) if isinstance(call, dict) else None
        name = inner.get('name') if isinstance(inner, dict) else inner if isinstance(inner, str) else None
        if not isinstance(name, str):
            return
        holder = inner if isinstance(inner, dict) else call
        arguments: Any = next((holder[key] for key in _ARGUMENTS if key in holder), {})
        yield name, _decoded(arguments)


def _decoded(arguments: Any) -> Any:
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments) if arguments.strip() else {}
    except ValueError:
        return arguments
