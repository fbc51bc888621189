"""A model's chat template, from `tokenizer_config.json` or the metadata of a GGUF file.

The output is what transformers would write. How a template runs is in `chat_program`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

from rolecall.errors import RenderError, did_you_mean
from rolecall.registry import Registry

if TYPE_CHECKING:
    from rolecall.core.render.chat_program import ChatProgram


Message = Mapping[str, Any]

_READERS: Registry[Callable[[Any], Mapping[str, Any]]] = Registry(
    'reader of chat templates', {'file': 'rolecall.models.tokenizers.tokenizer:read_chat_settings'}
)
"""The core opens no files: the reader is imported when a file is named."""

MAX_STEPS = 1_000_000
MAX_CHARS = 1 << 26

_SPECIAL_TOKENS = ('bos_token', 'eos_token', 'unk_token', 'sep_token', 'pad_token', 'cls_token', 'mask_token')
_LIST_OF_TOKENS = 'additional_special_tokens'

# The trailing space reveals whether the template strips message content.
_CONTINUE = 'ROLECALL-CONTINUES-HERE '
_PROBE = 'ROLECALL-PROBE'
_TOOL_PARAMETERS = {
    'type': 'object',
    'properties': {'key': {'type': 'string', 'description': 'What to look up.'}},
    'required': ['key'],
}


def _tool(name: str) -> dict[str, Any]:
    function = {'name': name, 'description': 'Looks something up.', 'parameters': _TOOL_PARAMETERS}
    return {'type': 'function', 'function': function}


_PROBE_TOOL, _OTHER_TOOL = _tool(_PROBE), _tool('look_up')
_TWO_MOMENTS = (datetime(2001, 2, 3, 4, 5, 6), datetime(2012, 11, 10, 9, 8, 7))
_DATE_NAME = re.compile(r'date|today|(^|_)now($|_)|(^|_)time($|_)')


class _FilePath(Protocol):
    def __fspath__(self) -> str: ...


@dataclass(frozen=True)
class ChatTemplate:
    """Formats messages as the text a model was trained on.

    >>> chatml = ChatTemplate(
    ...     '{% for m in messages %}<|im_start|>{{ m.role }}\\n{{ m.content }}<|im_end|>\\n{% endfor %}'
    ...     '{% if add_generation_prompt %}<|im_start|>assistant\\n{% endif %}'
    ... )
    >>> chatml.render([{'role': 'user', 'content': 'Hi'}])
    '<|im_start|>user\\nHi<|im_end|>\\n<|im_start|>assistant\\n'
    >>> chatml.supports_system, chatml.supports_tools, chatml.prints_date
    (True, False, False)

    `tool_source` is a second template that is used when tools are given. `max_steps` bounds the work of one rendering,
    `max_chars` all the characters it produces, including intermediate values.
    """

    source: str
    bos_token: str = field(default='', kw_only=True)
    eos_token: str = field(default='', kw_only=True)
    tokens: Mapping[str, Any] = field(default_factory=dict, kw_only=True, hash=False)
    tool_source: str | None = field(default=None, kw_only=True, repr=False)
    now: Callable[[], datetime] = field(default=datetime.now, kw_only=True, repr=False)
    max_steps: int = field(default=MAX_STEPS, kw_only=True, repr=False)
    max_chars: int = field(default=MAX_CHARS, kw_only=True, repr=False)

    _plain: ChatProgram = field(init=False, repr=False, compare=False)
    _with_tools: ChatProgram = field(init=False, repr=False, compare=False)
    _tokens: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        from rolecall.core.render.chat_program import (
            ChatProgram,  # jinja2 is not import_extra before there is a template
        )

        compiled = partial(ChatProgram, now=self.now, max_steps=self.max_steps, max_chars=self.max_chars)
        plain = compiled(self.source)
        with_tools = plain if self.tool_source is None else compiled(self.tool_source)
        named = {'bos_token': self.bos_token, 'eos_token': self.eos_token, **self.tokens}
        object.__setattr__(self, '_plain', plain)
        object.__setattr__(self, '_with_tools', with_tools)
        object.__setattr__(self, '_tokens', {name: token for name, token in named.items() if token})

    def __reduce__(self) -> tuple[Callable[..., ChatTemplate], tuple[()]]:
        return partial(ChatTemplate, **{item.name: getattr(self, item.name) for item in fields(self) if item.init}), ()

    @classmethod
    def from_tokenizer_config(cls, config: Mapping[str, Any], *, name: str | None = None) -> ChatTemplate:
        """The template of a `tokenizer_config.json`, with its special tokens.

        A config may hold several templates; `name` picks one. Without a name it is `default`, or `tool_use` when tools
        are given.

        >>> config = {'chat_template': '{{ bos_token }}{{ messages[0].content }}', 'bos_token': {'content': '<s>'}}
        >>> ChatTemplate.from_tokenizer_config(config).render([{'role': 'user', 'content': 'Hi'}])
        '<s>Hi'
        """
        templates = _named_templates(config.get('chat_template'))
        wanted = name or 'default'
        if wanted not in templates:
            there = f'no chat template named {wanted!r}. {did_you_mean(wanted, templates)}' if templates else ''
            raise RenderError(f'the tokenizer config has {there or "no chat template."}')
        return cls(
            templates[wanted],
            tool_source=templates.get('tool_use') if name is None else None,
            tokens=_special_tokens(config),
        )

    @classmethod
    def from_file(cls, path: str | _FilePath, *, name: str | None = None) -> ChatTemplate:
        """The template in a model's files: its folder, a `tokenizer_config.json`, a `.jinja` or a `.gguf` file.

        Special tokens come from the same files; `name` picks one of several templates.

        >>> ChatTemplate.from_file('no/such/folder')
        Traceback (most recent call last):
        rolecall.errors.DataError: no/such/folder: file not found.
        """
        settings = _READERS['file'](path)
        if not settings.get('chat_template'):
            raise RenderError(f'{path}: no chat template found.')
        return cls.from_tokenizer_config(settings, name=name)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> str:
        """The text for these messages.

        With `continue_final_message` the text ends right after the final message's content, for the model to continue,
        and there is no generation prompt. `variables` are passed to the template unchanged.
        """
        if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
            raise RenderError(f'expected a list of messages, got {messages!r:.60}.')
        if continue_final_message:
            marked, content = _with_mark(messages)
            return _cut_at_mark(self._text(marked, tools, False, variables), content)
        return self._text(messages, tools, add_generation_prompt, variables)

    @cached_property
    def supports_system(self) -> bool:
        """Whether a system message is accepted and its text appears."""
        return self._shows_probe(_PROBE_SYSTEM)

    @cached_property
    def supports_system_with_tools(self) -> bool:
        """The same when tools are given, which may select another template or another branch."""
        return self._shows_probe(_PROBE_SYSTEM, tools=[_OTHER_TOOL])

    @cached_property
    def supports_tools(self) -> bool:
        """Whether tools are accepted and their names appear, with or without a system message."""
        system = {'role': 'system', 'content': 'Be brief.'}
        return any(
            self._shows_probe(messages, tools=[_PROBE_TOOL])
            for messages in (_PROBE_MESSAGES, [system, *_PROBE_MESSAGES])
        )

    @cached_property
    def prints_date(self) -> bool:
        """Whether the text depends on the current date, or on a variable named like a date."""
        return any(self._prints_date(messages, tools) for messages in _DATED for tools in (None, [_PROBE_TOOL]))

    def _prints_date(self, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bool:
        from rolecall.core.render.chat_program import make_strftime

        clocks = [make_strftime(_clock_at(moment)) for moment in _TWO_MOMENTS]
        texts = {self._text_or_none(messages, tools=tools, variables={'strftime_now': clock}) for clock in clocks}
        return len(texts) > 1 or any(
            self._shows_probe(messages, tools=tools, variables={name: _PROBE}) for name in self._date_names
        )

    @cached_property
    def _date_names(self) -> tuple[str, ...]:
        names = self._plain.undeclared_names() | self._with_tools.undeclared_names()
        return tuple(sorted(name for name in names - {'strftime_now'} if _DATE_NAME.search(name)))

    def _shows_probe(self, messages: Sequence[Message], **options: Any) -> bool:
        return _PROBE in (self._text_or_none(messages, **options) or '')

    def _text_or_none(self, messages: Sequence[Message], **options: Any) -> str | None:
        try:
            return self.render(messages, **options)
        except RenderError:
            return None

    def _text(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        variables: Mapping[str, Any] | None,
    ) -> str:
        template = self._plain if tools is None else self._with_tools
        context = {
            'messages': [_without_nothing(message) for message in messages],
            'tools': None if tools is None else list(tools),
            'documents': None,
            'add_generation_prompt': add_generation_prompt,
            **self._tokens,
            **(variables or {}),
        }
        return template.run(context)


_PROBE_MESSAGES: list[Message] = [{'role': 'user', 'content': 'Hi'}]
_PROBE_SYSTEM: list[Message] = [{'role': 'system', 'content': _PROBE}, *_PROBE_MESSAGES]
_DATED: tuple[list[Message], ...] = (
    _PROBE_MESSAGES,
    [{'role': 'system', 'content': 'Be brief.'}, *_PROBE_MESSAGES],
)


def _clock_at(moment: datetime) -> Callable[[], datetime]:
    return lambda: moment


def _named_templates(value: object) -> dict[str, str]:
    match value:
        case str():
            return {'default': value}
        case Mapping():
            named = list(value.items())
        case list() | tuple():
            named = [(e.get('name'), e.get('template')) if isinstance(e, Mapping) else (None, None) for e in value]
        case _:
            return {}
    if not all(isinstance(name, str) and isinstance(source, str) for name, source in named):
        raise RenderError(f'every entry of chat_template needs a name and a template: {value!r:.80}.')
    return dict(named)


def _special_tokens(config: Mapping[str, Any]) -> dict[str, Any]:
    extra = config.get('extra_special_tokens')
    tokens = {name: config[name] for name in (*_SPECIAL_TOKENS, _LIST_OF_TOKENS) if config.get(name)}
    tokens |= extra if isinstance(extra, Mapping) else {}
    return {
        name: list(map(_token_text, token)) if isinstance(token, (list, tuple)) else _token_text(token)
        for name, token in tokens.items()
    }


def _token_text(token: Any) -> Any:
    if isinstance(token, Mapping) and not isinstance(token.get('content'), str):
        raise RenderError(f"a special token needs a text or an object with 'content', got {token!r:.80}.")
    return token['content'] if isinstance(token, Mapping) else token


def _without_nothing(message: Message) -> Message:
    """The message without keys whose value is None, as transformers hands it over: templates would print `None`."""
    if not isinstance(message, Mapping) or all(value is not None for value in message.values()):
        return message
    return {key: value for key, value in message.items() if value is not None}


def _with_mark(messages: Sequence[Message]) -> tuple[list[Message], str]:
    """Append a private mark to the last message's text; return the messages and that text."""
    if not messages:
        raise RenderError('there is no message to continue.')
    *before, final = messages
    content = final.get('content')
    if isinstance(content, str):
        return [*before, {**final, 'content': content + _CONTINUE}], content
    parts = list(content) if isinstance(content, (list, tuple)) else []
    for place in reversed(range(len(parts))):
        part = parts[place]
        if isinstance(part, Mapping) and isinstance(text := part.get('text'), str):
            parts[place] = {**part, 'text': text + _CONTINUE}
            return [*before, {**final, 'content': parts}], text
    raise RenderError('the final message has no text to continue.')


def _cut_at_mark(text: str, content: str) -> str:
    """The text up to the mark, if the message's content really precedes it."""
    before, mark, after = text.partition(_CONTINUE.rstrip())
    if not mark:
        fault = 'does not print it'
    elif mark in after:
        fault = 'prints it more than once'
    elif not before.rstrip().endswith(content.strip()):
        fault = 'changes it'
    else:
        return before if after.startswith(' ') else before.rstrip()
    raise RenderError(f'the final message cannot be continued: the chat template {fault}.')
