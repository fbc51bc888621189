"""From the rows of one dataset × model to a number: extract, mark, count, and say how sure the number is.

Every row ends in one outcome. A reply in which a postprocessor finds nothing is `unparsed` and counts as an empty
answer, which is wrong, unless `unparsed='exclude'`; a row that never got a reply is left out of the denominator, unless
`failures='wrong'`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.errors import ConfigError, Problem, RenderError, RolecallError, did_you_mean
from rolecall.models.base import ModelError, Outcome
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.base import Answer, Mark, Metric
from rolecall.scoring.metrics.judging import Judge, judge_values
from rolecall.scoring.metrics.several import turns as by_turns
from rolecall.scoring.postprocess.freeform import extract_role
from rolecall.scoring.postprocessors import Extract, read_postprocessor
from rolecall.scoring.reading import Read, Reader, Scorable
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.summary import Marked, Summary, summarise
from rolecall.scoring.usercode import NoOpinionError, ScoringError, blaming

__all__ = ['Scorable', 'ScoredRun', 'Scorer', 'Verdict', 'build_scorer']

Policy = Literal['exclude', 'wrong']
Opinions = Mapping[int, Sequence[str | None]]

_POLICIES: tuple[Policy, ...] = ('exclude', 'wrong')
_EXTRACTING = ('model_postprocessor', 'pred_postprocessor')
_EVALUATORS_OWN = 'evaluator.pred_postprocessor'
_OF_THE_RUN = ('pred_role', 'num_gpus', 'sc_size', 'ds_split', 'dump_details', 'cal_extract_rate')
_KEYS = ('evaluator', *_EXTRACTING, 'dataset_postprocessor', 'ds_column', 'k', 'failures', 'unparsed', *_OF_THE_RUN)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one row is worth. A row without a score is not in the denominator."""

    row: int
    extracted: Any = None
    score: float | None = None
    correct: bool | None = None
    outcome: Outcome = 'ok'
    gold: Any = None
    """The gold answer after its postprocessor."""
    reason: str = ''
    """What a postprocessor raised, or why a judge's words say nothing."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The verdicts, and the number they make.

    `outcomes` adds up to `total`; `scored` and `details['excluded']` do, too.
    """

    verdicts: tuple[Verdict, ...]
    metric: str
    value: float | None
    low: float | None
    high: float | None
    scored: int
    total: int
    outcomes: Mapping[str, int]
    details: Mapping[str, Any]

    def scorecard(self, dataset: str, model: str) -> Scorecard:
        """The numbers under the names of their dataset and model."""
        return Scorecard(
            dataset=dataset,
            model=model,
            metric=self.metric,
            value=self.value,
            low=self.low,
            high=self.high,
            scored=self.scored,
            total=self.total,
            outcomes=self.outcomes,
            details=self.details,
        )


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the rows of one dataset × model. `score` is pure; where a judge is needed, `judged` asks it first."""

    metric: Metric | None = None
    reader: Reader = field(default_factory=Reader)
    judge: Judge | None = None
    failures: Policy = 'exclude'
    unparsed: Policy = 'wrong'
    k: tuple[int, ...] = ()

    @property
    def asks(self) -> bool:
        """Whether a judge has to be asked."""
        return self.metric is not None and self.metric.asks is not None

    def score(self, rows: Sequence[Scorable], *, opinions: Opinions | None = None) -> ScoredRun:
        """Every row's verdict and the number. `opinions` are a judge's words, by row and sample.

        >>> scorer = build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': 'first-capital'})
        >>> run = scorer.score([Scorable(0, 'ok', 'B.', 'B'), Scorable(1, 'ok', 'c', 'C'), Scorable(2, 'failed', None)])
        >>> run.value, run.scored, run.total, dict(run.outcomes)
        (50.0, 2, 3, {'ok': 1, 'unparsed': 1, 'failed': 1})
        """
        if self.asks and opinions is None:
            return _from_the_start(self, rows)
        read = [self.reader.read(row) for row in rows]
        judged = [self._marks(one, (opinions or {}).get(one.row.row, ())) for one in read]
        _refuse_if_nothing_was_readable(read, judged)
        summary = self._summary(read, [marks for marks, _ in judged])
        reasons = [one.reason or reason for one, (_, reason) in zip(read, judged, strict=True)]
        return ScoredRun(
            verdicts=tuple(map(_verdict, read, summary.marks, reasons)),
            metric=summary.metric,
            value=summary.value,
            low=summary.low,
            high=summary.high,
            scored=sum(summary.counted),
            total=len(read),
            outcomes=Counter(one.outcome for one in read),
            details=self._details(read, summary),
        )

    async def judged(self, rows: Sequence[Scorable]) -> ScoredRun:
        """Ask the judge about every row that needs it, side by side, and score."""
        return self.score(rows, opinions=await self.opinions(rows))

    async def opinions(self, rows: Sequence[Scorable]) -> Opinions:
        """What the judge says, by row and sample; None where it was not or could not be asked."""
        read = [one for one in map(self.reader.read, rows) if one.outcome == 'ok']
        said = await asyncio.gather(*(self._opinion(answer) for one in read for answer in one.answers))
        words = iter(said)
        return {one.row.row: [next(words) for _ in one.answers] for one in read}

    async def _opinion(self, answer: Answer) -> str | None:
        if self.metric is None or self.metric.asks is None or self.judge is None:
            return None
        with blaming(_who(self.metric)):
            needed = self.metric.asks(answer)
        if not needed:
            return None
        try:
            words = self.judge(judge_values(answer))
            return await words if inspect.isawaitable(words) else words
        except (ModelError, RenderError):
            return None

    def extracted(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty text if there is none."""
        return self.reader.extracted(prediction)

    def _marks(self, read: Read, opinions: Sequence[str | None]) -> tuple[tuple[Mark, ...], str]:
        """The marks of a row's answers, none if the row stays out of the denominator; and why, where that is known."""
        metric = self.metric
        if metric is None or self._lacks_gold(read):
            return (), ''
        if read.outcome != 'ok':
            policy = self.unparsed if read.outcome == 'unparsed' else self.failures
            counts = policy == 'wrong' and not metric.lower_is_better
            return (_empty_handed(metric, read) if counts else ()), ''
        if metric.whole is not None:
            return (Mark(0.0),) * len(read.answers), ''
        heard = [*opinions, *([None] * len(read.answers))]
        marks: list[Mark | None] = []
        reason = ''
        for answer, words in zip(read.answers, heard, strict=False):
            try:
                marks.append(_mark(metric, replace(answer, opinion=words), read))
            except NoOpinionError as error:
                marks.append(None)
                reason = reason or str(error)
        if metric.by_turn and None in marks:
            return (), reason  # the other turns are not the dialogue
        return tuple(mark for mark in marks if mark is not None), reason

    def _summary(self, read: Sequence[Read], marks: Sequence[tuple[Mark, ...]]) -> Summary:
        if self.metric is None:
            return Summary(tuple(() for _ in read), tuple(False for _ in read))
        rows = [
            Marked(one.row.cluster, one.answers, given, answered=one.outcome == 'ok')
            for one, given in zip(read, marks, strict=True)
        ]
        with blaming(_who(self.metric)):
            return summarise(self.metric, rows, k=self.k)

    def _details(self, read: Sequence[Read], summary: Summary) -> dict[str, Any]:
        judged = zip(read, summary.marks, summary.counted, strict=True)
        left_out = Counter(self._why_left_out(one, given) for one, given, counted in judged if not counted)
        policies = {'failures': self.failures, 'unparsed': self.unparsed}
        groups = {'groups': _groups(self.metric.group, read)} if self.metric and self.metric.group else {}
        return {**summary.details, **groups, 'excluded': dict(left_out), 'policies': policies}

    def _why_left_out(self, read: Read, marks: tuple[Mark, ...]) -> str:
        if marks:
            return 'incomplete_group'
        if read.outcome != 'ok':
            return read.outcome
        return 'without_gold' if self._lacks_gold(read) or not read.answers else 'unmarked'

    def _lacks_gold(self, read: Read) -> bool:
        return self.metric is not None and self.metric.needs_gold and read.gold is None


