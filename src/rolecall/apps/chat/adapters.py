"""Adapters turn a prompter's output into what one kind of model takes: OpenAI or Anthropic messages, or plain text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from rolecall.apps.chat.chat_reply import Message
from rolecall.apps.chat.module_errors import ModuleError
from rolecall.apps.chat.tool_calls import calls_in
from rolecall.core.program.compiled import Trace
from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.frame_renderer import ModelBinder, PromptArguments
from rolecall.core.prompters.messaging import encode_trace, has_special_token
from rolecall.core.prompters.vendors import THINKING, Vendor, restore_fields
from rolecall.core.prompts.pieces import Origin, text_of
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.spans import Request, Span
from rolecall.models.local_engine import separate_thinking
from rolecall.models.protocol import Model, Reply
from rolecall.models.tokenizers.tokenizer import Tokenizer

Resend = Literal['always', 'tool_turns', 'never']
RESEND: tuple[Resend, ...] = ('always', 'tool_turns', 'never')


def name_author(model: Model) -> str:
    """What identifies the model that wrote a reply: its server, if it has one, and its name."""
    identity = model.identity
    return ' '.join(str(identity[key]) for key in ('server', 'model', 'path') if identity.get(key))


@dataclass(frozen=True, slots=True)
class ThinkingPolicy:
    """How the reasoning of one model is kept, and when it is sent back: to that model, and to no other.

    Vendors sign or encrypt reasoning, and refuse a tool result whose call comes back without it. So an assistant
    message keeps the fields that carried the reasoning, as the server sent them, under the key `thinking`.

    >>> policy = ThinkingPolicy('http://x toy', 'openai')
    >>> said = policy.write_message(Reply('4', reasoning='2 and 2', thinking={'reasoning_content': '2 and 2'}))
    >>> said['thinking']['fields']
    {'reasoning_content': '2 and 2'}
    >>> ThinkingPolicy('http://other toy', 'openai').filter_turns([said])
    [{'role': 'assistant', 'content': '4'}]
    """

    author: str
    vendor: Vendor
    resend: Resend = 'always'

    def write_message(self, reply: Reply) -> Message:
        message: dict[str, Any] = {'role': 'assistant', 'content': reply.text}
        if reply.tool_calls:
            message['tool_calls'] = [dict(call) for call in reply.tool_calls]
        if reply.thinking or any('extra_content' in call for call in reply.tool_calls):
            message[THINKING] = {'by': self.author, 'vendor': self.vendor, 'fields': dict(reply.thinking)}
        return message

    def filter_turns(self, turns: Sequence[Any]) -> Sequence[Any]:
        """The turns of a conversation, in order, with the reasoning that is to be sent and no other."""
        if not any(_thinking_in(turn) for turn in turns):
            return turns
        uses_tools = _find_tool_turns(turns) if self.resend == 'tool_turns' else [self.resend == 'always'] * len(turns)
        return [
            turn if not _thinking_in(turn) or (is_sent and _thinking_in(turn).get('by') == self.author) else _drop(turn)
            for turn, is_sent in zip(turns, uses_tools, strict=True)
        ]


def _thinking_in(turn: Any) -> Mapping[str, Any]:
    thinking = turn.get(THINKING) if isinstance(turn, Mapping) else None
    return thinking if isinstance(thinking, Mapping) else {}


def _find_tool_turns(turns: Sequence[Any]) -> list[bool]:
    """For each message, whether a tool was called between the user's messages around it."""
    roles = [turn.get('role') if isinstance(turn, Mapping) else 'user' for turn in turns]
    starts = [number for number, role in enumerate(roles) if number == 0 or role in ('user', 'system', 'developer')]
    uses_tools: list[bool] = []
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        calls = any(isinstance(turn, Mapping) and turn.get('tool_calls') for turn in turns[start:end])
        uses_tools += [calls] * (end - start)
    return uses_tools


def _drop(turn: Mapping[str, Any]) -> Message:
    message: dict[str, Any] = {key: value for key, value in turn.items() if key != THINKING}
    if calls := message.get('tool_calls'):
        message['tool_calls'] = [{key: call[key] for key in call if key != 'extra_content'} for call in calls]
    return message


_FIRST = 0xF0000
"""The start of a private-use plane."""
_OWN_THINKING = ThinkingPolicy('', 'openai')


@dataclass(frozen=True, slots=True)
class ModuleCall:
    """The arguments of one module call."""

    input: Any
    history: Sequence[Any] | None = None
    tools: Sequence[Mapping[str, Any]] | None = None


class AdaptedRequest(NamedTuple):
    """A request, the parameters sent with it, and its readable form (it may be sent as token ids)."""

    request: Request
    extra: Mapping[str, Any]
    reads: Request


