"""String prompts in the model's own format: the conversation goes through the model's renderer.

A layout depends only on the shape of the conversation (the sequence of roles), so it is built once per shape and then
filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from rolecall.core.program.answer_turn import MessagesRenderer
from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.call_inputs import Label, PromptCall, is_silent
from rolecall.core.prompters.frame import INPUT, Frame, Levels
from rolecall.core.prompters.history import (
    check_history,
    describe_tools_in_words,
    numbered_messages,
    origin_of,
    plain_text,
)
from rolecall.core.prompters.special_tokens import DEFAULT_TOKENS
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import holds_thinking, parse_arguments, restore_fields
from rolecall.core.prompts.multimodal import raw_turn
from rolecall.core.prompts.pieces import Field, Origin, Pieces, Text, bind
from rolecall.core.prompts.script import Script, Turn
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.arrange import Note
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.renderers import Rendered, Renderer, TextRenderer
from rolecall.core.render.spans import Message, Request, Span
from rolecall.errors import PrompterError

_LABEL = '\0label'
_INPUT = Origin('field', 'input')
_ANSWER = Turn('assistant', (Field(_LABEL, '', Origin('label')),))
Numbered = tuple[int, Message]


class FrameRenderer:
    """Renders a prompter's frame for one model."""

    def __init__(self, frame: Frame, renderer: Renderer) -> None:
        self._frame = frame
        self._writes_messages = isinstance(renderer, MessagesRenderer)
        self._renderer = renderer.renderer if isinstance(renderer, MessagesRenderer) else renderer
        self._takes_tools = isinstance(self._renderer, ChatRenderer) and self._renderer.template.supports_tools
        self._shaped = lru_cache(maxsize=64)(self._render_shape)

    @cached_property
    def closing(self) -> str:
        """The model's closing text after an answer."""
        spans = self._render_shape((), False, True, None).layout.trace({_LABEL: 'answer', INPUT: 'input'})
        places = [i for i, span in enumerate(spans) if span.origin.kind == 'label']
        return ''.join(str(span.text) for span in spans[places[-1] + 1 :]) if places else ''

    def fill(self, call: PromptCall) -> Request:
        rendered, row = self._render_call(call)
        return rendered.layout.fill(row)

    def trace(self, call: PromptCall) -> tuple[list[Span], tuple[Note, ...]]:
        rendered, row = self._render_call(call)
        return rendered.layout.trace(row), rendered.notes

    def _render_call(self, call: PromptCall) -> tuple[Rendered, dict[str, Any]]:
        """The layout for a call, and the row to fill it with."""
        row, messages, history, tools, label = call
        row = {**row, _LABEL: label}
        earlier = list(numbered_messages(history))
        is_plain = messages is None and (label is None or isinstance(label, str))
        if not is_plain or any(len(message) != 2 or not _is_text(message) for _, message in earlier):
            return self._render_anew(call, earlier, row), row
        row |= {f'\0{i}': plain_text(message) for i, (_, message) in enumerate(earlier)}
        shape = tuple((number, message['role']) for number, message in earlier)
        return self._shaped(shape, self._frame_is_turned(call), label is not None, tools), row

    def _frame_is_turned(self, call: PromptCall) -> bool:
        """Whether the instruction becomes the user message: there is no other, and the model has no system role."""
        return is_silent(call) and not self._frame.plain.user and not self._has_system_role(call[3])

    def _has_system_role(self, tools: Tools | None) -> bool:
        renderer = self._renderer
        if isinstance(renderer, ChatRenderer):
            template = renderer.template
            return template.supports_system_with_tools if tools and self._takes_tools else template.supports_system
        return not isinstance(renderer, TextRenderer) or (renderer.meta is not None and 'SYSTEM' in renderer.meta.roles)

    def _render_shape(
        self, shape: tuple[tuple[int, str], ...], turned: bool, labelled: bool, tools: Tools | None
    ) -> Rendered:
        turns = [
            Turn(_role(role), (Field(f'\0{i}', '', origin_of({'role': role}, number)),))
            for i, (number, role) in enumerate(shape)
        ]
        levels = self._frame.turned if turned else self._frame.plain
        return self._render(levels, turns, [Turn('user', levels.user_pieces)], _ANSWER if labelled else None, tools)

    def _render_anew(self, call: PromptCall, earlier: Sequence[Numbered], row: dict[str, Any]) -> Rendered:
        """Render a conversation with more than text: tool calls, tool results, images."""
        _, messages, _, tools, label = call
        levels = self._frame.turned if self._frame_is_turned(call) else self._frame.plain
        before = [self._turn(message, origin_of(message, number)) for number, message in earlier]
        if messages is None:
            now = [Turn('user', levels.user_pieces)]
        elif messages[-1]['role'] == 'assistant':
            raise PrompterError(
                "the last message of a prompt must be the user's or a tool's, got an assistant message."
            )
        else:
            now = _with_prefix([self._turn(message, _INPUT) for message in messages], bind(levels.user, row))
        return self._render(levels, before, now, self._answer_turn(label), tools)

    def _render(
        self, levels: Levels, before: Sequence[Turn], now: Sequence[Turn], answer: Turn | None, tools: Tools | None
    ) -> Rendered:
        system, renderer = levels.system, self._renderer
        if tools and self._takes_tools and isinstance(renderer, ChatRenderer):
            renderer = replace(renderer, tools=tuple(tools.openai))
        elif tools and self._frame.has_system:
            system = (*system, Text(tools.words, Origin('text', 'tools')))
        elif tools:
            now = _with_prefix(now, (Text(tools.words, Origin('text', 'tools')),))
        turns = [*([Turn('system', system)] if system else []), *before, *now]
        if answer is not None:
            turns.append(answer)
        side = MessagesRenderer(renderer) if self._writes_messages else renderer
        return side.render(Script(tuple(turns), raw=True), 'gen' if answer is None else 'ppl')

    def _answer_turn(self, label: Label | None) -> Turn | None:
        if label is None or isinstance(label, str):
            return None if label is None else _ANSWER
        return self._turn(label, Origin('label'), 'the answer')

    def _turn(self, message: Message, origin: Origin, what: str = 'history') -> Turn:
        if message.get('tool_calls') and not self._takes_tools:
            raise PrompterError(
                f'{what} has a tool call, and this model has no form for one. '
                'Use a model whose chat template writes tool calls.'
            )
        return read_turn(message, origin)


