"""One run of a config, from the plan to the scores. Started again, it goes on where it was."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections import Counter
from collections.abc import Collection, Coroutine, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from rolecall.config.printing import format_config
from rolecall.errors import ConfigError, Problem, RenderError, RunError, did_you_mean
from rolecall.lint.linter import Finding, lint_config
from rolecall.models.base import Model
from rolecall.program import fingerprint
from rolecall.prompts.pieces import Row
from rolecall.retrievers import Picked
from rolecall.runs.client.cache import CachedClient
from rolecall.runs.client.client_options import read_limits, read_retry_policy
from rolecall.runs.client.model_client import ModelClient, build_client
from rolecall.runs.engine import Engine, Job
from rolecall.runs.judge import Judge
from rolecall.runs.listener import NullListener, RunListener
from rolecall.runs.plan import RunPlan
from rolecall.runs.planning import known_requests, plan_of
from rolecall.runs.prepare import Readied, Ready, make_ready
from rolecall.runs.store.manifest import describe_run, hide_secrets
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import Scorecard

__all__ = ['RunSummary', 'run_config']

_OUTCOMES = ('failed', 'too_long', 'filtered', 'thinking_exhausted', 'unparsed')
_LINTED_ROWS = 20
_PLANNING_SECONDS = 2.0
_REASONS = 20
T = TypeVar('T')


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
    broken: Mapping[str, str] = field(default_factory=dict)
    """Models, judges among them, that could not be asked to the end, with why."""
    unjudged: int = 0
    """Answers on which a judge was asked and said nothing."""
    interrupted: bool = False
    dry: bool = False
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 if every row came to something; 130 if interrupted.

        1 if a row failed, a model could not be asked, or a judge said nothing.
        """
        if self.interrupted:
            return 130
        unscored = any(card.error for card in self.scorecards)
        return 1 if self.broken or self.unjudged or unscored or self.outcomes.get('failed') else 0


def run_config(
    config: Mapping[str, Any] | str | Path,
    *,
    out: str | Path,
    limit: int | None = None,
    dataset: str | None = None,
    model: str | None = None,
    rerun: Collection[str] = (),
    dry_run: bool = False,
    progress: RunListener | None = None,
    data: Mapping[str, str] | None = None,
    lint: bool = True,
) -> RunSummary:
    """Run a config in a directory, or go on with the run that is there.

    `dataset` and `model` pick by abbr (patterns work), `limit` bounds the rows of each dataset, `rerun` names outcomes
    whose rows are asked again (`{'failed'}`), `data` supplies rows for datasets whose loader is not ours. Everything
    that is known from before is not asked again.
    """
    rerun = {rerun} if isinstance(rerun, str) else set(rerun)
    _check_outcomes(rerun)
    listener = progress or NullListener()
    readied = make_ready(config, dataset=dataset, model=model, limit=limit, data=data)
    findings = tuple(_errors(config, dataset, model, data)) if lint else ()
    if dry_run:
        with known_requests(out) as known:
            plan = plan_of(readied, known=known, rerun=rerun)
        listener.on_plan(plan, findings)
        listener.on_end()
        return RunSummary(Path(out), plan, findings=findings, dry=True)
    with closing(Store(out)) as store:
        with known_requests(out) as known:
            plan = plan_of(readied, known=known, rerun=rerun, seconds=_PLANNING_SECONDS)
        listener.on_plan(plan, findings)
        store.record_start(_manifest(readied), format_config(hide_secrets(readied.config), style='json'))
        run = _Run(readied, store, listener, rerun)
        began = time.monotonic()
        try:
            _in_a_loop(run.main())
        finally:
            listener.on_end()
        return RunSummary(
            Path(out),
            plan,
            tuple(run.cards),
            run.outcomes,
            findings,
            {**run.broken_judges, **run.engine.broken},
            run.unjudged,
            run.engine.stopped,
            seconds=time.monotonic() - began,
        )


