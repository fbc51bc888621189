"""One run of a config, from the plan to the scores. Started again, it resumes."""

from __future__ import annotations

import asyncio
import glob
import math
import time
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, nullcontext
from dataclasses import replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rolecall.errors import ConfigError, Problem, RunError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.lint import Finding
from rolecall.experiment.opening.loading import SourceLike
from rolecall.registry import load_object
from rolecall.runs.batches.ledger_reader import has_batches, refuse_while_waiting
from rolecall.runs.brake import Brake, stop_on_signal
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.client_options import Budgets
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.engine import Engine, NumberedRow, run_blocking
from rolecall.runs.judge import JudgeClients
from rolecall.runs.listener import NullListener, RunListener, RunTimes, tell_indexing
from rolecall.runs.pair_checks import describe_keys, lint_prepared, refuse_run, stops_run
from rolecall.runs.pair_rows import RowChooser, keep_rows
from rolecall.runs.pair_run import PairRun, PreparedRun
from rolecall.runs.plan import RunPlan, RunSummary
from rolecall.runs.planning import make_plan, refuse_unready
from rolecall.runs.prepare import prepare
from rolecall.runs.receipts import count_probes, probe_servers
from rolecall.runs.run_options import OUTCOMES, RunOptions
from rolecall.runs.run_scorer import RunScorer, ScoredPair
from rolecall.runs.stopping import Goal, Watch, size_round
from rolecall.runs.store.writer import Store, open_store
from rolecall.runs.versions import (
    describe_changes,
    describe_other_parts,
    describe_run,
    hide_secrets,
    is_seal_due,
    make_seal,
    read_pairs,
    refuse_other_rows,
)
from rolecall.runs.workers.connections import connect_here, open_workers
from rolecall.scoring.groups import read_groups
from rolecall.sources.config.files import Config
from rolecall.sources.config.printing import format_config

if TYPE_CHECKING:
    from rolecall.runs.batches.ledger import BatchRecord
    from rolecall.runs.batches.pending import PendingRequests

_BATCHES = 'rolecall.runs.batches.pending'
_PLANNING_SECONDS = 2.0
_SCORED_AT_ONCE = 8
"""Pairs of all models that are scored side by side; judges' limits hold for all of them together."""


def run_config(
    config: Experiment | SourceLike,
    options: RunOptions | None = None,
    *,
    progress: RunListener | None = None,
    **changes: Any,
) -> RunSummary:
    """Run a config in a directory, or resume the run that is there. `changes` are further options by name (`limit=20`).

    The config is prepared (models built, datasets opened, everything wrong refused at once), linted and planned. Then
    every model is asked about the rows of every dataset, and each pair is scored when its rows are stored. Requests
    that were answered before are not sent again.
    """
    options = replace(options or RunOptions(force=True), **changes)
    listener = progress or NullListener()
    prepared = prepare(config, options)
    probes = count_probes(prepared) if options.dry_run else probe_servers(prepared, listener)
    findings = _check(prepared, listener)
    if options.dry_run:
        plan = replace(make_plan(prepared), probes=probes)
        listener.on_plan(plan, [finding for finding in findings if finding.severity == 'error'])
        listener.on_end()
        return RunSummary.of(prepared, plan, findings, dry=True)
    with open_store(_directory(options), tell=listener.on_message) as store:
        plan = replace(make_plan(prepared, seconds=_PLANNING_SECONDS), probes=probes)
        listener.on_plan(plan, [finding for finding in findings if finding.severity == 'error'])
        manifest = describe_run(prepared)
        refuse_other_rows(before := read_pairs(store.directory), manifest['pairs'])
        if options.seal is not None and is_seal_due(options.seal, before, store.directory):
            manifest['seal'] = make_seal(manifest, options.seal)
        notes = describe_changes(store.last_manifest(), manifest) if options.rows is None else []
        for line in (*notes, *describe_other_parts(before, manifest['pairs'])):
            listener.on_message(line)
        config = {**prepared.experiment.config, 'models': [model.entry for model in prepared.experiment.all_models]}
        store.record_start(manifest, format_config(hide_secrets(config), style='json'))
        if options.until is not None:
            listener.on_message(f'rows are asked in random order (seed {options.sample_seed}), until {options.until}.')
        batched: AbstractContextManager[PendingRequests | None] = nullcontext()
        if options.batch or has_batches(store.directory):
            batched = load_object(f'{_BATCHES}:open_pending')(store, prepared, tell=listener.on_message)
        with batched as pending:
            try:
                return run_blocking(Run(prepared, store, listener, pending=pending).execute(plan, findings))
            finally:
                listener.on_end()


