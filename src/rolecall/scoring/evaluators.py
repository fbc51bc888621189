"""Evaluators by the names configs use, and how a config entry becomes a metric."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.registry import Registry, is_reference_class, offer_package
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.code import CODE_METRICS
from rolecall.scoring.families import FAMILY_METRICS
from rolecall.scoring.metrics.metric import Answer, Mark, Metric
from rolecall.scoring.naming import Entry, find_entry, option_problems, read_entry
from rolecall.scoring.postprocessors import Extract, read_postprocessor
from rolecall.scoring.user_evaluators import read_user_evaluator

_ALWAYS_OURS = frozenset(
    {
        'GenericLLMEvaluator',
        'LMEvaluator',
        'PairwiseEvaluator',
        'CascadeEvaluator',
        'MultiTurnEvaluator',
        'CharmMemoryEvaluator',
        *CODE_METRICS,
    }
)
"""Judges and what runs code: ours even where the class of another system is at hand."""

METRICS: Registry[Callable[..., Metric]] = Registry(
    'metric',
    {
        'AccEvaluator': 'rolecall.scoring.metrics.matching:accuracy',
        'AccwithDetailsEvaluator': 'rolecall.scoring.metrics.matching:accuracy',
        'EMEvaluator': 'rolecall.scoring.metrics.matching:exact_match',
        'WholeMatchEvaluator': 'rolecall.scoring.metrics.matching:whole_match',
        'Gsm8kEvaluator': 'rolecall.scoring.metrics.matching:gsm8k',
        'MATHEvaluator': 'rolecall.scoring.metrics.symbolic:same_expression',
        'MATHVerifyEvaluator': 'rolecall.scoring.metrics.symbolic:same_expression',
        'BBHEvaluator': 'rolecall.scoring.metrics.matching:bbh_freeform',
        'BBHEvaluator_mcq': 'rolecall.scoring.metrics.matching:bbh_multiple_choice',
        'CircularEvaluator': 'rolecall.scoring.metrics.several:circular',
        'TriviaQAEvaluator': 'rolecall.scoring.metrics.matching:contains_an_answer',
        'NQEvaluator': 'rolecall.scoring.metrics.matching:contains_an_answer',
        'SquadEvaluator': 'rolecall.scoring.metrics.overlap:word_f1',
        'SQuAD20Evaluator': 'rolecall.scoring.metrics.overlap:word_f1',
        'RougeEvaluator': 'rolecall.scoring.metrics.overlap:rouge',
        'JiebaRougeEvaluator': 'rolecall.scoring.metrics.overlap:jieba_rouge',
        'BleuEvaluator': 'rolecall.scoring.metrics.overlap:bleu',
        'MultiTurnEvaluator': 'rolecall.scoring.metrics.several:turn_mean',
        'AveragePPLEvaluator': 'rolecall.scoring.metrics.several:average_ppl',
        'AverageInferencePPLEvaluator': 'rolecall.scoring.metrics.several:average_inference_ppl',
        'BPCEvaluator': 'rolecall.scoring.metrics.several:bits_per_character',
        'GenericLLMEvaluator': 'rolecall.scoring.metrics.judging:judge_accuracy',
        'LMEvaluator': 'rolecall.scoring.metrics.judging:judge_rating',
        'PairwiseEvaluator': 'rolecall.scoring.metrics.judging:judge_preference',
        'CascadeEvaluator': 'rolecall.scoring.metrics.judging:cascade',
        **FAMILY_METRICS,
        **CODE_METRICS,
    },
    is_ours=lambda name: name in _ALWAYS_OURS,
)
"""The evaluators of configs; each makes a metric."""

_CODE = 'it runs model-written code'
_OWN_DATA = 'it belongs to one benchmark'
UNSUPPORTED: Mapping[str, str] = {
    **dict.fromkeys(
        (
            'SciCodeEvaluator',
            'CIBenchEvaluator',
        ),
        _CODE,
    ),
    **dict.fromkeys(('TEvalEvaluator',), _OWN_DATA),
}
"""Evaluators that configs name but rolecall does not implement, with the reason."""

_RUN_HERE = ('python', 'py')
"""The languages whose programs are run here, however a config spells them."""
_NESTED = ('evaluator', 'rule_evaluator', 'llm_evaluator')
"""Options that hold nested evaluators."""


def read_evaluator(entry: Any, *, where: str = '') -> Metric:
    """Resolve an entry (a name, a function of prediction and gold, a class, or a dict with options) to a metric.

    >>> read_evaluator('AccEvaluator').name
    'accuracy'
    >>> read_evaluator(lambda prediction, gold: prediction in gold).mark(Answer('a', 'cat')).correct
    True
    """
    written = read_entry(entry, where=where)
    _refuse_unsupported(written)
    if _runs_in_a_service(written):
        return read_user_evaluator(written)
    read = find_entry(entry, METRICS, where=where)
    if not read.builtin:
        return read_user_evaluator(read)
    options = dict(read.options)
    inside = f'{where}.' if where else ''
    extract = options.pop('pred_postprocessor', None)
    for name in _NESTED:
        if options.get(name) is not None:
            options[name] = read_evaluator(options[name], where=f'{inside}{name}')
    make: Callable[..., Metric] = read.kind
    problems = option_problems(make, replace(read, options=options), skip=0)
    if problems:
        raise ConfigError(problems)
    try:
        metric = make(**options)
    except ConfigError as error:
        raise ConfigError(problem.inside(where) for problem in error.problems) from error
    if extract is None:
        return metric
    return _extract_then_mark(read_postprocessor(extract, where=f'{inside}pred_postprocessor'), metric)


def judge_entry(entry: Any) -> Mapping[str, Any] | None:
    """The part of an evaluator entry that configures the judge (`prompt_template`, `judge_cfg`), if any.

    >>> cascade = {'type': 'CascadeEvaluator', 'llm_evaluator': {'type': 'GenericLLMEvaluator', 'judge_cfg': {}}}
    >>> judge_entry(cascade), judge_entry('AccEvaluator')
    ({'type': 'GenericLLMEvaluator', 'judge_cfg': {}}, None)
    """
    read = read_entry(entry)
    if METRICS.builtin_name(read.kind) in ('GenericLLMEvaluator', 'LMEvaluator', 'PairwiseEvaluator'):
        return entry if isinstance(entry, Mapping) else {'type': entry}
    nested = read.options.get('llm_evaluator')
    return judge_entry(nested) if nested is not None else None


def _runs_in_a_service(read: Entry) -> bool:
    """Whether a class of another system is at hand that has programs in other languages run by a service."""
    other = read.options.get('language', 'python') not in _RUN_HERE
    return other and read.name in CODE_METRICS and is_reference_class(read.kind)


def _refuse_unsupported(read: Entry) -> None:
    named = isinstance(read.kind, str) or isinstance(getattr(read.kind, 'dotted', None), str)
    if named and read.name in UNSUPPORTED:
        what = f'{read.name} is not supported: {UNSUPPORTED[read.name]}.'
        path = str(getattr(read.kind, 'dotted', read.kind))
        remedy = 'Score the exported predictions elsewhere, or give a function of prediction and gold as the evaluator.'
        remedy += offer_package(path)
        raise ConfigError(Problem(read.where, what, remedy))


def _extract_then_mark(extract: Extract, metric: Metric) -> Metric:
    def mark(answer: Answer) -> Mark | None:
        try:
            found = extract(answer.prediction)
        except ScoringError:
            found = ''
        return metric.mark(replace(answer, prediction=found))

    return replace(metric, mark=mark)
