"""From the results of a dataset × model to its scores, through the room of scoring."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from rolecall.datasets.rows import Rows
from rolecall.errors import ConfigError, MissingExtraError, Problem, RolecallError
from rolecall.pairs.judges import find_judge
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.tasks import Task
from rolecall.prompts.pieces import Row
from rolecall.render.families import meta_template
from rolecall.runs.judge import Judge, Opinion
from rolecall.runs.recipes import digest_scoring
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import DatasetScorer, Scorable, Verdict, build_scorer
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.session import ScoringSession

__all__ = ['Scores', 'build_scores']

_NO_ANSWER = 'no answer was found in the reply.'
_CHUNK, _MANY = 1000, 10_000
"""Rows that are scored together; many where programs run side by side."""
_FEW = 20
"""Rows are looked up one by one if fewer than one in so many is needed, otherwise all are read in order."""
_TRIED, _QUICK = 20, 0.005
"""Rows after which it is known, and seconds a row below which, marking is quick enough to be done while others wait."""


@dataclass(frozen=True, slots=True)
class Scores:
    """How a dataset × model is scored."""

    scorer: DatasetScorer
    judge: Judge | None = None
    alias: str = ''
    """The dataset's other name, where a task file has one."""
    digest: str | None = None
    """What the verdicts depend on; None if that cannot be told."""

    def extract(self, reply: str) -> Any:
        """The answer in a reply; None if there is none."""
        return self.scorer.extract(reply)

    def start_marking(self) -> Callable[[Sequence[Result], Sequence[Row]], Sequence[Result]]:
        """A function that adds verdicts to rows as they finish, as long as that is quick.

        Rows it leaves alone are marked by `score_stored`. Metrics that need a judge, other rows or other processes are
        left to that, too.
        """
        session = self.scorer.start(adds_up=False)
        seconds, marked = 0.0, 0

        def mark(results: Sequence[Result], rows: Sequence[Row]) -> Sequence[Result]:
            nonlocal seconds, marked
            if marked > _TRIED and seconds / marked > _QUICK:
                return results
            began = time.thread_time()  # others may keep this process waiting
            try:
                verdicts = session.add(list(map(_scorable, results, rows)))
            except (ScoringError, MissingExtraError):  # reported when the rows are scored
                return results
            seconds, marked = seconds + time.thread_time() - began, marked + len(results)
            return list(map(_mark_result, results, verdicts))

        return mark if self.digest is not None and session.is_plain else lambda results, rows: results

    async def score_stored(self, store: Store, dataset: str, model: str, rows: Rows, *, marked: bool) -> Scorecard:
        """The score of the stored rows of a dataset × model, `rows` being the dataset's. Changed rows are stored.

        `marked`: all of them were marked this way as they finished, so that settled rows need not be marked again.
        What keeps rows from being scored (an evaluator that raises) is the scorecard's `error`: other datasets are not
        concerned.
        """
        session = self.scorer.start()
        try:
            if marked and session.is_plain:
                await self._add_marks(session, store, dataset, model, rows)
            else:
                values = _find_in_order(rows)
                stored = store.results(dataset, model)
                many = self.scorer.metric is not None and self.scorer.metric.prepare is not None
                while chunk := list(islice(stored, _MANY if many else _CHUNK)):
                    await _store_rows(store, _find_changed(chunk, await self._mark(session, chunk, values)))
            scored = session.finish()
        except (ScoringError, MissingExtraError) as error:
            return await _report_unscored(store, dataset, model, self.scorer, error)
        verdicts = iter(scored.verdicts)  # of a metric that had to see all rows first
        stored = store.results(dataset, model) if scored.verdicts else iter(())
        while chunk := list(islice(stored, _CHUNK)):
            await _store_rows(store, _find_changed(chunk, [_mark_result(one, next(verdicts)) for one in chunk]))
        card = scored.scorecard(dataset, model)
        return replace(card, details={**card.details, 'alias': self.alias}) if self.alias else card

    async def _add_marks(self, session: ScoringSession, store: Store, dataset: str, model: str, rows: Rows) -> None:
        """Add settled rows by their stored marks, and mark the others."""
        few = store.count_unsettled(dataset, model) * _FEW < len(rows)
        values = (lambda number: rows[number] if number < len(rows) else {}) if few else _find_in_order(rows)
        changed: list[Result] = []
        for count, one in enumerate(store.marks(dataset, model)):
            if isinstance(one, Result):
                changed += _find_changed([one], await self._mark(session, [one], values))
            else:
                score, correct = one
                session.add_settled(score, None if correct is None else bool(correct))
            if count % _CHUNK == 0 or len(changed) >= _CHUNK:
                await _store_rows(store, changed)
                changed = []
        await _store_rows(store, changed)

    async def _mark(
        self, session: ScoringSession, results: Sequence[Result], values: Callable[[int], Row]
    ) -> list[Result]:
        """The rows with their marks, which take the judge's replies where it is needed."""
        scorable = [_scorable(result, values(result.row)) for result in results]
        ask = self.scorer.needs_judge and self.judge is not None
        opinions = await self.scorer.ask_judge(scorable) if ask else {}
        if self.scorer.metric is not None and self.scorer.metric.prepare is not None:  # programs have to run first
            verdicts = await asyncio.to_thread(session.add, scorable, opinions=opinions)
        else:
            verdicts = session.add(scorable, opinions=opinions)
        whole = self.scorer.metric is not None and self.scorer.metric.whole is not None  # marked when all were seen
        return [
            replace(
                result if whole else _mark_result(result, verdict),
                judged=_describe_opinions(opinions.get(result.row, ())),
            )
            for result, verdict in zip(results, verdicts, strict=True)
        ]


