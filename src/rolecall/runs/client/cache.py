"""Getting the requests of a row answered: from the store where they are known, from the model where they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from rolecall.inferencers.inferencer import wait_for_all
from rolecall.models.protocol import ModelError, Reply, Sampling, Scored, Usage
from rolecall.program import fingerprint
from rolecall.render.spans import Request
from rolecall.runs.client.model_client import ModelCall, ModelClient
from rolecall.runs.client.retry import is_row_failure
from rolecall.runs.store.codec import as_stored
from rolecall.runs.store.writer import Failure, Store

__all__ = ['CachedClient', 'RowClient', 'request_key']

Came = Reply | Scored | Failure


def request_key(request: Request, sampling: Sampling | None, identity: object, sample: int = 0) -> str:
    """The key under which a request is known: what is sent, how answers are drawn, and who is asked."""
    if sampling is None:
        return fingerprint(request, model=identity, kind='score')
    return fingerprint(request, sampling=sampling.as_dict(), model=identity, sample=sample)


class CachedClient:
    """What all rows of a run share on the way to one model. A request that two rows have in common is sent once."""

    def __init__(self, client: ModelClient, store: Store) -> None:
        self.client = client
        self.identity = dict(client.model.identity)
        self._store = store
        self._who = fingerprint('', model=self.identity)
        if store.has_answered(self._who):
            client.trust()
        self._under_way: dict[str, asyncio.Future[Came]] = {}

    async def answer(self, key: str, call: ModelCall, *, retry_failed: bool, retry_all: bool) -> tuple[Came, bool]:
        """What a call comes to, and whether it was sent for that."""
        if key in self._under_way:
            return await asyncio.shield(self._under_way[key]), False
        known = None if retry_all else self._store.find_reply(key)
        if known is not None and not isinstance(known, Failure):
            self.client.trust()
        if known is not None and not (retry_failed and isinstance(known, Failure)):
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
                self._store.record_answering(self._who)
            self._store.add_reply(key, call.request, answer, then=partial(self._under_way.pop, key, None))
        return answer, True

    async def _sent(self, call: ModelCall) -> tuple[Came, bool]:
        """What a call comes to, and whether that is worth keeping: the server's or the key's trouble is not."""
        if call.check is not None:
            call.check(call.request)
        try:
            answer = await self.client.send(call)
        except ModelError as error:
            return Failure(error), is_row_failure(error, answered=self.client.answered)
        return as_stored(answer) if isinstance(answer, Scored) else answer, True


class RowClient:
    """The `Asker` of one row. It takes down what was asked, and what it cost.

    `check` is given each request on its way to the model, and the replies before it.
    """

    __slots__ = (
        '_again',
        '_check',
        '_client',
        'fingerprints',
        'input_tokens',
        'output_tokens',
        'said',
        'seconds',
        'sent',
    )

    def __init__(
        self,
        client: CachedClient,
        *,
        retry_failed: bool = False,
        retry_all: bool = False,
        check: Callable[[Request, Sequence[str]], None] | None = None,
    ) -> None:
        self._client = client
        self._check = check
        self._again = {'retry_failed': retry_failed, 'retry_all': retry_all}
        self.fingerprints: list[str] = []
        self.said: list[str] = []
        self.sent = 0
        self.input_tokens: int | None = None
        self.output_tokens: int | None = None
        self.seconds: float | None = None

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request."""
        came = await self._answer(ModelCall('generate', request, sampling, self._checked()), sampling, sample)
        if not isinstance(came, Reply):
            raise ModelError(str(came))
        self.said.append(came.text)
        return came

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The log-probabilities of each request's own tokens."""
        drawn, check = Sampling(), self._checked() if shown else None
        calls = [self._answer(ModelCall('score', request, drawn, check), None, 0) for request in requests]
        scored = []
        for came in await wait_for_all(calls):
            if not isinstance(came, Scored):
                raise ModelError(str(came))
            scored.append(came)
        return scored

    def _checked(self) -> Callable[[Request], None] | None:
        """The check of a call, with the replies that come before it."""
        if self._check is None:
            return None
        check, said = self._check, tuple(self.said)
        return lambda request: check(request, said)

    async def _answer(self, call: ModelCall, sampling: Sampling | None, sample: int) -> Came:
        key = request_key(call.request, sampling, self._client.identity, sample)
        self.fingerprints.append(key)
        came, sent = await self._client.answer(key, call, **self._again)
        self.sent += sent
        if not isinstance(came, Failure):
            self._add(came.usage)
        return came

    def _add(self, usage: Usage) -> None:
        for name in ('input_tokens', 'output_tokens', 'seconds'):
            amount: Any = getattr(usage, name)
            if isinstance(amount, (int, float)):  # servers have been seen to send anything
                setattr(self, name, (getattr(self, name) or 0) + amount)
