"""One run of a config, from the plan to the scores. Started again, it resumes."""

from __future__ import annotations

import glob
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.experiment.lint import Finding
from rolecall.runs.batches.deferring import Deferrals
from rolecall.runs.batches.ledger import BatchLedger, BatchRecord
from rolecall.runs.batches.ledger_reader import has_batches
from rolecall.runs.batches.readiness import check_batchable, refuse_while_waiting
from rolecall.runs.client.budgets import Budgets
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.engine import Engine, run_blocking
from rolecall.runs.job import Job
from rolecall.runs.lint_gate import describe_keys, lint_prepared, refuse_run, stops_run
from rolecall.runs.listener import NullListener, RunListener, tell_indexing
from rolecall.runs.plan import make_plan, refuse_unready
from rolecall.runs.prepare import prepare
from rolecall.runs.prepared import Prepared, PreparedPair, Share
from rolecall.runs.row_chooser import RowChooser
from rolecall.runs.run_plan import Costs, RunPlan
from rolecall.runs.run_scorer import RunScorer
from rolecall.runs.run_times import RunTimes
from rolecall.runs.signals import stop_on_signal
from rolecall.runs.store.manifest import describe_run, hide_secrets
from rolecall.runs.store.writer import Store, open_store
from rolecall.runs.workers.settings import Connect, Workers, connect_here, open_workers
from rolecall.scoring.groups import read_groups
from rolecall.scoring.scorecard import Scorecard
from rolecall.sources.config.files import Config
from rolecall.sources.config.printing import format_config
from rolecall.sources.datasets.digest import checksum_rows

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')
_PLANNING_SECONDS = 2.0


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
    groups = read_groups(prepared.config)
    for note in dict.fromkeys(filter(None, (one.model_entry.note for one in prepared.pairs))):
        listener.on_message(note)
    found = tuple(lint_prepared(prepared)) if lint else ()
    findings = tuple(one for one in found if one.severity == 'error')
    warnings = tuple(one for one in found if one.severity == 'warning')
    for line in describe_keys(found):
        listener.on_message(line)
    if not force and not keep_going and not dry_run and (errors := [one for one in findings if stops_run(one)]):
        raise refuse_run(errors)
    if dry_run:
        plan = make_plan(prepared, out=out, rerun=rerun, costs=costs)
        listener.on_plan(plan, findings)
        listener.on_end()
        return RunSummary(Path(out), plan, findings=findings, warnings=warnings, dry=True, skipped=prepared.skipped)
    if not keep_going and (workers is None or workers.on != 'ray'):
        refuse_unready(prepared, out=out, rerun=rerun)
    with open_store(out) as store:
        prices = None if costs is None else replace(costs, ask_vendor=False)
        plan = make_plan(prepared, out=out, rerun=rerun, seconds=_PLANNING_SECONDS, costs=prices)
        listener.on_plan(plan, findings)
        manifest = _describe(prepared, overrides or {})
        before = store.last_manifest()
        for line in (*_describe_changed_rows(before, manifest), *_describe_other_models(before, manifest)):
            listener.on_message(line)
        store.record_start(manifest, format_config(hide_secrets(prepared.config), style='json'))
        if not batch and has_batches(out):
            with closing(BatchLedger(store.directory)) as ledger:
                ledger.discard_unsubmitted()
        with open_deferrals(store, tell=listener.on_message) if batch else nullcontext() as deferrals:
            run = Run(prepared, store, listener, rerun, workers=workers, deferrals=deferrals)
            began = time.monotonic()
            try:
                run_blocking(run.ask_and_score())
                if share is None:
                    run.scorer.average(groups)
            finally:
                listener.on_end()
            return run.summarise(plan, findings, warnings, seconds=time.monotonic() - began)


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
        began = time.monotonic()
        run_blocking(run.ask_and_score())
        run.scorer.average(read_groups(prepared.config))
        return run.summarise(RunPlan(()), (), (), seconds=time.monotonic() - began)


