"""In place of sending: requests whose answers are known are answered, all others are put down for a batch.

Batches are submitted, and submissions that were interrupted at any point are taken up:

    new ──upload──► uploaded ──► creating ──create──► created

A batch that is `creating` may exist at the server, so it is looked for there before it is created (again).
"""

from __future__ import annotations

import asyncio
import random
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from copy import copy
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.models.http.batches import BatchService, Submission, find_service
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.batches.ledger import COPIED, FOUND, BatchLedger, BatchRecord, PendingRequest
from rolecall.runs.batches.snapshot import Snapshot, hide_keys, keep_snapshot
from rolecall.runs.client.cache import CachedClient, Known
from rolecall.runs.client.model_client import ModelCall, ModelClient, RequestPending
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.store.codec import pack_request
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

T = TypeVar('T')
_ATTEMPTS = 5
_LONGEST_PAUSE = 30.0
_DEFINITE = (400, 401, 402, 403, 404, 405, 413, 415, 422, 429)
"""Statuses with which a server certainly has not created a batch."""


async def retry_call(call: Callable[[], Awaitable[T]], *, attempts: int = _ATTEMPTS) -> T:
    """Make a call that may safely be made again, until it succeeds or fails for good."""
    for attempt in range(attempts):
        try:
            return await call()
        except ModelError as error:
            if not error.transient or attempt + 1 == attempts:
                raise
            usual = min(_LONGEST_PAUSE, 0.5 * 2.0**attempt) * random.uniform(0.5, 1.5)
            await asyncio.sleep(usual if error.retry_after is None else min(error.retry_after, 300.0))
    raise AssertionError('unreachable')


async def submit_batches(
    ledger: BatchLedger,
    services: Mapping[str, BatchService],
    *,
    tell: Callable[[str], None],
) -> list[BatchRecord]:
    """Submit everything that is put down for these models; gives what was submitted."""
    copied = 'identity' in ledger.notes()  # then copies of this run, if there are any, recognise its batches
    for model, service in services.items():
        ledger.pack(
            model,
            vendor=service.vendor,
            server=service.server,
            most_requests=service.most_requests,
            most_bytes=service.most_bytes,
        )
    submitted = []
    for batch in ledger.open_batches():
        if batch.state != 'created' and batch.model in services:
            created = await _submit(ledger, services[batch.model], batch, copied=copied)
            what = f'{count_noun(created.requests, "request")} of {created.model}'
            tell(f'{created.name}: {what} {created.note or "submitted"}')
            submitted.append(created)
    return submitted


async def _submit(ledger: BatchLedger, service: BatchService, batch: BatchRecord, *, copied: bool) -> BatchRecord:
    """Submit a batch, or find it at the server; `copied`: there may be copies of the run that have submitted it."""
    try:
        if batch.state == 'creating':
            created = await find_created(ledger, service, batch)
        else:
            created = await _find_of_copy(ledger, service, batch) if copied else None
        if created is not None:
            return created
        with tempfile.TemporaryDirectory(prefix='rolecall-') as folder:
            file = Path(folder) / 'batch'
            with file.open('wb') as content:
                service.write(ledger.entries(batch), content)
            if not batch.file_id:  # a file that is uploaded twice costs nothing
                name = f'rolecall-{batch.token}.jsonl'
                batch = ledger.update(
                    batch, state='uploaded', file_id=await retry_call(lambda: service.upload(file, name=name))
                )
            return await _create(ledger, service, batch, file)
    except ModelError as error:
        raise _explain(ledger, batch, error) from error


async def _find_of_copy(ledger: BatchLedger, service: BatchService, batch: BatchRecord) -> BatchRecord | None:
    """The same batch, submitted from another copy of the run directory. A server that lists no batches has none."""
    if not service.keeps_token:
        return None
    try:
        created = await retry_call(lambda: service.find(_describe(ledger, batch)), attempts=2)
    except ModelError:
        return None
    if created is None or (created.ended and created.status != 'completed'):
        return None
    return ledger.update(batch, state='created', remote_id=created.id, note=COPIED)


