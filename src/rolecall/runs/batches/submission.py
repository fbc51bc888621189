"""Submits batches, and takes up submissions that were interrupted at any point.

    new ──upload──► uploaded ──► creating ──create──► created

A batch that is `creating` may exist at the server, so it is looked for there before it is created (again).
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from rolecall.errors import RunError
from rolecall.models.http.batches import BatchService, Submission
from rolecall.models.protocol import ModelError
from rolecall.runs.batches.ledger import COPIED, BatchLedger, BatchRecord
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
    copied = ledger.has_identity
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
            if not batch.file_id:
                batch = await _upload(ledger, service, batch, file)
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


async def _upload(ledger: BatchLedger, service: BatchService, batch: BatchRecord, file: Path) -> BatchRecord:
    """Upload the requests. A file that is uploaded twice costs nothing."""

    async def upload() -> str:
        return await service.upload(file, name=f'rolecall-{batch.token}.jsonl')

    return ledger.update(batch, state='uploaded', file_id=await retry_call(upload))


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
    return None if created is None else ledger.mark_found(batch, created.id)


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
