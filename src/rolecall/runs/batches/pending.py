"""In place of sending: requests whose answers are known are answered, all others are put down for a batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from rolecall.models.http.batches import BatchService, find_service
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.batches.ledger import BatchLedger, BatchRecord, PendingRequest
from rolecall.runs.batches.snapshot import Snapshot, hide_keys, keep_snapshot
from rolecall.runs.batches.submission import submit_batches
from rolecall.runs.client.cache import CachedClient, Known, RequestPending
from rolecall.runs.client.model_client import ModelCall, ModelClient
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.store.codec import pack_request
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

_TOGETHER = 500
"""Requests that are written down in one transaction."""
_TELL_SECONDS = 5.0


class PendingRequests:
    """The requests that one pass over the rows puts down. `submits` is False where they are only counted."""

    def __init__(self, ledger: BatchLedger, *, submits: bool, tell: Callable[[str], None]) -> None:
        self.ledger = ledger
        self._submits = submits
        self._tell = tell
        self._last_told = time.monotonic()
        self._written = 0
        self._models: dict[str, tuple[Model, Mapping[str, Any]]] = {}
        self._seen: set[str] = set()
        self._gathered: list[PendingRequest] = []
        self.unsubmitted = 0
        """Requests that no batch has held yet, where nothing is put down: later turns, judges."""
        self.unanswered = 0
        """Requests that a batch ended without answering, where nothing is put down."""
        if submits:
            ledger.discard_unsubmitted()

    def open_cache(self, client: ModelClient, store: Store, entry: Mapping[str, Any]) -> CachedClient:
        """What answers the requests of a model; one without batch endpoints answers live."""
        if find_service(client.model) is None:
            return CachedClient(client, store)
        return PendingClient(client, store, self, name=self._register(client.model, entry))

    def _register(self, model: Model, entry: Mapping[str, Any]) -> str:
        """The name under which batches of a model are kept: its own, or a longer one if that means another model."""
        name, number = model.name, 1
        while name in self._models and dict(self._models[name][0].identity) != dict(model.identity):
            number += 1
            name = f'{model.name} ({number})'
        self._models.setdefault(name, (model, entry))
        return name

    @property
    def entries(self) -> dict[str, Mapping[str, Any]]:
        """The entries of all models by the names of their batches."""
        return {name: entry for name, (_, entry) in self._models.items()}

    @property
    def services(self) -> dict[str, BatchService]:
        """The batch endpoints of all models by the names of their batches."""
        services = {name: find_service(model) for name, (model, _) in self._models.items()}
        return {name: service for name, service in services.items() if service is not None}

    async def put_down(self, key: str, dataset: str, name: str, call: ModelCall) -> None:
        """Put a request down, unless it waits already. `ModelError` if it cannot be part of a batch."""
        state = self.ledger.state_of(key)
        if key in self._seen or state == 'waiting':
            return
        self._seen.add(key)
        if not self._submits:
            self.unsubmitted += state is None
            self.unanswered += state is not None
            return
        if call.check is not None:
            call.check(call.request)
        model = self._models[name][0]
        service = model.batches  # type: ignore[attr-defined]
        body = await model.write_batched(call.request, call.sampling)  # type: ignore[attr-defined]
        entry: bytes = service.encode(key, body)
        if len(entry) + 64 > service.most_bytes:
            raise ModelError(f'the request is larger than a batch may be ({service.most_bytes:,} bytes).')
        self._gathered.append(PendingRequest(key, dataset, name, pack_request(call.request), entry))
        if len(self._gathered) >= _TOGETHER:
            self.flush()

    async def submit(self, prepared: PreparedRun, *, tell: Callable[[str], None]) -> list[BatchRecord]:
        """Submit what was put down, after keeping what is needed to finish the run elsewhere."""
        if not self._submits:
            return []
        self.flush()
        keep_snapshot(self.ledger, prepared)
        entries = {name: hide_keys(entry) for name, entry in self.entries.items()}
        self.ledger.note('entries', {**Snapshot(self.ledger).entries, **entries})
        return await submit_batches(self.ledger, self.services, tell=tell)

    def flush(self) -> None:
        """Write down what has gathered."""
        gathered, self._gathered = self._gathered, []
        self.ledger.add(gathered)
        self._written += len(gathered)
        if gathered and time.monotonic() - self._last_told > _TELL_SECONDS:
            self._last_told = time.monotonic()
            self._tell(f'{count_noun(self._written, "request")} prepared for batches')


class PendingClient(CachedClient):
    """Answers from the store; what is not there is put down, and `RequestPending` raised."""

    def __init__(self, client: ModelClient, store: Store, pending: PendingRequests, *, name: str) -> None:
        super().__init__(client, store)
        self._pending = pending
        self._name = name
        self._dataset = ''

    def for_dataset(self, dataset: str) -> PendingClient:
        own = copy(self)
        own._dataset = dataset
        return own

    async def answer(self, key: str, call: ModelCall, *, retry_failed: bool, retry_all: bool) -> tuple[Known, bool]:
        stored = None if retry_all else self._store.find_reply(key)
        if stored is not None and not (retry_failed and isinstance(stored, Failure)):
            return stored, False
        await self._pending.put_down(key, self._dataset, self._name, call)
        raise RequestPending

    async def answer_group(self, keys: Sequence[str], calls: Sequence[ModelCall]) -> list[tuple[Known, bool] | None]:
        return [None] * len(keys)
