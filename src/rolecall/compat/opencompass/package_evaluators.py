"""Evaluators and `dict_postprocessor`s of an installed OpenCompass or AISBench, called as there."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from rolecall.registry import Part, find_registered, is_reference_class, is_reference_function
from rolecall.scoring.blame import NoVerdictError, describe_error
from rolecall.scoring.evaluators import make_evaluator, score_whole
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Whole
from rolecall.scoring.summary import unwrap_verdict
from rolecall.sources.datasets.arrow import as_hub_dataset
from rolecall.usercode import printing_to_stderr

_HEADLINES = (
    *('score', 'auc_score', 'accuracy', 'humaneval_pass@1', 'rouge1', 'avg_toxicity_score', 'bleurt_diff'),
    *('matthews_correlation', 'truth', 'f1', 'exact_match', 'average_score'),
)
_PACKAGE_GROUPS = ('ICL_PROMPT_TEMPLATES', 'ICL_RETRIEVERS', 'ICL_INFERENCERS')
"""Where OpenCompass and AISBench register what configs name and we replace."""


def read_package_evaluator(part: Part[Any]) -> Metric:
    """The metric of a class or an object of the package, or of a function there that makes one."""
    evaluator = make_evaluator(replace(part, options=_in_package_terms(part)))
    theirs = is_reference_class(type(evaluator))
    score = _in_its_own_system(evaluator) if theirs else evaluator.score
    taken = inspect.signature(evaluator.score).parameters
    return score_whole(type(evaluator).__name__, score, taken, takes_turns=theirs)


def _in_package_terms(part: Part[Any]) -> Mapping[str, Any]:
    """The options of an evaluator: the package's own templates and inferencers in place of ours."""
    if not is_reference_class(part.value):
        return part.options
    system = part.value.__module__.partition('.')[0]
    return {name: _restore(value, system) for name, value in part.options.items()}


def _restore(value: Any, system: str) -> Any:
    """A value as the system itself reads it: its own classes in place of ours, and its functions by name."""
    if isinstance(value, Mapping):
        return {key: _restore(item, system) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_restore(item, system) for item in value)
    if is_reference_function(value):
        return f'{value.__module__}.{value.__qualname__}'  # as it is named where the system reads its own configs
    if not inspect.isclass(value) or not value.__module__.startswith('rolecall.'):
        return value
    registered = (find_registered(value.__name__, group, system) for group in _PACKAGE_GROUPS)
    return next((kind for kind in registered if inspect.isclass(kind)), value)


def _in_its_own_system(evaluator: Any) -> Callable[..., Any]:
    """Call an evaluator of OpenCompass or AISBench as its own system does: with a folder, and rows as a dataset."""

    def score(**columns: Any) -> Any:
        if 'test_set' in columns:
            columns['test_set'] = as_hub_dataset(columns['test_set'])
        with tempfile.TemporaryDirectory(prefix='rolecall-evaluator-') as folder:
            with suppress(AttributeError):
                evaluator._out_dir = f'{folder}/results'
                evaluator._dataset_replica_idx = 0
            return _put_headline_first(_drop_graded_details(evaluator.score(**columns)))

    return score


def _put_headline_first(result: Any) -> Any:
    """A result whose first number is the one that OpenCompass' own summary shows."""
    headline = next((name for name in _HEADLINES if isinstance(result, Mapping) and name in result), None)
    return result if headline is None else {headline: result[headline], **result}


def _drop_graded_details(result: Any) -> Any:
    """A result whose details have verdicts, or none: some of these evaluators call a grade `correct`."""
    if not isinstance(result, Mapping) or not isinstance(result.get('details'), Mapping | list | tuple):
        return result
    details = result['details']
    each = details.values() if isinstance(details, Mapping) else details
    verdicts = [entry.get('correct') for entry in each if isinstance(entry, Mapping) and 'correct' in entry]
    if all(unwrap_verdict(verdict) in (True, False) for verdict in verdicts):
        return result
    return {name: value for name, value in result.items() if name != 'details'}


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
