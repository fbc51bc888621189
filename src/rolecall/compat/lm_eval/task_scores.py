"""lm-eval's scores: filtered answers, numbers for each row, and their aggregates, equal to the last digit."""

from __future__ import annotations

import math
import re
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rolecall.checking import expected
from rolecall.compat.lm_eval.filters import Pipeline, read_pipelines
from rolecall.compat.lm_eval.functions import call_function, load_function
from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import Function
from rolecall.errors import ConfigError, Problem, did_you_mean, import_extra
from rolecall.patterns import substitute
from rolecall.scoring.blame import ScoringError

Items = Sequence[Any]
_DEFAULT_METRICS = {
    'loglikelihood': ('perplexity', 'acc'),
    'loglikelihood_rolling': ('word_perplexity', 'byte_perplexity', 'bits_per_byte'),
    'multiple_choice': ('acc', 'acc_norm'),
    'generate_until': ('exact_match',),
}
_AGGREGATION_OF = {
    **dict.fromkeys(('acc', 'acc_norm', 'acc_mutual_info', 'acc_bytes', 'exact_match', 'likelihood'), 'mean'),
    **dict.fromkeys(('word_perplexity', 'byte_perplexity'), 'weighted_perplexity'),
    'mcc': 'matthews_corrcoef',
    **{name: name for name in ('perplexity', 'bits_per_byte', 'f1', 'bleu', 'chrf', 'chrf++', 'ter', 'brier_score')},
    'bypass': 'bypass',
}
_LOWER = ('perplexity', 'word_perplexity', 'byte_perplexity', 'bits_per_byte', 'ter', 'brier_score')
_NOT_OPTIONS = ('metric', 'aggregation', 'higher_is_better', 'hf_evaluate')


@dataclass(frozen=True, slots=True)
class _TaskMetric:
    """One entry of `metric_list`."""

    name: str
    function: Callable[..., Any] | None
    options: Mapping[str, Any]
    aggregate: Callable[[Items], Any]
    aggregation: str
    lower_is_better: bool = False


