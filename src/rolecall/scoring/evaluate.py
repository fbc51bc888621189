"""Score one dataset × model: read the answers, mark them, and aggregate the marks into a score with an interval.

Every row has exactly one outcome. A reply without an extractable answer is `unparsed` and counts as wrong, unless
`unparsed='exclude'`; a row without a reply is left out of the denominator, unless `failures='wrong'`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rolecall.config_keys import keys_of
from rolecall.errors import ConfigError, MissingExtraError, Problem, RenderError, RolecallError, did_you_mean
from rolecall.models.protocol import ModelError
from rolecall.scoring.answers import (
    AnswerReader,
    ReadRow,
    Scorable,  # what a scorer is given
)
from rolecall.scoring.blame import blame_errors_on
from rolecall.scoring.evaluators import METRICS, read_evaluator
from rolecall.scoring.metrics.judging import Judge, judge_values
from rolecall.scoring.metrics.metric import Answer, Metric, PassRate
from rolecall.scoring.metrics.several import turn_mean
from rolecall.scoring.postprocessors import POSTPROCESSORS, Extractor, extract_role, read_postprocessor
from rolecall.scoring.reading_choice import OWN, READ_BY, named_system
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.session import JudgeReplies, Policy, ScoringSession, name_evaluator

_POLICIES: tuple[Policy, ...] = ('exclude', 'wrong')
_EXTRACTING = ('model_postprocessor', 'pred_postprocessor')
_EVALUATORS_OWN = 'evaluator.pred_postprocessor'
READERS = {
    'exact': 'stated_text_postprocess',
    'number': 'stated_number_postprocess',
    'math': 'stated_expression_postprocess',
}
"""How our own metrics read a reply; `number` does where a config names no reader."""
_RELATED = {'opencompass': 'aisbench', 'aisbench': 'opencompass'}
"""Systems that share names."""
_ONLY = ''
"""The name of the extractor where there is one."""
EVAL_KEYS = keys_of('eval')


@dataclass(frozen=True, slots=True)
class DatasetScorer:
    """Scores the rows of one dataset × model. `score` is pure; `score_with_judge` first asks the judge."""

    metric: Metric | None = None
    readers: Mapping[str, AnswerReader] = field(default_factory=lambda: {_ONLY: AnswerReader()})
    """Ways of extracting answers, by name; the first makes the verdicts."""
    judge: Judge | None = None
    failures: Policy = 'exclude'
    unparsed: Policy = 'wrong'
    k: tuple[int, ...] = ()
    read_as: str = OWN
    """Whose reading this is: ours, or that of the system whose names the config uses."""
    beside: DatasetScorer | None = None
    """The other reading of the same replies."""

    @property
    def needs_judge(self) -> bool:
        """Whether the evaluator needs a judge's replies."""
        return self.metric is not None and self.metric.needs_judge is not None

    def score(
        self, rows: Sequence[Scorable], *, judge_replies: JudgeReplies | None = None, dataset: str = '', model: str = ''
    ) -> Scorecard:
        """The score, with every row's verdict. `judge_replies` holds replies by row and sample.

        >>> scorer = build_scorer({'evaluator': 'AccEvaluator', 'pred_postprocessor': 'first-capital'})
        >>> rows = [Scorable(0, 'ok', 'B.', 'B'), Scorable(1, 'ok', 'c', 'C'), Scorable(2, 'failed', None)]
        >>> card = scorer.score(rows)
        >>> card.value, card.scored, card.total, dict(card.outcomes)
        (50.0, 2, 3, {'ok': 1, 'unparsed': 1, 'failed': 1})
        """
        if self.needs_judge and judge_replies is None:
            return replace(_score_synchronously(self, rows), dataset=dataset, model=model)
        session = self.start()
        verdicts = session.add(rows, judge_replies=judge_replies)
        card = session.finish(dataset, model)
        return replace(card, verdicts=card.verdicts or tuple(verdicts))

    def start(self, *, adds_up: bool = True) -> ScoringSession:
        """A session that scores rows as they come, in bounded memory; with `adds_up=False`, it only marks them."""
        beside = self.beside.start(adds_up=adds_up) if self.beside is not None and self.metric is not None else None
        return ScoringSession(
            self.metric, self.readers, self.failures, self.unparsed, self.k, adds_up, self.read_as, beside
        )

    async def score_with_judge(self, rows: Sequence[Scorable]) -> Scorecard:
        """Ask the judge concurrently about every row that needs it, then score."""
        return self.score(rows, judge_replies=await self.ask_judge(rows))

    async def ask_judge(self, rows: Sequence[Scorable], judge: Judge | None = None) -> JudgeReplies:
        """The judge's replies by row and sample; None where there is no reply."""
        judge = judge or self.judge
        answered = [row for row in map(self._reader.read, rows) if row.outcome == 'ok']
        asking = (self._ask_about(answer, judge) for row in answered for answer in row.answers)
        replies = iter(await asyncio.gather(*asking))
        return {row.row.row: [next(replies) for _ in row.answers] for row in answered}

    async def _ask_about(self, answer: Answer, judge: Judge | None) -> str | None:
        if self.metric is None or self.metric.needs_judge is None or judge is None:
            return None
        with blame_errors_on(name_evaluator(self.metric)):
            needed = self.metric.needs_judge(answer)
        if not needed:
            return None
        try:
            words = judge(judge_values(answer))
            return await words if inspect.isawaitable(words) else words
        except (ModelError, RenderError):
            return None

    def read(self, row: Scorable) -> ReadRow:
        """The answers of a row."""
        return self._reader.read(row)

    def extract(self, prediction: Any) -> Any:
        """The answer in one reply; None or an empty text if there is none."""
        return self._reader.extract_answer(prediction)

    @property
    def _reader(self) -> AnswerReader:
        return next(iter(self.readers.values()))


