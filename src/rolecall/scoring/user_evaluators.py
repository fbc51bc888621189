"""Evaluators of others: classes with `score(predictions, references)`, functions, and lm-evaluation-harness' forms."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import REFERENCE_SYSTEMS, find_registered, is_reference_class
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Whole, make_mark, mark_by
from rolecall.scoring.naming import Entry, option_problems
from rolecall.scoring.summary import unwrap_verdict
from rolecall.sources.datasets.arrow import as_hub_dataset
from rolecall.usercode import printing_to_stderr

_HEADLINES = (
    *('score', 'auc_score', 'accuracy', 'humaneval_pass@1', 'rouge1', 'avg_toxicity_score', 'bleurt_diff'),
    *('matthews_correlation', 'truth', 'f1', 'exact_match', 'average_score'),
)


_PACKAGE_GROUPS = ('ICL_PROMPT_TEMPLATES', 'ICL_RETRIEVERS', 'ICL_INFERENCERS')
"""Where OpenCompass and AISBench register what configs name and we replace."""


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
            evaluator: Any = read.kind(**_in_package_terms(read)) if makes else read.kind
    except Exception as error:  # a user's class may raise anything
        raise ConfigError(Problem(read.where, f'{read.name} raised {describe_error(error)}.')) from error
    if not callable(getattr(evaluator, 'score', None)):
        raise ConfigError(Problem(read.where, f'{read.name} has no method score(predictions, references).'))
    theirs = is_reference_class(type(evaluator))
    score = _in_its_own_system(evaluator) if theirs else evaluator.score
    taken = inspect.signature(evaluator.score).parameters
    return _score_whole(type(evaluator).__name__, score, taken, takes_turns=theirs)


def _in_package_terms(read: Entry) -> Mapping[str, Any]:
    """The options of an evaluator. One of OpenCompass or AISBench gets their templates and inferencers, not ours."""
    if not is_reference_class(read.kind):
        return read.options
    system = read.kind.__module__.partition('.')[0]
    return {name: _restore(value, system) for name, value in read.options.items()}


def _restore(value: Any, system: str) -> Any:
    """A value as the system itself reads it: its own classes in place of ours, and its functions by name."""
    if isinstance(value, Mapping):
        return {key: _restore(one, system) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_restore(one, system) for one in value)
    if _is_reference_factory(value):
        return f'{value.__module__}.{value.__qualname__}'  # as it is named where the system reads its own configs
    if not inspect.isclass(value) or not value.__module__.startswith('rolecall.'):
        return value
    found = (find_registered(value.__name__, group, system) for group in _PACKAGE_GROUPS)
    return next((one for one in found if inspect.isclass(one)), value)


def _score_whole(
    name: str,
    score: Callable[..., Any],
    taken: Mapping[str, inspect.Parameter],
    word_prompt: Callable[[Mapping[str, Any]], Any] | None = None,
    *,
    takes_turns: bool = False,
) -> Metric:
    """A metric from a function that scores all answers at once."""
    open_ended = any(one.kind is one.VAR_KEYWORD for one in taken.values())

    def whole(answers: Sequence[Answer]) -> Mapping[str, Any]:
        columns = {
            'predictions': [answer.prediction for answer in answers],
            'references': [answer.gold for answer in answers],
            'test_set': [answer.values for answer in answers],
            'origin_prompt': ['' if word_prompt is None else word_prompt(answer.values) for answer in answers],
            'steps': [[_as_step(call) for call in answer.calls] for answer in answers],
            **_name_losses(answers),
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

    with_prompts = None
    if 'origin_prompt' in taken and word_prompt is None:
        with_prompts = partial(_score_whole, name, score, taken, takes_turns=takes_turns)
    how = Whole(score=whole, takes_turns=takes_turns, with_prompts=with_prompts)
    return Metric(name, lambda answer: None, how, unit='', needs_gold=False, weighs=True)


def _name_losses(answers: Sequence[Answer]) -> dict[str, list[Any]]:
    """What OpenCompass calls the losses of texts, and what they are divided by. Each row has all characters' number."""
    losses = [answer.prediction if isinstance(answer.prediction, Mapping) else {} for answer in answers]
    characters = sum(one.get('characters', 0) for one in losses)
    return {
        'ppl': [one.get('loss', answer.prediction) for one, answer in zip(losses, answers, strict=True)],
        'loss': [one.get('loss') for one in losses],
        'token_len': [one.get('tokens') for one in losses],
        'total_chr_num': [characters for _ in losses],
    }


def _as_step(call: Mapping[str, Any]) -> dict[str, Any]:
    """A tool call as OpenCompass' agents record it. An agent adds `result` and `errmsg` to the calls of its reply.

    >>> _as_step({'function': {'name': 'Python', 'arguments': {'code': '1+1'}}, 'result': {'text': '2'}})
    {'type': 'Python', 'args': {'code': '1+1'}, 'result': {'text': '2'}, 'errmsg': ''}
    """
    function = call.get('function') or call
    return {
        'type': function.get('name', call.get('type', '')),
        'args': function.get('arguments', call.get('args')),
        'result': call.get('result'),
        'errmsg': call.get('errmsg') or '',
    }


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