def _check(prepared: PreparedRun, listener: RunListener) -> tuple[Finding, ...]:
    """Refuse what should not be sent, and tell what the linter and the models' entries say about the rest."""
    options = prepared.options
    if options.batch:
        load_object(f'{_BATCHES}:check_batchable')(prepared)
    elif not options.dry_run:
        refuse_while_waiting(prepared, _directory(options))
    read_groups(prepared.experiment.config)
    for note in dict.fromkeys(filter(None, (pair.model_entry.note for pair in prepared.pairs))):
        listener.on_message(note)
    findings = tuple(lint_prepared(prepared)) if options.lint else ()
    for line in describe_keys(findings):
        listener.on_message(line)
    if options.dry_run or options.keep_going:
        return findings
    errors = [finding for finding in findings if finding.severity == 'error' and stops_run(finding)]
    if errors and not options.force:
        raise refuse_run(errors)
    if options.workers is None or options.workers.on != 'ray':
        refuse_unready(prepared)
    return findings


def _directory(options: RunOptions) -> Path:
    if options.out is None:
        raise ConfigError(Problem('out', 'the run directory is missing.', "Write out='runs/first'."))
    return Path(options.out)


def ask_rows_again(
    config: SourceLike, *, out: str | Path, dataset: str, model: str, rows: Collection[int]
) -> RunSummary:
    """Ask a model again about some rows of a run that have no answer, and score its dataset anew.

    Other rows are not asked, whether they are finished or not. A dataset that was not scored yet stays so.
    """
    options = RunOptions(out=out, dataset=glob.escape(dataset), model=glob.escape(model), rerun=OUTCOMES)
    prepared = prepare(config, options)
    refuse_while_waiting(prepared, out)
    with open_store(out) as store:
        return run_blocking(Run(prepared, store, NullListener(), rows=frozenset(rows)).execute())


