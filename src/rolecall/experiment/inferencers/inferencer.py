"""What every inferencer is: it takes the steps of a row from its pair, has them answered, and concludes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Request
from rolecall.experiment.opening.fitting import Step
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Outcome, Reply, Sampling, Scored
from rolecall.quick_init import quick_init
from rolecall.sources.retrievers import Picked

T = TypeVar('T')


@quick_init
@dataclass(frozen=True, slots=True)
class Prediction:
    """The conclusion for one row, with everything it rests on."""

    value: Any
    """A text, a label, a number, or a list of one of these (turns of a dialogue, samples of one question)."""
    outcome: Outcome = 'ok'
    reason: str = ''
    replies: tuple[str, ...] = ()
    """The raw answers, reasoning left out."""
    reasoning: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    """What a kind of inference adds: losses by label, probabilities, votes …, JSON-able."""
    shots_dropped: int = 0


class Asker(Protocol):
    """Gets the requests of one row answered. A call that fails for good raises `ModelError`."""

    @property
    def said(self) -> Sequence[str]:
        """The replies so far."""

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request; `sample` tells apart the answers drawn for one request."""

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The log-probabilities of each request's own tokens. Only requests made from scores are not `shown` before."""


class Inferencer(Protocol):
    """One way of asking. `needs` are the capabilities that the model must have."""

    needs: ClassVar[tuple[str, ...]]

    async def infer(self, pair: Pair, row: Row, picked: Picked, ask: Asker) -> Prediction:
        """Ask about one row and conclude. Raises `TooLong` if a step does not fit the context."""


class TooLong(Exception):  # noqa: N818  # an outcome of a row, not an error
    """A row's requests do not fit, even without examples."""

    def __init__(self, step: Step) -> None:
        super().__init__(step.too_long)
        self.step = step


def next_step(pair: Pair, row: Row, picked: Picked, replies: Sequence[str] = ()) -> Step | None:
    """What is sent next; `TooLong` if that does not fit the context."""
    step = pair.step(row, picked, replies)
    if step is not None and step.too_long:
        raise TooLong(step)
    return step


def only_step(pair: Pair, row: Row, picked: Picked) -> Step:
    """The step of a row that is asked about once."""
    step = next_step(pair, row, picked)
    if step is None:
        raise TypeError(f'{pair.task.abbr} has nothing to ask about a row')
    return step


async def wait_for_all(calls: Iterable[Awaitable[T]]) -> list[T]:
    """The results of all calls. If one fails the others are still waited for, so that none is left behind."""
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, BaseException)]


def requests_of(step: Step) -> list[Request]:
    """The requests of a step without their labels."""
    return [request for _, request in step.requests]


def text_of_request(request: Request) -> str | None:
    """The text of a request that is one text; None for messages and token ids."""
    return request if isinstance(request, str) else None


def find_fault(replies: Iterable[Reply]) -> dict[str, Any]:
    """The outcome of several replies: that of the first that is not `ok`."""
    for reply in replies:
        if reply.outcome != 'ok':
            return {'outcome': reply.outcome, 'reason': reply.reason}
    return {}
