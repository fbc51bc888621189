"""One run of a config, from the plan to the scores. Started again, it resumes."""

from __future__ import annotations

import asyncio
import glob
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.config.files import Config
from rolecall.config.printing import format_config
from rolecall.datasets import Dataset
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.lint.linter import Finding, lint_plan
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair
from rolecall.pairs.tasks import Task
from rolecall.program import fingerprint
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.model_client import ModelClient
from rolecall.runs.engine import Engine, Job, run_blocking
from rolecall.runs.judge import Judge
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.plan import Costs, RunPlan, make_plan
from rolecall.runs.prepare import Prepared, PreparedPair, Share, prepare
from rolecall.runs.remarks import remark_on_stored
from rolecall.runs.row_chooser import RowChooser
from rolecall.runs.store.manifest import describe_run, hide_secrets
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.store.writer import Store, open_store
from rolecall.runs.workers.pool_client import describe_times, find_times
from rolecall.runs.workers.settings import Connect, Workers, connect_here, open_workers
from rolecall.scoring.code import report_progress
from rolecall.scoring.groups import Group, read_groups, summarise_groups
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun

__all__ = ['RunSummary', 'ask_rows_again', 'run_config']

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')
_LINTED_ROWS = 20
_PROGRAMS_SECONDS = 5.0
_PLANNING_SECONDS = 2.0
_INDEXING_SECONDS = 5.0
_REASONS = 20
_LOOKED_AT = 1000


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
    interrupted: bool = False
    dry: bool = False
    seconds: float = 0.0
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out (`keep_going`)."""

    @property
    def exit_code(self) -> int:
        """0 if every row came to something; 130 if interrupted.

        1 if a row failed, a model could not be asked, a judge said nothing, or something was left out.
        """
        if self.interrupted:
            return 130
        unscored = any(card.error for card in self.scorecards)
        return 1 if self.skipped or self.broken or self.unjudged or unscored or self.outcomes.get('failed') else 0


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
    are computed.
    """
    rerun = {rerun} if isinstance(rerun, str) else set(rerun)
    _check_outcomes(rerun)
    listener = progress or NullListener()
    prepared = prepare(config, dataset=dataset, model=model, limit=limit, data=data, keep_going=keep_going, share=share)
    groups = read_groups(prepared.config)
    for note in dict.fromkeys(filter(None, (one.model_entry.note for one in prepared.pairs))):
        listener.on_message(note)
    found = tuple(_lint(prepared)) if lint else ()
    findings = tuple(one for one in found if one.severity == 'error')
    warnings = tuple(one for one in found if one.severity == 'warning')
    for line in _describe_keys(found):
        listener.on_message(line)
    if not force and not keep_going and not dry_run and (errors := [one for one in findings if _stops(one)]):
        raise ConfigError([*map(_as_problem, errors), Problem('lint', *_how_to_go_on(len(errors)))])
    if dry_run:
        plan = make_plan(prepared, out=out, rerun=rerun, costs=costs)
        listener.on_plan(plan, findings)
        listener.on_end()
        return RunSummary(Path(out), plan, findings=findings, warnings=warnings, dry=True, skipped=prepared.skipped)
    with open_store(out) as store:
        prices = None if costs is None else replace(costs, ask_vendor=False)
        plan = make_plan(prepared, out=out, rerun=rerun, seconds=_PLANNING_SECONDS, costs=prices)
        listener.on_plan(plan, findings)
        store.record_start(
            _describe(prepared, overrides or {}), format_config(hide_secrets(prepared.config), style='json')
        )
        run = _Run(prepared, store, listener, rerun, workers=workers)
        began = time.monotonic()
        try:
            run_blocking(run.ask_and_score())
            if share is None:
                run.average(groups)
        finally:
            listener.on_end()
        return run.summarise(plan, findings, warnings, seconds=time.monotonic() - began)


