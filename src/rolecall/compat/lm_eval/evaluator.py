"""A task's scores as a metric: lm-eval's numbers for each row and over all rows, with our intervals beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from rolecall.compat.lm_eval.task import LmTask, Row
from rolecall.compat.lm_eval.task_file import TaskFile
from rolecall.compat.lm_eval.task_rows import LmRows
from rolecall.compat.lm_eval.task_scores import TaskScores, mean_stderr
from rolecall.scoring.evaluators import read_evaluator
from rolecall.scoring.metrics.metric import Answer, Mark, Mean, Metric, Whole
from rolecall.scoring.readers.golds import kind_of_golds
from rolecall.scoring.readers.native import read_choice, read_expression, read_number, read_text
from rolecall.scoring.readers.reading import Reading

_RIGHT_OR_WRONG = ('acc', 'acc_norm', 'acc_bytes', 'acc_mutual_info', 'exact_match')
_SHARES = (*_RIGHT_OR_WRONG, 'f1', 'mcc', 'brier_score')
"""Numbers between 0 and 1, shown in percent. A task with any other number keeps all of them unscaled."""


_SCORED_BY = (
    *('metric_list', 'filter_list', 'process_results', 'output_type', 'doc_to_target', 'doc_to_choice', 'doc_to_text'),
    'repeats',
)


@dataclass(frozen=True)
class TaskEvaluator:
    """A task's evaluator. It is loaded when scores are computed, so prompts can be viewed without its functions."""

    rows: LmRows

    @classmethod
    def from_log(cls, settings: Mapping[str, Any], pipeline: str) -> TaskEvaluator | None:
        """The scoring of a task as a log of lm-eval has it, by one of its filters; None where it is code."""
        filters = settings.get('filter_list') or []
        chosen = [own for own in filters if own.get('name') == pipeline] or filters[:1]
        if not settings.get('metric_list') or settings.get('process_results'):
            return None
        values = {key: settings[key] for key in _SCORED_BY if settings.get(key) is not None and key != 'filter_list'}
        return cls(LmRows(LmTask(TaskFile(Path('log'), {**values, 'filter_list': chosen} if chosen else values))))

    def describe_part(self) -> dict[str, Any]:
        """What the score depends on, for its digest."""
        return self.rows.task.describe_keys(*_SCORED_BY)

    def build_metric(self) -> Metric:
        """The first number of the first pipeline is the score; the others are reported with it."""
        scorer, scores = _Scorer(self.rows), TaskScores(self.rows.task)
        first = next(iter(scores.metrics))
        name = _key(first, scores.pipelines[0].name)
        lower = scores.metrics[first].lower_is_better
        metric = Metric(name, scorer.mark, unit='', needs_gold=False, weighs=True, lower_is_better=lower)
        if not scores.is_mean(first):
            return replace(metric, aggregation=Whole(score=scorer.numbers))
        return replace(metric, aggregation=Mean(breakdown=scorer.further_numbers))

    @cached_property
    def read_as(self) -> str | None:
        """`lm_eval` where the task's filters read an answer from a reply, which our readers can read, too."""
        task = self.rows.task
        if task['output_type'] != 'generate_until' or task.get('process_results') is not None:
            return None
        return 'lm_eval' if next(iter(TaskScores(task).metrics)) == 'exact_match' else None

    def build_own_metric(self) -> Metric:
        """The share of rows in whose reply our reader finds the gold answer; its kind chooses the reader."""
        if self.read_as is None:
            return self.build_metric()
        return Metric('exact_match', self._mark_by_our_reading, unit='', needs_gold=False, weighs=True)

    def _mark_by_our_reading(self, answer: Answer) -> Mark:
        doc: Row = answer.values
        task = self.rows.task
        gold: Any = task.target(doc, tuple(doc)).value
        gold = task.choices(doc, tuple(doc))[gold] if task.get('doc_to_choice') is not None else gold
        golds = [_final_part(text) for text in (gold if isinstance(gold, list) else [gold])]
        [[reply, *_]] = _replies(answer.prediction, task['output_type'])
        kind = kind_of_golds(golds)
        metric = kind.metric if kind.metric != 'f1' else 'exact'
        read = partial(read_choice, choices=kind.choices, row=doc) if kind.choices else _READERS[metric]
        reading = read(str(reply))
        ours = reading.value if reading is not None and reading.counts else ''
        mark = read_evaluator(metric).mark(Answer(ours, golds))
        return Mark(0.0, correct=False) if mark is None else mark


