"""How the evaluator of a config becomes a metric: a name, a function, a class, or a dict with options.

The names are those of OpenCompass and AISBench, which the registry finds in `rolecall.compat.opencompass`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import (
    Part,
    Registry,
    is_reference_class,
    is_reference_function,
    load_object,
    offer_package,
    part_name,
    split_entry,
)
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric, Whole, make_mark, mark_by
from rolecall.scoring.postprocessors import Extractor, is_empty, read_postprocessor
from rolecall.scoring.reading_choice import OWN, read_meaning
from rolecall.usercode import printing_to_stderr

_NAMES = 'rolecall.compat.opencompass.evaluator_names'
METRICS: Registry[Callable[..., Metric]] = Registry(
    'metric',
    f'{_NAMES}:METRICS',
    is_ours=lambda name: name in load_object(f'{_NAMES}:ALWAYS_OURS'),
    adapter='rolecall.compat.opencompass.package_evaluators:read_package_evaluator',
)
"""The evaluators of configs; each makes a metric."""

_RUN_HERE = ('python', 'py')
"""The languages whose programs are run here, however a config spells them."""
_NESTED = ('evaluator', 'rule_evaluator', 'llm_evaluator')
"""Options that hold nested evaluators."""


def read_evaluator(entry: Any, *, where: str = '', read_as: str | None = None) -> Metric:
    """Resolve an entry (a name, a function of prediction and gold, a class, or a dict with options) to a metric.

    A name of another system means what it means there, unless `read_as` is another one.

    >>> read_evaluator('AccEvaluator').name
    'accuracy'
    >>> read_evaluator(lambda prediction, gold: prediction in gold).mark(Answer('a', 'cat')).correct
    True
    """
    kind, options = split_entry(entry, where=where)
    _refuse_unsupported(kind, where)
    if _runs_in_a_service(kind, options):
        return _adapt(Part(part_name(kind), kind, '', options, where))
    part = read_meaning(METRICS.read(entry, where=where), kind, read_as)
    if not part.builtin:
        return _read_user_evaluator(part, read_as)
    inside = f'{where}.' if where else ''
    extract = options.pop('pred_postprocessor', None)
    for name in _NESTED:
        if options.get(name) is not None:
            options[name] = read_evaluator(options[name], where=f'{inside}{name}', read_as=read_as)
    if problems := replace(part, options=options).option_problems():
        raise ConfigError(problems)
    try:
        metric: Metric = part.value(**options)
    except ConfigError as error:
        raise ConfigError(problem.inside(where) for problem in error.problems) from error
    if extract is None:
        return metric
    extractor = read_postprocessor(extract, where=f'{inside}pred_postprocessor', read_as=read_as)
    return _extract_then_mark(extractor, metric)


def judge_entry(entry: Any) -> Mapping[str, Any] | None:
    """The part of an evaluator entry that configures the judge (`prompt_template`, `judge_cfg`), if any.

    >>> cascade = {'type': 'CascadeEvaluator', 'llm_evaluator': {'type': 'GenericLLMEvaluator', 'judge_cfg': {}}}
    >>> judge_entry(cascade), judge_entry('AccEvaluator')
    ({'type': 'GenericLLMEvaluator', 'judge_cfg': {}}, None)
    """
    kind, options = split_entry(entry)
    if METRICS.builtin_name(kind) in ('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator'):
        return entry if isinstance(entry, Mapping) else {'type': entry}
    nested = options.get('llm_evaluator')
    return judge_entry(nested) if nested is not None else None


def _runs_in_a_service(kind: Any, options: Mapping[str, Any]) -> bool:
    """Whether this is an installed class that sends programs in languages other than Python to a service."""
    other = options.get('language', 'python') not in _RUN_HERE
    return other and 'scoring.code.' in str(METRICS.declared(part_name(kind))) and is_reference_class(kind)


def _refuse_unsupported(kind: Any, where: str) -> None:
    path, name = getattr(kind, 'dotted', kind), part_name(kind)
    unsupported = load_object(f'{_NAMES}:UNSUPPORTED')
    if isinstance(path, str) and name in unsupported:
        what = f'{name} is not supported: {unsupported[name]}.'
        remedy = 'Score the exported predictions elsewhere, or give a function of prediction and gold as the evaluator.'
        remedy += offer_package(path)
        raise ConfigError(Problem(where, what, remedy))


def _extract_then_mark(extract: Extractor, metric: Metric) -> Metric:
    def read(answer: Answer) -> Any:
        try:
            return extract(answer.prediction)
        except ScoringError:
            return ''

    def mark(answer: Answer) -> Mark | None:
        return metric.mark(replace(answer, prediction=read(answer)))

    return replace(metric, mark=mark, reads=lambda answer: not is_empty(read(answer)))


def _read_user_evaluator(part: Part[Any], read_as: str | None) -> Metric:
    """The metric of an object, a class or a function that is not one of ours."""
    if isinstance(part.value, Metric):
        return part.value
    build = getattr(part.value, 'build_own_metric' if read_as == OWN else 'build_metric', None)
    if callable(build):
        built: Metric = build()
        return built
    if any(is_reference_class(kind) for kind in (part.value, type(part.value))) or is_reference_function(part.value):
        return _adapt(part)
    if not inspect.isclass(part.value) and not hasattr(part.value, 'score'):
        return _read_function(part)
    evaluator = make_evaluator(part)
    return score_whole(type(evaluator).__name__, evaluator.score, inspect.signature(evaluator.score).parameters)


def _adapt(part: Part[Any]) -> Metric:
    metric: Metric = METRICS.adapt(part)
    return metric


def make_evaluator(part: Part[Any]) -> Any:
    """An object with `score(predictions, references)`: the one in the config, or made from its class or function."""
    makes = inspect.isclass(part.value) or is_reference_function(part.value)
    if problems := part.option_problems() if makes else []:
        raise ConfigError(problems)
    try:
        with printing_to_stderr:
            evaluator: Any = part.value(**part.options) if makes else part.value
    except Exception as error:  # a user's class may raise anything
        raise ConfigError(Problem(part.where, f'{part.name} raised {describe_error(error)}.')) from error
    if not callable(getattr(evaluator, 'score', None)):
        raise ConfigError(Problem(part.where, f'{part.name} has no method score(predictions, references).'))
    return evaluator


def score_whole(
    name: str,
    score: Callable[..., Any],
    taken: Mapping[str, inspect.Parameter],
    word_prompt: Callable[[Mapping[str, Any]], Any] | None = None,
    *,
    takes_turns: bool = False,
) -> Metric:
    """A metric from a function that scores all answers at once."""
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken.values())

    def whole(answers: Sequence[Answer]) -> Mapping[str, Any]:
        columns = {
            'predictions': [answer.prediction for answer in answers],
            'references': [answer.gold for answer in answers],
            'test_set': [answer.values for answer in answers],
            'origin_prompt': ['' if word_prompt is None else word_prompt(answer.values) for answer in answers],
            'steps': [[_as_step(call) for call in answer.calls] for answer in answers],
            **_name_losses(answers),
        }
        positional = [name for name, parameter in taken.items() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        if 'references' not in taken and len(positional) > 1 and positional[1] not in columns:
            columns[positional[1]] = columns['references']  # by whatever name: `gold`, `labels`
        passed = ('predictions', 'references') if open_ended and 'test_set' not in taken else columns
        with printing_to_stderr:
            result = score(**{name: columns[name] for name in passed if name in taken or open_ended})
        if isinstance(result, Mapping):
            if result.get('error'):
                raise ScoringError(f'returned an error: {result["error"]!s:.200}')
            return result
        return {name: result}

    with_prompts = None
    if 'origin_prompt' in taken and word_prompt is None:
        with_prompts = partial(score_whole, name, score, taken, takes_turns=takes_turns)
    how = Whole(score=whole, takes_turns=takes_turns, with_prompts=with_prompts)
    return Metric(name, lambda answer: None, how, unit='', needs_gold=False, weighs=True)


def _name_losses(answers: Sequence[Answer]) -> dict[str, list[Any]]:
    """Losses of texts and their divisors under OpenCompass' names. `total_chr_num` is the total of all rows."""
    losses = [answer.prediction if isinstance(answer.prediction, Mapping) else {} for answer in answers]
    characters = sum(loss.get('characters', 0) for loss in losses)
    return {
        'ppl': [loss.get('loss', answer.prediction) for loss, answer in zip(losses, answers, strict=True)],
        'loss': [loss.get('loss') for loss in losses],
        'token_len': [loss.get('tokens') for loss in losses],
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


def _read_function(part: Part[Any]) -> Metric:
    """A function of prediction and gold, of all predictions and references, or of a row and its results."""
    try:
        parameters: Mapping[str, inspect.Parameter] = inspect.signature(part.value).parameters
    except (TypeError, ValueError):
        parameters = {}
    options = dict(part.options)
    if {'predictions', 'references'} <= set(parameters):
        return score_whole(part.name, lambda **columns: part.value(**columns, **options), parameters)
    if problems := part.option_problems(skip=2):
        raise ConfigError(problems)
    if list(parameters)[:2] == ['doc', 'results']:
        return Metric(part.name, _mark_results(part.value, options), unit='', needs_gold=False, weighs=True)
    compare = mark_by(lambda prediction, gold: part.value(prediction, gold, **options))
    return Metric(part.name, compare, unit='', needs_gold=False, weighs=True)


def _mark_results(process_results: Callable[..., Any], options: Mapping[str, Any]) -> Callable[[Answer], Mark]:
    """lm-evaluation-harness' `process_results(doc, results)`: the row, and the reply in a list."""
    return lambda answer: make_mark(process_results(dict(answer.values), [answer.prediction], **options))