def ask_rows_again(
    config: Mapping[str, Any] | str | Path, *, out: str | Path, dataset: str, model: str, rows: Collection[int]
) -> RunSummary:
    """Ask a model again about some rows of a run that have no answer, and score its dataset anew.

    Other rows are not asked, whether they are finished or not. A dataset that was not scored yet stays so.
    """
    prepared = prepare(config, dataset=glob.escape(dataset), model=glob.escape(model))
    with open_store(out) as store:
        run = _Run(prepared, store, NullListener(), _OUTCOMES, rows=frozenset(rows))
        began = time.monotonic()
        run_blocking(run.ask_and_score())
        run.average(read_groups(prepared.config))
        return run.summarise(RunPlan(()), (), (), seconds=time.monotonic() - began)


class _Run:
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
    ) -> None:
        self._prepared = prepared
        self._workers = workers
        self._store = store
        self._listener = listener
        self._rerun = rerun
        self._rows = rows
        """The rows to ask about; None for all."""
        self._pairs = {(one.dataset, one.model.name): one for one in prepared.pairs}
        self._outcomes: Counter[str] = Counter()
        self._cards: list[Scorecard] = []
        self._remarks: list[str] = []
        self._reasons: Counter[str] = Counter()
        self._broken_judges: dict[str, str] = {}
        self._unjudged = 0
        self._scored_before = (
            {(card.dataset, card.model) for card in _read_scorecards(store)} if rows is not None else set()
        )
        self._chooser = RowChooser(prepared, store, listener, rerun, rows=rows)
        for one in prepared.pairs:
            one.pair.picking.on_indexing = _tell_indexing(one.dataset, listener)
        self.engine = Engine(store, rerun=rerun, listener=listener, done=self._score_pair)

    async def ask_and_score(self) -> None:
        """Connect to the models and judges, ask about all rows, and close what was opened."""
        path = self._prepared.config.path if isinstance(self._prepared.config, Config) else ''
        with open_workers(self._workers, guards=self._prepared.guards, config=str(path)) as connect:
            await self._ask_through(connect)

    async def _ask_through(self, connect: Connect) -> None:
        entries = {one.model.name: one.model_entry.entry for one in self._prepared.pairs}
        clients = {name: connect(model, entries[name]) for name, model in self._prepared.models.items()}
        judges = self._connect_judges(clients)
        jobs = [self._make_job(one, clients[one.model.name]) for one in self._prepared.pairs]
        began, computed = time.monotonic(), time.process_time()
        try:
            with _stop_on_signal(self.engine):
                await self.engine.run(jobs)
        finally:
            self._note_times(clients, time.monotonic() - began, time.process_time() - computed)
            for client in judges:
                await client.close()
            models = (*(client.model for client in clients.values()), *(client.model for client in judges))
            for model in {id(model): model for model in models}.values():
                await model.close()

    def _note_times(self, clients: Mapping[str, ModelClient], seconds: float, computed: float) -> None:
        """Store where time went, if models were computed elsewhere; the listener hears of it."""
        found = {name: times for name, client in clients.items() if (times := find_times(client))}
        if not found or self._store.failure is not None:
            return
        for name, times in found.items():
            self._store.add_times(name, times)
            for line in describe_times(times):
                self._listener.on_message(f'{name} on {line}')
        writing = self._store.seconds_writing
        own = f'{writing:.1f} s writing, {max(0.0, computed - writing):.1f} s reading, wording and scoring'
        self._listener.on_message(f'this process: {seconds:.1f} s, of them {own}')

    def summarise(
        self, plan: RunPlan, findings: tuple[Finding, ...], warnings: tuple[Finding, ...], *, seconds: float
    ) -> RunSummary:
        """What the run came to."""
        return RunSummary(
            self._store.directory,
            plan,
            tuple(self._cards),
            self._outcomes,
            findings,
            warnings,
            self._reasons,
            tuple(self._remarks),
            {**self._broken_judges, **self.engine.broken},
            self._unjudged,
            self.engine.stopped,
            seconds=seconds,
            skipped=self._prepared.skipped,
        )

    def _connect_judges(self, clients: Mapping[str, ModelClient]) -> list[ModelClient]:
        """Give every judge a client: that of the run, where its model is one of the run's."""
        own: dict[str, ModelClient] = {}
        for judge in (one.scores.judge for one in self._prepared.pairs):
            if judge is None:
                continue
            client = next((client for client in clients.values() if client.model is judge.model), None)
            key = fingerprint('', model=dict(judge.model.identity))
            client = client or own.setdefault(key, connect_here(judge.model, judge.entry))
            judge.client, judge.rerun = CachedClient(client, self._store), self._rerun
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

    async def _score_pair(self, job: Job) -> None:
        """Score a dataset × model that is finished."""
        if self._prepared.share is not None:  # the rows of one process among several: scores take all
            self._outcomes.update(self._store.count_outcomes(job.dataset, job.model))
            return
        if self._rows is not None and (job.dataset, job.model) not in self._scored_before:
            return
        one = self._pairs[job.dataset, job.model]
        store, scores = self._store, one.scores
        report_progress.set(_throttle(f'{job.dataset} × {job.model}', self._listener))
        _, scoring = store.recipe(job.dataset, job.model)
        marked = scores.digest is not None and scoring == scores.digest
        card = await scores.score_stored(store, job.dataset, job.model, one.pair.data.test, marked=marked)
        card = self._note_unjudged(card, scores.judge)
        await store.wait_until_saved()
        store.record_scores(card.columns)
        asking = self._chooser.digest(one)
        store.record_recipe(job.dataset, job.model, asking=asking, scoring=scores.digest)
        self._outcomes.update(store.count_outcomes(job.dataset, job.model))
        self._cards += card.columns
        self._remarks += remark_on_stored(store.results(job.dataset, job.model), card)
        if card.outcomes.get('failed'):
            first = islice(store.results(job.dataset, job.model), _LOOKED_AT)
            self._reasons.update(result.reason for result in first if result.outcome == 'failed')
        for message in (*((card.error,) if card.error else ()), *card.warnings()):
            self._listener.on_message(message)
        self._listener.on_scores(job.dataset, job.model, card.columns)

    def average(self, groups: Sequence[Group]) -> None:
        """Score the config's groups of datasets, for every model. Datasets that were not run now keep their scores."""
        own = {(card.dataset, card.model) for card in self._cards}
        models = {card.model for card in self._cards}
        others = [
            card
            for card in (_read_scorecards(self._store) if groups else ())
            if not card.members and card.model in models and (card.dataset, card.model) not in own
        ]
        cards = summarise_groups(groups, [*self._cards, *others])
        self._store.record_scores(cards, [])
        self._cards += cards
        for card in cards:
            self._listener.on_scores(card.dataset, card.model, [card])

    def _note_unjudged(self, card: Scorecard, judge: Judge | None) -> Scorecard:
        """The scorecard with the answers that have no verdict, and why. The listener hears of them."""
        if judge is None or not judge.failures:
            return card
        count = judge.failures.total()
        self._unjudged += count
        if judge.broken is not None:
            self._broken_judges[judge.model.name] = judge.broken
        [(why, _), *others] = judge.failures.most_common()
        more = f' (and {count_noun(len(others), "other reason")})' if others else ''
        what = f'{count_noun(count, "answer")} not judged: {why}{more}'
        self._listener.on_message(f'{card.dataset} × {card.model}: {what}')
        unjudged = {'model': judge.model.name, 'reasons': dict(judge.failures.most_common(_REASONS))}
        return replace(card, details={**card.details, 'not_judged': unjudged})