class OpenAIAdapter:
    """Messages in OpenAI's shape. An adapter builds the requests for one kind of model, and reads its replies."""

    writes_calls = False
    """Whether the model writes tool calls into its text."""

    def __init__(self, thinking: ThinkingPolicy) -> None:
        self.thinking = thinking

    def trace(self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]) -> Trace:
        """The same request, readable, with the origin of each character: messages in OpenAI's shape."""
        traced = prompter.trace(call.input, call.history, call.tools, format='openai')
        messages = [*traced.body['messages'], *turns]
        spans = list(traced.spans)
        for number, message in enumerate(turns, len(messages) - len(turns)):
            origin = Origin('reply' if message['role'] == 'assistant' else 'field', str(message.get('name', '')))
            spans.append(Span(text_of(message.get('content') or ''), origin, number))
        return Trace(messages, tuple(spans), traced.notes)

    def check_tool_support(self, prompter: Prompter) -> None:
        """Messages can carry tool results, so every prompter is fine."""

    def word(self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]) -> AdaptedRequest:
        """The request for a call; `turns` are the messages that follow the prompt."""
        call, turns = _filter_thinking(call, turns, self.thinking)
        body = prompter.generate_prompt(call.input, call.history, call.tools, format='openai')
        messages = [*body['messages'], *map(restore_fields, turns)]
        return AdaptedRequest(messages, _tools_of(body), messages)

    def read_reply(self, reply: Reply, prompter: Prompter, call: ModuleCall) -> Reply:
        """The reply, with reasoning and tool calls moved out of its text."""
        return reply


class AnthropicAdapter(OpenAIAdapter):
    """Messages in Anthropic's shape. The system message goes first; the client moves it to the `system` field."""

    def word(self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]) -> AdaptedRequest:
        call, turns = _filter_thinking(call, turns, self.thinking)
        body = prompter.generate_prompt(call.input, call.history, call.tools, format='anthropic')
        system = [{'role': 'system', 'content': body['system']}] if body.get('system') else []
        messages = [*system, *body['messages'], *turns]
        return AdaptedRequest(messages, _tools_of(body), messages)


def _filter_thinking(
    call: ModuleCall, turns: Sequence[Message], policy: ThinkingPolicy
) -> tuple[ModuleCall, Sequence[Message]]:
    """The conversation with the reasoning that is to be sent: turns can begin in the history and end in `said`."""
    history = call.history if isinstance(call.history, (list, tuple)) else ()
    is_list = isinstance(call.input, (list, tuple))
    now = list(call.input) if is_list else [{'role': 'user'}]
    whole = [*history, *now, *turns]
    filtered = policy.filter_turns(whole)
    if filtered is whole:
        return call, turns
    middle, end = len(history), len(history) + len(now)
    changed = {'history': filtered[:middle]} if history else {}
    if is_list:
        changed['input'] = filtered[middle:end]
    return replace(call, **changed), filtered[end:]


def _tools_of(body: Mapping[str, Any]) -> Mapping[str, Any]:
    return {'tools': list(body['tools'])} if body.get('tools') else {}


