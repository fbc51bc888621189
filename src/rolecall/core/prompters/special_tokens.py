"""A model's special tokens: the markers around each message of a string prompt."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from rolecall.errors import PrompterError, did_you_mean

DEFAULT_SYSTEM = 'You are a helpful assistant.'


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one model. Missing tokens are empty.

    | tokens                  | position                                   |
    |-------------------------|--------------------------------------------|
    | `sos` `eos`             | around the system text                     |
    | `soh` `eoh`             | around user text                           |
    | `soa` `eoa`             | around assistant text                      |
    | `soe` `eoe`             | around a tool result                       |
    | `tool_start` `tool_end` | around a tool call                         |
    | `tool_args`             | between a tool's name and its arguments    |

    `system` is the model's own system sentence.

    >>> Tokens(soh='<user>', eoh='</user>', soa='<model>').soa
    '<model>'
    """

    sos: str = ''
    eos: str = ''
    soh: str = ''
    eoh: str = ''
    soa: str = ''
    eoa: str = ''
    soe: str = ''
    eoe: str = ''
    tool_start: str = ''
    tool_end: str = ''
    tool_args: str = ''
    system: str = DEFAULT_SYSTEM

    def __post_init__(self) -> None:
        for name in TOKEN_NAMES:
            if not isinstance(getattr(self, name), str):
                raise PrompterError(f'token {name} must be a string, got {getattr(self, name)!r:.60}.')

    @classmethod
    def read(cls, source: Mapping[str, str]) -> Tokens:
        """Tokens from a mapping; `tool_start_token` means `tool_start`.

        >>> Tokens.read({'soh': '<H>', 'tool_start_token': '<call>'}).tool_start
        '<call>'
        """
        texts = {str(name).removesuffix('_token'): text for name, text in source.items()}
        unknown = [name for name in texts if name not in TOKEN_NAMES]
        if unknown:
            raise PrompterError(f'unknown token {unknown[0]!r}. {did_you_mean(unknown[0], TOKEN_NAMES)}')
        return cls(**texts)

    def call(self, name: str, arguments: str) -> str:
        """A tool call as the model writes it. `arguments` is JSON.

        >>> Tokens(tool_start='<t>', tool_args='<a>', tool_end='</t>').call('add', '{"x": 1}')
        '<t>add<a>{"x": 1}</t>'
        >>> Tokens(tool_start='<t>', tool_end='</t>').call('add', '{"x": 1}')
        '<t>{"name": "add", "arguments": {"x": 1}}</t>'
        """
        if self.tool_args:
            body = f'{name}{self.tool_args}{arguments}'
        else:
            body = f'{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {arguments}}}'
        return f'{self.tool_start}{body}{self.tool_end}'


TOKEN_NAMES = tuple(field.name for field in fields(Tokens))
MARKERS = TOKEN_NAMES[:-1]
AROUND = {
    'system': ('sos', 'eos'),
    'developer': ('sos', 'eos'),
    'user': ('soh', 'eoh'),
    'assistant': ('soa', 'eoa'),
    'tool': ('soe', 'eoe'),
}
"""The tokens before and after a message of each role."""

DEFAULT_TOKENS = Tokens(sos='<|start_system|>', eos='<|end_system|>', soh='<|Human|>:', soa='<|Assistant|>:')
"""Used until a prompter is bound to a model."""