def _read_scorecards(store: Store) -> list[Scorecard]:
    with RunReader(store.directory) as reader:
        return reader.scorecards()


def _describe(prepared: Prepared, overrides: Mapping[str, Any]) -> dict[str, Any]:
    models = {name: hide_secrets(dict(model.identity)) for name, model in prepared.models.items()}
    pairs = [
        {
            'dataset': one.dataset,
            'model': one.model.name,
            'template': fingerprint(format_config(hide_secrets(one.pair.task.entry['infer_cfg']), style='json')),
        }
        for one in prepared.pairs
    ]
    return describe_run(models, pairs, overrides)


def _lint(prepared: Prepared) -> Iterator[Finding]:
    """What the linter finds on the pairs that the run is about to ask."""
    pairs = {(one.pair.task.where, one.model_entry.where): one.pair for one in prepared.pairs}
    datasets = {one.pair.task.where: one.pair.data for one in prepared.pairs}

    def find_pair(task: Task, model_entry: ModelEntry | None, data: Dataset) -> Pair:
        known = None if model_entry is None else pairs.get((task.where, model_entry.where))
        return known or Pair(task, model_entry, data)

    found = lint_plan(
        prepared.config,
        prepared.plan,
        prepared.picked,
        open_task=lambda task: datasets[task.where],
        build_pair=find_pair,
        limit=_LINTED_ROWS,
    )
    asked = {f'{one.dataset} × {one.model.name}' for one in prepared.pairs}
    # A pair that was left out is reported already.
    return (one for one in found if ' × ' not in one.where or one.where in asked)