class Run:
    """One run under way: every pair is asked about its rows, then scored."""

    def __init__(
        self,
        prepared: Prepared,
        store: Store,
        listener: RunListener,
        rerun: Collection[str],
        *,
        rows: Collection[int] | None = None,
        workers: Workers | None = None,
        deferrals: Deferrals | None = None,
    ) -> None:
        self._prepared = prepared
        self._deferrals = deferrals
        self._submitted: list[BatchRecord] = []
        self._workers = workers
        self._store = store
        self._listener = listener
        self._rerun = rerun
        self._pairs = {(one.dataset, one.model.name): one for one in prepared.pairs}
        self._compared: list[Job] = []
        """Finished pairs whose answers are compared with those of others, which may not be finished."""
        self._chooser = RowChooser(prepared, store, listener, rerun, rows=rows)
        self.scorer = RunScorer(prepared, store, listener, self._chooser, rescored_only=rows is not None)
        for one in prepared.pairs:
            one.pair.picking.on_indexing = tell_indexing(one.dataset, listener)
        entries = {one.model.name: one.model_entry.entry for one in prepared.pairs}
        self.engine = Engine(
            store,
            rerun=rerun,
            listener=listener,
            done=self._finish_job,
            done_later=self.scorer.score_pair,
            open_cache=lambda client, dataset: self._open_cache(client, entries[client.model.name], dataset),
        )

    def _open_cache(self, client: ModelClient, entry: Mapping[str, Any], dataset: str) -> CachedClient:
        """What answers the requests of a model: the store and the model, or the store and a batch."""
        if self._deferrals is None:
            return CachedClient(client, self._store)
        return self._deferrals.open_cache(client, self._store, entry, dataset)

    async def ask_and_score(self) -> None:
        """Connect to the models and judges, ask about all rows, and close what was opened."""
        path = self._prepared.config.path if isinstance(self._prepared.config, Config) else ''
        guards, budgets = self._prepared.guards, self._find_budgets()
        tell = self._listener.on_message
        with open_workers(self._workers, guards=guards, config=str(path), budgets=budgets, tell=tell) as connect:
            await self._ask_through(connect, budgets)

    def _find_budgets(self) -> Budgets:
        """What models of one server share, judges included."""
        pairs = self._prepared.pairs
        models = {id(one.model): (one.model, one.model_entry.entry) for one in pairs}
        judges = [judge for one in pairs for judge in one.scores.judges]
        asked = {fingerprint('', model=dict(judge.model.identity)): (judge.model, judge.entry) for judge in judges}
        others = [one for one in asked.values() if id(one[0]) not in models]
        return Budgets([*models.values(), *others])

    async def _ask_through(self, connect: Connect, budgets: Budgets) -> None:
        entries = {one.model.name: one.model_entry.entry for one in self._prepared.pairs}
        clients = {name: connect(model, entries[name]) for name, model in self._prepared.models.items()}
        judges = self._connect_judges(clients, budgets)
        jobs = [self._make_job(one, clients[one.model.name]) for one in self._prepared.pairs]
        times = RunTimes(self._store, clients)
        try:
            with stop_on_signal(self.engine.stop), times.tell(self._listener):
                await self.engine.run(jobs)
                await self.engine.conclude_later(list(filter(self._has_rivals, self._compared)))
            if self._deferrals is not None and not self.engine.stopped:
                self._submitted += await self._deferrals.submit(self._prepared, tell=self._listener.on_message)
        finally:
            times.keep(self._listener, rows=self.scorer.outcomes.total(), always=self._workers is not None)
            for client in judges:
                await client.close()
            models = (*(client.model for client in clients.values()), *(client.model for client in judges))
            for model in {id(model): model for model in models}.values():
                await model.close()

    def summarise(
        self, plan: RunPlan, findings: tuple[Finding, ...], warnings: tuple[Finding, ...], *, seconds: float
    ) -> RunSummary:
        """What the run came to."""
        scorer = self.scorer
        return RunSummary(
            self._store.directory,
            plan,
            tuple(scorer.cards),
            scorer.outcomes,
            findings,
            warnings,
            scorer.reasons,
            tuple(scorer.remarks),
            {**scorer.broken_judges, **self.engine.broken},
            scorer.unjudged,
            scorer.without_verdict,
            self.engine.stopped,
            seconds=seconds,
            skipped=self._prepared.skipped,
            submitted=tuple(self._submitted),
            waiting=self.engine.deferred.total() + scorer.unjudged_yet,
        )

    def _connect_judges(self, clients: Mapping[str, ModelClient], budgets: Budgets) -> list[ModelClient]:
        """Give every judge a client: that of the run, where its model is one of the run's."""
        own: dict[str, ModelClient] = {}
        counted: set[int] = set()
        for judge in (judge for one in self._prepared.pairs for judge in one.scores.judges):
            client = next((client for client in clients.values() if client.model is judge.model), None)
            key = fingerprint('', model=dict(judge.model.identity))
            client = client or own.setdefault(key, connect_here(judge.model, judge.entry, budgets))
            judge.client, judge.rerun = self._open_cache(client, judge.entry, ''), self._rerun
            judge.counted = counted
        return list(own.values())

    def _make_job(self, one: PreparedPair, client: ModelClient) -> Job:
        return Job(
            dataset=one.dataset,
            client=client,
            pair=one.pair,
            inferencer=one.inferencer,
            rows=partial(self._chooser.choose, one),
            gold=one.gold,
            cluster=one.cluster,
            mark=one.scores.start_marking(),
            total=self._chooser.count(one),
            is_whole=self._chooser.is_whole,
        )

    async def _finish_job(self, job: Job) -> None:
        """Score a dataset × model that is finished. Answers that are compared wait for those of all models."""
        if self._pairs[job.dataset, job.model].scores.comparison is not None and self._prepared.share is None:
            self._compared.append(job)
        else:
            await self.scorer.score_pair(job)

    def _has_rivals(self, job: Job) -> bool:
        """Whether no row of a model that this one is compared with waits for a batch."""
        comparison = self._pairs[job.dataset, job.model].scores.comparison
        opponents = comparison.against(job.model) if comparison is not None else ()
        return not any(self.engine.deferred[one.name] for one in opponents)


