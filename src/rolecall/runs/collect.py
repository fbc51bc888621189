"""Collecting a run that was submitted as batches: answers into the store, then rows and scores as in any run."""

from __future__ import annotations

import asyncio
import glob
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecall.errors import RolecallError, RunError
from rolecall.experiment.opening.loading import SourceLike, load_config
from rolecall.models.backends import build_model
from rolecall.models.http.batches import BatchService, find_service
from rolecall.models.protocol import Model, ModelError
from rolecall.runs.batches.collection import BatchNews, cancel_batch, collect_batch
from rolecall.runs.batches.ledger import BatchLedger, BatchRecord
from rolecall.runs.batches.pending import PendingRequests
from rolecall.runs.batches.snapshot import Snapshot
from rolecall.runs.batches.submission import find_created
from rolecall.runs.engine import run_blocking
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.pair_run import PreparedRun
from rolecall.runs.prepare import prepare
from rolecall.runs.run import Run
from rolecall.runs.run_options import RunOptions
from rolecall.runs.run_plan import RunPlan
from rolecall.runs.run_summary import RunSummary
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.writer import Store, open_store

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
                if not wait or not self._expects_more():
                    break
                await asyncio.sleep(pause)
                pause = every or min(_LONGEST_PAUSE, pause * 1.5)
        finally:
            for model in self._models.values():
                await model.close()
        summary.waiting = sum(self._ledger.count(batch)['waiting'] for batch in self._ledger.open_batches())
        return summary

    def _expects_more(self) -> bool:
        """Whether a batch is open that has not ended, or whose results may still become readable."""
        return any(self._unreadable[batch.number] < _MOST_READINGS for batch in self._ledger.open_batches())

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