_READERS: Mapping[str, Callable[[str], Reading | None]] = {
    'number': read_number,
    'math': read_expression,
    'exact': read_text,
}


def _final_part(gold: Any) -> Any:
    """A gold answer without the solution before it, as GSM8K writes it."""
    return gold.rpartition('####')[2].strip() if isinstance(gold, str) else gold


class _Scorer:
    def __init__(self, rows: LmRows) -> None:
        self._rows = rows
        self._scores: TaskScores | None = None

    @property
    def scores(self) -> TaskScores:
        if self._scores is None:
            task, first = self._rows.task, self._rows.first_row
            many_contexts, many_targets = False, False
            if first is not None:
                columns = tuple(first)
                index = task.text(first, columns).value if task.get('doc_to_choice') is not None else None
                many_contexts = isinstance(index, int)
                many_targets = isinstance(task.target(first, columns).value, list)
            self._scores = TaskScores(task, many_contexts, many_targets)
        return self._scores

    @cached_property
    def _in_percent(self) -> bool:
        return all(name in _SHARES for name in self.scores.metrics)

    def mark(self, answer: Answer) -> Mark:
        """A row's numbers."""
        numbers = {
            key: float(item)
            for key, item in self._items(answer).items()
            if self.scores.is_mean(key.partition(',')[0]) and _is_number(item)
        }
        headline = _key(next(iter(self.scores.metrics)), self.scores.pipelines[0].name)
        headline = headline if headline in numbers else next(iter(numbers), '')
        score = numbers.get(headline, 0.0)
        decided = headline.partition(',')[0] in _RIGHT_OR_WRONG and self._in_percent
        return Mark(score, correct=score == 1.0 if decided else None, parts=numbers)

    def further_numbers(self, marked: Sequence[tuple[Answer, Mark]]) -> Mapping[str, float]:
        """Standard errors as lm-eval computes them, and the metrics that need all rows."""
        return {
            key: value for key, value in self.numbers([answer for answer, _ in marked]).items() if _is_number(value)
        }

    def numbers(self, answers: Sequence[Answer]) -> dict[str, Any]:
        """Every number over all rows, under lm-eval's names: `acc`, `acc_stderr`, `exact_match,strict`."""
        items: dict[str, list[Any]] = {}
        for answer in answers:
            for key, item in self._items(answer).items():
                items.setdefault(key, []).append(item)
        numbers: dict[str, Any] = {}
        for key, marks in items.items():
            metric, comma, pipeline = key.partition(',')
            numbers[key] = self.scores.aggregate(metric, marks)
            if self.scores.is_mean(metric) and len(marks) > 1 and all(map(_is_number, marks)):
                numbers[f'{metric}_stderr{comma}{pipeline}'] = mean_stderr(marks)
        return {key: value for key, value in numbers.items() if _is_number(value)}

    def _items(self, answer: Answer) -> dict[str, Any]:
        doc: Row = answer.values
        replies = _replies(answer.prediction, self._rows.task['output_type'])
        filtered = self.scores.apply_filters(replies, doc)
        return {
            _key(metric, pipeline): item
            for pipeline, results in filtered.items()
            for metric, item in {
                **self.scores.process(doc, results),
                **self.scores.numbers_beside(doc, results),
            }.items()
        }


def _replies(prediction: Any, output_type: str) -> list[list[Any]]:
    """The replies to each request of a row."""
    if output_type == 'generate_until':
        return [list(prediction['replies'])] if isinstance(prediction, Mapping) else [[prediction]]
    if output_type == 'loglikelihood_rolling':
        return [[total] for total, _ in prediction]
    return [[(total, greedy)] for total, greedy in prediction]


def _key(metric: str, pipeline: str) -> str:
    return metric if pipeline == 'none' else f'{metric},{pipeline}'


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
