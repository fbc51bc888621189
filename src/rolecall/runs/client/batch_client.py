"""The client of a model that takes several requests at once: it decides which calls make up a batch."""

from __future__ import annotations

import asyncio
import socket
import time

from rolecall.errors import RolecallError
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.client.gathering_client import GatheringClient, PendingCall
from rolecall.runs.client.model_client import Activity, ModelCall, check_answers, start_calls
from rolecall.runs.client.retry import RetryPolicy


class BatchClient(GatheringClient):
    """Calls gather while the model computes; those with most in common go together, in the order of their texts."""

    def __init__(self, model: Model, retry_policy: RetryPolicy) -> None:
        self.window = max(32, 4 * model.batch)
        super().__init__(model, retry_policy, enough=self.window)

    @property
    def activity(self) -> Activity:
        computed = getattr(self.model, 'computed', 0)  # counted while a batch is under way
        return Activity(self._computing, self.model.batch, max(self._tokens, computed))

    async def close(self) -> None:
        """Stop computing."""
        if self._dispatcher is not None:
            self._dispatcher.cancel()
            await asyncio.wait([self._dispatcher])

    async def _hand_out(self) -> None:
        batch: list[PendingCall] = []
        try:
            while self._pending:
                await self._gather_calls()
                self._retrier.check()
                batch = self._next_batch()
                await self._compute(batch)
        except BaseException as error:
            for one in batch:
                one.fail(error)
            raise

    def _next_batch(self) -> list[PendingCall]:
        self._pending = [one for one in self._pending if not one.answer.done()]
        self._pending.sort(key=lambda one: (one.kind, one.text))
        if not self._pending:
            return []
        first = self._pending[0].kind
        size = next((i for i, one in enumerate(self._pending) if one.kind != first), len(self._pending))
        size = min(size, self._batch_size(self._pending[0].call))
        batch, self._pending = self._pending[:size], self._pending[size:]
        return batch

    def _batch_size(self, call: ModelCall) -> int:
        """How many requests one call may carry; a model may take more at once to score than to answer."""
        size: int = (
            getattr(self.model, 'score_batch_size', self.model.batch) if call.kind == 'score' else self.model.batch
        )
        return size

    async def _compute(self, batch: list[PendingCall]) -> None:
        """Answer a batch. If it fails as a whole, its requests are sent one by one, so that one spoils no other."""
        if not batch:
            return
        began = time.monotonic()
        self._computing = len(batch)
        try:
            answers = await start_calls(self.model, [one.call for one in batch])
            seconds = time.monotonic() - began
            self.times[socket.gethostname()].add(len(batch), computing=seconds)
            answers = check_answers(self.model, answers, len(batch), seconds)
        except ModelError as error:
            if len(batch) == 1:
                batch[0].fail(error)
                return
            for one in batch:
                await self._compute([one])
            return
        except RolecallError as error:
            for one in batch:
                one.fail(error)
            return
        finally:
            self._computing = 0
        for one, answer in zip(batch, answers, strict=True):
            if not one.answer.done():
                one.answer.set_result(answer)