def _stops(finding: Finding) -> bool:
    """Whether an error concerns the whole dataset. A few rows that fail are outcomes of those rows."""
    return not (finding.rule == 'row-fails' and finding.count < finding.seen)


def _as_problem(finding: Finding) -> Problem:
    return Problem(f'{finding.where} ({finding.rule})', finding.message, finding.remedy)


def _how_to_go_on(count: int) -> tuple[str, str]:
    what = f'{count_noun(count, "error")} found before the run; nothing was sent.'
    return what, 'Correct the config, or run it as it is with --force (force=True).'


def _describe_keys(findings: Sequence[Finding]) -> Iterator[str]:
    """Keys without effect: each slip, and those of other systems together."""
    for finding in findings:
        if finding.rule == 'unknown-key':
            meant = finding.remedy.partition('?')[0] if finding.remedy.startswith('Did') else ''
            yield f'{finding.where}: {finding.message}{f" {meant}?" if meant else ""}'
    if foreign := [one for one in findings if one.rule == 'foreign-key']:
        keys = dict.fromkeys(key for one in foreign for key in one.message.partition(': ')[2].rstrip('.').split(', '))
        yield f'keys of OpenCompass or AISBench without effect here: {", ".join(keys)}.'


def _check_outcomes(rerun: Collection[str]) -> None:
    problems = [
        Problem('rerun', f'unknown outcome {outcome!r}.', did_you_mean(outcome, _OUTCOMES))
        for outcome in sorted(rerun)
        if outcome not in _OUTCOMES
    ]
    if problems:
        raise ConfigError(problems)


@contextmanager
def _stop_on_signal(engine: Engine) -> Iterator[None]:
    """Ctrl-C stops the engine cleanly; a second one stops the process."""
    loop = asyncio.get_running_loop()
    ours = threading.current_thread() is threading.main_thread()

    def stop(number: int) -> None:
        loop.remove_signal_handler(number)
        engine.stop()

    signals = [signal.SIGINT, signal.SIGTERM] if ours else []
    handled = []
    for number in signals:
        try:
            loop.add_signal_handler(number, stop, number)
        except NotImplementedError:  # Windows: Ctrl-C arrives as KeyboardInterrupt
            continue
        handled.append(number)
    try:
        yield
    finally:
        for number in handled:
            loop.remove_signal_handler(number)


def _tell_indexing(dataset: str, listener: RunListener) -> Callable[[int, int], None]:
    """Report how many examples a retriever has indexed, every few seconds."""
    told = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal told
        if time.monotonic() - told > _INDEXING_SECONDS:
            told = time.monotonic()
            listener.on_message(f'{dataset}: {done:,} of {total:,} examples indexed')

    return tell


def _throttle(pair: str, listener: RunListener) -> Callable[[int, int], None]:
    """Report how many programs of a dataset × model have run, every few seconds; called from another thread."""
    loop, reported = asyncio.get_running_loop(), time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal reported
        if time.monotonic() - reported > _PROGRAMS_SECONDS:
            reported = time.monotonic()
            loop.call_soon_threadsafe(listener.on_message, f'{pair}: {done:,} of {total:,} programs run')

    return report
