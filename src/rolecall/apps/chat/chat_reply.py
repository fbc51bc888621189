"""The reply of a chat module, with the prompt sent and every message in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Generic

from rolecall.core.prompters.base_prompter import Prompter
from rolecall.core.prompters.call_inputs import InputReader
from rolecall.core.prompters.frame import fields_of
from rolecall.core.prompts.frozen import copy_data
from rolecall.core.render.spans import Request
from rolecall.models.prices import Price
from rolecall.models.protocol import Reply, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar('T', default=Any)
else:
    from typing import TypeVar

    T = TypeVar('T')
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model's part in a call."""

    model: str
    usage: Usage
    cost: float | None
    """US dollars; None if the model's price is not known."""
    failure: str = ''
    """Why the next model was asked; empty for the one that answered."""


@dataclass(frozen=True, slots=True)
class ChatReply(Reply, Generic[T]):
    """A reply. `usage` and `cost` are sums over all tool rounds and all models asked."""

    prompt: Request = ''
    """The first request: messages, or text for a local model."""
    said: tuple[Message, ...] = ()
    """The messages after it: tool calls, tool results, and the answer."""
    before: tuple[Any, ...] = ()
    """The history passed to the call, plus the user's message."""
    value: T = None  # type: ignore[assignment]  # T is None where no type is asked for
    """The answer as a value of the type that `returns=` asked for."""
    cost: float | None = None
    """US dollars, by the model's price; None if that is not known."""
    dropped: tuple[Any, ...] = ()
    """The messages of the history that were not sent because of a token budget. `history` still has them."""
    attempts: tuple[Attempt, ...] = ()
    """The models asked, in order. The last one answered."""

    @property
    def model(self) -> str:
        """The model that answered."""
        return self.attempts[-1].model if self.attempts else ''

    @property
    def history(self) -> list[Any]:
        """The conversation so far, for the next call: `module(…, history=reply.history)`.

        It leaves out the prompter's own text, which is added again at every call.
        """
        return [copy_data(turn) for turn in (*self.before, *self.said)]


def read_user_messages(prompter: Prompter, user: Any) -> list[Message]:
    """The user's message in the input of a call, as the prompter reads it. For slots alone, their values.

    >>> from rolecall import ChatPrompter
    >>> read_user_messages(ChatPrompter('You are a {role}.'), {'role': 'pirate', 'input': 'Ahoy?'})
    [{'role': 'user', 'content': 'Ahoy?'}]
    """
    takes_input = 'input' in {*fields_of(prompter.template), *prompter.messages_only}
    reader = InputReader(prompter.slots, takes_input=takes_input, name=type(prompter).__name__)
    return list(reader.user_messages(user))


def find_cost(usage: Usage, price: Price | None) -> float | None:
    """What a call cost; None if its tokens or their price are not known.

    >>> find_cost(Usage(1_000_000, 500_000), Price(2.0, 8.0)), find_cost(Usage(), Price(2.0, 8.0))
    (6.0, None)
    """
    if price is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return price.cost(
        usage.input_tokens,
        usage.output_tokens,
        cached_tokens=usage.cached_tokens or 0,
        written_tokens=usage.cache_written_tokens or 0,
    )


def sum_cost(attempts: Sequence[Attempt]) -> float | None:
    """What several attempts cost together; None if the cost of one is not known."""
    costs = [attempt.cost for attempt in attempts if attempt.cost is not None]
    return sum(costs) if len(costs) == len(attempts) else None


def sum_usage(usages: Sequence[Usage]) -> Usage:
    """The total usage of several calls.

    >>> total = sum_usage([Usage(10, 2), Usage(14, 3)])
    >>> total.input_tokens, total.output_tokens, total.cached_tokens
    (24, 5, None)
    """
    if len(usages) == 1:
        return usages[0]
    sums = {}
    for field in fields(Usage):
        amounts = [amount for usage in usages if (amount := getattr(usage, field.name)) is not None]
        sums[field.name] = sum(amounts) if amounts else None
    return Usage(**sums)