def build_scorer(
    eval_cfg: Mapping[str, Any] | None,
    *,
    output_column: str | None = None,
    judge: Judge | None = None,
    turns: bool = False,
    role_marks: Mapping[str, Any] | None = None,
) -> Scorer:
    """The scorer that a dataset's `eval_cfg` describes; every problem of it in one ConfigError.

    `output_column` holds the gold answer where a row brings none. `judge` is asked by evaluators that need one. With
    `turns`, a list of predictions is one of turns, each with its own gold answer; otherwise it is one of samples.
    `role_marks` is the meta template's entry for `pred_role`; its `begin` and `end` are taken off the reply.

    >>> build_scorer({'evaluator': {'type': 'AccEvalutor'}})
    Traceback (most recent call last):
    rolecall.errors.ConfigError: evaluator
      the evaluator 'AccEvalutor' is not known here.
      Did you mean 'AccEvaluator'? A Python function works too, as evaluator.
    """
    config = eval_cfg or {}
    problems = [
        Problem(str(key), f'eval_cfg has no key {key!r}.', did_you_mean(key, _KEYS))
        for key in config
        if key not in _KEYS
    ]
    parts = {key: config[key] for key in (*_EXTRACTING, 'dataset_postprocessor') if config.get(key)}
    evaluator = config.get('evaluator')
    if isinstance(evaluator, Mapping) and evaluator.get('pred_postprocessor') is not None:
        parts[_EVALUATORS_OWN] = evaluator['pred_postprocessor']
        evaluator = {key: value for key, value in evaluator.items() if key != 'pred_postprocessor'}
    if evaluator is not None:
        parts['evaluator'] = evaluator
    read: dict[str, Any] = {}
    for key, entry in parts.items():
        try:
            read[key] = (read_evaluator if key == 'evaluator' else read_postprocessor)(entry, where=key)
        except ConfigError as error:
            problems += error.problems
    metric: Metric | None = read.get('evaluator')
    if metric is not None and turns:
        try:
            metric = by_turns(metric)
        except ConfigError as error:
            problems += error.problems
    if metric is not None and metric.by_turn and config.get('k') is not None:
        problems.append(Problem('k', 'it counts samples of one answer, and a dialogue has turns.', 'Leave k out.'))
    if metric is not None and metric.asks is not None and judge is None:
        problems.append(
            Problem(
                'evaluator', 'it asks a judge, and no judge is configured.', "Name a model: judge_cfg=dict(type='…')."
            )
        )
    for key in ('failures', 'unparsed'):
        if config.get(key) not in (None, *_POLICIES):
            problems.append(Problem(key, f'got {config[key]!r}.', did_you_mean(config[key], _POLICIES)))
    counts, bad_k = _whole_numbers(config.get('k'))
    if problems or bad_k:
        raise ConfigError([*problems, *bad_k])
    return Scorer(
        metric=metric,
        reader=Reader(
            extract=(
                *_role_of(role_marks),
                *(read[key] for key in (*_EXTRACTING, _EVALUATORS_OWN) if key in read),
            ),
            extract_gold=read.get('dataset_postprocessor'),
            gold_column=config.get('ds_column') or output_column,
            by_turn=metric is not None and metric.by_turn,
            needs_gold=metric is None or metric.needs_gold,
            weighs=metric is None or metric.weighs,
        ),
        judge=judge,
        failures=config.get('failures') or 'exclude',
        unparsed=config.get('unparsed') or 'wrong',
        k=counts,
    )


