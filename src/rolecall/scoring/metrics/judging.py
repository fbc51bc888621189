"""A model as the judge: the values its prompt is filled with, and how its reply is read.

The run asks the judge and reads the options for that (`prompt_template`, `judge_cfg`, …). Here a judge is a function
from the values of a row to the judge's reply.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import REFERENCE_SYSTEMS, load_object
from rolecall.scoring.blame import NoVerdictError
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric, WinRate

Judge = Callable[[Mapping[str, Any]], Awaitable[str] | str]
"""From the values that fill a judge's prompt to the judge's reply."""


JUDGE_ASKED, JUDGE_CHECKED, RULE_WRONG = 'asked_judge', 'checked_by_judge', 'contradicted_by_judge'
"""What a cascade reports beside its score: the shares of answers that the judge decided, of those that it checked, and
of those checked on which it contradicts the rule."""
_PACKAGE_JUDGING = 'rolecall.compat.opencompass.package_evaluators:package_judge_metric'
_FOR_THE_RUN = (
    'prompt_template',
    'judge_cfg',
    'dataset_cfg',
    'keep_predictions',
    'pack_all_predictions',
    'multi_eval',
)


def _configured_by_the_run(make: Callable[..., Metric]) -> Callable[..., Metric]:
    """A judge's metric that accepts, and ignores, the options with which the run asks the judge."""

    @wraps(make)
    def build(*arguments: Any, **options: Any) -> Metric:
        return make(*arguments, **{name: value for name, value in options.items() if name not in _FOR_THE_RUN})

    own = inspect.signature(make)
    others = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None) for name in _FOR_THE_RUN]
    build.__signature__ = own.replace(parameters=[*own.parameters.values(), *others])  # type: ignore[attr-defined]
    return build


@_configured_by_the_run
def judge_accuracy(dict_postprocessor: Any = None) -> Metric:
    """The share of rows the judge marks right (`A` or CORRECT); `dict_postprocessor` reads its replies."""
    return _judge_metric(dict_postprocessor or 'generic_llmjudge_postprocess', name='accuracy', unit='%')


@_configured_by_the_run
def judge_rating(dict_postprocessor: Any = None) -> Metric:
    """The mean of the judge's ratings (`[[7]]`), or of what `dict_postprocessor` reads from its replies."""
    return _judge_metric(dict_postprocessor or 'mtbench_postprocess', name='rating', unit='')


@_configured_by_the_run
def judge_preference(dict_postprocessor: Any = None, *, against: Any = None, order: str = 'both') -> Metric:
    """The share of comparisons with other answers that the judge decides for this one; a tie is half a win.

    `against` names what answers are compared with, and `order` how the two are shown; both are read by the run.
    """
    metric = _judge_metric(dict_postprocessor or 'preference', name='win_rate', unit='%', compares=True)
    how = metric.aggregation
    return replace(metric, aggregation=WinRate(derive=how.derive, breakdown=how.breakdown))


def cascade(
    llm_evaluator: Metric,
    rule_evaluator: Metric | None = None,
    parallel: bool = True,
    *,
    asks_about: str = 'wrong',
    check: float = 0.05,
) -> Metric:
    """A rule first, a judge for what the rule marks wrong: right if either accepts it.

    With `asks_about='undecided'`, the judge is asked only where the rule's postprocessor reads no answer, and about a
    share of the other answers (`check`), which says how far the rule can be trusted.
    """
    if asks_about == 'undecided':
        return _undecided_cascade(llm_evaluator, rule_evaluator, check)
    if asks_about != 'wrong':
        raise ConfigError(Problem('asks_about', f'got {asks_about!r}.', "Write 'wrong' or 'undecided'."))

    def rule(answer: Answer) -> bool:
        mark = rule_evaluator.mark(answer) if rule_evaluator else None
        return bool(mark and mark.correct)

    def mark(answer: Answer) -> Mark | None:
        return Mark(1.0, correct=True) if rule(answer) else llm_evaluator.mark(answer)

    return Metric('accuracy', mark, needs_judge=lambda answer: not rule(answer))


