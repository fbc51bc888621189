"""Evaluators of others: classes with `score(predictions, references)`, functions, and lm-evaluation-harness' forms."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rolecall.datasets.arrow import as_hub_dataset
from rolecall.errors import ConfigError, Problem
from rolecall.registry import REFERENCE_SYSTEMS, is_reference_class
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, make_mark, mark_by
from rolecall.scoring.naming import Entry, option_problems
from rolecall.scoring.summary import unwrap_verdict
from rolecall.usercode import printing_to_stderr

__all__ = ['read_user_evaluator']


_HEADLINES = (
    *('score', 'auc_score', 'accuracy', 'humaneval_pass@1', 'rouge1', 'avg_toxicity_score', 'bleurt_diff'),
    *('matthews_correlation', 'truth', 'f1', 'exact_match', 'average_score'),
)


def read_user_evaluator(read: Entry) -> Metric:
    """The metric of an object, a class or a function that is not one of ours."""
    if isinstance(read.kind, Metric):
        return read.kind
    if callable(getattr(read.kind, 'build_metric', None)):
        built: Metric = read.kind.build_metric()
        return built
    makes = inspect.isclass(read.kind) or _is_reference_factory(read.kind)
    if not makes and not hasattr(read.kind, 'score'):
        return _read_function(read)
    if problems := option_problems(read.kind, read, skip=0) if makes else []:
        raise ConfigError(problems)
    try:
        with printing_to_stderr:
            evaluator: Any = read.kind(**read.options) if makes else read.kind
    except Exception as error:  # a user's class may raise anything
        raise ConfigError(Problem(read.where, f'{read.name} raised {describe_error(error)}.')) from error
    if not callable(getattr(evaluator, 'score', None)):
        raise ConfigError(Problem(read.where, f'{read.name} has no method score(predictions, references).'))
    score = _in_its_own_system(evaluator) if is_reference_class(type(evaluator)) else evaluator.score
    return _score_whole(type(evaluator).__name__, score, inspect.signature(evaluator.score).parameters)


def _score_whole(name: str, score: Callable[..., Any], taken: Mapping[str, inspect.Parameter]) -> Metric:
    """A metric from a function that scores all answers at once."""
    open_ended = any(one.kind is one.VAR_KEYWORD for one in taken.values())

    def whole(answers: Sequence[Answer]) -> Mapping[str, Any]:
        columns = {
            'predictions': [answer.prediction for answer in answers],
            'references': [answer.gold for answer in answers],
            'test_set': [answer.values for answer in answers],
            'origin_prompt': [''] * len(answers),
            'ppl': [answer.prediction for answer in answers],  # what OpenCompass calls the loss of a whole text
        }
        positional = [one.name for one in taken.values() if one.kind is one.POSITIONAL_OR_KEYWORD]
        if 'references' not in taken and len(positional) > 1 and positional[1] not in columns:
            columns[positional[1]] = columns['references']  # by whatever name: `gold`, `labels`
        given = ('predictions', 'references') if open_ended and 'test_set' not in taken else columns
        with printing_to_stderr:
            result = score(**{name: columns[name] for name in given if name in taken or open_ended})
        if isinstance(result, Mapping):
            if result.get('error'):
                raise ScoringError(f'returned an error: {result["error"]!s:.200}')
            return result
        return {name: result}

    return Metric(name, lambda answer: None, unit='', whole=whole, needs_gold=False, weighs=True)


def _is_reference_factory(kind: Any) -> bool:
    """Whether this is a function of a reference system: what is registered there makes an evaluator."""
    return inspect.isfunction(kind) and kind.__module__.partition('.')[0] in REFERENCE_SYSTEMS


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
    said = [one.get('correct') for one in each if isinstance(one, Mapping) and 'correct' in one]
    if all(unwrap_verdict(one) in (True, False) for one in said):
        return result
    return {name: value for name, value in result.items() if name != 'details'}


def _read_function(read: Entry) -> Metric:
    """A function of prediction and gold, of all predictions and references, or of a row and its results."""
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(read.kind).parameters
    except (TypeError, ValueError):
        parameters = {}
    options = dict(read.options)
    if {'predictions', 'references'} <= set(parameters):
        return _score_whole(read.name, lambda **columns: read.kind(**columns, **options), parameters)
    if problems := option_problems(read.kind, read, skip=2):
        raise ConfigError(problems)
    if list(parameters)[:2] == ['doc', 'results']:
        return Metric(read.name, _mark_results(read.kind, options), unit='', needs_gold=False, weighs=True)
    compare = mark_by(lambda prediction, gold: read.kind(prediction, gold, **options))
    return Metric(read.name, compare, unit='', needs_gold=False, weighs=True)


def _mark_results(process_results: Callable[..., Any], options: Mapping[str, Any]) -> Callable[[Answer], Mark]:
    """lm-evaluation-harness' `process_results(doc, results)`: the row, and the reply in a list."""
    return lambda answer: make_mark(process_results(dict(answer.values), [answer.prediction], **options))
