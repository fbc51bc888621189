"""Collecting a run that was submitted as batches: answers into the store, then rows and scores as in any run."""

from __future__ import annotations

import asyncio
import glob
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecall.errors import RolecallError, RunError
from rolecall.experiment.opening.loading import SourceLike, load_config
from rolecall.models.backends import build_model
from rolecall.models.http.batches import BatchAnswer, BatchService, RemoteBatch, find_service
from rolecall.models.protocol import Model, ModelError, Reply
from rolecall.runs.batches.ledger import COPIED, FOUND, BatchLedger, BatchRecord
from rolecall.runs.batches.pending import PendingRequests, find_created, retry_call
from rolecall.runs.batches.snapshot import Snapshot
from rolecall.runs.engine import run_blocking
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.plan import RunPlan, RunSummary
from rolecall.runs.prepare import prepare
from rolecall.runs.run import Run
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.codec import unpack_request
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.lookup import Failure
from rolecall.runs.store.writer import Store, open_store
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


_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 60.0
_MOST_READINGS = 5
"""Times that results which cannot be read to the end are fetched while waiting."""


@dataclass(slots=True)
class CollectSummary:
    """What was fetched, what waits, and what the run came to."""

    fetched: Counter[str] = field(default_factory=Counter)
    """Requests that came back, by what became of them."""
    waiting: int = 0
    """Requests that have not come back."""
    unanswered: int = 0
    """Requests that a batch ended without answering, and that are still wanted."""
    unsubmitted: int = 0
    """Requests that follow from the answers and are in no batch yet: later turns, judges."""
    problems: list[str] = field(default_factory=list)
    """Why batches could not be asked about, or their results not be read."""
    unfinished: str = ''
    """Why rows could not be finished here; the answers are stored all the same."""
    run: RunSummary | None = None
    command: str = ''
    """The command that runs the config live."""

    @property
    def exit_code(self) -> int:
        """0 if everything came, 1 if something failed, 3 if something waits or has to be submitted."""
        failed = self.problems or self.unfinished or self.unanswered or (self.run is not None and self.run.exit_code)
        return 1 if failed else 3 if self.waiting or self.unsubmitted else 0


def collect_run(
    directory: str | Path,
    *,
    config: Mapping[str, Any] | str | Path | None = None,
    wait: bool = False,
    cancel: bool = False,
    submit: bool = False,
    every: float | None = None,
    progress: RunListener | None = None,
) -> CollectSummary:
    """Fetch what the batches of a run have answered, and finish the rows whose answers are there.

    With `wait`, until every batch has ended, asking `every` so many seconds. With `cancel`, batches are cancelled, and
    what they answered until then is kept. With `submit`, what follows from the answers (later turns, questions to a
    judge) is submitted as the next batch. `config` is needed only where the run directory does not suffice: with
    functions of the config's own, on another machine.
    """
    if not (Path(directory) / FILE).is_file():
        raise RunError(f'{directory}: no run here ({FILE} is missing).')
    listener = progress or NullListener()
    with open_store(directory, tell=listener.on_message) as store, closing(BatchLedger(store.directory)) as ledger:
        collector = _Collector(store, ledger, listener, config)
        try:
            return run_blocking(collector.collect(wait=wait, cancel=cancel, submit=submit, every=every))
        finally:
            listener.on_end()


