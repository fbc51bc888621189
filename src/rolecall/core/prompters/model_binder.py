"""A prompter for one local model: bound to its chat template, or to the usual markers if it has none.

Modules, training data and tuning all bind here, so that what is trained is what is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.frame_renderer import read_turn
from rolecall.core.prompters.history import check_history, describe_tools_in_words, origin_of
from rolecall.core.prompters.special_tokens import DEFAULT_TOKENS
from rolecall.core.prompts.script import Script, Turn
from rolecall.core.prompts.wording import Mode
from rolecall.core.render.chat_renderer import ChatRenderer
from rolecall.core.render.chat_template import ChatTemplate
from rolecall.core.render.renderers import Rendered
from rolecall.core.render.spans import Message

PromptArguments = tuple[Any, Any, Any]
"""Input, history and tools."""


class ModelBinder:
    """Binds prompters to one model. A prompter that is bound already stays so."""

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