def build_scorer(
    eval_cfg: Mapping[str, Any] | None,
    *,
    output_column: str | None = None,
    judge: Judge | None = None,
    turns: bool = False,
    whole_dialogue: bool = False,
    by_prompt: bool = False,
    role_marks: Mapping[str, Any] | None = None,
    word_prompt: Callable[[Mapping[str, Any]], Any] | None = None,
    forms: Sequence[str] = (),
    read_as: str | None = None,
) -> DatasetScorer:
    """Build the scorer that a dataset's `eval_cfg` describes; all problems are reported in one ConfigError.

    `output_column` names the gold answer where a row has none of its own. `judge` serves evaluators that need one.
    With `turns`, a list of predictions holds the turns of a dialogue, each with its own gold answer, and with
    `whole_dialogue` the turns of one that is judged as a whole; otherwise it holds samples. With `by_prompt`, each row
    has a list of judge's templates. `role_marks` is the meta template's entry for `pred_role`; its `begin` and `end`
    are removed from replies.
    `word_prompt` gives evaluators of other systems the prompt of a row, and `forms` tells our readers in which form it
    asks for the answer.
    `pred_postprocessor` may be a dict of names: each extractor gets a score of its own, the first makes the verdicts.

    Names of another system mean what they mean there, and our own reading stands beside; `read_as` in `eval_cfg`
    chooses whose reading makes the score. As an argument it asks for that reading alone.

    >>> build_scorer({'evaluator': {'type': 'AccEvalutor'}})
    Traceback (most recent call last):
    rolecall.errors.ConfigError: evaluator
      unknown metric 'AccEvalutor'.
      Did you mean 'AccEvaluator'?
    """
    if read_as is None:
        own = {name: value for name, value in locals().items() if name not in ('eval_cfg', 'read_as')}
        return _read_both_ways(eval_cfg or {}, partial(build_scorer, **own))
    config = eval_cfg or {}
    problems = [
        Problem(str(key), f'eval_cfg has no key {key!r}.', did_you_mean(key, EVAL_KEYS))
        for key in config
        if key not in EVAL_KEYS
    ]
    named = _named_extractors(config.get('pred_postprocessor'))
    parts = {key: config[key] for key in (*_EXTRACTING, 'dataset_postprocessor') if config.get(key)}
    if named:
        del parts['pred_postprocessor']
        parts |= {f'pred_postprocessor.{name}': entry for name, entry in named.items() if entry}
    evaluator = config.get('evaluator')
    if isinstance(evaluator, Mapping) and evaluator.get('pred_postprocessor') is not None:
        parts[_EVALUATORS_OWN] = evaluator['pred_postprocessor']
        evaluator = {key: value for key, value in evaluator.items() if key != 'pred_postprocessor'}
    if evaluator is not None:
        parts['evaluator'] = evaluator
        kind = evaluator.get('type') if isinstance(evaluator, Mapping) else evaluator
        if not named and not {*parts} & {*_EXTRACTING, _EVALUATORS_OWN} and kind == 'number':
            parts['pred_postprocessor'] = READERS[kind]
    parsed: dict[str, Any] = {}
    for key, entry in parts.items():
        try:
            read_part: Any = read_evaluator if key == 'evaluator' else read_postprocessor
            part = read_part(entry, where=key, read_as=read_as)
            parsed[key] = _with_forms(part, forms) if key != 'dataset_postprocessor' else part
        except ConfigError as error:
            problems += error.problems
    metric: Metric | None = parsed.get('evaluator')
    whole = metric.whole if metric is not None else None
    if whole is not None and whole.with_prompts is not None and word_prompt is not None:
        metric = whole.with_prompts(word_prompt)
    if turns and whole is not None and whole.takes_turns:
        whole_dialogue = True
    elif metric is not None and turns:
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
    if len(named) > 1 and metric is not None and metric.needs_judge is not None:
        what = 'a judge reads one answer per reply, but several extractors are given.'
        problems.append(Problem('pred_postprocessor', what, 'Keep one of them.'))
    for key in ('failures', 'unparsed'):
        if config.get(key) not in (None, *_POLICIES):
            problems.append(Problem(key, f'got {config[key]!r}.', did_you_mean(config[key], _POLICIES)))
    counts, bad_k = _read_k(config.get('k'))
    if problems or bad_k:
        raise ConfigError([*problems, *bad_k])
    base = AnswerReader(
        extract_gold=parsed.get('dataset_postprocessor'),
        gold_column=config.get('ds_column') or output_column,
        by_turn=metric is not None and metric.by_turn,
        needs_gold=metric is None or metric.needs_gold,
        weighs=metric is None or metric.weighs,
        whole_dialogue=whole_dialogue,
        by_prompt=by_prompt,
    )

    def extract(name: str) -> tuple[Extractor, ...]:
        own = f'pred_postprocessor.{name}' if name else 'pred_postprocessor'
        keys = ('model_postprocessor', own, _EVALUATORS_OWN)
        return (*_strip_role_marks(role_marks), *(parsed[key] for key in keys if key in parsed))

    return DatasetScorer(
        metric=metric,
        readers={name: replace(base, extract=extract(name)) for name in named or (_ONLY,)},
        judge=judge,
        failures=config.get('failures') or 'exclude',
        unparsed=config.get('unparsed') or 'wrong',
        k=counts or (metric.aggregation.k if metric and isinstance(metric.aggregation, PassRate) else ()),
        read_as=read_as,
    )