class _Run:
    """What one run has at hand while it goes on."""

    def __init__(self, readied: Readied, store: Store, listener: RunListener, rerun: Collection[str]) -> None:
        self._readied = readied
        self._store = store
        self._listener = listener
        self._rerun = rerun
        self._ready = {(ready.dataset, ready.model.name): ready for ready in readied.pairs}
        self.outcomes: Counter[str] = Counter()
        self.cards: list[Scorecard] = []
        self.broken_judges: dict[str, str] = {}
        self.unjudged = 0
        self.engine = Engine(store, rerun=rerun, listener=listener, done=self._score)

    async def main(self) -> None:
        entries = {ready.model.name: ready.model_entry.entry for ready in self._readied.pairs}
        clients = {name: _client(model, entries[name]) for name, model in self._readied.models.items()}
        judges = self._seat_judges(clients)
        try:
            with _stopped_by_signal(self.engine):
                await self.engine.run([self._job(ready, clients[ready.model.name]) for ready in self._readied.pairs])
        finally:
            for client in judges:
                await client.close()
            for who in {id(one): one for one in (*self._readied.models.values(), *(j.model for j in judges))}.values():
                await who.close()

    def _seat_judges(self, clients: Mapping[str, ModelClient]) -> list[ModelClient]:
        """Give every judge its way to its model: that of the run, where the model is one of the run's."""
        own: dict[str, ModelClient] = {}
        for judge in (ready.scores.judge for ready in self._readied.pairs):
            if judge is None:
                continue
            client = next((client for client in clients.values() if client.model is judge.model), None)
            key = fingerprint('', model=dict(judge.model.identity))
            client = client or own.setdefault(key, _client(judge.model, judge.entry))
            judge.client, judge.rerun = CachedClient(client, self._store), self._rerun
        return list(own.values())

    def _job(self, ready: Ready, client: ModelClient) -> Job:
        total = len(ready.pair.data.test)
        limit = self._readied.limit
        return Job(
            dataset=ready.dataset,
            client=client,
            words=ready,
            inferencer=ready.inferencer,
            rows=partial(_rows_as_shown, ready, limit),
            gold=ready.gold,
            cluster=ready.cluster,
            total=total if limit is None else min(total, limit),
        )

    async def _score(self, job: Job) -> None:
        """Score a dataset × model that is finished."""
        results = list(self._store.results(job.dataset, job.model))
        ready = self._ready[job.dataset, job.model]
        if results:
            scored, card = await ready.scores.of(results, ready.pair.data.test)
        else:
            scored, card = [], ready.scores.scorer.score([], opinions={}).scorecard(job.dataset, job.model)
        card = self._with_silences(card, ready.scores.judge)
        await self._store.wait_until_saved()
        self._store.record_scores([card], [new for old, new in zip(results, scored, strict=True) if new != old])
        self.outcomes.update(result.outcome for result in scored)
        self.cards.append(card)
        if card.error:
            self._listener.on_message(card.error)
        self._listener.on_scores(job.dataset, job.model, [card])

    def _with_silences(self, card: Scorecard, judge: Judge | None) -> Scorecard:
        """The score with what its judge did not say, and why; that is told, too."""
        if judge is None or not judge.silences:
            return card
        count = judge.silences.total()
        self.unjudged += count
        if judge.broken is not None:
            self.broken_judges[judge.model.name] = judge.broken
        [(why, _), *others] = judge.silences.most_common()
        more = f' (and {len(others)} other reasons)' if others else ''
        self._listener.on_message(f'{card.dataset} × {card.model}: {count:,} answers were not judged: {why}{more}')
        silences = {'model': judge.model.name, 'reasons': dict(judge.silences.most_common(_REASONS))}
        return replace(card, details={**card.details, 'not_judged': silences})


def _rows_as_shown(ready: Ready, limit: int | None) -> Iterator[tuple[int, Row, Picked]]:
    """The rows of a pair. Now and then one is held against its preview: what is sent is what is shown."""
    for number, row, picked in ready.pair.rows(limit):
        if number & (number - 1) == 0:
            _hold_against_preview(ready, number, row, picked)
        yield number, row, picked


def _hold_against_preview(ready: Ready, number: int, row: Row, picked: Picked) -> None:
    replies: list[str] = []
    try:
        shown = [fingerprint(one.request or '') for one in ready.pair.previews(number, row, picked, replies=replies)]
        if ready.pair.task.inferencer.kind == 'dialogue':
            dialogue = ready.dialogue(picked)
            turns = dialogue.asked(row)
            said = [f'answer{turn + 1}' for turn in range(max(turns))]
            sent = [fingerprint(dialogue(row, turn, said[:turn])) for turn in turns]
        else:
            sent = [fingerprint(request) for _, request in ready.requests(row, picked)]
    except RenderError:
        return  # the row will fail, and say so
    if shown != sent:
        raise RunError(
            f'{ready.dataset} × {ready.model.name}, row {number}: what would be sent is not what is shown.\n'
            'This is an error in rolecall; nothing more is sent. Please report it with the config.'
        )


def _client(model: Model, entry: Mapping[str, Any]) -> ModelClient:
    return build_client(model, limits=read_limits(entry), retry_policy=read_retry_policy(entry))


def _manifest(readied: Readied) -> dict[str, Any]:
    models = {name: hide_secrets(dict(model.identity)) for name, model in readied.models.items()}
    pairs = [
        {
            'dataset': ready.dataset,
            'model': ready.model.name,
            'template': fingerprint(format_config(hide_secrets(ready.pair.task.entry['infer_cfg']), style='json')),
        }
        for ready in readied.pairs
    ]
    return describe_run(models, pairs)


def _errors(
    config: Mapping[str, Any] | str | Path, dataset: str | None, model: str | None, data: Mapping[str, str] | None
) -> Iterator[Finding]:
    given = {'*': dict(data)} if data else None
    for finding in lint_config(config, dataset=dataset, model=model, limit=_LINTED_ROWS, data=given):
        if finding.severity == 'error':
            yield finding


def _check_outcomes(rerun: Collection[str]) -> None:
    problems = [
        Problem('rerun', f'there is no outcome {outcome!r} to run again.', did_you_mean(outcome, _OUTCOMES))
        for outcome in sorted(rerun)
        if outcome not in _OUTCOMES
    ]
    if problems:
        raise ConfigError(problems)


@contextmanager
def _stopped_by_signal(engine: Engine) -> Iterator[None]:
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


def _in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run the work to its end; in a thread of its own where a loop is running already (a notebook)."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    came: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            came.append(asyncio.run(work))
        except BaseException as error:  # handed on to the caller below
            failed.append(error)

    thread = threading.Thread(target=run, name='rolecall-run')
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return came[0]