def _describe(prepared: Prepared, overrides: Mapping[str, Any]) -> dict[str, Any]:
    models = {name: hide_secrets(dict(model.identity)) for name, model in prepared.models.items()}
    named = prepared.pairs if prepared.config.get('benchmarks') else ()
    checksums = {name: checksum_rows(rows) for name, rows in {one.dataset: one.pair.data.test for one in named}.items()}
    pairs = [
        {
            'dataset': one.dataset,
            'model': one.model.name,
            'template': fingerprint(format_config(hide_secrets(one.pair.task.entry['infer_cfg']), style='json')),
            **({'rows': rows} if (rows := checksums.get(one.dataset)) else {}),
            **({'path': path} if isinstance(path := one.pair.task.entry.get('path'), str) else {}),
        }
        for one in prepared.pairs
    ]
    return describe_run(models, pairs, overrides)


def _describe_changed_rows(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Datasets that are read from another file, or benchmarks with other rows, than when this run began."""
    known = {one.get('dataset'): one for one in before.get('pairs') or () if isinstance(one, dict)}
    told: dict[str, str] = {}
    for one in now['pairs']:
        name, was = one['dataset'], known.get(one['dataset'], one)
        if was.get('path', one.get('path')) != one.get('path'):
            told[name] = (
                f'{name}: this run began with the rows of {was["path"]}; those of {one.get("path")} replace them.'
            )
        elif was.get('rows', one.get('rows')) != one.get('rows'):
            told[name] = f'{name}: its rows have changed since this run began; those that changed are asked again.'
    return list(told.values())


def _describe_other_models(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Models whose results stay in this directory, where a new one joins them."""
    known = {str(one.get('model')) for one in before.get('pairs') or () if isinstance(one, dict)}
    asked = {str(one['model']) for one in now['pairs']}
    if known >= asked or known <= asked:
        return []
    names = ', '.join(sorted(known - asked))
    return [f'This directory has results of {names}, too; they stay beside the new ones. --out DIR keeps runs apart.']


def _check_outcomes(rerun: Collection[str]) -> None:
    problems = [
        Problem('rerun', f'unknown outcome {outcome!r}.', did_you_mean(outcome, _OUTCOMES))
        for outcome in sorted(rerun)
        if outcome not in _OUTCOMES
    ]
    if problems:
        raise ConfigError(problems)