@dataclass(frozen=True)
class TaskScores:
    """Scores the replies of one task."""

    task: LmTask
    many_contexts: bool = False
    many_targets: bool = False

    @cached_property
    def pipelines(self) -> list[Pipeline]:
        return read_pipelines(self.task)

    @cached_property
    def metrics(self) -> dict[str, _TaskMetric]:
        """The metrics that the file declares, or lm-eval's own for its output type, by name."""
        entries = self.task.get('metric_list')
        if entries is None:
            entries = [{'metric': name} for name in _DEFAULT_METRICS[self.task['output_type']]]
        if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
            where = f'{self.task.place("metric_list")}: metric_list'
            raise ConfigError(expected(where, 'a list of entries with metric', entries))
        declared = [self._read_metric(entry) for entry in entries]
        return {metric.name: metric for metric in declared}

    def apply_filters(self, replies: Sequence[Sequence[Any]], doc: Row) -> dict[str, list[Any]]:
        """The answer to each request of a row, by pipeline."""
        return {
            pipeline.name: [pipeline.apply(list(samples), doc) for samples in replies] for pipeline in self.pipelines
        }

    def process(self, doc: Row, results: Sequence[Any]) -> dict[str, Any]:
        """A row's item for each metric, from the filtered answers to its requests."""
        own = self.task.get('process_results')
        if isinstance(own, Function):
            return dict(call_function(own, doc, list(results)))
        match self.task['output_type']:
            case 'multiple_choice':
                return self._of_choices(doc, results)
            case 'loglikelihood':
                total, greedy = results[0]
                return self._only_used({'perplexity': total, 'acc': _require_greedy(greedy)})
            case 'loglikelihood_rolling':
                target = self.task.target(doc, tuple(doc)).value
                words, size = len(re.split(r'\s+', target)), len(target.encode('utf-8', 'surrogatepass'))
                by_word, by_byte = (results[0], words), (results[0], size)
                items = {'word_perplexity': by_word, 'byte_perplexity': by_byte, 'bits_per_byte': by_byte}
                return self._only_used(items)
            case _:
                return self._of_reply(doc, results[0])

    def numbers_beside(self, doc: Row, results: Sequence[Any]) -> dict[str, Any]:
        """`acc_bytes` beside `acc_norm`: normalised by UTF-8 bytes, as lm-eval's paper says, not by characters."""
        wanted = 'acc_norm' in self.metrics and 'acc_bytes' not in self.metrics
        if not wanted or self.task['output_type'] != 'multiple_choice' or self.task.get('process_results') is not None:
            return {}
        choices = self.task.choices(doc, tuple(doc))
        sizes = [len(choice.encode('utf-8', 'surrogatepass')) for choice in choices]
        gold = self._find_gold(doc, choices)
        chosen = _argmax([_divide(float(log), size) for (log, _), size in zip(results, sizes, strict=False)])
        return {'acc_bytes': 1.0 if chosen in (gold if isinstance(gold, list) else [gold]) else 0.0}

    def aggregate(self, name: str, items: Items) -> Any:
        """The number of a metric over all rows. Undeclared metrics are averaged."""
        declared = self.metrics.get(name)
        return declared.aggregate(items) if declared else _mean(items)

    def is_mean(self, name: str) -> bool:
        """Whether a metric is averaged over rows."""
        return name not in self.metrics or self.metrics[name].aggregation == 'mean'

    def _read_metric(self, entry: Mapping[str, Any]) -> _TaskMetric:
        where = f'{self.task.place("metric_list")}: metric_list'
        metric = entry.get('metric')
        own = self.task.get('process_results') is not None
        if isinstance(metric, Function):
            name, function = metric.name.rpartition('.')[2], load_function(metric)
        elif isinstance(metric, str):
            name, function = metric, None
            if entry.get('hf_evaluate') and not own and self.task['output_type'] == 'generate_until':
                raise ConfigError(Problem(where, f'{name}: metrics of the package `evaluate` are not supported.'))
        else:
            raise ConfigError(Problem(where, f'expected the name of a metric, got {metric!r:.60}.'))
        if function is None and not own and name not in _AGGREGATION_OF:
            raise ConfigError(Problem(where, f'unknown metric {name!r}.', did_you_mean(name, _AGGREGATION_OF)))
        aggregation = entry.get('aggregation') or _AGGREGATION_OF.get(name, 'mean')
        if isinstance(aggregation, Function):
            aggregate, aggregation_name = load_function(aggregation), aggregation.name
        elif aggregation in _AGGREGATIONS:
            aggregate, aggregation_name = _AGGREGATIONS[aggregation], str(aggregation)
        else:
            remedy = did_you_mean(aggregation, _AGGREGATIONS)
            raise ConfigError(Problem(where, f'unknown aggregation {aggregation!r:.60}.', remedy))
        options = {key: value for key, value in entry.items() if key not in _NOT_OPTIONS}
        lower = entry.get('higher_is_better') is False or ('higher_is_better' not in entry and name in _LOWER)
        return _TaskMetric(name, function, options, aggregate, aggregation_name, lower)

    def _only_used(self, items: Mapping[str, Any]) -> dict[str, Any]:
        return {name: item for name, item in items.items() if name in self.metrics}

    def _of_choices(self, doc: Row, results: Sequence[Any]) -> dict[str, Any]:
        columns = tuple(doc)
        choices = self.task.choices(doc, columns)
        logs = [float(log) for log, _ in results]
        greedy = [flag for _, flag in results]
        alone = logs[len(choices) :] if 'acc_mutual_info' in self.metrics else []
        logs = logs[: len(choices)] if alone else logs
        gold = self._find_gold(doc, choices)
        golds = gold if isinstance(gold, list) else [gold]
        sizes = [len(choice.encode('utf-8', 'surrogatepass')) for choice in choices]
        predicted = {
            'acc': _argmax(logs),
            'acc_norm': _argmax(list(map(_divide, logs, map(len, choices)))),
            'acc_bytes': _argmax(list(map(_divide, logs, sizes))),
        }
        items: dict[str, Any] = {name: 1.0 if index in golds else 0.0 for name, index in predicted.items()}
        items['f1'] = items['mcc'] = (gold, predicted['acc'])
        items['brier_score'] = (gold, _softmax(logs))
        items['likelihood'] = (gold, logs)
        if 'exact_match' in self.metrics:
            items['exact_match'] = int(any(_require_greedy(greedy[right]) for right in golds if right != _UNKNOWN))
        if alone:
            gains = [log - other for log, other in zip(logs, alone, strict=True)]
            items['acc_mutual_info'] = 1.0 if _argmax(gains) == gold else 0.0
        return self._only_used(items)

    def _find_gold(self, doc: Row, choices: Sequence[Any]) -> Any:
        """The index of the right choice, or a list of them; an index out of range is never right."""
        columns = tuple(doc)
        gold = (self.task.text if self.many_contexts else self.task.target)(doc, columns).value
        if isinstance(gold, list):
            return [index if index < len(choices) else _UNKNOWN for index in gold]
        if isinstance(gold, str):
            return list(choices).index(gold) if gold in choices else _UNKNOWN
        return gold if isinstance(gold, int) and gold < len(choices) else _UNKNOWN

    def _of_reply(self, doc: Row, result: Any) -> dict[str, Any]:
        columns = tuple(doc)
        gold: Any = self.task.target(doc, columns).value
        if self.task.get('doc_to_choice') is not None:
            gold = self.task.choices(doc, columns)[gold]
        elif self.many_targets:
            gold = list(gold)
        elif type(gold) is not type(result) and not isinstance(result, list) and 'bypass' not in self.metrics:
            gold = type(result)(gold)
        items: dict[str, Any] = {}
        for metric in self.metrics.values():
            item = self._any_of(metric, gold, result) if self.many_targets else _score(metric, gold, result)
            items.update(item if isinstance(item, dict) else {metric.name: item})
        return items

    def _any_of(self, metric: _TaskMetric, gold: Any, result: Any) -> float:
        """1.0 if the reply is right by any of several targets."""
        golds = gold if isinstance(gold, list) else [gold]
        scores = [_score(metric, score, result) for score in golds]
        values = [score[metric.name] if isinstance(score, dict) else score for score in scores]
        return 1.0 if any(values) else 0.0


