"""What a chat module gives back: the model's reply, with what was sent and everything that was said on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from rolecall.models.base import Reply, Usage
from rolecall.render.spans import Request

__all__ = ['ChatReply', 'Message', 'total']

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatReply(Reply):
    """A reply. Its usage is that of all rounds."""

    prompt: Request = ''
    """What was sent first: messages, or a text for a model on this machine."""
    said: tuple[Message, ...] = ()
    """Everything after it: calls of tools, their results, and the answer."""

    @classmethod
    def of(cls, reply: Reply, *, prompt: Request, said: Sequence[Message], usage: Usage) -> ChatReply:
        """A model's reply, with what led to it."""
        given = {one.name: getattr(reply, one.name) for one in fields(Reply)}
        return cls(**{**given, 'usage': usage}, prompt=prompt, said=(*said, answer_of(reply)))


def answer_of(reply: Reply) -> Message:
    """The reply as a message of the assistant."""
    calls = [dict(call) for call in reply.tool_calls]
    return {'role': 'assistant', 'content': reply.text, **({'tool_calls': calls} if calls else {})}


def total(usages: Sequence[Usage]) -> Usage:
    """What several calls cost together.

    >>> total([Usage(10, 2), Usage(14, 3)])
    Usage(input_tokens=24, output_tokens=5, cached_tokens=None, seconds=None)
    """
    sums = {}
    for one in fields(Usage):
        known = [amount for usage in usages if (amount := getattr(usage, one.name)) is not None]
        sums[one.name] = sum(known) if known else None
    return Usage(**sums)
