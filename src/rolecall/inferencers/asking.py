"""What an inferencer works with: somebody who words requests for a row, and somebody who gets them answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from rolecall.inferencers.prediction import Prediction
from rolecall.models.base import Reply, Sampling, Scored
from rolecall.prompts.pieces import Row
from rolecall.render.spans import Request
from rolecall.retrievers import Picked

__all__ = [
    'Ask',
    'CutSide',
    'Dialogue',
    'Inferencer',
    'Room',
    'Words',
    'common_length',
    'first_fault',
    'text_of_request',
    'together',
]

T = TypeVar('T')
CutSide = Literal['left', 'middle', 'right']
"""Where a prompt that does not fit is cut, if that is asked for."""


class Dialogue(Protocol):
    """The requests of a dialogue, turn by turn."""

    def asked(self, row: Row) -> list[int]:
        """The turns for which the model is asked."""

    def __call__(self, row: Row, turn: int, replies: Sequence[str] = ()) -> Request:
        """The request for one turn, given the replies so far."""


class Words(Protocol):
    """Words the requests of a row. `rolecall.pairs.pair.Pair` does, so what is asked is what is shown."""

    def requests(self, row: Row, picked: Picked) -> Iterable[tuple[Hashable, Request]]:
        """One request, or one for each label."""

    def answers_at(self, row: Row, picked: Picked) -> Mapping[Hashable, int]:
        """The character at which each label's answer begins, where the template says so with its sep_token."""

    def dialogue(self, picked: Picked) -> Dialogue:
        """The requests of a dialogue with these examples."""


class Ask(Protocol):
    """Gets the requests of one row answered. A call that fails for good raises `ModelError`."""

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request; `sample` tells apart the answers drawn for one request."""

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """The log-probabilities of each request's own tokens."""

    def count(self, request: Request) -> int | None:
        """The number of tokens of a request, if a tokenizer is at hand."""


class Inferencer(Protocol):
    """One way of asking. `needs` are the capabilities that the model must have."""

    needs: ClassVar[tuple[str, ...]]

    @property
    def room(self) -> Room:
        """How long a request may be."""

    async def infer(self, words: Words, row: Row, picked: Picked, ask: Ask) -> Prediction:
        """Ask about one row and conclude."""


@dataclass(frozen=True, slots=True)
class Room:
    """How long a request may be: the context limit, less what is kept free for the answer."""

    max_seq_len: int | None = None
    reserved: int = 0
    truncate: CutSide | None = None
    """Where to cut what does not fit even without examples; None: it is `too_long`."""

    @property
    def tokens(self) -> int | None:
        return None if self.max_seq_len is None else self.max_seq_len - self.reserved


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """What all calls come to. If one fails the others are still waited for, so that none is left behind."""
    came = await asyncio.gather(*calls, return_exceptions=True)
    for one in came:
        if isinstance(one, BaseException):
            raise one
    return [one for one in came if not isinstance(one, BaseException)]


def text_of_request(request: Request) -> str | None:
    """The text of a request that is one text; None for messages and token ids."""
    return request if isinstance(request, str) else None


def first_fault(replies: Iterable[Reply]) -> dict[str, Any]:
    """The outcome of several replies: that of the first that is not `ok`."""
    for reply in replies:
        if reply.outcome != 'ok':
            return {'outcome': reply.outcome, 'reason': reply.reason}
    return {}


def common_length(sequences: Sequence[Any]) -> int:
    """How much texts, or lists of token ids, have in common at their beginning.

    >>> common_length(['abc', 'abd', 'ab']), common_length([(1, 2, 3), (1, 2, 4)])
    (2, 2)
    """
    first, last = min(sequences), max(sequences)
    low, high = 0, min(len(first), len(last)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if first[low:middle] == last[low:middle] else (low, middle)
    return low