_UNKNOWN = -100


def _require_greedy(greedy: Any) -> int:
    """Whether a continuation is the model's greedy output. Only some models report it."""
    if greedy is None:
        raise ScoringError(
            'needs to know whether the model would have written the continuation; this model does not say'
        )
    return int(greedy)


def _score(metric: _TaskMetric, gold: Any, result: Any) -> Any:
    if metric.name == 'exact_match' and metric.function is None:
        return _exact_match(result, gold, **metric.options)
    if metric.name == 'bypass' and metric.function is None:
        return None
    if metric.function is None:
        return [gold, result]
    try:
        return metric.function(references=[gold], predictions=[result], **metric.options)
    except TypeError:  # a function of one list of gold answer and reply
        return metric.function([gold, result])


def _exact_match(
    prediction: Any,
    gold: Any,
    regexes_to_ignore: Sequence[str] | None = None,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
) -> float:
    def reduce(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for pattern in regexes_to_ignore or ():
            text = substitute(pattern, '', text)
        text = text.lower() if ignore_case else text
        dropped = (string.punctuation if ignore_punctuation else '') + (string.digits if ignore_numbers else '')
        return text.translate(str.maketrans('', '', dropped)).rstrip('\0')

    if isinstance(prediction, list):
        golds = gold if isinstance(gold, list) else [gold] * len(prediction)
        pairs = list(zip(prediction, golds, strict=False))
        return _mean([float(reduce(pattern) == reduce(other)) for pattern, other in pairs]) if pairs else 0.0
    return float(reduce(prediction) == reduce(gold))


def _argmax(values: Sequence[float]) -> int:
    """The first of the largest. A value that is not a number counts as the largest."""
    odd = next((i for i, value in enumerate(values) if math.isnan(value)), None)
    return odd if odd is not None else max(range(len(values)), key=values.__getitem__)


def _divide(log: float, length: int) -> float:
    if length:
        return log / length
    return math.nan if log == 0 or math.isnan(log) else math.copysign(math.inf, log)


def _softmax(logs: Sequence[float]) -> list[float]:
    highest = max(logs)
    weights = [math.exp(log - highest) for log in logs]
    total = sum(weights)
    return [weight / total for weight in weights]


def _mean(items: Items) -> float:
    mean: float = sum(items) / len(items)
    return mean


def mean_stderr(items: Items) -> float:
    """The standard error of a mean.

    >>> mean_stderr([0.0, 1.0])
    0.5
    """
    middle = _mean(items)
    return math.sqrt(sum((item - middle) ** 2 for item in items) / (len(items) - 1)) / math.sqrt(len(items))


def _weighted_mean(items: Items) -> float:
    mean: float = sum(total for total, _ in items) / sum(units for _, units in items)
    return mean


def _median(items: Items) -> Any:
    return sorted(items)[len(items) // 2]


def _nanmean(items: Items) -> float:
    there = [item for item in items if not math.isnan(item)]
    return _mean(there) if there else math.nan


def _brier_score(items: Items) -> float:
    return _mean([sum((p - (i == gold)) ** 2 for i, p in enumerate(shares)) for gold, shares in items])


def _with_sklearn(name: str) -> Callable[[Items], float]:
    def aggregate(items: Items) -> float:
        metrics = import_extra('sklearn.metrics', extra='score', purpose=f'for {name}')
        golds, predictions = zip(*items, strict=True)
        return float(getattr(metrics, name)(golds, predictions))

    return aggregate


def _with_sacrebleu(name: str, **options: Any) -> Callable[[Items], float]:
    def aggregate(items: Items) -> float:
        sacrebleu = import_extra('sacrebleu', extra='score', purpose=f'for {name}')
        golds, predictions = zip(*items, strict=True)
        references = [list(gold) if isinstance(gold, list | tuple) else [gold] for gold in golds]
        texts = [prediction[0] if isinstance(prediction, list | tuple) else prediction for prediction in predictions]
        streams = list(map(list, zip(*references, strict=False)))
        return float(getattr(sacrebleu, f'corpus_{name}')(texts, streams, **options).score)

    return aggregate


_AGGREGATIONS: Mapping[str, Callable[[Items], Any]] = {
    'mean': _mean,
    'median': _median,
    'nanmean': _nanmean,
    'perplexity': lambda items: math.exp(-_mean(items)),
    'weighted_perplexity': lambda items: math.exp(-_weighted_mean(items)),
    'bits_per_byte': lambda items: -_weighted_mean(items) / math.log(2),
    'f1': _with_sklearn('f1_score'),
    'matthews_corrcoef': _with_sklearn('matthews_corrcoef'),
    'bleu': _with_sacrebleu('bleu'),
    'chrf': _with_sacrebleu('chrf'),
    'chrf++': _with_sacrebleu('chrf', word_order=2),
    'ter': _with_sacrebleu('ter'),
    'brier_score': _brier_score,
    'bypass': lambda items: 999,
}
