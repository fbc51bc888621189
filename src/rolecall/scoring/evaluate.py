"""From the rows of one dataset × model to a number: extract, mark, count, and say how sure the number is.

Every row ends in one outcome. A reply in which a postprocessor finds nothing is `unparsed` and counts as an empty
answer, which is wrong, unless `unparsed='exclude'`; a row that never got a reply is left out of the denominator, unless
`failures='wrong'`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.errors import ConfigError, Problem, RolecallError, did_you_mean
from rolecall.models.base import ModelError, Outcome
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.base import Answer, Mark, Metric
from rolecall.scoring.metrics.judging import Judge, judge_values
from rolecall.scoring.metrics.several import turns as by_turns
from rolecall.scoring.postprocess.freeform import extract_role
from rolecall.scoring.postprocessors import Extract, found_nothing, read_postprocessor
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.summary import Marked, Summary, summarise

__all__ = ['Scorable', 'ScoredRun', 'Scorer', 'Verdict', 'build_scorer']

Policy = Literal['exclude', 'wrong']
Opinions = Mapping[int, Sequence[str | None]]

_POLICIES: tuple[Policy, ...] = ('exclude', 'wrong')
_EXTRACTING = ('model_postprocessor', 'pred_postprocessor')
_EVALUATORS_OWN = 'evaluator.pred_postprocessor'
_OF_THE_RUN = ('pred_role', 'num_gpus', 'sc_size', 'ds_split', 'dump_details', 'cal_extract_rate')
_KEYS = ('evaluator', *_EXTRACTING, 'dataset_postprocessor', 'ds_column', 'k', 'failures', 'unparsed', *_OF_THE_RUN)


@dataclass(frozen=True, slots=True)
class Scorable:
    """One finished row, as far as scoring needs it."""

    row: int
    outcome: Outcome
    prediction: Any
    """A text, label or number; a list is several turns, or several samples of one answer."""
    gold: Any = None
    values: Mapping[str, Any] = field(default_factory=dict)
    """The row of the dataset."""
    cluster: str | None = None
    """Rows with the same cluster are not independent of each other."""
    details: Mapping[str, Any] = field(default_factory=dict)


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
class _Read:
    """A row with its answers taken out of the reply: one, or one for each sample."""

    row: Scorable
    outcome: Outcome
    extracted: Any
    gold: Any
    answers: tuple[Answer, ...]


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores the rows of one dataset × model. `score` is pure; where a judge is needed, `judged` asks it first."""

    metric: Metric | None = None
    extract: tuple[Extract, ...] = ()
    extract_gold: Extract | None = None
    gold_column: str | None = None
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
        read = [self._read(row) for row in rows]
        marks = [self._marks(one, (opinions or {}).get(one.row.row, ())) for one in read]
        summary = self._summary(read, marks)
        return ScoredRun(
            verdicts=tuple(_verdict(one, given) for one, given in zip(read, summary.marks, strict=True)),
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
        read = [one for one in map(self._read, rows) if one.outcome == 'ok']
        said = await asyncio.gather(*(self._opinion(answer) for one in read for answer in one.answers))
        words = iter(said)
        return {one.row.row: [next(words) for _ in one.answers] for one in read}

    async def _opinion(self, answer: Answer) -> str | None:
        if self.metric is None or self.metric.asks is None or self.judge is None or not self.metric.asks(answer):
            return None
        try:
            words = self.judge(judge_values(answer))
            return await words if inspect.isawaitable(words) else words
        except ModelError:
            return None

    def _read(self, row: Scorable) -> _Read:
        gold = self._gold(row)
        if row.outcome != 'ok':
            return _Read(row, row.outcome, None, gold, (Answer('', gold, row.values),))
        together = self.metric is not None and self.metric.takes_lists
        several = isinstance(row.prediction, (list, tuple)) and all(isinstance(one, str) for one in row.prediction)
        found = [self.extracted(one) for one in row.prediction] if several else self.extracted(row.prediction)
        empty = (all(map(found_nothing, found)) if several else found_nothing(found)) and bool(self.extract)
        answers = found if several and not together else [found]
        return _Read(
            row,
            'unparsed' if empty else 'ok',
            found,
            gold,
            tuple(Answer('' if one is None and self.extract else one, gold, row.values) for one in answers),
        )

    def extracted(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty text if there is none."""
        for extract in self.extract:
            if found_nothing(prediction):
                break
            prediction = extract(prediction)
        return prediction

    def _gold(self, row: Scorable) -> Any:
        gold = row.values.get(self.gold_column) if row.gold is None and self.gold_column else row.gold
        if self.extract_gold is None or gold is None:
            return gold
        if isinstance(gold, (list, tuple)):
            return [self._gold_of(one) for one in gold]
        return self._gold_of(gold)

    def _gold_of(self, gold: Any) -> Any:
        found = None if self.extract_gold is None else self.extract_gold(gold)
        return gold if found_nothing(found) else found

    def _marks(self, read: _Read, opinions: Sequence[str | None]) -> tuple[Mark, ...]:
        """The marks of a row's answers; none if the row stays out of the denominator."""
        metric = self.metric
        if metric is None or self._lacks_gold(read):
            return ()
        if read.outcome != 'ok':
            policy = self.unparsed if read.outcome == 'unparsed' else self.failures
            counts = policy == 'wrong' and not metric.lower_is_better
            return (_empty_handed(metric, read),) if counts else ()
        if metric.whole is not None:
            return (Mark(0.0),)
        heard = [*opinions, *([None] * len(read.answers))]
        marks = [
            metric.mark(replace(answer, opinion=words)) for answer, words in zip(read.answers, heard, strict=False)
        ]
        return tuple(mark for mark in marks if mark is not None)

    def _summary(self, read: Sequence[_Read], marks: Sequence[tuple[Mark, ...]]) -> Summary:
        if self.metric is None:
            return Summary(tuple(() for _ in read), tuple(False for _ in read))
        rows = [Marked(one.row.cluster, one.answers, given) for one, given in zip(read, marks, strict=True)]
        return summarise(self.metric, rows, k=self.k)

    def _details(self, read: Sequence[_Read], summary: Summary) -> dict[str, Any]:
        judged = zip(read, summary.marks, summary.counted, strict=True)
        left_out = Counter(self._why_left_out(one, given) for one, given, counted in judged if not counted)
        policies = {'failures': self.failures, 'unparsed': self.unparsed}
        return {**summary.details, 'excluded': dict(left_out), 'policies': policies}

    def _why_left_out(self, read: _Read, marks: tuple[Mark, ...]) -> str:
        if marks:
            return 'incomplete_group'
        return read.outcome if read.outcome != 'ok' else 'without_gold' if self._lacks_gold(read) else 'unmarked'

    def _lacks_gold(self, read: _Read) -> bool:
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
        metric=by_turns(metric) if turns and metric is not None and _for_one_answer(metric) else metric,
        extract=(
            *_role_of(role_marks),
            *(read[key] for key in (*_EXTRACTING, _EVALUATORS_OWN) if key in read),
        ),
        extract_gold=read.get('dataset_postprocessor'),
        gold_column=config.get('ds_column') or output_column,
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


def _for_one_answer(metric: Metric) -> bool:
    return not metric.takes_lists and not any((metric.asks, metric.whole, metric.group, metric.total))


def _from_the_start(scorer: Scorer, rows: Sequence[Scorable]) -> ScoredRun:
    """Ask and score, for callers that are not asynchronous themselves."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(scorer.judged(rows))
    raise RolecallError('a judge has to be asked: await scorer.judged(rows) instead of scorer.score(rows).')


def _empty_handed(metric: Metric, read: _Read) -> Mark:
    """The mark of a row that counts although it has no answer."""
    if metric.asks is not None or metric.whole is not None or read.gold is None:
        return Mark(0.0, correct=False)
    answer = Answer([] if metric.takes_lists else '', read.gold, read.row.values)
    return metric.mark(answer) or Mark(0.0, correct=False)


def _verdict(read: _Read, marks: tuple[Mark, ...]) -> Verdict:
    if not marks:
        return Verdict(read.row.row, read.extracted, outcome=read.outcome, gold=read.gold)
    said = {mark.correct for mark in marks}
    return Verdict(
        read.row.row,
        read.extracted,
        score=sum(mark.score for mark in marks) / len(marks),
        correct=said.pop() if len(said) == 1 else None,
        outcome=read.outcome,
        gold=read.gold,
    )
