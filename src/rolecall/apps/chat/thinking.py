"""What a model thought stays in the conversation and goes back to that model, and to no other.

Vendors sign or encrypt reasoning, and refuse a tool result whose call comes back without it. So an assistant message
keeps the fields that carried the reasoning, as the server sent them, under the key `thinking`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rolecall.core.prompters.vendors import THINKING, Message, Vendor
from rolecall.models.protocol import Model, Reply

Resend = Literal['always', 'tool_turns', 'never']
RESEND: tuple[Resend, ...] = ('always', 'tool_turns', 'never')


def name_author(model: Model) -> str:
    """What identifies the model that wrote a reply: its server, if it has one, and its name."""
    identity = model.identity
    return ' '.join(str(identity[key]) for key in ('server', 'model', 'path') if identity.get(key))


@dataclass(frozen=True, slots=True)
class ThinkingPolicy:
    """How the reasoning of one model is kept, and when it is sent back.

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
        message: Message = {'role': 'assistant', 'content': reply.text}
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
    starts = [number for number, turn in enumerate(turns) if number == 0 or _is_question(turn)]
    uses_tools: list[bool] = []
    for start, end in zip(starts, [*starts[1:], len(turns)], strict=True):
        calls = any(isinstance(turn, Mapping) and turn.get('tool_calls') for turn in turns[start:end])
        uses_tools += [calls] * (end - start)
    return uses_tools


def _is_question(turn: Any) -> bool:
    return not isinstance(turn, Mapping) or turn.get('role') in ('user', 'system', 'developer')


def _drop(turn: Mapping[str, Any]) -> Message:
    message = {key: value for key, value in turn.items() if key != THINKING}
    if calls := message.get('tool_calls'):
        message['tool_calls'] = [{key: call[key] for key in call if key != 'extra_content'} for call in calls]
    return message