async def _create(ledger: BatchLedger, service: BatchService, batch: BatchRecord, file: Path) -> BatchRecord:
    """Create the batch. After a failure that leaves open whether it exists, it is looked for first."""
    batch = ledger.mark_creating(batch)

    async def create() -> BatchRecord:
        try:
            remote = await service.create(file, _describe(ledger, batch))
        except ModelError as error:
            if error.status in _DEFINITE or (created := await find_created(ledger, service, batch)) is None:
                raise
            return created
        return ledger.mark_created(batch, remote.id)

    return await retry_call(create)


async def find_created(ledger: BatchLedger, service: BatchService, batch: BatchRecord) -> BatchRecord | None:
    """A batch whose creation was not confirmed, if the server has it. An error says nothing about its creation."""
    try:
        created = await retry_call(lambda: service.find(_describe(ledger, batch)))
    except ModelError as error:
        raise ModelError(f'the batches of the server cannot be listed: {error}', transient=error.transient) from error
    return None if created is None else ledger.update(batch, state='created', remote_id=created.id, note=FOUND)


def _describe(ledger: BatchLedger, batch: BatchRecord) -> Submission:
    return Submission(
        batch.token,
        batch.file_id,
        batch.requests,
        datetime.fromisoformat(batch.since),
        {*ledger.known_ids(), *batch.rejected.split()},
    )


def _explain(ledger: BatchLedger, batch: BatchRecord, error: ModelError) -> RunError:
    """Why a batch was not submitted. What the server refused for good is forgotten, so that it can be asked live."""
    batch = ledger.find(batch.number)
    if error.status in _DEFINITE and error.status not in (401, 402, 403, 429):
        ledger.discard(batch)
        if error.status in (404, 405):
            return RunError(f'{error}\nThis server has no batch endpoint for the model. Run without --batch.')
        return RunError(f'{error}\nThe server refused the batch; nothing of it is processed. Run without --batch.')
    unsure = ' The server may have created it; it is looked for before it is submitted again.'
    return RunError(
        f'{error}\n{count_noun(batch.requests, "request")} of {batch.model} not submitted.'
        f'{unsure if batch.state == "creating" else ""} Run the same command again to continue.'
    )


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
        entries = {name: hide_keys(entry) for name, (_, entry) in self._models.items()}
        self.ledger.note('entries', {**Snapshot(self.ledger).entries, **entries})
        services = {name: find_service(model) for name, (model, _) in self._models.items()}
        return await submit_batches(self.ledger, {name: own for name, own in services.items() if own}, tell=tell)

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


def check_batchable(prepared: PreparedRun) -> None:
    """Refuse what cannot be asked by batch, all of it at once."""
    problems = [problem for pair in prepared.pairs for problem in _find_obstacles(pair)]
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _find_obstacles(pair: PairRun) -> Iterator[Problem]:
    name = pair.model.name
    if find_service(pair.model) is None:
        what = f'--batch: model {name} has no batch endpoint.'
        yield Problem(pair.model_entry.where, what, 'Leave it out with --model, or run it without --batch.')
    where = f'{pair.compiled.task.where} × {pair.model_entry.where}'
    if 'score' in pair.inferencer.needs:
        what = f'--batch: {pair.compiled.task.inferencer.name} needs prompt log-probabilities; batches return none.'
        yield Problem(where, what, 'Run this dataset without --batch.')
    if pair.compiled.task.inferencer.own is not None:
        what = '--batch: an inferencer of your own may need answers at once.'
        yield Problem(where, what, 'Run this dataset without --batch.')


@contextmanager
def open_pending(
    store: Store, prepared: PreparedRun, *, tell: Callable[[str], None]
) -> Iterator[PendingRequests | None]:
    """Where requests are put down for batches; None for a run that asks live, which forgets what was not submitted."""
    with closing(BatchLedger(store.directory)) as ledger:
        ledger.discard_unsubmitted()
        yield PendingRequests(ledger, submits=True, tell=tell) if prepared.options.batch else None
