"""Getting the requests of a row answered: from the store where they are known, from the model where they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from rolecall.inferencers.asking import together
from rolecall.models.base import ModelError, Reply, Sampling, Scored, Usage
from rolecall.program import fingerprint
from rolecall.render.spans import Request
from rolecall.runs.client.client import Call, Lane
from rolecall.runs.client.retry import speaks_of_the_row
from rolecall.runs.store.codec import as_stored
from rolecall.runs.store.writer import Failure, Store

__all__ = ['Asking', 'RowAsk', 'identify']

Came = Reply | Scored | Failure


def identify(request: Request, sampling: Sampling | None, identity: object, sample: int = 0) -> str:
    """The key under which a request is known: what is sent, how answers are drawn, and who is asked."""
    if sampling is None:
        return fingerprint(request, model=identity, kind='score')
    return fingerprint(request, sampling=sampling.as_dict(), model=identity, sample=sample)


class Asking:
    """What all rows of a run share on the way to one model. A request that two rows have in common is sent once."""

    def __init__(self, lane: Lane, store: Store) -> None:
        self.lane = lane
        self.identity = dict(lane.model.identity)
        self._store = store
        self._who = fingerprint('', model=self.identity)
        if store.has_answered(self._who):
            lane.trust()
        self._under_way: dict[str, asyncio.Future[Came]] = {}

    async def answer(self, key: str, call: Call, *, failed_again: bool, all_again: bool) -> tuple[Came, bool]:
        """What a call comes to, and whether it was sent for that."""
        if key in self._under_way:
            return await asyncio.shield(self._under_way[key]), False
        known = None if all_again else self._store.kept(key)
        if known is not None and not isinstance(known, Failure):
            self.lane.trust()
        if known is not None and not (failed_again and isinstance(known, Failure)):
            return known, False
        came: asyncio.Future[Came] = asyncio.get_running_loop().create_future()
        self._under_way[key] = came
        try:
            answer, lasting = await self._sent(call)
        except BaseException as error:
            del self._under_way[key]
            came.set_exception(error) if isinstance(error, Exception) else came.cancel()
            came.exception() if not came.cancelled() else None  # nobody else may be waiting for it
            raise
        came.set_result(answer)
        if isinstance(answer, Failure) and not lasting:
            del self._under_way[key]
        else:
            if not isinstance(answer, Failure):
                self._store.note_answered(self._who)
            self._store.keep(key, call.request, answer, then=partial(self._under_way.pop, key, None))
        return answer, True

    async def _sent(self, call: Call) -> tuple[Came, bool]:
        """What a call comes to, and whether that is worth keeping: the server's or the key's trouble is not."""
        try:
            answer = await self.lane.send(call)
        except ModelError as error:
            return Failure(error), speaks_of_the_row(error, answered=self.lane.answered)
        return as_stored(answer) if isinstance(answer, Scored) else answer, True


class RowAsk:
    """The `Ask` of one row. It takes down what was asked, and what it cost."""

    __slots__ = ('_again', '_asking', 'fingerprints', 'input_tokens', 'output_tokens', 'said', 'seconds', 'sent')

    def __init__(self, asking: Asking, *, failed_again: bool = False, all_again: bool = False) -> None:
        self._asking = asking
        self._again = {'failed_again': failed_again, 'all_again': all_again}
        self.fingerprints: list[str] = []
        self.said: list[str] = []
        self.sent = 0
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.seconds: float | None = None

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request."""
        came = await self._answer(Call('generate', request, sampling), sampling, sample)
        if not isinstance(came, Reply):
            raise ModelError(str(came))
        self.said.append(came.text)
        return came

    async def score(self, requests: Sequence[Request]) -> list[Scored]:
        """The log-probabilities of each request's own tokens."""
        drawn = Sampling()
        calls = [self._answer(Call('score', request, drawn), None, 0) for request in requests]
        scored = []
        for came in await together(calls):
            if not isinstance(came, Scored):
                raise ModelError(str(came))
            scored.append(came)
        return scored

    def count(self, request: Request) -> int | None:
        """The number of tokens of a request, if a tokenizer is at hand."""
        return self._asking.lane.model.count(request)

    async def _answer(self, call: Call, sampling: Sampling | None, sample: int) -> Came:
        key = identify(call.request, sampling, self._asking.identity, sample)
        self.fingerprints.append(key)
        came, sent = await self._asking.answer(key, call, **self._again)
        self.sent += sent
        if not isinstance(came, Failure):
            self._add(came.usage)
        return came

    def _add(self, usage: Usage) -> None:
        for name in ('input_tokens', 'output_tokens', 'seconds'):
            amount: Any = getattr(usage, name)
            if isinstance(amount, (int, float)):  # servers have been seen to send anything
                setattr(self, name, (getattr(self, name) or 0) + amount)
