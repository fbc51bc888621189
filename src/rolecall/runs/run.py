"""One run of a config, from the plan to the scores. Started again, it resumes."""

from __future__ import annotations

import asyncio
import glob
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import aclosing, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RunError, did_you_mean
from rolecall.experiment.lint import Finding
from rolecall.runs.batches.deferring import Deferrals
from rolecall.runs.batches.ledger import BatchLedger, BatchRecord
from rolecall.runs.batches.ledger_reader import has_batches
from rolecall.runs.batches.readiness import check_batchable, refuse_while_waiting
from rolecall.runs.client.budgets import Budgets
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.engine import Asking, NumberedRow, run_blocking
from rolecall.runs.finished_rows import keep_rows
from rolecall.runs.judge import JudgeClients
from rolecall.runs.lint_gate import describe_keys, lint_prepared, refuse_run, stops_run
from rolecall.runs.listener import NullListener, RunListener, tell_indexing
from rolecall.runs.manifest import describe_changes, describe_run, hide_secrets
from rolecall.runs.pair_run import PairRun, Prepared, Share
from rolecall.runs.plan import make_plan, refuse_unready
from rolecall.runs.prepare import prepare
from rolecall.runs.row_chooser import RowChooser
from rolecall.runs.run_plan import Costs, RunPlan
from rolecall.runs.run_scorer import RunScorer
from rolecall.runs.run_times import RunTimes
from rolecall.runs.signals import stop_on_signal
from rolecall.runs.store.writer import Store, open_store
from rolecall.runs.workers.settings import Workers, connect_here, open_workers
from rolecall.scoring.groups import read_groups
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.config.files import Config
from rolecall.sources.config.printing import format_config

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')
_PLANNING_SECONDS = 2.0
_SCORED_AT_ONCE = 8
"""Pairs of all models that are scored side by side; judges' limits hold for all of them together."""


