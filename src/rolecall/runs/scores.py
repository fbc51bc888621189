"""From the results of a dataset × model to its scores, through the room of scoring."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.errors import ConfigError, MissingExtraError, Problem, RolecallError
from rolecall.pairs.judges import find_judge
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.tasks import Task
from rolecall.prompts.pieces import Row
from rolecall.render.families import meta_template
from rolecall.runs.judge import Judge, Opinion
from rolecall.runs.store.results import Result
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import DatasetScorer, Scorable, ScoredRun, Verdict, build_scorer
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Scores', 'build_scores']

_NO_ANSWER = 'no answer was found in the reply.'


@dataclass(frozen=True, slots=True)
class Scores:
    """How a dataset × model is scored."""

    scorer: DatasetScorer
    judge: Judge | None = None
    alias: str = ''
    """The dataset's other name, where a task file has one."""

    def extract(self, reply: str) -> Any:
        """The answer in a reply; None if there is none."""
        return self.scorer.extract(reply)

    async def of(self, results: Sequence[Result], rows: Iterable[Row]) -> tuple[list[Result], Scorecard]:
        """The results as they were scored, and the score. `rows` are the dataset's, from the first on.

        What keeps these rows from being scored (an evaluator that raises) is the scorecard's `error`: other datasets
        are not concerned.
        """
        values = dict(zip(range(results[-1].row + 1), rows, strict=False))
        scorable = [_scorable(result, values.get(result.row, {})) for result in results]
        ask = self.scorer.needs_judge and self.judge is not None
        try:
            opinions = await self.scorer.ask_judge(scorable) if ask else {}
            scored = await self._score(scorable, opinions)
        except (ScoringError, MissingExtraError) as error:
            return _report_unscored(results, self.scorer, error)
        marked = [
            replace(_mark_result(result, verdict), judged=_describe_opinions(opinions.get(result.row, ())))
            for result, verdict in zip(results, scored.verdicts, strict=True)
        ]
        card = scored.scorecard(results[0].dataset, results[0].model)
        return marked, replace(card, details={**card.details, 'alias': self.alias}) if self.alias else card

    async def _score(self, scorable: Sequence[Scorable], opinions: Mapping[int, Sequence[str | None]]) -> ScoredRun:
        """Score with the judge's replies; where programs have to run first, without holding up the event loop."""
        if self.scorer.metric is not None and self.scorer.metric.prepare is not None:
            return await asyncio.to_thread(self.scorer.score, scorable, opinions=opinions)
        return self.scorer.score(scorable, opinions=opinions)


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
    return Scores(scorer, judge, str(task.entry.get('alias') or ''))


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
    )


def _report_unscored(
    results: Sequence[Result], scorer: DatasetScorer, error: RolecallError
) -> tuple[list[Result], Scorecard]:
    """The results without scores, and the scorecard that says why."""
    plain = [_mark_result(result, Verdict(result.row, outcome=_scorable(result, {}).outcome)) for result in results]
    first = plain[0]
    return plain, Scorecard(
        dataset=first.dataset,
        model=first.model,
        metric=scorer.metric.name if scorer.metric else '',
        value=None,
        total=len(plain),
        outcomes=Counter(result.outcome for result in plain),
        details={'error': f'{first.dataset} × {first.model} could not be scored: {error}'},
    )