def _role_of(marks: Mapping[str, Any] | None) -> tuple[Extract, ...]:
    found = {name: mark for name, mark in (marks or {}).items() if name in ('begin', 'end') and isinstance(mark, str)}
    if not any(mark.strip() for mark in found.values()):
        return ()
    return (lambda reply: extract_role(reply, **found) if isinstance(reply, str) else reply,)


def _whole_numbers(k: Any) -> tuple[tuple[int, ...], list[Problem]]:
    given = k if isinstance(k, (list, tuple)) else [] if k is None else [k]
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, int) or one < 1]
    if wrong:
        return (), [Problem('k', f'expected whole numbers above 0, got {k!r:.60}.')]
    return tuple(given), []


def _from_the_start(scorer: Scorer, rows: Sequence[Scorable]) -> ScoredRun:
    """Ask and score, for callers that are not asynchronous themselves."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(scorer.judged(rows))
    raise RolecallError('a judge has to be asked: await scorer.judged(rows) instead of scorer.score(rows).')


def _who(metric: Metric) -> str:
    return f'the evaluator {metric.name}'


def _mark(metric: Metric, answer: Answer, read: Read) -> Mark | None:
    with blaming(f'{_who(metric)}, on row {read.row.row},'):
        return metric.mark(answer)


def _refuse_if_nothing_was_readable(read: Sequence[Read], judged: Sequence[tuple[tuple[Mark, ...], str]]) -> None:
    """A judge's words that are never readable are no accident."""
    unread = [reason for _, reason in judged if reason]
    if unread and not any(marks for one, (marks, _) in zip(read, judged, strict=True) if one.outcome == 'ok'):
        raise ScoringError(f'{unread[0]} So it was for all {len(unread)} rows.')


def _empty_handed(metric: Metric, read: Read) -> tuple[Mark, ...]:
    """The marks of a row that counts although it has no answer."""
    wrong = Mark(0.0, correct=False)
    if metric.whole is not None:
        return (wrong,) * len(read.answers)
    if metric.asks is not None or read.gold is None:
        return (wrong,)
    return tuple(_mark(metric, replace(one, prediction=''), read) or wrong for one in read.answers) or (wrong,)


def _groups(group: Callable[[Answer], str | None], read: Iterable[Read]) -> list[list[int]]:
    """The rows that are counted together."""
    rows: dict[str, list[int]] = defaultdict(list)
    for one in read:
        if (name := group(one.answers[0])) is not None:
            rows[name].append(one.row.row)
    return list(rows.values())


def _verdict(read: Read, marks: tuple[Mark, ...], reason: str) -> Verdict:
    if not marks:
        return Verdict(read.row.row, read.extracted, outcome=read.outcome, gold=read.gold, reason=reason)
    said = {mark.correct for mark in marks}
    return Verdict(
        read.row.row,
        read.extracted,
        score=sum(mark.score for mark in marks) / len(marks),
        correct=said.pop() if len(said) == 1 else None,
        outcome=read.outcome,
        gold=read.gold,
        reason=reason,
    )
