"""A model as the judge: the values its prompt is filled with, and how its reply is read.

The run asks the judge and reads the options for that (`prompt_template`, `judge_cfg`, …). Here a judge is a function
from the values of a row to the judge's reply.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rolecall.registry import Registry
from rolecall.scoring.blame import NoOpinionError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Number, make_mark
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.naming import find_entry

__all__ = ['READINGS', 'Judge', 'cascade', 'judge_accuracy', 'judge_rating', 'judge_values']

Judge = Callable[[Mapping[str, Any]], Awaitable[str] | str]
"""From the values that fill a judge's prompt to the judge's reply."""
Reading = Callable[[str], Number | Mapping[str, float] | None]

_RATING = re.compile(
    r'\[\[\s*(-?\d+(?:\.\d+)?)\s*\]\]|\b(?:rating|score|评分|得分)[^\w.-]{0,8}(-?(?:\d+(?:\.\d+)?|\.\d+))',
    re.IGNORECASE,
)


def judge_accuracy(
    dict_postprocessor: Any = None,
    *,
    prompt_template: Any = None,
    judge_cfg: Any = None,
    dataset_cfg: Any = None,
    keep_predictions: bool = False,
) -> Metric:
    """The share of rows the judge marks right (`A` or CORRECT); `dict_postprocessor` reads its replies."""
    reads = _find_reading(dict_postprocessor or 'generic_llmjudge_postprocess')
    return _judge_metric('accuracy', reads, unit='%')


def judge_rating(
    dict_postprocessor: Any = None,
    *,
    prompt_template: Any = None,
    judge_cfg: Any = None,
    dataset_cfg: Any = None,
    keep_predictions: bool = False,
) -> Metric:
    """The mean of the judge's ratings (`[[7]]`), or of what `dict_postprocessor` reads from its replies."""
    reads = _find_reading(dict_postprocessor or 'mtbench_postprocess')
    return _judge_metric('rating', reads, unit='')


def cascade(llm_evaluator: Metric, rule_evaluator: Metric | None = None, parallel: bool = True) -> Metric:
    """A rule first, a judge for what the rule marks wrong: right if either accepts it."""

    def rule(answer: Answer) -> bool:
        mark = rule_evaluator.mark(answer) if rule_evaluator else None
        return bool(mark and mark.correct)

    def mark(answer: Answer) -> Mark | None:
        return Mark(1.0, correct=True) if rule(answer) else llm_evaluator.mark(answer)

    return Metric('accuracy', mark, needs_judge=lambda answer: not rule(answer))


def judge_values(answer: Answer) -> dict[str, Any]:
    """The fields of a judge's prompt: the row's columns, `prediction`, and the gold answer as `obj_gold`."""
    return {**answer.values, 'prediction': answer.prediction, 'obj_gold': answer.gold}


def read_grade(text: str, true_tag: str = 'A', false_tag: str = 'B') -> bool | None:
    """Whether a judge's reply means right: `A`, or CORRECT; any other tag is wrong.

    >>> [read_grade(reply) for reply in ('A', 'B: INCORRECT', 'The reply is CORRECT.', "It isn't right.", 'Hm.')]
    [True, False, True, False, None]
    """
    return verdict_in(text, true_tag, false_tag)


def read_rating(text: str) -> float | None:
    """The last rating in a judge's reply.

    >>> read_rating('Fair. Rating: [[7.5]]'), read_rating('Score: 3'), read_rating('good')
    (7.5, 3.0, None)
    """
    found = _RATING.findall(text)
    return float(''.join(found[-1])) if found else None


READINGS: Registry[Callable[..., Any]] = Registry(
    'dict_postprocessor',
    {
        'generic_llmjudge_postprocess': read_grade,
        'generic_llmjudge_academic_postprocess': read_grade,
        'mtbench_postprocess': read_rating,
    },
)
"""How a judge's reply is read, by the names configs use (`dict_postprocessor`)."""


def _judge_metric(name: str, reads: Reading, *, unit: str) -> Metric:
    def mark(answer: Answer) -> Mark | None:
        if answer.opinion is None:
            return None
        result = reads(answer.opinion)
        if result is None:
            raise NoOpinionError(f"no verdict in the judge's reply: {' '.join(answer.opinion.split())!r:.60}.")
        return make_mark(result)

    return Metric(name, mark, unit=unit, needs_gold=False, needs_judge=lambda answer: True)


def _find_reading(entry: Any) -> Reading:
    read = find_entry(entry, READINGS, where='dict_postprocessor')
    options = dict(read.options)
    function: Callable[..., Any] = read.kind

    def reads(text: str) -> Number | Mapping[str, float] | None:
        try:
            result: Number | Mapping[str, float] | None = function(text, **options)
        except Exception as error:  # user code may raise anything; this answer has no mark, with the reason
            raise NoOpinionError(f"{read.name} raised {describe_error(error)} on the judge's reply.") from error
        return result

    return reads