class Run:
    """One run under way: every model is asked about its pairs, and each pair is scored."""

    def __init__(
        self,
        prepared: PreparedRun,
        store: Store,
        listener: RunListener,
        *,
        rows: Collection[int] | None = None,
        pending: PendingRequests | None = None,
    ) -> None:
        """`rows`: only these are asked; `pending`: where requests wait for a batch instead of being sent."""
        self._prepared = prepared
        self._options = prepared.options
        self._store = store
        self._listener = listener
        self._rows = rows
        self._pending = pending
        self._chooser = RowChooser(prepared, store, listener, rows=rows)
        self._engines: list[Engine] = []
        self._scoring: set[asyncio.Task[None]] = set()
        self._scoring_places = asyncio.Semaphore(_SCORED_AT_ONCE)
        self._compared: list[PairRun] = []
        """Finished pairs whose answers are compared with those of others, which may not be finished."""
        self._broken: dict[str, str] = {}
        self._stopped = False
        self._brake = Brake(prepared, store.directory, tell=listener.on_message)
        draw, goal = prepared.draw, prepared.options.until
        self._watch = None if draw is None or goal is None else Watch(Goal.read(goal), [*prepared.models], draw.totals)
        """What says that enough rows were asked about; None if all are."""
        self._held_back: dict[PairRun, ScoredPair] = {}
        """Scores of a run that stops when it knows enough: they are told when it has stopped."""

    async def execute(self, plan: RunPlan | None = None, findings: Sequence[Finding] = ()) -> RunSummary:
        """Connect to models and judges, ask and score, submit batches, and close what was opened."""
        began, prepared, listener = time.monotonic(), self._prepared, self._listener
        entries = {pair.model.name: pair.model_entry.entry for pair in prepared.pairs}
        budgets = Budgets(prepared.asked_models)
        path = prepared.experiment.config.path if isinstance(prepared.experiment.config, Config) else ''
        submitted: list[BatchRecord] = []
        with open_workers(
            self._options.workers, context=prepared.context, config=str(path), budgets=budgets, tell=listener.on_message
        ) as connect:
            clients = {name: connect(model, entries[name]) for name, model in prepared.models.items()}
            if self._options.times:
                for model in prepared.models.values():
                    if hasattr(model, 'allow_streams'):
                        model.allow_streams()
            caches = {name: self._open_cache(client, entries[name]) for name, client in clients.items()}
            judges = JudgeClients(
                prepared.judges,
                caches.values(),
                connect=lambda judge: self._open_cache(connect_here(judge.model, judge.entry, budgets), judge.entry),
                rerun=self._options.rerun,
            )
            scorer = RunScorer(
                prepared, self._store, listener, self._chooser, judges, rescored_only=self._rows is not None
            )
            times = RunTimes(self._store, clients)
            for client in (*clients.values(), *judges.own):
                self._brake.watch(client)
            try:
                with stop_on_signal(self.stop), times.tell(listener), self._brake.keep_looking():
                    for _ in self._rounds():
                        await self._ask_and_score(list(caches.values()), scorer)
                    await self._tell_scores(scorer)
                if self._pending is not None and not self._stopped:
                    submitted += await self._pending.submit(prepared, tell=listener.on_message)
            finally:
                times.keep(listener, rows=scorer.outcomes.total(), always=self._options.workers is not None)
                for client in judges.own:
                    await client.close()
                models = [client.model for client in (*clients.values(), *judges.own)]
                for model in {id(model): model for model in models}.values():
                    await model.close()
        if self._options.share is None:
            await scorer.score_groups()
        return RunSummary.of(
            prepared,
            plan or RunPlan(()),
            findings,
            scorecards=tuple(scorer.cards),
            outcomes=scorer.outcomes,
            reasons=scorer.reasons,
            reply_warnings=scorer.reply_warnings,
            broken={**scorer.broken_judges, **self._broken},
            unjudged=scorer.unjudged,
            without_verdict=scorer.without_verdict,
            interrupted=self._stopped,
            ended=self._describe_end(),
            cost=self._brake.cost,
            tokens=self._brake.tokens,
            seconds=time.monotonic() - began,
            submitted=tuple(submitted),
            waiting=sum(pair.pending for pair in prepared.pairs) + scorer.unjudged_yet,
        )

    def stop(self) -> None:
        """Start nothing more and drop what is under way. What is finished is kept."""
        self._stopped = True
        for engine in self._engines:
            engine.stop()
        for task in tuple(self._scoring):
            task.cancel()

    def _describe_end(self) -> str:
        """What ended the run, a cap or a model that was let go of, and how much was measured; empty if nothing did."""
        pairs = self._prepared.pairs
        stored = sum(self._store.count_outcomes(pair.dataset, pair.model.name).total() for pair in pairs)
        share = stored / max(sum(map(self._chooser.count, pairs)), 1)
        reason = self._brake.reason or (self._brake.dropped if share < 1 else '')
        return reason and f'{100 * share:.3g} % measured: {reason}'

    def _rounds(self) -> Iterator[None]:
        """One round for all rows; several, each about further rows, until the scores of a goal say enough."""
        draw, watch = self._prepared.draw, self._watch
        if draw is None or watch is None:
            yield
            return
        end, to_go = 0, math.inf
        while end < draw.size and to_go:
            draw.begin, end = end, min(draw.size, end + size_round(end, to_go))
            draw.end = end
            yield
            watch.add_round(
                self._store.result(pair.dataset, pair.model.name, number)
                for pair in self._prepared.pairs
                for number in draw.numbers(pair.dataset)
            )
            watch.check([card for scored in self._held_back.values() for card in scored.cards[:1]])
            to_go = 0 if self._stopped or self._brake.reason or self._broken else watch.rows_to_go()

    async def _report(self, scored: ScoredPair, scorer: RunScorer) -> None:
        """Tell of the scores of a pair, or keep them until the run has asked enough."""
        if self._watch is None:
            await scorer.report(scored)
        else:
            self._held_back[scored.pair] = scored

    async def _tell_scores(self, scorer: RunScorer) -> None:
        """Store and tell the scores of a run that has stopped by itself, with intervals that hold in spite of it."""
        if self._watch is None or self._stopped:
            return
        for scored in sorted(self._held_back.values(), key=lambda scored: self._prepared.pairs.index(scored.pair)):
            scored = scored._replace(cards=[self._watch.note(card) for card in scored.cards])
            scorer.record(scored)
            await scorer.report(scored)
        if self._held_back:
            self._listener.on_message(self._watch.describe())

    def _open_cache(self, client: ModelClient, entry: Mapping[str, Any]) -> CachedClient:
        """What answers the requests of a model: the store and the model, or the store and a batch."""
        if self._pending is None:
            return CachedClient(client, self._store)
        return self._pending.open_cache(client, self._store, entry)

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
        engine = Engine(
            cache,
            pairs,
            store=self._store,
            choose_rows=partial(self._start_pair, cache.client),
            rerun=self._options.rerun,
            brake=self._brake,
        )
        self._engines.append(engine)
        turns = dict(zip(pairs, (asyncio.Event() for _ in pairs), strict=True))
        scoring: list[asyncio.Task[None]] = []
        async with aclosing(engine.rows()) as finished:
            async for pair, rows in finished:
                keep_rows(pair, rows, self._store, self._listener)
                if pair.is_asked:
                    scoring.append(self._start_scoring(pair, self._score(pair, scorer, turns)))
        if engine.broken:
            self._broken[model.name] = engine.broken
            self._listener.on_message(engine.broken)
        for pair in pairs:
            if not pair.is_asked:  # pairs after it need not wait for it
                turns[pair].set()
        await self._wait_for_scores(scoring)

    def _start_pair(self, client: ModelClient, pair: PairRun) -> Iterator[NumberedRow]:
        """The rows of a pair that have to be asked, with a word to the listener."""
        draw = self._prepared.draw
        if self._watch is None or draw is None or draw.begin == 0:
            total = self._chooser.count(pair) if self._watch is None else len(pair.compiled.data.test)
            self._listener.on_pair_start(pair.dataset, pair.model.name, total, lambda: client.activity)
        pair.compiled.picker.on_indexing = tell_indexing(pair.dataset, self._listener)
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
            await self._store.wait_until_saved(pair.dataset, pair.model.name)
            async with self._scoring_places:
                if self._chooser.is_whole:
                    self._store.drop_rows_from(pair.dataset, pair.model.name, self._chooser.count(pair))
                if pair.comparison is not None and self._options.share is None:
                    self._compared.append(pair)
                elif not pair.pending:
                    scored = await scorer.score(pair)
            for before in takewhile(lambda other: other is not pair, turns):
                await turns[before].wait()
            if scored is not None:
                scorer.record(scored)
                turns[pair].set()
                await self._report(scored, scorer)
        except Exception:
            self.stop()
            raise
        finally:
            turns[pair].set()

    async def _compare(self, pair: PairRun, scorer: RunScorer) -> None:
        """Score a pair whose answers are compared with those of other models."""
        if (scored := await scorer.score(pair)) is not None:
            scorer.record(scored)
            await self._report(scored, scorer)

    def _has_opponents(self, pair: PairRun) -> bool:
        """Whether no row of the pair, or of a model that it is compared with, waits for a batch."""
        opponents = pair.comparison.against(pair.model.name) if pair.comparison is not None else ()
        names = [opponent.name for opponent in opponents]
        return not any(other.pending for other in self._prepared.pairs if other is pair or other.model.name in names)
