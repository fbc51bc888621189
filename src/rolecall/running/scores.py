"""From the results of a dataset × model to its scores, through the room of scoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rolecall.config.sides import Side
from rolecall.config.tasks import Task
from rolecall.errors import ConfigError, Problem
from rolecall.models.base import Model
from rolecall.prompts.pieces import Row
from rolecall.render.families import meta_template
from rolecall.running.judging import Judge, find_judge
from rolecall.runs.results import Result
from rolecall.scoring.evaluate import Scorable, Scorer, Verdict, build_scorer
from rolecall.scoring.scorecard import Scorecard

__all__ = ['Scores', 'build_scores']

_NO_ANSWER = 'no answer was found in the reply.'


@dataclass(frozen=True, slots=True)
class Scores:
    """How a dataset × model is scored."""

    scorer: Scorer
    judge: Judge | None = None

    def extract(self, reply: str) -> Any:
        """The answer in a reply."""
        answer: Any = reply
        for extract in self.scorer.extract:
            answer = extract(answer)
        return answer

    async def of(self, results: Sequence[Result], rows: Iterable[Row]) -> tuple[list[Result], Scorecard]:
        """The results as they were scored, and the score. `rows` are the dataset's, from the first on."""
        values = dict(zip(range(results[-1].row + 1), rows, strict=False))
        scorable = [_scorable(result, values.get(result.row, {})) for result in results]
        ask = self.scorer.asks and self.judge is not None
        scored = await self.scorer.judged(scorable) if ask else self.scorer.score(scorable)
        marked = [_marked(result, verdict) for result, verdict in zip(results, scored.verdicts, strict=True)]
        return marked, scored.scorecard(results[0].dataset, results[0].model)


def build_scores(task: Task, side: Side, sides: Sequence[Side], models: Mapping[str, Model | None]) -> Scores:
    """The scoring that a dataset's `eval_cfg` describes, for one model."""
    written = task.entry.get('eval_cfg')
    evaluation = dict(written) if isinstance(written, Mapping) else {}
    evaluation.pop('cluster', None)
    own = side.entry.get('pred_postprocessor')
    if isinstance(own, Mapping) and 'type' in own:
        evaluation.setdefault('model_postprocessor', own)
    try:
        judge = find_judge(evaluation.get('evaluator'), sides, models)
        scorer = build_scorer(
            evaluation,
            output_column=task.wording.output_column,
            judge=judge,
            role_marks=_role_marks(side, evaluation.get('pred_role')),
        )
    except ConfigError as error:
        raise ConfigError(map(_in_eval_cfg, error.problems)) from error
    return Scores(scorer, judge)


def _in_eval_cfg(problem: Problem) -> Problem:
    return problem if problem.where.startswith('eval_cfg') else problem.inside('eval_cfg')


def _role_marks(side: Side, role: object) -> Mapping[str, Any] | None:
    """What the model's meta template puts around a role."""
    written = side.entry.get('meta_template')
    meta = meta_template(written) if isinstance(written, str) else written
    rounds = meta.get('round') if isinstance(meta, Mapping) and role is not None else None
    return next((one for one in rounds or () if isinstance(one, Mapping) and one.get('role') == role), None)


def _scorable(result: Result, values: Row) -> Scorable:
    outcome = 'ok' if result.outcome == 'unparsed' else result.outcome
    return Scorable(result.row, outcome, result.prediction, result.gold, values, result.cluster, result.details)


def _marked(result: Result, verdict: Verdict) -> Result:
    reason = result.reason
    if verdict.outcome == 'unparsed':
        reason = reason or _NO_ANSWER
    elif reason == _NO_ANSWER:
        reason = ''
    return replace(
        result,
        outcome=verdict.outcome,
        reason=reason,
        extracted=verdict.extracted,
        score=verdict.score,
        correct=verdict.correct,
    )
