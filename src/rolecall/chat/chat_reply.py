"""What a chat module gives back: the model's reply, with what was sent and everything that was said on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rolecall.models.base import Reply, Usage
from rolecall.prompters.base_prompter import Prompter
from rolecall.prompters.frame import fields_of
from rolecall.prompters.inputs import InputReader
from rolecall.prompts.frozen import copy_data
from rolecall.render.spans import Request

__all__ = ['ChatReply', 'Message', 'read_user_messages', 'sum_usage']

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatReply(Reply):
    """A reply. Its usage is that of all rounds."""

    prompt: Request = ''
    """What was sent first: messages, or a text for a model on this machine."""
    said: tuple[Message, ...] = ()
    """Everything after it: calls of tools, their results, and the answer."""
    before: tuple[Any, ...] = ()
    """The history that the call was given, and what the user said in it."""

    @property
    def history(self) -> list[Any]:
        """The conversation up to here, to go on with: `module(…, history=reply.history)`.

        What the prompter says by itself is not in it; it says that again.
        """
        return [copy_data(turn) for turn in (*self.before, *self.said)]

    @classmethod
    def of(
        cls, reply: Reply, *, prompt: Request, said: Sequence[Message], before: Sequence[Any], usage: Usage
    ) -> ChatReply:
        """A model's reply, with what led to it."""
        given = {one.name: getattr(reply, one.name) for one in fields(Reply)}
        told = (*said, as_message(reply))
        return cls(**{**given, 'usage': usage}, prompt=prompt, said=told, before=tuple(before))


def read_user_messages(prompter: Prompter, given: Any) -> list[Message]:
    """What the user says in the input of a call, as that prompter reads it; of slots alone, their values.

    >>> from rolecall import ChatPrompter
    >>> read_user_messages(ChatPrompter('You are a {role}.'), {'role': 'pirate', 'input': 'Ahoy?'})
    [{'role': 'user', 'content': 'Ahoy?'}]
    """
    takes_input = 'input' in {*fields_of(prompter.template), *prompter.messages_only}
    reader = InputReader(prompter.slots, takes_input=takes_input, name=type(prompter).__name__)
    return list(reader.user_messages(given))


def as_message(reply: Reply) -> Message:
    """The reply as a message of the assistant."""
    calls = [dict(call) for call in reply.tool_calls]
    return {'role': 'assistant', 'content': reply.text, **({'tool_calls': calls} if calls else {})}


def sum_usage(usages: Sequence[Usage]) -> Usage:
    """What several calls cost together.

    >>> sum_usage([Usage(10, 2), Usage(14, 3)])
    Usage(input_tokens=24, output_tokens=5, cached_tokens=None, seconds=None)
    """
    sums = {}
    for one in fields(Usage):
        known = [amount for usage in usages if (amount := getattr(usage, one.name)) is not None]
        sums[one.name] = sum(known) if known else None
    return Usage(**sums)
