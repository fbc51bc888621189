"""The tools a model may call: read and checked once for each content, in every form that a request needs."""

from __future__ import annotations

import json
import marshal
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rolecall.errors import PrompterError
from rolecall.prompts.frozen import FrozenList, copy_data, freeze

__all__ = ['Tools', 'read_tools']


@dataclass(frozen=True, slots=True, eq=False)
class Tools:
    """A list of tools. The forms are shared by all requests, so they cannot be changed."""

    given: FrozenList
    words: str
    """What a string prompt tells of them."""
    openai: FrozenList
    anthropic: FrozenList


def read_tools(tools: Any) -> Tools | None:
    """The tools, or None if there are none.

    Reading is remembered by content: the same list, changed in the meantime, is read anew.

    >>> read_tools([{'type': 'function', 'function': {'name': 'today'}}]).anthropic
    [{'name': 'today', 'input_schema': {'type': 'object', 'properties': {}}}]
    """
    if not tools:
        return None
    if not isinstance(tools, (list, tuple)):
        raise PrompterError(f'tools are a list of mappings; got {tools!r:.60}.')
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
    """A tool has a name, in OpenAI's shape or in Anthropic's; a vendor's own tool has a type."""
    if not isinstance(tool, Mapping):
        raise PrompterError(f'tools[{number}] is a mapping that describes a tool; got {tool!r:.60}.')
    function = tool.get('function', tool)
    named = isinstance(function, Mapping) and isinstance(function.get('name'), str)
    for key in ('parameters', 'input_schema'):
        if named and not isinstance(function.get(key) or {}, Mapping):
            raise PrompterError(f'tools[{number}]: {key} is a JSON Schema, a mapping; got {function[key]!r:.60}.')
    if not named and tool.get('type', 'function') == 'function':
        raise PrompterError(
            f"tools[{number}] has no name: write {{'type': 'function', 'function': {{'name': …}}}}; got {tool!r:.60}."
        )


def _is_bare(tool: Mapping[str, Any]) -> bool:
    """Whether this is the inner part of OpenAI's shape alone."""
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
    if 'required' in function:  # beside the parameters, as some write it
        schema.setdefault('required', function['required'])
    described = {'description': function['description']} if function.get('description') else {}
    return {'name': function['name'], **described, 'input_schema': schema}
