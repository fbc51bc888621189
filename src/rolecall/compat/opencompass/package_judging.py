"""`dict_postprocessor`s of OpenCompass or AISBench, used as they are: functions of all replies of a judge at once."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from rolecall.registry import Part
from rolecall.scoring.blame import NoVerdictError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Whole
from rolecall.scoring.summary import unwrap_verdict
from rolecall.sources.datasets.arrow import as_hub_dataset
from rolecall.usercode import printing_to_stderr


def package_judge_metric(part: Part[Any], *, unit: str) -> Metric:
    """A metric from `function(output, output_path)`, where `output` holds the judge's replies by number."""
    function: Callable[..., Any] = part.value
    options = dict(part.options)
    takes_dataset = 'dataset' in inspect.signature(function).parameters

    def whole(answers: Sequence[Answer]) -> Mapping[str, Any]:
        output = {
            str(number): {'origin_prompt': '', 'prediction': answer.judge_reply, 'gold': _describe_gold(answer)}
            for number, answer in enumerate(answers)
        }
        dataset = {'dataset': _as_judged_dataset(answers)} if takes_dataset else {}
        with tempfile.TemporaryDirectory(prefix='rolecall-judge-') as folder, printing_to_stderr:
            result = function(output, f'{folder}/judge.json', **dataset, **options)
        return result if isinstance(result, Mapping) else {part.name: result}

    def mark(answer: Answer) -> Mark | None:
        """The mark of one answer, where a rule has marked the others."""
        if answer.judge_reply is None:
            return None
        try:
            result = whole([answer])
            numbers = [value for value in result.values() if isinstance(value, int | float)] or _verdicts(result)
        except Exception as error:  # the package's code may raise anything; this answer has no mark
            raise NoVerdictError(f"{part.name} raised {describe_error(error)} on the judge's reply.") from error
        if not numbers:
            raise NoVerdictError(f"{part.name} found no verdict in the judge's reply.")
        right = numbers[0] > 0
        return Mark(float(right), correct=right)

    return Metric(part.name, mark, Whole(score=whole), unit=unit, needs_gold=False, needs_judge=lambda answer: True)


def _verdicts(result: Mapping[str, Any]) -> list[bool]:
    """The verdicts in the details of a result, for functions that give no number."""
    details = result.get('details')
    each = details.values() if isinstance(details, Mapping) else details if isinstance(details, list) else ()
    verdicts = [unwrap_verdict(detail.get('correct')) for detail in each if isinstance(detail, Mapping)]
    return [detail for detail in verdicts if isinstance(detail, bool)]


def _as_judged_dataset(answers: Sequence[Answer]) -> SimpleNamespace:
    """The rows as the package hands them to such a function: a dataset with a reader."""
    rows = as_hub_dataset(
        {**answer.values, 'prediction': answer.prediction, 'reference': answer.gold} for answer in answers
    )
    return SimpleNamespace(test=rows, reader=SimpleNamespace(dataset={'test': rows}))


def _describe_gold(answer: Answer) -> Any:
    """The gold answer; of a comparison, with the two models in the order in which they were shown."""
    rival = answer.rival
    if rival is None:
        return answer.gold
    answers = [('', answer.prediction), (rival.name, rival.prediction)]
    (first, earlier), (second, later) = reversed(answers) if rival.stands_first else answers
    about = answer.gold if isinstance(answer.gold, Mapping) else {}
    names = {'answer1': first, 'answer2': second, 'base_models': [rival.name]}
    return {**about, **names, 'prediction1': earlier, 'prediction2': later}