class TextAdapter:
    """Text, by the model's own chat template where it has one, between the usual markers where it has none.

    A prompter that is bound to a model already stays bound to that. Where somebody types a special token of the model,
    the request is token ids in which those are ordinary characters.
    """

    writes_calls = True

    def __init__(
        self,
        template: ChatTemplate | None,
        *,
        thinking: ThinkingPolicy = _OWN_THINKING,
        tokenizer: Callable[[], Tokenizer | None] = lambda: None,
    ) -> None:
        self.thinking = thinking
        self._binder = ModelBinder(template)
        self._tokenizer = tokenizer

    def word(self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]) -> AdaptedRequest:
        call, turns = _filter_thinking(call, turns, self.thinking)
        bound, arguments = self._address(prompter, call, turns)
        text: str = bound.generate_prompt(*arguments)
        tokenizer = self._tokenizer()
        tokens = [] if tokenizer is None else [token for token in tokenizer.special_tokens if token in text]
        if tokenizer is None or not tokens:
            return AdaptedRequest(text, {}, text)
        if holds((call.input, call.history, turns), tokens):
            placeholders = Placeholders.for_tokens(tokens, unused_in=text)
            hidden = replace(call, input=placeholders.insert(call.input), history=placeholders.insert(call.history))
            other, called = self._address(prompter, hidden, placeholders.insert(turns))
            trace = other.trace(*called)
            signed = str(trace.request)
            if placeholders.are_lost_in(trace) and placeholders.restore(signed) == text:
                return AdaptedRequest(placeholders.encode(signed, tokenizer), {}, text)
        trace = bound.trace(*arguments)
        if not has_special_token(trace, tokens):
            return AdaptedRequest(text, {}, text)
        ids = encode_trace(trace, special=tokenizer.encode, plain=partial(tokenizer.encode, special=False))
        return AdaptedRequest(list(ids), {}, text)

    def _address(
        self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]
    ) -> tuple[Prompter, PromptArguments]:
        """The prompter bound to this model, and its arguments."""
        if turns:
            self.check_tool_support(prompter)
        return self._binder.address(prompter, (call.input, call.history, call.tools), turns)

    def trace(self, prompter: Prompter, call: ModuleCall, turns: Sequence[Message]) -> Trace:
        bound, arguments = self._address(prompter, *_filter_thinking(call, turns, self.thinking))
        return bound.trace(*arguments)

    def read_reply(self, reply: Reply, prompter: Prompter, call: ModuleCall) -> Reply:
        reply = reply if reply.reasoning else separate_thinking(reply)
        if reply.reasoning:  # chat templates that take reasoning back know it by this name
            usage = reply.usage
            if usage.reasoning_tokens is None and (tokenizer := self._tokenizer()) is not None:
                usage = replace(usage, reasoning_tokens=tokenizer.count(reply.reasoning))
            reply = replace(reply, thinking={'reasoning_content': reply.reasoning}, usage=usage)
        offered = call.tools or prompter.tools
        if not offered or reply.tool_calls or reply.outcome != 'ok':
            return reply
        names = [tool.get('function', tool).get('name') for tool in offered]
        text, calls = calls_in(reply.text, names)
        return replace(reply, text=text, tool_calls=calls) if calls else reply

    def check_tool_support(self, prompter: Prompter) -> None:
        """Raise ModuleError before any tool runs if its result could not be sent."""
        if prompter.model is not None:
            raise ModuleError(
                'a prompter that is already bound to a model cannot continue after a tool result. '
                'Pass the unbound prompter to the module.'
            )
        if self._binder.template is None:
            raise ModuleError(
                'this model has no chat template, so tool results cannot be written. Use a model that has one.'
            )


Adapter = OpenAIAdapter | TextAdapter


def holds(value: Any, tokens: Iterable[str]) -> bool:
    """Whether a value contains one of these tokens, at any depth.

    >>> holds([{'content': 'a</s>'}], ['</s>']), holds([{'content': 'a'}], ['</s>'])
    (True, False)
    """
    if isinstance(value, str):
        return any(token in value for token in tokens)
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else ()
    return any(holds(item, tokens) for item in inner)


@dataclass(frozen=True, slots=True)
class Placeholders:
    """For each special token, a character that does not occur in the prompt."""

    tokens: Mapping[str, str]

    @classmethod
    def for_tokens(cls, tokens: Iterable[str], *, unused_in: str) -> Placeholders:
        """Placeholders for some tokens. Longer tokens are replaced first."""
        longest = sorted(tokens, key=len, reverse=True)
        free = (sign for number in range(_FIRST, _FIRST + 0xFFFD) if (sign := chr(number)) not in unused_in)
        return cls(dict(zip(free, longest, strict=False)))

    def insert(self, value: Any) -> Any:
        """The value with tokens replaced by placeholders, at any depth.

        >>> placeholders = Placeholders({'*': '</s>'})
        >>> placeholders.insert({'input': ['a</s>', 1]}), placeholders.restore('a*')
        ({'input': ['a*', 1]}, 'a</s>')
        """
        if isinstance(value, str):
            for sign, token in self.tokens.items():
                value = value.replace(token, sign)
            return value
        if isinstance(value, Mapping):
            return {key: self.insert(item) for key, item in value.items()}
        return [self.insert(item) for item in value] if isinstance(value, (list, tuple)) else value

    def restore(self, text: str) -> str:
        """The text with placeholders replaced by their tokens."""
        return self._pattern.sub(lambda sign: self.tokens[sign[0]], text)

    def are_lost_in(self, trace: Trace) -> bool:
        """Whether a placeholder occurs in a span labelled as the chat template's own."""
        return any(self._pattern.search(str(span.text)) for span in trace.spans if span.origin.kind == 'chat_template')

    def encode(self, text: str, tokenizer: Tokenizer) -> list[int]:
        """The token ids of a text. Replaced tokens are encoded as ordinary characters."""
        ids: list[int] = []
        for piece in filter(None, self._pattern.split(text)):
            typed = self.tokens.get(piece)
            ids += tokenizer.encode(piece) if typed is None else tokenizer.encode(typed, special=False)
        return ids

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile('([' + re.escape(''.join(self.tokens)) + '])')
