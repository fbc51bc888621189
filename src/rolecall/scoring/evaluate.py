"""Score one dataset × model: extract answers, mark them, and summarise the marks with an interval.

Every row has exactly one outcome. A reply without an extractable answer is `unparsed` and counts as wrong, unless
`unparsed='exclude'`; a row without a reply is left out of the denominator, unless `failures='wrong'`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from rolecall.errors import ConfigError, Problem, RenderError, RolecallError, did_you_mean
from rolecall.models.protocol import ModelError, Outcome
from rolecall.scoring.answers import AnswerReader, ReadRow, Scorable
from rolecall.scoring.blame import NoOpinionError, ScoringError, blame_errors_on
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.judging import Judge, judge_values
from rolecall.scoring.metrics.metric import Answer, Mark, Metric
from rolecall.scoring.metrics.several import turn_mean
from rolecall.scoring.postprocess.freeform import extract_role
from rolecall.scoring.postprocessors import Extract, read_postprocessor
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.summary import Marked, Summary, summarise

__all__ = ['DatasetScorer', 'Scorable', 'ScoredRun', 'Verdict', 'build_scorer']

Policy = Literal['exclude', 'wrong']
Opinions = Mapping[int, Sequence[str | None]]

_POLICIES: tuple[Policy, ...] = ('exclude', 'wrong')
_EXTRACTING = ('model_postprocessor', 'pred_postprocessor')
_EVALUATORS_OWN = 'evaluator.pred_postprocessor'
_OF_THE_RUN = ('pred_role', 'num_gpus', 'sc_size', 'ds_split', 'dump_details', 'cal_extract_rate')
_KEYS = ('evaluator', *_EXTRACTING, 'dataset_postprocessor', 'ds_column', 'k', 'failures', 'unparsed', *_OF_THE_RUN)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The score of one row. Rows without a score are not in the denominator."""

    row: int
    extracted: Any = None
    score: float | None = None
    correct: bool | None = None
    outcome: Outcome = 'ok'
    gold: Any = None
    """The gold answer after its postprocessor."""
    reason: str = ''
    """What a postprocessor raised, or why a judge's reply gives no verdict."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """The verdicts and the number computed from them.

    `outcomes` adds up to `total`; so do `scored` and `details['excluded']`.
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
class DatasetScorer:
    """Scores the rows of one dataset × model. `score` is pure; `score_with_judge` first asks the judge."""

    metric: Metric | None = None
    reader: AnswerReader = field(default_factory=AnswerReader)
    judge: Judge | None = None
    failures: Policy = 'exclude'
    unparsed: Policy = 'wrong'
    k: tuple[int, ...] = ()

    @property
    def needs_judge(self) -> bool:
        """Whether the evaluator needs a judge's replies."""
        return self.metric is not None and self.metric.needs_judge is not None

    def score(self, rows: Sequence[Scorable], *, opinions: Opinions | None = None) -> ScoredRun:
        """Every row's verdict and the number. `opinions` are the judge's replies, by row and sample.

        >>> scorer = build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': 'first-capital'})
        >>> run = scorer.score([Scorable(0, 'ok', 'B.', 'B'), Scorable(1, 'ok', 'c', 'C'), Scorable(2, 'failed', None)])
        >>> run.value, run.scored, run.total, dict(run.outcomes)
        (50.0, 2, 3, {'ok': 1, 'unparsed': 1, 'failed': 1})
        """
        if self.needs_judge and opinions is None:
            return _score_synchronously(self, rows)
        read = [self.reader.read(row) for row in rows]
        self._prepare(read)
        judged = [self._marks(one, (opinions or {}).get(one.row.row, ())) for one in read]
        _refuse_if_nothing_was_readable(read, judged)
        summary = self._summary(read, [marks for marks, _ in judged])
        reasons = [one.reason or reason for one, (_, reason) in zip(read, judged, strict=True)]
        return ScoredRun(
            verdicts=tuple(map(_make_verdict, read, summary.marks, reasons)),
            metric=summary.metric,
            value=summary.value,
            low=summary.low,
            high=summary.high,
            scored=sum(summary.counted),
            total=len(read),
            outcomes=Counter(one.outcome for one in read),
            details=self._details(read, summary),
        )

    async def score_with_judge(self, rows: Sequence[Scorable]) -> ScoredRun:
        """Ask the judge concurrently about every row that needs it, then score."""
        return self.score(rows, opinions=await self.ask_judge(rows))

    async def ask_judge(self, rows: Sequence[Scorable]) -> Opinions:
        """The judge's replies by row and sample; None where it was not asked or did not answer."""
        read = [one for one in map(self.reader.read, rows) if one.outcome == 'ok']
        said = await asyncio.gather(*(self._ask_about(answer) for one in read for answer in one.answers))
        words = iter(said)
        return {one.row.row: [next(words) for _ in one.answers] for one in read}

    async def _ask_about(self, answer: Answer) -> str | None:
        if self.metric is None or self.metric.needs_judge is None or self.judge is None:
            return None
        with blame_errors_on(_name_evaluator(self.metric)):
            needed = self.metric.needs_judge(answer)
        if not needed:
            return None
        try:
            words = self.judge(judge_values(answer))
            return await words if inspect.isawaitable(words) else words
        except (ModelError, RenderError):
            return None

    def extract(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty text if there is none."""
        return self.reader.extract_answer(prediction)

    def _prepare(self, read: Sequence[ReadRow]) -> None:
        if self.metric is not None and self.metric.prepare is not None:
            with blame_errors_on(_name_evaluator(self.metric)):
                self.metric.prepare([answer for one in read if one.outcome == 'ok' for answer in one.answers])

    def _marks(self, read: ReadRow, opinions: Sequence[str | None]) -> tuple[tuple[Mark, ...], str]:
        """The marks of a row's answers (none if the row is excluded), and the reason where known."""
        metric = self.metric
        if metric is None or self._lacks_gold(read):
            return (), ''
        if read.outcome != 'ok':
            policy = self.unparsed if read.outcome == 'unparsed' else self.failures
            counts = policy == 'wrong' and not metric.lower_is_better
            return (_mark_missing_answer(metric, read) if counts else ()), ''
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

    def _summary(self, read: Sequence[ReadRow], marks: Sequence[tuple[Mark, ...]]) -> Summary:
        if self.metric is None:
            return Summary(tuple(() for _ in read), tuple(False for _ in read))
        rows = [
            Marked(one.row.cluster, one.answers, given, answered=one.outcome == 'ok')
            for one, given in zip(read, marks, strict=True)
        ]
        with blame_errors_on(_name_evaluator(self.metric)):
            return summarise(self.metric, rows, k=self.k)

    def _details(self, read: Sequence[ReadRow], summary: Summary) -> dict[str, Any]:
        judged = zip(read, summary.marks, summary.counted, strict=True)
        left_out = Counter(self._why_left_out(one, given) for one, given, counted in judged if not counted)
        policies = {'failures': self.failures, 'unparsed': self.unparsed}
        groups = {'groups': _collect_groups(self.metric.group, read)} if self.metric and self.metric.group else {}
        return {**summary.details, **groups, 'excluded': dict(left_out), 'policies': policies}

    def _why_left_out(self, read: ReadRow, marks: tuple[Mark, ...]) -> str:
        if marks:
            return 'incomplete_group'
        if read.outcome != 'ok':
            return read.outcome
        return 'without_gold' if self._lacks_gold(read) or not read.answers else 'unmarked'

    def _lacks_gold(self, read: ReadRow) -> bool:
        return self.metric is not None and self.metric.needs_gold and read.gold is None


def build_scorer(
    eval_cfg: Mapping[str, Any] | None,
    *,
    output_column: str | None = None,
    judge: Judge | None = None,
    turns: bool = False,
    role_marks: Mapping[str, Any] | None = None,
) -> DatasetScorer:
    """Build the scorer that a dataset's `eval_cfg` describes; all problems are reported in one ConfigError.

    `output_column` names the gold answer where a row has none of its own. `judge` serves evaluators that need one.
    With `turns`, a list of predictions holds the turns of a dialogue, each with its own gold answer; otherwise it holds
    samples. `role_marks` is the meta template's entry for `pred_role`; its `begin` and `end` are removed from replies.

    >>> build_scorer({'evaluator': {'type': 'AccEvalutor'}})
    Traceback (most recent call last):
    rolecall.errors.ConfigError: evaluator
      unknown metric 'AccEvalutor'.
      Did you mean 'AccEvaluator'?
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
            metric = turn_mean(metric)
        except ConfigError as error:
            problems += error.problems
    if metric is not None and metric.by_turn and config.get('k') is not None:
        problems.append(Problem('k', 'k counts samples, but this dataset is scored by turn.', 'Remove k.'))
    if metric is not None and metric.needs_judge is not None and judge is None:
        problems.append(
            Problem(
                'evaluator',
                'no judge is configured for this evaluator.',
                "Name a model: judge_cfg=dict(type='…').",
            )
        )
    for key in ('failures', 'unparsed'):
        if config.get(key) not in (None, *_POLICIES):
            problems.append(Problem(key, f'got {config[key]!r}.', did_you_mean(config[key], _POLICIES)))
    counts, bad_k = _read_k(config.get('k'))
    if problems or bad_k:
        raise ConfigError([*problems, *bad_k])
    return DatasetScorer(
        metric=metric,
        reader=AnswerReader(
            extract=(
                *_strip_role_marks(role_marks),
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
        k=counts or (metric.k if metric is not None else ()),
    )


def _strip_role_marks(marks: Mapping[str, Any] | None) -> tuple[Extract, ...]:
    found = {name: mark for name, mark in (marks or {}).items() if name in ('begin', 'end') and isinstance(mark, str)}
    if not any(mark.strip() for mark in found.values()):
        return ()
    return (lambda reply: extract_role(reply, **found) if isinstance(reply, str) else reply,)


def _read_k(k: Any) -> tuple[tuple[int, ...], list[Problem]]:
    given = k if isinstance(k, (list, tuple)) else [] if k is None else [k]
    wrong = [one for one in given if isinstance(one, bool) or not isinstance(one, int) or one < 1]
    if wrong:
        return (), [Problem('k', f'expected positive integers, got {k!r:.60}.')]
    return tuple(given), []


def _score_synchronously(scorer: DatasetScorer, rows: Sequence[Scorable]) -> ScoredRun:
    """Ask and score from synchronous code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(scorer.score_with_judge(rows))
    raise RolecallError('this evaluator needs a judge: await scorer.score_with_judge(rows) instead.')


def _name_evaluator(metric: Metric) -> str:
    return f'the evaluator {metric.name}'


def _mark(metric: Metric, answer: Answer, read: ReadRow) -> Mark | None:
    with blame_errors_on(f'{_name_evaluator(metric)}, on row {read.row.row},'):
        return metric.mark(answer)


def _refuse_if_nothing_was_readable(read: Sequence[ReadRow], judged: Sequence[tuple[tuple[Mark, ...], str]]) -> None:
    """Fail if not one of the judge's replies was readable."""
    unread = [reason for _, reason in judged if reason]
    if unread and not any(marks for one, (marks, _) in zip(read, judged, strict=True) if one.outcome == 'ok'):
        raise ScoringError(f'{unread[0]} The same holds for all {len(unread)} rows.' if len(unread) > 1 else unread[0])


def _mark_missing_answer(metric: Metric, read: ReadRow) -> tuple[Mark, ...]:
    """The marks of a row that counts although it has no answer."""
    wrong = Mark(0.0, correct=False)
    if metric.whole is not None:
        return (wrong,) * len(read.answers)
    if metric.needs_judge is not None or read.gold is None:
        return (wrong,)
    return tuple(_mark(metric, replace(one, prediction=''), read) or wrong for one in read.answers) or (wrong,)


def _collect_groups(group: Callable[[Answer], str | None], read: Iterable[ReadRow]) -> list[list[int]]:
    """The rows that are counted together."""
    rows: dict[str, list[int]] = defaultdict(list)
    for one in read:
        if (name := group(one.answers[0])) is not None:
            rows[name].append(one.row.row)
    return list(rows.values())


def _make_verdict(read: ReadRow, marks: tuple[Mark, ...], reason: str) -> Verdict:
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
        reason=reason or next((mark.note for mark in marks if mark.note and not mark.correct), ''),
    )
