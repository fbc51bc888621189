"""Answers to the requests of a row: from the store where they are known, from the model where they are not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from rolecall.core.program import Fingerprinter, fingerprint
from rolecall.core.render.spans import Request
from rolecall.experiment.inferencers.inferencer import wait_for_all
from rolecall.models.protocol import NOT_STATED, ModelError, Reply, Sampling, Scored, Served
from rolecall.runs.client.model_client import Answer, ModelCall, ModelClient
from rolecall.runs.client.retry import is_row_failure
from rolecall.runs.store.codec import as_stored
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.writer import Store

Known = Reply | Scored | Failure


class RequestKeys:
    """The keys under which a model's requests are stored: what is sent, how answers are sampled, and its identity."""

    def __init__(self, identity: Mapping[str, Any]) -> None:
        self._identity = identity
        self._fingerprinters: dict[tuple[int, int], tuple[Sampling | None, Fingerprinter]] = {}

    def __call__(self, request: Request, sampling: Sampling | None, sample: int = 0) -> str:
        """The key of a request; without sampling, of one that is scored."""
        return self._find_fingerprinter(sampling, sample)(request)

    def hash_text(self, text: str, sampling: Sampling | None, sample: int = 0) -> int:
        """A hash of a request that is text, quicker than its key; it differs between processes."""
        return hash((self._find_fingerprinter(sampling, sample).options, text))

    def _find_fingerprinter(self, sampling: Sampling | None, sample: int) -> Fingerprinter:
        entry = self._fingerprinters.get((id(sampling), sample))
        if entry is None:
            entry = sampling, self._make_fingerprinter(sampling, sample)
            self._fingerprinters[id(sampling), sample] = entry  # keeps the sampling, so that its id stays its own
        return entry[1]

    def _make_fingerprinter(self, sampling: Sampling | None, sample: int) -> Fingerprinter:
        if sampling is None:
            return Fingerprinter(model=self._identity, kind='score')
        return Fingerprinter(sampling=sampling.as_dict(), model=self._identity, sample=sample)


class CachedClient:
    """A client with the store in front of it, shared by all rows. Equal requests are sent once."""

    def __init__(self, client: ModelClient, store: Store) -> None:
        self.client = client
        self.identity = dict(client.model.identity)
        self._store = store
        self._model_key = fingerprint('', model=self.identity)
        if store.has_answered(self._model_key):
            client.trust()
        self._in_flight: dict[str, asyncio.Future[Known | None]] = {}
        self.key = RequestKeys(self.identity)

    def for_dataset(self, dataset: str) -> CachedClient:
        """The same for the requests of one dataset."""
        return self

    async def answer(self, key: str, call: ModelCall, *, retry_failed: bool, retry_all: bool) -> tuple[Known, bool]:
        """The answer to a call, and whether it was sent for this."""
        while key in self._in_flight:
            if (shared := await asyncio.shield(self._in_flight[key])) is not None:
                return shared, False
        stored = None if retry_all else self._store.find_reply(key)
        if stored is not None and not isinstance(stored, Failure):
            self.client.trust()
        if stored is not None and not (retry_failed and isinstance(stored, Failure)):
            return stored, False
        future: asyncio.Future[Known | None] = asyncio.get_running_loop().create_future()
        self._in_flight[key] = future
        answer: Known
        is_stored = True
        try:
            answer = await self.client.send(call)
            if isinstance(answer, Scored):
                answer = as_stored(answer)
        except ModelError as error:
            answer, is_stored = Failure(error), is_row_failure(error, answered=self.client.answered)
        except BaseException as error:
            del self._in_flight[key]
            future.set_exception(error) if isinstance(error, Exception) else future.cancel()
            future.exception() if not future.cancelled() else None  # other rows need not be waiting for it
            raise
        future.set_result(answer)
        if not is_stored:
            del self._in_flight[key]
            return answer, True
        if not isinstance(answer, Failure):
            self._store.record_answering(self._model_key)
        self._store.add_reply(key, call.request, answer, then=partial(self._in_flight.pop, key, None))
        return answer, True

    async def answer_group(self, keys: Sequence[str], calls: Sequence[ModelCall]) -> list[tuple[Known, bool] | None]:
        """The answers to calls, and whether each was sent for this. Those that are not known are sent together.

        None for those that another row has sent, or that have to be sent one by one.
        """
        stored = {key: (answer, False) for key, answer in self._store.find_replies(keys).items()}
        if any(not isinstance(reply, Failure) for reply, _ in stored.values()):
            self.client.trust()
        loop = asyncio.get_running_loop()
        fresh: dict[str, ModelCall] = {}
        for key, call in zip(keys, calls, strict=True):
            if key not in stored and key not in self._in_flight:
                fresh[key] = call
                self._in_flight[key] = loop.create_future()
        sent = await self._send_fresh(fresh) if fresh else {}
        # Of equal requests in the group, the first was sent.
        return [sent.pop(key, None) if key in fresh else stored.get(key) for key in keys]

    async def _send_fresh(self, calls: dict[str, ModelCall]) -> dict[str, tuple[Known, bool]]:
        futures = {key: self._in_flight[key] for key in calls}
        outcomes: list[Answer | ModelError | None] = [None] * len(calls)
        answers: dict[str, tuple[Known, bool]] = {}
        to_store: list[tuple[str, Request, Known]] = []
        try:
            outcomes = await self.client.send_group(list(calls.values()))
        finally:
            for (key, call), outcome in zip(calls.items(), outcomes, strict=True):
                if outcome is None:  # rows that wait for it send it themselves
                    del self._in_flight[key]
                    futures[key].set_result(None)
                    continue
                answer = Failure(outcome) if isinstance(outcome, ModelError) else outcome
                answers[key] = answer, True
                futures[key].set_result(answer)
                if not isinstance(outcome, ModelError) or is_row_failure(outcome, answered=self.client.answered):
                    to_store.append((key, call.request, answer))
                else:
                    del self._in_flight[key]
        if any(not isinstance(answer, Failure) for _, _, answer in to_store):
            self._store.record_answering(self._model_key)
        if to_store:
            self._store.add_replies(to_store, then=lambda: [self._in_flight.pop(key, None) for key, _, _ in to_store])
        return answers


