"""Tool definitions, checked and converted once per distinct list to every format a request needs."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rolecall.core.prompts.frozen import FrozenList, copy_data, freeze
from rolecall.errors import PrompterError


@dataclass(frozen=True, slots=True, eq=False)
class Tools:
    """A list of tools in each format. All requests share them, so they are read-only."""

    definitions: FrozenList
    words: str
    """Their description in a string prompt."""
    openai: FrozenList
    anthropic: FrozenList


def read_tools(tools: Any) -> Tools | None:
    """Read tools; None if there are none.

    Results are cached by content, so a list that was changed in place is read again.

    >>> read_tools([{'type': 'function', 'function': {'name': 'today'}}]).anthropic
    [{'name': 'today', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    if not tools:
        return None
    if not isinstance(tools, (list, tuple)):
        raise PrompterError(f'tools must be a list of mappings, got {tools!r:.60}.')
    try:
        content = marshal.dumps(tools)
    except ValueError:  # mappings or strings of other classes
        content = _plain_content(tools)
    return _tools_of(content)


def _plain_content(tools: Any) -> bytes:
    try:
        return marshal.dumps(json.loads(json.dumps(copy_data(tools))))
    except TypeError as error:
        raise PrompterError(f'tools are JSON data: {error}.') from None


@lru_cache(maxsize=128)
def _tools_of(content: bytes) -> Tools:
    tools = marshal.loads(content)
    for i, tool in enumerate(tools):
        _check(tool, i)
    try:
        words = f'### Function-call Tools. \n\n{json.dumps(tools, ensure_ascii=False)}\n\n'
    except TypeError as error:
        raise PrompterError(f'tools are JSON data: {error}.') from None
    return Tools(freeze(tools), words, freeze([*map(_for_openai, tools)]), freeze([*map(_for_anthropic, tools)]))


def _check(tool: Any, number: int) -> None:
    """Raise unless a tool has a name, in OpenAI's or Anthropic's format, or the type of a vendor's own tool."""
    if not isinstance(tool, Mapping):
        raise PrompterError(f'tools[{number}] must be a mapping, got {tool!r:.60}.')
    function = tool.get('function', tool)
    named = isinstance(function, Mapping) and isinstance(function.get('name'), str)
    for key in ('parameters', 'input_schema'):
        if named and not isinstance(function.get(key) or {}, Mapping):
            raise PrompterError(f'tools[{number}]: {key} must be a JSON Schema (a mapping), got {function[key]!r:.60}.')
    if not named and tool.get('type', 'function') == 'function':
        raise PrompterError(
            f"tools[{number}] has no name: write {{'type': 'function', 'function': {{'name': …}}}}, got {tool!r:.60}."
        )


def _is_bare(tool: Mapping[str, Any]) -> bool:
    """Whether this is only the inner `function` part of OpenAI's format."""
    return 'function' not in tool and 'input_schema' not in tool and tool.get('type', 'function') == 'function'


def _for_openai(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if _is_bare(tool):
        return {'type': 'function', 'function': tool}
    if 'input_schema' not in tool:
        return tool
    function = {key: value for key, value in tool.items() if key in ('name', 'description')}
    return {'type': 'function', 'function': {**function, 'parameters': tool['input_schema']}}


def _for_anthropic(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    function = tool if _is_bare(tool) else tool.get('function')
    if function is None:
        return tool
    schema = {'type': 'object', 'properties': {}, **(function.get('parameters') or {})}
    if 'required' in function:  # some put it next to the parameters
        schema.setdefault('required', function['required'])
    described = {'description': function['description']} if function.get('description') else {}
    return {'name': function['name'], **described, 'input_schema': schema}