class _Collector:
    """One collection under way."""

    def __init__(
        self,
        store: Store,
        ledger: BatchLedger,
        listener: RunListener,
        config: Mapping[str, Any] | str | Path | None,
    ) -> None:
        self._store = store
        self._ledger = ledger
        self._listener = listener
        self._snapshot = Snapshot(ledger)
        if not self._snapshot.exists:
            raise RunError(f'{store.directory}: nothing was submitted. `rolecall run CONFIG --batch` submits a run.')
        self._models: dict[str, Model] = {}
        self._unprepared = ''
        self._unreadable: Counter[int] = Counter()
        """How often the results of each batch that has ended could not be read to the end."""
        self._file_differs = False
        self._config = config

    async def collect(self, *, wait: bool, cancel: bool, submit: bool, every: float | None) -> CollectSummary:
        summary = CollectSummary(command=self._snapshot.command)
        pause = every or _FIRST_PAUSE
        try:
            while True:
                summary.problems = []
                before = summary.fetched.total()
                for batch in self._ledger.open_batches():
                    await self._attend_to(batch, summary, cancel=cancel)
                if summary.run is None or summary.fetched.total() > before or submit:
                    await self._finish(summary, submit=submit)
                batches = self._ledger.open_batches()  # ended, their results may still become readable
                if not wait or all(self._unreadable[batch.number] >= _MOST_READINGS for batch in batches):
                    break
                await asyncio.sleep(pause)
                pause = every or min(_LONGEST_PAUSE, pause * 1.5)
        finally:
            for model in self._models.values():
                await model.close()
        summary.waiting = sum(self._ledger.count(batch)['waiting'] for batch in self._ledger.open_batches())
        return summary

    async def _attend_to(self, batch: BatchRecord, summary: CollectSummary, *, cancel: bool) -> None:
        """Take one batch a step further. What goes wrong concerns this batch alone."""
        try:
            service = self._find_service(batch)
            if batch.state != 'created':
                created = await self._find_created(service, batch, cancel=cancel)
                if created is None and not cancel:
                    raise RunError(f'not submitted to the end. Repeat: {self._snapshot.command} --batch')
                batch = created or batch
            if cancel:
                news = await cancel_batch(self._ledger, self._store, service, batch, tell=self._listener.on_message)
            else:
                news = await collect_batch(self._ledger, self._store, service, batch)
        except (ModelError, RunError) as error:
            summary.problems.append(f'{batch.name}: {error}')
            self._listener.on_message(f'{batch.name}: {error}')
            return
        self._report(news, summary)

    async def _find_created(self, service: BatchService, batch: BatchRecord, *, cancel: bool) -> BatchRecord | None:
        """A batch whose submission was interrupted, if the server has it."""
        if batch.state != 'creating':
            return None
        try:
            return await find_created(self._ledger, service, batch)
        except ModelError as error:
            if not cancel or error.transient:
                raise
            self._listener.on_message(f'{batch.name}: given up, although the server may have it: {error}')
            return None

    def _report(self, news: BatchNews, summary: CollectSummary) -> None:
        for line in news.lines():
            self._listener.on_message(line)
        if news.ended and news.is_open:
            self._unreadable[news.batch.number] += 1
            summary.problems.append(f'{news.batch.name}: {news.problem or "its results are damaged"}')
        summary.fetched.update(news.fetched)

    def _find_service(self, batch: BatchRecord) -> BatchService:
        """The endpoints that a batch was submitted to, with the key that is found here."""
        if batch.model not in self._models:
            self._models[batch.model] = self._find_model(batch)
        service = find_service(self._models[batch.model])
        if service is None or service.server != batch.server:
            raise RunError(f'{batch.model}: the config names another server than {batch.server}, where the batch is.')
        return service

    def _find_model(self, batch: BatchRecord) -> Model:
        prepared = self._prepare()
        if prepared is not None:
            for model in (*prepared.models.values(), *(judge.model_entry.model for judge in prepared.judges)):
                service = find_service(model)
                if model.name == batch.model and service is not None and service.server == batch.server:
                    return model
        entry = self._snapshot.entries.get(batch.model)
        if entry is None:
            raise RunError(f'{batch.model}: its entry is not in the run directory.')
        return build_model(entry, name=batch.model)

    def _prepare(self) -> PreparedRun | None:
        """The run's config, prepared; None where that cannot be done here, with the reason kept."""
        config = self._config
        try:
            if config is not None:
                return self._prepare_config(config)
            return self._prepare_file() or self._prepare_config(self._snapshot.restore_config())
        except RolecallError as error:
            self._unprepared = str(error)
            return None

    def _prepare_file(self) -> PreparedRun | None:
        """The config's file, prepared, if it is here and says, with its data, what was submitted."""
        path = self._snapshot.path
        if path is None or not Path(path).is_file() or self._file_differs:
            return None
        with suppress(RolecallError):
            config = load_config(path)
            if self._snapshot.is_config(config) and self._snapshot.has_rows_of(
                prepared := self._prepare_config(config)
            ):
                return prepared
        self._file_differs = True
        self._listener.on_message(f'{path} or its data differ from what was submitted; rows are finished as submitted.')
        return None

    def _prepare_config(self, config: SourceLike) -> PreparedRun:
        options = RunOptions(
            dataset=[glob.escape(name) for name in self._snapshot.datasets],
            model=[glob.escape(name) for name in self._snapshot.models],
            limit=self._snapshot.limit,
            probe_servers=False,
        )
        return prepare(config, options)

    async def _finish(self, summary: CollectSummary, *, submit: bool) -> None:
        """Conclude the rows whose answers are there, and score what is complete."""
        prepared = self._prepare()
        if prepared is None:
            summary.unfinished = self._unprepared
            return
        pending = PendingRequests(self._ledger, submits=submit, tell=self._listener.on_message)
        summary.run = await Run(prepared, self._store, self._listener, pending=pending).execute(RunPlan(()))
        summary.unanswered, summary.unsubmitted = pending.unanswered, pending.unsubmitted
