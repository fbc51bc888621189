"""A model as the judge: what it is told about a row, and what its words are worth.

Asking is the run's business, and so are the options that say how (`prompt_template`, `judge_cfg`, …): a judge here is a
function from the values of a row to the judge's words.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rolecall.errors import ConfigError
from rolecall.scoring.metrics.base import Answer, Mark, Metric, Number, mark_of
from rolecall.scoring.metrics.verdicts import verdict_in
from rolecall.scoring.naming import not_here, of_the_reference, read_entry
from rolecall.scoring.usercode import NoOpinionError, said

__all__ = ['READINGS', 'Judge', 'cascade', 'graded', 'judge_values', 'rated']

Judge = Callable[[Mapping[str, Any]], Awaitable[str] | str]
"""From the values a judge's prompt is filled with to what the judge said."""
Reading = Callable[[str], Number | Mapping[str, float] | None]

_RATING = re.compile(
    r'\[\[\s*(-?\d+(?:\.\d+)?)\s*\]\]|\b(?:rating|score|评分|得分)[^\w.-]{0,8}(-?(?:\d+(?:\.\d+)?|\.\d+))',
    re.IGNORECASE,
)


def graded(
    dict_postprocessor: Any = None,
    *,
    prompt_template: Any = None,
    judge_cfg: Any = None,
    dataset_cfg: Any = None,
    keep_predictions: bool = False,
) -> Metric:
    """The share of rows that a judge finds right (`A` or CORRECT), read by `dict_postprocessor`."""
    reads = _reading(dict_postprocessor or 'generic_llmjudge_postprocess')
    return _judged('accuracy', reads, unit='%')


def rated(
    dict_postprocessor: Any = None,
    *,
    prompt_template: Any = None,
    judge_cfg: Any = None,
    dataset_cfg: Any = None,
    keep_predictions: bool = False,
) -> Metric:
    """The mean of a judge's ratings (`[[7]]`), or whatever `dict_postprocessor` reads from its words."""
    reads = _reading(dict_postprocessor or 'mtbench_postprocess')
    return _judged('rating', reads, unit='')


def cascade(llm_evaluator: Metric, rule_evaluator: Metric | None = None, parallel: bool = True) -> Metric:
    """A rule first, a judge for what the rule finds wrong: right if either says so."""

    def rule(answer: Answer) -> bool:
        mark = rule_evaluator.mark(answer) if rule_evaluator else None
        return bool(mark and mark.correct)

    def mark(answer: Answer) -> Mark | None:
        return Mark(1.0, correct=True) if rule(answer) else llm_evaluator.mark(answer)

    return Metric('accuracy', mark, asks=lambda answer: not rule(answer))


def judge_values(answer: Answer) -> dict[str, Any]:
    """What a judge's prompt may mention: the row's columns, `prediction`, and the gold answer as `obj_gold`."""
    return {**answer.values, 'prediction': answer.prediction, 'obj_gold': answer.gold}


def grade(text: str, true_tag: str = 'A', false_tag: str = 'B') -> bool | None:
    """Whether a judge's words mean right: `A`, or CORRECT; any other tag is wrong.

    >>> grade('A'), grade('B: INCORRECT'), grade('The reply is CORRECT.'), grade("It isn't right."), grade('Hm.')
    (True, False, True, False, None)
    """
    return verdict_in(text, true_tag, false_tag)


def rating(text: str) -> float | None:
    """The last rating in a judge's words.

    >>> rating('Fair. Rating: [[7.5]]'), rating('Score: 3'), rating('good')
    (7.5, 3.0, None)
    """
    found = _RATING.findall(text)
    return float(''.join(found[-1])) if found else None


READINGS: Mapping[str, Callable[..., Any]] = {
    'generic_llmjudge_postprocess': grade,
    'generic_llmjudge_academic_postprocess': grade,
    'mtbench_postprocess': rating,
}
"""What a judge's words mean, by the names configs use (`dict_postprocessor`)."""


def _judged(name: str, reads: Reading, *, unit: str) -> Metric:
    def mark(answer: Answer) -> Mark | None:
        if answer.opinion is None:
            return None
        result = reads(answer.opinion)
        if result is None:
            raise NoOpinionError(f"the judge's words decide nothing: {' '.join(answer.opinion.split())!r:.60}.")
        return mark_of(result)

    return Metric(name, mark, unit=unit, needs_gold=False, asks=lambda answer: True)


def _reading(entry: Any) -> Reading:
    read = read_entry(entry, where='dict_postprocessor')
    options = dict(read.options)
    function = read.kind if callable(read.kind) and not of_the_reference(read.kind) else READINGS.get(read.name)
    if function is None:
        raise ConfigError(not_here(read, 'dict_postprocessor', READINGS))

    def reads(text: str) -> Number | Mapping[str, float] | None:
        try:
            result: Number | Mapping[str, float] | None = function(text, **options)
        except Exception as error:  # the user's own code may raise anything; this answer has no mark, and says why
            raise NoOpinionError(f"{read.name} cannot read the judge's words: {said(error)}.") from error
        return result

    return reads