def _read_both_ways(config: Mapping[str, Any], build: Callable[..., DatasetScorer]) -> DatasetScorer:
    """The scorer by the reading that a config names or chooses, with the other one beside it, if there is one."""
    named = named_system(config, {'evaluator': METRICS, 'postprocessor': POSTPROCESSORS})
    read_as = config.get('read_as') or named or OWN
    if read_as not in READ_BY:
        raise ConfigError(Problem('read_as', f'got {read_as!r}.', did_you_mean(read_as, READ_BY)))
    if read_as != OWN and read_as not in (named, _RELATED.get(named)):
        what = f'no part of this eval_cfg is named after {read_as}.'
        readings = ' or '.join(dict.fromkeys(filter(None, (OWN, named))))
        raise ConfigError(Problem('read_as', what, f'Choose {readings}.'))
    scorer = build(config, read_as=read_as)
    alone = scorer.needs_judge or len(scorer.readers) > 1 or scorer.metric is None or scorer.metric.whole is not None
    if not named or alone:
        return scorer
    try:
        other = build(config, read_as=named if read_as == OWN else OWN)
    except MissingExtraError:  # what our reading needs is not installed
        return scorer
    names = {metric.name.partition(',')[0] for metric in (scorer.metric, other.metric) if metric is not None}
    return replace(scorer, beside=other) if len(names) == 1 else scorer  # F1 is not compared with accuracy


def _with_forms(part: Any, forms: Sequence[str]) -> Any:
    """An extractor that knows the form which the prompt asks for, if it takes one."""
    if not isinstance(part, Extractor) or not forms or 'forms' not in part.takes or 'forms' in part.options:
        return part
    return replace(part, options={**part.options, 'forms': tuple(forms)})


def _named_extractors(entry: Any) -> dict[str, Any]:
    """Several extractors by name: a dict without `type`. Empty for a single postprocessor."""
    if not isinstance(entry, Mapping) or 'type' in entry:
        return {}
    return {str(name): extractor for name, extractor in entry.items()}


def _strip_role_marks(marks: Mapping[str, Any] | None) -> tuple[Extractor, ...]:
    ends = {name: mark for name, mark in (marks or {}).items() if name in ('begin', 'end') and isinstance(mark, str)}
    if not any(mark.strip() for mark in ends.values()):
        return ()
    return (Extractor(extract_role, 'extract_role', ends),)


def _read_k(k: Any) -> tuple[tuple[int, ...], list[Problem]]:
    counts = k if isinstance(k, (list, tuple)) else [] if k is None else [k]
    wrong = [count for count in counts if isinstance(count, bool) or not isinstance(count, int) or count < 1]
    if wrong:
        return (), [Problem('k', f'expected positive integers, got {k!r:.60}.')]
    return tuple(counts), []


def _score_synchronously(scorer: DatasetScorer, rows: Sequence[Scorable]) -> Scorecard:
    """Ask the judge and score, from synchronous code."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(scorer.score_with_judge(rows))
    raise RolecallError('this evaluator needs a judge: await scorer.score_with_judge(rows) instead.')