def _find_in_order(rows: Rows) -> Callable[[int], Row]:
    """Finds rows by number, each further on than the one before."""
    numbered = enumerate(rows)

    def find(number: int) -> Row:
        return next((row for place, row in numbered if place == number), {})

    return find


def _find_changed(before: Sequence[Result], after: Sequence[Result]) -> list[Result]:
    return [new for old, new in zip(before, after, strict=True) if new != old or new.settled != old.settled]


async def _store_rows(store: Store, changed: Sequence[Result]) -> None:
    if changed:
        await store.wait_until_saved()
        store.update_rows(changed)
    await asyncio.sleep(0)


def _describe_opinions(opinions: Sequence[str | None]) -> tuple[Mapping[str, str] | None, ...]:
    """What is stored of a judge's replies: nothing if none was asked for."""
    found = [
        {'fingerprint': one.fingerprint, 'reply': str(one)} if isinstance(one, Opinion) else None for one in opinions
    ]
    return tuple(found) if any(found) else ()


def build_scores(task: Task, model_entry: ModelEntry, model_entries: Sequence[ModelEntry]) -> Scores:
    """The scoring that a dataset's `eval_cfg` describes, for one model."""
    written = task.entry.get('eval_cfg')
    if written is not None and not isinstance(written, Mapping):
        named = f'eval_cfg=dict(evaluator={written!r})' if isinstance(written, str) else "eval_cfg=dict(evaluator='…')"
        raise ConfigError(Problem('eval_cfg', f'expected a dict, got {written!r:.60}.', f'Write {named}.'))
    evaluation = {key: value for key, value in (written or {}).items() if key != 'cluster'}
    own = model_entry.entry.get('pred_postprocessor')
    if isinstance(own, Mapping) and 'type' in own:
        evaluation.setdefault('model_postprocessor', own)
    try:
        judge_entry = find_judge(task, model_entries)
        judge = None if judge_entry is None else Judge(judge_entry, judge_entry.model_entry.model)
        scorer = build_scorer(
            evaluation,
            output_column=task.wording.output_column,
            judge=judge,
            turns=task.inferencer.asks_every_turn,
            role_marks=_role_marks(model_entry, evaluation.get('pred_role')),
        )
    except ConfigError as error:
        raise ConfigError(map(_in_eval_cfg, error.problems)) from error
    return Scores(scorer, judge, str(task.entry.get('alias') or ''), digest_scoring(task, model_entry))


def _in_eval_cfg(problem: Problem) -> Problem:
    return problem if problem.where.startswith('eval_cfg') else problem.inside('eval_cfg')


def _role_marks(model_entry: ModelEntry, role: object) -> Mapping[str, Any] | None:
    """What the model's meta template puts around a role."""
    written = model_entry.entry.get('meta_template')
    meta = meta_template(written) if isinstance(written, str) else written
    rounds = meta.get('round') if isinstance(meta, Mapping) and role is not None else None
    return next((one for one in rounds or () if isinstance(one, Mapping) and one.get('role') == role), None)


def _scorable(result: Result, values: Row) -> Scorable:
    unmarked = result.outcome == 'failed' and result.prediction is not None  # the evaluator failed, not the model
    outcome = 'ok' if result.outcome == 'unparsed' or unmarked else result.outcome
    return Scorable(result.row, outcome, result.prediction, result.gold, values, result.cluster, result.details)


def _mark_result(result: Result, verdict: Verdict) -> Result:
    read = verdict.outcome in ('ok', 'unparsed')
    nothing = _NO_ANSWER if verdict.outcome == 'unparsed' else ''
    return replace(
        result,
        outcome=verdict.outcome,
        reason=(verdict.reason or nothing) if read else verdict.reason or result.reason,
        extracted=verdict.extracted,
        score=verdict.score,
        correct=verdict.correct,
        settled=verdict.settled,
    )


async def _report_unscored(
    store: Store, dataset: str, model: str, scorer: DatasetScorer, error: RolecallError
) -> Scorecard:
    """Take the scores off the stored rows; the scorecard that says why there are none."""
    outcomes: Counter[str] = Counter()
    stored = store.results(dataset, model)
    while chunk := list(islice(stored, _CHUNK)):
        plain = [_mark_result(result, Verdict(result.row, outcome=_scorable(result, {}).outcome)) for result in chunk]
        outcomes.update(result.outcome for result in plain)
        await _store_rows(store, _find_changed(chunk, plain))
    return Scorecard(
        dataset=dataset,
        model=model,
        metric=scorer.metric.name if scorer.metric else '',
        value=None,
        total=outcomes.total(),
        outcomes=outcomes,
        details={'error': f'{dataset} × {model} could not be scored: {error}'},
    )
