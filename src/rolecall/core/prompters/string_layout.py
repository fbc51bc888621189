"""String prompts in the prompter's own layout: its template, with the model's tokens around history and answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from rolecall.core.prompters.call_inputs import PromptCall
from rolecall.core.prompters.frame import HISTORY, INPUT, TOOLS, Frame
from rolecall.core.prompters.history import HistoryReader, plain_text
from rolecall.core.prompters.special_tokens import Tokens
from rolecall.core.prompters.tool_specs import Tools
from rolecall.core.prompters.vendors import Message
from rolecall.core.prompts.pieces import Origin
from rolecall.core.render.arrange import Note
from rolecall.core.render.spans import Span
from rolecall.errors import PrompterError


@dataclass(slots=True, eq=False)
class StringLayout:
    """Writes a prompter's frame as a string."""

    frame: Frame
    history: HistoryReader
    tokens: Tokens
    places: Collection[str]
    """The fields of its template."""
    tools: Tools | None
    """Those that the frame already holds."""
    takes_messages: bool
    name: str
    """The prompter's class."""

    @property
    def closing(self) -> str:
        """The token that ends an answer."""
        return self.tokens.eoa

    def fill(self, call: PromptCall) -> str:
        row, messages, history, tools, label = call
        if history or tools or messages is not None:
            row, history = self._as_string(call)
        text = (self.frame.fill_text if history else self.frame.fill_first)(row)
        return text if label is None else f'{text}{self.history.answer(label)}{self.tokens.eoa}'

    def trace(self, call: PromptCall) -> tuple[list[Span], tuple[Note, ...]]:
        row, history = self._as_string(call)
        spans = self.frame.text_with(tuple(self.history.pieces(history))).trace(row)
        label = call[-1]
        if label is not None:
            spans += [
                Span(self.history.answer(label), Origin('label')),
                Span(self.tokens.eoa, Origin('marker', 'eoa')),
            ]
        return spans, ()

    def _as_string(self, call: PromptCall) -> tuple[dict[str, Any], Sequence[Any]]:
        """The row with history and tools as text, and the history."""
        row, messages, history, tools, _ = call
        if messages is not None:
            row, history = self._with_last_words(row, messages, history)
        if history:
            if 'history' not in self.places:
                self._refuse_in_string('history')
            row[HISTORY] = self.history.text(history)
        if tools:
            if 'tools' not in self.places:
                self._refuse_in_string('tools')
            if tools is not self.tools:
                row[TOOLS] = tools.words + self.frame.calling
        return row, history

    def _with_last_words(
        self, row: dict[str, Any], messages: Sequence[Message], history: Sequence[Any]
    ) -> tuple[dict[str, Any], Sequence[Any]]:
        """Split messages into history and the user's last text."""
        *before, last = messages
        if not self.takes_messages:
            raise PrompterError('messages as input need return_dict=True, or a prompter bound to a model.')
        if last['role'] != 'user':
            raise PrompterError(
                f"the last message of a string prompt must be the user's, got a {last['role']} message."
            )
        return {**row, INPUT: plain_text(last)}, [*history, *before]

    def _refuse_in_string(self, name: str) -> NoReturn:
        raise PrompterError(f'{self.name} does not support {name} in a string; use return_dict=True.')
