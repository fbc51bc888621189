"""Fetches what batches have answered into the run's store: by fingerprint, each request once, whatever the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from rolecall.models.http.batches import BatchAnswer, BatchService, RemoteBatch
from rolecall.models.protocol import ModelError, Reply
from rolecall.runs.batches.ledger import COPIED, FOUND, BatchLedger, BatchRecord
from rolecall.runs.batches.submission import retry_call
from rolecall.runs.store.codec import unpack_request
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.writer import Store
from rolecall.strings import count_noun

_TOGETHER = 500
_STATES = {'refused': 'answered'}
"""States of requests by what became of them, where the words differ."""
_LEFT = {'expired': 'expired', 'cancelled': 'cancelled'}
"""States of requests that a batch ended without, by its status; otherwise they failed."""


@dataclass(slots=True)
class BatchNews:
    """How a batch stands, and what was fetched of it."""

    batch: BatchRecord
    status: str = ''
    done: int = 0
    fetched: Counter[str] = field(default_factory=Counter)
    """Requests that came back now, by what became of them."""
    unknown: int = 0
    """Results for requests that this batch does not have."""
    unreadable: int = 0
    problem: str = ''
    ended: bool = False
    """Whether the server will answer nothing more of it."""

    @property
    def is_open(self) -> bool:
        return self.batch.state not in ('collected', 'cancelled')

    def lines(self) -> list[str]:
        """The news for people."""
        name, model = self.batch.name, self.batch.model
        if not self.status:
            return [f'{name}: {count_noun(self.batch.requests, "request")} of {model}: {self.problem}']
        counts = ', '.join(f'{count:,} {what}' for what, count in self.fetched.items())
        done = f'{self.done:,} of {self.batch.requests:,} done'
        lines = [f'{name}: {self.status}, {done}; {counts}' if counts else f'{name}: {self.status}, {done}']
        if self.problem:
            lines.append(f'{name}: {self.problem}')
        if self.unknown:
            lines.append(f'{name}: {count_noun(self.unknown, "result")} left out: not of this batch')
        if self.unreadable:
            lines.append(f'{name}: {count_noun(self.unreadable, "line")} of the results cannot be read')
        return lines


async def collect_batch(ledger: BatchLedger, store: Store, service: BatchService, batch: BatchRecord) -> BatchNews:
    """Ask how a batch stands; if it has ended, store its answers. Safe to do again at any time."""
    remote = await retry_call(lambda: service.fetch(batch.remote_id))
    news = BatchNews(batch, remote.status, remote.done, problem=remote.problem, ended=remote.ended)
    if not remote.ended:
        return news
    try:
        owned = await retry_call(lambda: _store_results(ledger, store, service, batch, remote, news))
    except ModelError as error:
        news.problem = f'the results were not read to the end: {error}'
        return news
    if not owned and news.unknown and batch.note in (FOUND, COPIED):
        rejected = f'{batch.rejected} {batch.remote_id}'.strip()
        news.batch = ledger.update(batch, state='creating', remote_id='', rejected=rejected)
        news.problem = 'this is not the batch that was submitted; it is looked for again'
        return news
    if news.unreadable:
        return news
    left = ledger.count(batch)['waiting']
    fetched = batch.requests - left
    if fetched < remote.done and remote.status not in _LEFT:
        news.problem = (
            f'the results have {fetched:,} of {count_noun(remote.done, "request")} that are done. '
            'The next collect fetches them again; --cancel gives up the rest.'
        )
        return news
    if left:
        reason = remote.problem or f'the batch ended without it ({remote.status})'
        state = _LEFT.get(remote.status, 'failed')
        ledger.settle_rest(batch, state, reason)
        news.fetched[state] += left
    news.batch = ledger.update(batch, state='collected')
    return news


async def _store_results(
    ledger: BatchLedger, store: Store, service: BatchService, batch: BatchRecord, remote: RemoteBatch, news: BatchNews
) -> int:
    """Store what can be read; how many results belong to the batch. What arrives before an error is kept."""
    news.unknown = news.unreadable = owned = 0
    async for answers in _in_groups(service.results(remote), news):
        owned += ledger.owns(batch, [answer.custom_id for answer in answers])
        await _store_group(ledger, store, batch, answers, news)
    return owned


async def _in_groups(answers: AsyncIterator[BatchAnswer | None], news: BatchNews) -> AsyncIterator[list[BatchAnswer]]:
    group: list[BatchAnswer] = []
    try:
        async for answer in answers:
            if answer is None:
                news.unreadable += 1
                continue
            group.append(answer)
            if len(group) == _TOGETHER:
                yield group
                group = []
    except ModelError:
        if group:
            yield group  # what arrived before the connection broke is kept
        raise
    if group:
        yield group


async def _store_group(
    ledger: BatchLedger, store: Store, batch: BatchRecord, answers: list[BatchAnswer], news: BatchNews
) -> None:
    """Store answers, then note them: if that is interrupted, they are stored again, with the same result."""
    waiting = ledger.find_requests(batch, [answer.custom_id for answer in answers])
    replies: list[tuple[str, object, Reply | Failure]] = []
    settled = []
    for answer in answers:
        request = waiting.pop(answer.custom_id, None)
        if request is None:
            news.unknown += not ledger.owns(batch, [answer.custom_id])
            continue
        if answer.reply is not None:
            replies.append((answer.custom_id, unpack_request(request), answer.reply))
        elif answer.outcome == 'refused':
            replies.append((answer.custom_id, unpack_request(request), Failure(answer.reason)))
        settled.append(
            (
                answer.custom_id,
                _STATES.get(answer.outcome, answer.outcome),
                answer.reason,
                answer.reply.usage if answer.reply else None,
            )
        )
        news.fetched[answer.outcome] += 1
    if replies:
        store.add_replies(replies, then=lambda: None)  # type: ignore[arg-type]
        await store.wait_until_saved()
    ledger.settle(settled)


async def cancel_batch(
    ledger: BatchLedger, store: Store, service: BatchService, batch: BatchRecord, *, tell: Callable[[str], None]
) -> BatchNews:
    """Have a batch cancelled, and fetch what was answered until then. What does not come back may be asked live."""
    if not batch.remote_id:
        return _give_up(ledger, BatchNews(batch, 'not submitted'))
    try:
        await retry_call(lambda: service.cancel(batch.remote_id))
    except ModelError as error:
        if error.status not in (400, 404, 409):  # it has ended, or is gone
            raise
        tell(f'{batch.name}: {error}')
    try:
        news = await collect_batch(ledger, store, service, batch)
    except ModelError as error:
        if error.status != 404:
            raise
        news = BatchNews(batch, 'gone', ended=True, problem=str(error))
    return _give_up(ledger, news) if news.ended and news.is_open else news


def _give_up(ledger: BatchLedger, news: BatchNews) -> BatchNews:
    """Expect nothing more of a batch."""
    news.fetched['cancelled'] += ledger.settle_rest(news.batch, 'cancelled', 'the batch was cancelled')
    news.batch = ledger.update(news.batch, state='cancelled')
    return news