@dataclass(frozen=True, slots=True)
class RunSummary:
    """What a run came to."""

    out: Path
    plan: RunPlan
    scorecards: tuple[Scorecard, ...] = ()
    outcomes: Mapping[str, int] = field(default_factory=dict)
    """How rows ended in this run, those that were known included."""
    findings: tuple[Finding, ...] = ()
    """What the linter calls an error."""
    warnings: tuple[Finding, ...] = ()
    """What the linter calls a warning."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why rows failed, with how many of the first rows of each dataset × model."""
    remarks: tuple[str, ...] = ()
    """What looks wrong about the replies as a whole: all empty, all the same, none parsed."""
    broken: Mapping[str, str] = field(default_factory=dict)
    """Models, judges among them, that could not be asked to the end, with why."""
    unjudged: int = 0
    """Answers on which a judge was asked and said nothing."""
    without_verdict: int = 0
    """Rows with a reply of the judge that cannot be read."""
    interrupted: bool = False
    dry: bool = False
    seconds: float = 0.0
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out (`keep_going`)."""
    submitted: tuple[BatchRecord, ...] = ()
    """The batches that were submitted (`batch`)."""
    waiting: int = 0
    """Rows and judgements that wait for a batch."""

    @property
    def exit_code(self) -> int:
        """0 if every row came to something; 130 if interrupted.

        1 if a row failed, a model could not be asked, a judge said nothing, or something was left out.
        """
        if self.interrupted:
            return 130
        unscored = self.unjudged or self.without_verdict or any(card.error for card in self.scorecards)
        return 1 if self.skipped or self.broken or unscored or self.outcomes.get('failed') else 0


def run_config(
    config: Mapping[str, Any] | str | Path,
    *,
    out: str | Path,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | Sequence[str] | None = None,
    rerun: Collection[str] = (),
    dry_run: bool = False,
    progress: RunListener | None = None,
    data: Mapping[str, str] | None = None,
    lint: bool = True,
    keep_going: bool = False,
    overrides: Mapping[str, Any] | None = None,
    force: bool = True,
    costs: Costs | None = None,
    share: Share | None = None,
    workers: Workers | None = None,
    batch: bool = False,
) -> RunSummary:
    """Run a config in a directory, or resume the run that is there.

    The config is prepared (models built, datasets opened, everything wrong refused at once), linted and planned. Then
    every model is asked about the rows of every dataset, and each pair is scored when its rows are stored.

    `dataset` and `model` pick by abbr (patterns work), `limit` bounds the rows of each dataset, `rerun` names outcomes
    whose rows are asked again (`{'failed'}`), `data` supplies rows for datasets whose loader is not ours. Requests that
    were answered before are not sent again. With `keep_going`, datasets and pairs that cannot run are left out and
    reported, and the others run. `overrides` are noted in the manifest: what was changed in the config beforehand.
    Without `force`, errors that the linter finds end the run before anything is sent.
    `costs` has prices of your own for the plan. With a `share`, only the rows of one process among several are asked,
    and nothing is scored: `merge_runs` puts their run directories together. `workers` says in which processes models
    are computed. With `batch`, requests are submitted to the servers' batch endpoints, and `collect_run` fetches what
    they answered; until then, rows that wait are not stored.
    """
    rerun = {rerun} if isinstance(rerun, str) else set(rerun)
    _check_outcomes(rerun)
    listener = progress or NullListener()
    prepared = prepare(config, dataset=dataset, model=model, limit=limit, data=data, keep_going=keep_going, share=share)
    if batch:
        check_batchable(prepared)
        costs = replace(costs or Costs(), batch=True)
    elif not dry_run:
        refuse_while_waiting(prepared, out)
    read_groups(prepared.config)  # what is wrong with them is refused before anything is sent
    for note in dict.fromkeys(filter(None, (one.model_entry.note for one in prepared.pairs))):
        listener.on_message(note)
    findings = tuple(lint_prepared(prepared)) if lint else ()
    errors = tuple(finding for finding in findings if finding.severity == 'error')
    for line in describe_keys(findings):
        listener.on_message(line)
    if not force and not keep_going and not dry_run and (stopping := [one for one in errors if stops_run(one)]):
        raise refuse_run(stopping)
    if dry_run:
        plan = make_plan(prepared, out=out, rerun=rerun, costs=costs)
        listener.on_plan(plan, errors)
        listener.on_end()
        warnings = tuple(finding for finding in findings if finding.severity == 'warning')
        return RunSummary(Path(out), plan, findings=errors, warnings=warnings, dry=True, skipped=prepared.skipped)
    if not keep_going and (workers is None or workers.on != 'ray'):
        refuse_unready(prepared, out=out, rerun=rerun)
    with open_store(out, tell=listener.on_message) as store:
        prices = None if costs is None else replace(costs, ask_vendor=False)
        plan = make_plan(prepared, out=out, rerun=rerun, seconds=_PLANNING_SECONDS, costs=prices)
        listener.on_plan(plan, errors)
        manifest = describe_run(prepared, overrides or {})
        for line in describe_changes(store.last_manifest(), manifest):
            listener.on_message(line)
        store.record_start(manifest, format_config(hide_secrets(prepared.config), style='json'))
        if not batch and has_batches(out):
            with closing(BatchLedger(store.directory)) as ledger:
                ledger.discard_unsubmitted()
        with open_deferrals(store, tell=listener.on_message) if batch else nullcontext() as deferrals:
            run = Run(prepared, store, listener, rerun, workers=workers, deferrals=deferrals)
            try:
                return run_blocking(run.execute(plan, findings))
            finally:
                listener.on_end()


@contextmanager
def open_deferrals(store: Store, *, tell: Callable[[str], None]) -> Iterator[Deferrals]:
    """Where requests are put down for batches."""
    with closing(BatchLedger(store.directory)) as ledger:
        yield Deferrals(ledger, submits=True, tell=tell)


def ask_rows_again(
    config: Mapping[str, Any] | str | Path, *, out: str | Path, dataset: str, model: str, rows: Collection[int]
) -> RunSummary:
    """Ask a model again about some rows of a run that have no answer, and score its dataset anew.

    Other rows are not asked, whether they are finished or not. A dataset that was not scored yet stays so.
    """
    prepared = prepare(config, dataset=glob.escape(dataset), model=glob.escape(model))
    refuse_while_waiting(prepared, out)
    with open_store(out) as store:
        run = Run(prepared, store, NullListener(), _OUTCOMES, rows=frozenset(rows))
        return run_blocking(run.execute(RunPlan(())))


class Run:
    """One run under way: every model is asked about its pairs, and each pair is scored."""

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        listener: RunListener,
        rerun: Collection[str] = (),
        *,
        rows: Collection[int] | None = None,
        workers: Workers | None = None,
        deferrals: Deferrals | None = None,
    ) -> None:
        self._prepared = prepared
        self._store = store
        self._listener = listener
        self._rerun = rerun
        self._rows = rows
        self._workers = workers
        self._deferrals = deferrals
        self._chooser = RowChooser(prepared, store, listener, rerun, rows=rows)
        self._asking: list[Asking] = []
        self._scoring: set[asyncio.Task[None]] = set()
        self._scoring_places = asyncio.Semaphore(_SCORED_AT_ONCE)
        self._compared: list[PairRun] = []
        """Finished pairs whose answers are compared with those of others, which may not be finished."""
        self._broken: dict[str, str] = {}
        self._stopped = False

    async def execute(self, plan: RunPlan, findings: Sequence[Finding] = ()) -> RunSummary:
        """Connect to models and judges, ask and score, submit batches, and close what was opened."""
        began, prepared, listener = time.monotonic(), self._prepared, self._listener
        entries = {pair.model.name: pair.model_entry.entry for pair in prepared.pairs}
        budgets = Budgets(prepared.asked_models)
        path = prepared.config.path if isinstance(prepared.config, Config) else ''
        submitted: list[BatchRecord] = []
        with open_workers(
            self._workers, context=prepared.context, config=str(path), budgets=budgets, tell=listener.on_message
        ) as connect:
            clients = {name: connect(model, entries[name]) for name, model in prepared.models.items()}
            caches = {name: self._open_cache(client, entries[name]) for name, client in clients.items()}
            judges = JudgeClients(
                prepared.judges,
                caches.values(),
                connect=lambda judge: self._open_cache(connect_here(judge.model, judge.entry, budgets), judge.entry),
                rerun=self._rerun,
            )
            scorer = RunScorer(
                prepared, self._store, listener, self._chooser, judges, rescored_only=self._rows is not None
            )
            times = RunTimes(self._store, clients)
            try:
                with stop_on_signal(self.stop), times.tell(listener):
                    await self._ask_and_score(list(caches.values()), scorer)
                if self._deferrals is not None and not self._stopped:
                    submitted += await self._deferrals.submit(prepared, tell=listener.on_message)
            finally:
                times.keep(listener, rows=scorer.outcomes.total(), always=self._workers is not None)
                for client in judges.own:
                    await client.close()
                models = [client.model for client in (*clients.values(), *judges.own)]
                for model in {id(model): model for model in models}.values():
                    await model.close()
        if prepared.share is None:
            await scorer.average()
        return RunSummary(
            self._store.directory,
            plan,
            tuple(scorer.cards),
            scorer.outcomes,
            tuple(finding for finding in findings if finding.severity == 'error'),
            tuple(finding for finding in findings if finding.severity == 'warning'),
            scorer.reasons,
            scorer.remarks,
            {**scorer.broken_judges, **self._broken},
            scorer.unjudged,
            scorer.without_verdict,
            self._stopped,
            seconds=time.monotonic() - began,
            skipped=prepared.skipped,
            submitted=tuple(submitted),
            waiting=sum(pair.deferred for pair in prepared.pairs) + scorer.unjudged_yet,
        )

    def stop(self) -> None:
        """Start nothing more and drop what is under way. What is finished is kept."""
        self._stopped = True
        for asking in self._asking:
            asking.stop()
        for task in tuple(self._scoring):
            task.cancel()

    def _open_cache(self, client: ModelClient, entry: Mapping[str, Any]) -> CachedClient:
        """What answers the requests of a model: the store and the model, or the store and a batch."""
        if self._deferrals is None:
            return CachedClient(client, self._store)
        return self._deferrals.open_cache(client, self._store, entry)

    async def _ask_and_score(self, caches: Sequence[CachedClient], scorer: RunScorer) -> None:
        """Ask models behind servers side by side, models in this process one after the other; then compare models."""
        self._store.broken.add_done_callback(lambda _: self.stop())
        local = [cache for cache in caches if cache.client.model.batch > 1]
        lanes = [[cache] for cache in caches if cache.client.model.batch <= 1] + ([local] if local else [])
        ends = await asyncio.gather(*(self._ask_in_turn(lane, scorer) for lane in lanes), return_exceptions=True)
        for cache in caches:
            await cache.client.close()
        await self._store.wait_until_saved()
        for error in ends:
            if error is not None:
                raise error
        for pair in filter(self._has_opponents, sorted(self._compared, key=self._prepared.pairs.index)):
            if not self._stopped:
                await self._wait_for_scores([self._start_scoring(pair, self._compare(pair, scorer))])

    async def _ask_in_turn(self, caches: Sequence[CachedClient], scorer: RunScorer) -> None:
        """Ask models one after the other. What goes wrong here stops the other models, too."""
        try:
            for cache in caches:
                if not self._stopped:
                    await self._ask_model(cache, scorer)
                await cache.client.close()  # what it holds, the next model may need
        except BaseException:
            self.stop()
            raise

    async def _ask_model(self, cache: CachedClient, scorer: RunScorer) -> None:
        """Ask a model about all its pairs, and score each while the next ones are asked."""
        model = cache.client.model
        pairs = [pair for pair in self._prepared.pairs if pair.model.name == model.name]
        asking = Asking(cache, pairs, store=self._store, choose_rows=self._start_pair, rerun=self._rerun)
        self._asking.append(asking)
        turns = dict(zip(pairs, (asyncio.Event() for _ in pairs), strict=True))
        scoring: list[asyncio.Task[None]] = []
        async with aclosing(asking.rows()) as finished:
            async for pair, rows in finished:
                keep_rows(pair, rows, self._store, self._listener)
                if pair.is_asked:
                    scoring.append(self._start_scoring(pair, self._score(pair, scorer, turns)))
        if asking.broken:
            self._broken[model.name] = asking.broken
            self._listener.on_message(asking.broken)
        for pair in pairs:
            if not pair.is_asked:  # pairs after it need not wait for it
                turns[pair].set()
        await self._wait_for_scores(scoring)

    def _start_pair(self, pair: PairRun) -> Iterator[NumberedRow]:
        client = next(asking.client for asking in self._asking if asking.client.model.name == pair.model.name)
        total = self._chooser.count(pair)
        self._listener.on_pair_start(pair.dataset, pair.model.name, total, lambda: client.activity)
        pair.pair.picking.on_indexing = tell_indexing(pair.dataset, self._listener)
        return self._chooser.choose(pair)

    def _start_scoring(self, pair: PairRun, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work, name=pair.name)
        self._scoring.add(task)
        task.add_done_callback(self._scoring.discard)
        return task

    async def _wait_for_scores(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """Wait for scoring to end. That one is cancelled is right only when everything is: nothing may get lost."""
        if tasks:
            await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.result()
            elif not self._stopped:
                raise RunError(f'{task.get_name()}: its scoring was cancelled, and not by the run.')

    async def _score(self, pair: PairRun, scorer: RunScorer, turns: Mapping[PairRun, asyncio.Event]) -> None:
        """Score a pair that was asked, and tell of it after the pairs before it.

        Answers that are compared wait for those of all models.
        """
        scored = None
        try:
            async with self._scoring_places:
                await self._store.wait_until_saved()
                if self._chooser.is_whole:
                    self._store.drop_rows_from(pair.dataset, pair.model.name, self._chooser.count(pair))
                if pair.comparison is not None and self._prepared.share is None:
                    self._compared.append(pair)
                elif not pair.deferred:
                    scored = await scorer.score(pair)
            for before in takewhile(lambda other: other is not pair, turns):
                await turns[before].wait()
            if scored is not None:
                scorer.report(scored)
        except Exception:
            self.stop()
            raise
        finally:
            turns[pair].set()

    async def _compare(self, pair: PairRun, scorer: RunScorer) -> None:
        """Score a pair whose answers are compared with those of other models."""
        if (scored := await scorer.score(pair)) is not None:
            scorer.report(scored)

    def _has_opponents(self, pair: PairRun) -> bool:
        """Whether no row of the pair, or of a model that it is compared with, waits for a batch."""
        names = [one.name for one in pair.comparison.against(pair.model.name)] if pair.comparison is not None else []
        return not any(other.deferred for other in self._prepared.pairs if other is pair or other.model.name in names)


def _check_outcomes(rerun: Collection[str]) -> None:
    problems = [
        Problem('rerun', f'unknown outcome {outcome!r}.', did_you_mean(outcome, _OUTCOMES))
        for outcome in sorted(rerun)
        if outcome not in _OUTCOMES
    ]
    if problems:
        raise ConfigError(problems)