_AMOUNTS = ('input_tokens', 'output_tokens', 'cached_tokens', 'reasoning_tokens', 'cache_written_tokens', 'seconds')
_read_amounts = attrgetter(*_AMOUNTS)


class RowClient:
    """The `Asker` of one row. It records what was asked, and what it cost.

    `check` is given each request on its way to the model, and the replies before it.
    """

    __slots__ = (
        '_check', '_client', '_reported', '_retry_all', '_retry_failed', '_unreported', 'fingerprints', 'said', 'sent',
        'served', 'used',
    )  # fmt: skip

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
        self._retry_failed = retry_failed
        self._retry_all = retry_all
        self.fingerprints: list[str] = []
        self.said: list[str] = []
        self.sent = 0
        self.served: Served = NOT_STATED
        self._reported: list[ModelCall] = []
        self._unreported = False
        self.used: dict[str, Any] = {}
        """What the requests took together, under the names of `Usage`, where a reply said it."""

    async def generate(self, request: Request, sampling: Sampling, *, sample: int = 0) -> Reply:
        """The reply to a request."""
        key, call = self.start_call(request, sampling, sample)
        return self.end_call(call, *await self._answer(key, call))

    def _answer(self, key: str, call: ModelCall) -> Coroutine[Any, Any, tuple[Known, bool]]:
        return self._client.answer(key, call, retry_failed=self._retry_failed, retry_all=self._retry_all)

    def start_call(self, request: Request, sampling: Sampling, sample: int = 0) -> tuple[str, ModelCall]:
        """The call for a request, with its key."""
        return self._new_key(request, sampling, sample), ModelCall('generate', request, sampling, self._call_check())

    def end_call(self, call: ModelCall, answer: Known, sent: bool) -> Reply:
        """The reply that a call came to."""
        reply = self._record(call, answer, sent)
        if not isinstance(reply, Reply):
            raise ModelError(str(reply))
        self.said.append(reply.text)
        return reply

    async def score(self, requests: Sequence[Request], *, shown: bool = True) -> list[Scored]:
        """The log-probabilities of each request's own tokens."""
        sampling, check = Sampling(), self._call_check() if shown else None
        calls = [ModelCall('score', request, sampling, check) for request in requests]
        answers = [self._answer(self._new_key(call.request, None, 0), call) for call in calls]
        scored = []
        for call, (answer, sent) in zip(calls, await wait_for_all(answers), strict=True):
            if not isinstance(scores := self._record(call, answer, sent), Scored):
                raise ModelError(str(scores))
            scored.append(scores)
        return scored

    def _call_check(self) -> Callable[[Request], None] | None:
        """The check of a call, with the replies that come before it."""
        if self._check is None:
            return None
        check, replies = self._check, tuple(self.said)
        return lambda request: check(request, replies)

    def _new_key(self, request: Request, sampling: Sampling | None, sample: int) -> str:
        key = self._client.key(request, sampling, sample)
        self.fingerprints.append(key)
        return key

    @property
    def expected_tokens(self) -> int | None:
        """The tokens of all requests by the model's tokenizer; None if it is not here, or one was not reported."""
        count = getattr(self._client.client.model, 'expect_tokens', None)
        if count is None or self._unreported or not self._reported:
            return None
        counts = [count(call.request, call.sampling, scored=call.kind == 'score') for call in self._reported]
        return None if None in counts else sum(counts)

    def _record(self, call: ModelCall, answer: Known, sent: bool) -> Known:
        self.sent += sent
        if not isinstance(answer, Failure):
            if answer.usage.input_tokens is None:
                self._unreported = True
            else:
                self._reported.append(call)
            if isinstance(answer, Reply) and answer.served != NOT_STATED:
                self.served = self.served.merge(answer.served)
            if answer.usage.first_token_seconds is not None:
                self.used.setdefault('first_token_seconds', answer.usage.first_token_seconds)
            for name, amount in zip(_AMOUNTS, _read_amounts(answer.usage), strict=True):
                if amount is not None and isinstance(amount, (int, float)):  # servers have been seen to send anything
                    self.used[name] = self.used.get(name, 0) + amount
        return answer