def _undecided_cascade(judge: Metric, rule: Metric | None, check: float) -> Metric:
    if rule is None or rule.reads is None:
        what = 'the rule has no pred_postprocessor that could leave an answer undecided.'
        remedy = "Write rule_evaluator=dict(type='…', pred_postprocessor='…'), and none in eval_cfg."
        raise ConfigError(Problem('rule_evaluator', what, remedy))
    if isinstance(check, bool) or not isinstance(check, int | float) or not 0 <= check <= 1:
        raise ConfigError(Problem('check', f'expected a share of answers from 0 to 1, got {check!r:.40}.'))
    decide, read = rule.mark, rule.reads

    def is_checked(answer: Answer) -> bool:
        drawn = zlib.crc32(f'{answer.prediction!r}{answer.values!r}'.encode('utf-8', 'surrogatepass'))
        return drawn < check * 2**32

    def mark(answer: Answer) -> Mark | None:
        if not read(answer):
            verdict = judge.mark(answer)
            return verdict and replace(verdict, parts={JUDGE_ASKED: 1.0, JUDGE_CHECKED: 0.0})
        verdict = None
        if answer.judge_reply is not None:
            with suppress(NoVerdictError):
                verdict = judge.mark(answer)
        decided = decide(answer)
        checked = {} if verdict is None or decided is None else {RULE_WRONG: float(verdict.correct != decided.correct)}
        return decided and replace(decided, parts={JUDGE_ASKED: 0.0, JUDGE_CHECKED: float(bool(checked)), **checked})

    return Metric('accuracy', mark, needs_judge=lambda answer: not read(answer) or is_checked(answer))


def judge_values(answer: Answer) -> dict[str, Any]:
    """The fields of a judge's prompt: the row's columns, `prediction`, the gold answer as `obj_gold`, and `history`.

    `history` holds the turns before this one, each with its columns and its `prediction`. Of a dialogue that is judged
    as a whole, `prediction` holds all turns in that form, and `prediction_r1`, … the replies. Where answers are
    compared, `prediction` is the one shown first and `prediction2` the other.

    >>> from rolecall.scoring.metrics.metric import Rival
    >>> answer = Answer('Yes.', values={'q': 'Hm?'}, rival=Rival('other', 'No.', stands_first=True))
    >>> judge_values(answer)
    {'history': (), 'q': 'Hm?', 'prediction': 'No.', 'prediction2': 'Yes.', 'obj_gold': None}
    """
    answers: list[tuple[Any, tuple[Mapping[str, Any], ...]]] = [(answer.prediction, answer.turns)]
    if (rival := answer.rival) is not None:
        answers.insert(0 if rival.stands_first else 1, (rival.prediction, rival.turns))
    fields: dict[str, Any] = {'history': answer.history, **answer.values}
    for name, (prediction, turns) in zip(('prediction', 'prediction2'), answers, strict=False):
        fields[name] = turns or prediction
        for number, turn in enumerate(turns, start=1):
            fields[f'{name}_r{number}'] = turn['prediction']
            if name == 'prediction2':  # as OpenCompass calls it
                fields[f'prediction1_r{number}'] = turn['prediction']
    return {**fields, 'obj_gold': answer.gold}


def _judge_metric(dict_postprocessor: Any, *, name: str, unit: str, compares: bool = False) -> Metric:
    from rolecall.scoring.metrics.judge_replies import READINGS, read_dict_postprocessor  # many patterns

    part = READINGS.read(dict_postprocessor, where='dict_postprocessor')
    if not part.builtin and str(getattr(part.value, '__module__', '')).partition('.')[0] in REFERENCE_SYSTEMS:
        package_metric: Metric = load_object(_PACKAGE_JUDGING)(part, unit='')
        return package_metric
    reading = read_dict_postprocessor(dict_postprocessor, compares=compares)

    def mark(answer: Answer) -> Mark | None:
        return None if answer.judge_reply is None else reading.read(answer.judge_reply, answer)

    return Metric(
        reading.metric or name,
        mark,
        Mean(derive=reading.derive, breakdown=reading.breakdown),
        unit=unit if reading.unit is None else reading.unit,
        needs_gold=False,
        lower_is_better=reading.lower_is_better,
        needs_judge=lambda answer: True,
    )