def read_turn(message: Message, origin: Origin) -> Turn:
    """Read a message as a speech whose text has this origin."""
    calls = [_with_parsed_arguments(call) for call in message.get('tool_calls') or ()]
    message = restore_fields(message) if holds_thinking(message) else message
    message = {key: value for key, value in message.items() if key != 'tool_calls'}
    if calls:
        message['tool_calls'] = calls
    if _is_text(message):
        message = {**message, 'content': plain_text(message)}
    turn = raw_turn(message, lambda text: (Text(text, origin),))
    return replace(turn, role=_role(turn.role))


def _role(role: str) -> str:
    return 'system' if role == 'developer' else role


def _is_text(message: Message) -> bool:
    content = message.get('content')
    return isinstance(content, str) or (
        isinstance(content, list) and all(part.get('type') == 'text' for part in content)
    )


def _with_parsed_arguments(call: Message) -> Message:
    """Chat templates take arguments as data and write the JSON themselves."""
    function = {**call['function'], 'arguments': parse_arguments(call['function'].get('arguments'))}
    return {**call, 'function': function}


def _with_prefix(turns: Sequence[Turn], prefix: Pieces) -> list[Turn]:
    """Put the user-level instruction before the user's last text, or first if there is no user message."""
    if not prefix:
        return list(turns)
    last = max((i for i, turn in enumerate(turns) if turn.role == 'user'), default=None)
    if last is None:
        return [Turn('user', prefix), *turns]
    content = turns[last].content
    changed = list(turns)
    if isinstance(content, tuple):
        changed[last] = replace(turns[last], content=(*prefix, *content))
    else:
        changed.insert(last, Turn('user', prefix))
    return changed


PromptArguments = tuple[Any, Any, Any]
"""Input, history and tools."""


class ModelBinder:
    """Binds prompters to one model. A prompter that is bound already stays so.

    Modules, training data and tuning all bind here, so that what is trained is what is asked.
    """

    def __init__(self, template: ChatTemplate | None) -> None:
        self.template = template
        self._bound = lru_cache(maxsize=32)(self._bind)

    def address(
        self, prompter: Prompter, arguments: PromptArguments, following: Sequence[Message] = ()
    ) -> tuple[Prompter, PromptArguments]:
        """The bound prompter and its arguments. `following` holds messages that follow the prompt."""
        user_input, history, tools = arguments
        bound = self._bind(prompter, following) if following else self._bound(prompter)
        return bound, (user_input, self._word_history(prompter, history), tools)

    def _word_history(self, prompter: Prompter, history: Any) -> Any:
        """The history, with tool calls described in words if the chat template does not support them."""
        if not history or prompter.model is not None or self._takes_tools:
            return history
        check_history(history)
        return describe_tools_in_words(history)

    def _bind(self, prompter: Prompter, following: Sequence[Message] = ()) -> Prompter:
        if prompter.model is not None:
            return prompter
        own = self._word_history(prompter, prompter.history)
        if own is not prompter.history:
            prompter = replace(prompter, history=own)
        if self.template is None:
            return prompter.bind(DEFAULT_TOKENS)
        if not following:
            return prompter.bind(ChatRenderer(self.template))
        more = following if self._takes_tools else describe_tools_in_words(following)
        turns = [
            read_turn(dict(message), replace(origin_of(message, i), name=f'said[{i}]'))
            for i, message in enumerate(more)
        ]
        return prompter.bind(_ContinuingRenderer(self.template, following=tuple(turns)))

    @property
    def _takes_tools(self) -> bool:
        return self.template is not None and self.template.supports_tools


@dataclass(frozen=True)
class _ContinuingRenderer(ChatRenderer):
    """Renders a chat template with further messages after the prompt."""

    following: tuple[Turn, ...] = ()

    def render(self, script: Script, mode: Mode, *, prefill: bool = False) -> Rendered:
        return super().render(replace(script, items=(*script.items, *self.following)), mode, prefill=prefill)
