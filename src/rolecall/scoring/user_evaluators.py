"""Evaluators of others: classes with `score(predictions, references)`, functions, and lm-evaluation-harness' forms."""

from __future__ import annotations

import inspect
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import is_reference_class
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, make_mark, mark_by
from rolecall.scoring.naming import Entry, option_problems
from rolecall.usercode import printing_to_stderr

__all__ = ['read_user_evaluator']


def read_user_evaluator(read: Entry) -> Metric:
    """The metric of an object, a class or a function that is not one of ours."""
    if isinstance(read.kind, Metric):
        return read.kind
    if callable(getattr(read.kind, 'build_metric', None)):
        built: Metric = read.kind.build_metric()
        return built
    if not inspect.isclass(read.kind) and not hasattr(read.kind, 'score'):
        return _read_function(read)
    if problems := option_problems(read.kind, read, skip=0) if inspect.isclass(read.kind) else []:
        raise ConfigError(problems)
    try:
        with printing_to_stderr:
            evaluator: Any = read.kind(**read.options) if inspect.isclass(read.kind) else read.kind
    except Exception as error:  # a user's class may raise anything
        raise ConfigError(Problem(read.where, f'{read.name} raised {describe_error(error)}.')) from error
    if not callable(getattr(evaluator, 'score', None)):
        raise ConfigError(Problem(read.where, f'{read.name} has no method score(predictions, references).'))
    score = _in_its_own_system(evaluator) if _is_of_reference_system(read.kind) else evaluator.score
    return _score_whole(read.name, score, inspect.signature(evaluator.score).parameters)


def _score_whole(name: str, score: Callable[..., Any], taken: Mapping[str, inspect.Parameter]) -> Metric:
    """A metric from a function that scores all answers at once."""
    open_ended = any(one.kind is one.VAR_KEYWORD for one in taken.values())

    def whole(answers: Sequence[Answer]) -> Mapping[str, Any]:
        columns = {
            'predictions': [answer.prediction for answer in answers],
            'references': [answer.gold for answer in answers],
            'test_set': [answer.values for answer in answers],
            'origin_prompt': [''] * len(answers),
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


def _is_of_reference_system(kind: Any) -> bool:
    return is_reference_class(kind if inspect.isclass(kind) else type(kind))


def _in_its_own_system(evaluator: Any) -> Callable[..., Any]:
    """Call an evaluator of OpenCompass or AISBench as its own system does: with a folder, and rows as a dataset."""

    def score(**columns: Any) -> Any:
        if 'test_set' in columns:
            columns['test_set'] = _as_dataset(columns['test_set'])
        with tempfile.TemporaryDirectory(prefix='rolecall-evaluator-') as folder:
            with suppress(AttributeError):
                evaluator._out_dir = f'{folder}/results'
                evaluator._dataset_replica_idx = 0
            return evaluator.score(**columns)

    return score


def _as_dataset(rows: Sequence[Mapping[str, Any]]) -> Any:
    datasets = sys.modules.get('datasets')
    return rows if datasets is None else datasets.Dataset.from_list([dict(row) for row in rows])


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
