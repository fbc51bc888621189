"""Assertions: conditions that the answer to a row has to meet, as promptfoo words them, in the row or in the config.

An assertion is a dict with `type`, mostly a `value`, and perhaps `threshold`, `weight` and `metric` (the name under
which its score is reported). `not-` before a type turns it round. A row is right if all its assertions hold, or if the
weighted mean of their scores reaches the row's threshold.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import ConfigError, Problem, did_you_mean
from rolecall.plain_files import read_plain
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.assertion_checks import CHECKS, NEEDS_VALUE, AssertionResult, list_items, load_yaml
from rolecall.scoring.metrics.metric import Answer, Mark, Metric

COLUMN = 'assert'
CRITERION = 'criterion'
"""The column with what a judge is asked about."""
JUDGED = ('llm-rubric', 'model-graded-closedqa', 'model-graded-factuality', 'factuality', 'answer-relevance', 'g-eval')
_REFUSED = {
    'javascript': 'JavaScript is not run; write it as type: python',
    'ruby': 'Ruby is not run; write it as type: python',
    'webhook': 'no address of a row is called; write it as type: python',
    'is-sql': 'there is no parser of SQL here; write it as type: python',
    'contains-sql': 'there is no parser of SQL here; write it as type: python',
    'select-best': 'a judge compares models with PairwiseEvaluator',
    'max-score': 'models are compared in the report',
    'classifier': 'ask a judge (llm-rubric)',
    'finish-reason': 'rows that were cut are counted in the report',
    'gleu': 'use bleu',
    'meteor': 'use rouge-n',
    **dict.fromkeys(('context-faithfulness', 'context-relevance', 'context-recall'), 'use --judge faithfulness:MODEL'),
    **dict.fromkeys(
        ('guardrails', 'skill-used', 'search-rubric', 'conversation-relevance'), 'ask a judge (llm-rubric)'
    ),
    **dict.fromkeys(
        ('is-valid-function-call', 'is-valid-openai-function-call', 'is-valid-openai-tools-call', 'tool-call-f1'),
        'calls of tools are checked with BFCLEvaluator, or with type: python',
    ),
    'f-score': 'rolecall report RUN --by class has precision, recall and F1',
    'moderation': 'ask a judge (--judge toxicity:MODEL)',
    'perplexity': 'log-probabilities of replies are not kept',
    'perplexity-score': 'log-probabilities of replies are not kept',
}


@dataclass(frozen=True, slots=True)
class Assertion:
    """One condition. `base` is the folder that `file://` starts from."""

    kind: str
    value: Any = None
    threshold: float | None = None
    weight: float = 1.0
    metric: str = ''
    negated: bool = False
    parts: tuple[Assertion, ...] = ()
    base: Path = Path()

    @classmethod
    def read(cls, entry: Any, where: str = COLUMN, base: Path = Path()) -> Assertion:
        """Read an assertion; promptfoo's short forms are texts (`icontains: Paris`, `Paris`).

        >>> Assertion.read('not-contains: sorry').negated
        True
        """
        if isinstance(entry, str):
            entry = read_short(entry)
        if not isinstance(entry, Mapping) or not isinstance(entry.get('type'), str):
            raise ConfigError(Problem(where, f"expected an assertion as {{'type': 'contains', …}}, got {entry!r:.60}."))
        kind = entry['type'].removeprefix('not-')
        if kind in _REFUSED or kind.startswith(('trace-', 'trajectory:')):
            why = _REFUSED.get(kind, 'traces of agents are not kept')
            raise ConfigError(Problem(where, f'{kind} is not supported: {why}.'))
        if kind not in CHECKS and kind not in JUDGED and kind != 'assert-set':
            raise ConfigError(
                Problem(where, f'there is no assertion {kind!r}.', did_you_mean(kind, [*CHECKS, *JUDGED]))
            )
        problem = _find_problem(kind, entry)
        if problem:
            raise ConfigError(Problem(where, problem))
        inner = tuple(cls.read(part, where, base) for part in entry.get('assert') or ())
        return cls(
            kind,
            entry.get('value'),
            entry.get('threshold'),
            float(entry.get('weight', 1.0)),
            str(entry.get('metric') or ''),
            entry['type'].startswith('not-'),
            inner,
            base,
        )

    @property
    def is_ruled(self) -> bool:
        """Whether a judge decides."""
        return self.kind in JUDGED or any(part.is_ruled for part in self.parts)

    @property
    def words(self) -> Any:
        """The value, read from its file where it names one."""
        if isinstance(self.value, str) and self.value.startswith('file://') and self.kind != 'python':
            path = self.base / self.value.removeprefix('file://')
            text = read_plain(path)
            return load_yaml(text) if path.suffix in ('.json', '.yaml', '.yml') else text
        return self.value

    def check(self, answer: Answer, ruled: bool | None = None) -> AssertionResult:
        """Whether the answer meets it. `ruled` is the judge's verdict, where one was asked."""
        text = text_of(answer.prediction)
        if self.kind == 'assert-set':
            checked = combine([part.check(answer, ruled) for part in self.parts], self.parts, self.threshold)
        elif self.kind in JUDGED:
            checked = AssertionResult(float(bool(ruled)), bool(ruled), 'the judge says no')
        else:
            result = CHECKS[self.kind](self, text, answer)
            checked = AssertionResult(float(result), result) if isinstance(result, bool) else result
        if self.negated:
            checked = AssertionResult(1 - checked.score, not checked.passed)
        if checked.passed or self.weight == 0:
            return replace(checked, passed=True)
        value = '' if self.value is None else f' {text_of(self.value)!r:.60}'
        why = f': {checked.reason}' if checked.reason else ''
        return replace(checked, reason=f'{"not-" if self.negated else ""}{self.kind}{value} does not hold{why}')


def _find_problem(kind: str, entry: Mapping[str, Any]) -> str:
    """What is wrong with the values of an assertion; empty if nothing is."""
    for name, number in (('weight', entry.get('weight', 1.0)), ('threshold', entry.get('threshold'))):
        is_number = isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number)
        if (number is not None or name == 'weight') and not is_number:
            return f'{kind}: expected a number as {name}, got {number!r:.60}.'
    if entry.get('weight', 1.0) < 0:
        return f'{kind}: weight must be at least 0, got {entry["weight"]:g}.'
    if entry.get('transform'):
        return f'{kind}: replies are not transformed. Leave transform out, or write it as type: python.'
    if kind == 'assert-set' and not (isinstance(entry.get('assert'), list | tuple) and entry['assert']):
        return f'{kind}: expected a list of assertions as assert, got {entry.get("assert")!r:.60}.'
    if kind in ('latency', 'cost') and entry.get('threshold') is None:
        return f'{kind}: threshold is missing.'
    value = entry.get('value')
    if kind == 'regex' and isinstance(value, str) and not value.startswith('file://'):
        try:
            re.compile(value)
        except re.error as error:
            return f'{kind}: {value!r:.60} is not a regular expression: {error}.'
    return f'{kind}: value is missing.' if kind in NEEDS_VALUE and value is None else ''


def combine(results: Sequence[AssertionResult], parts: Sequence[Assertion], threshold: float | None) -> AssertionResult:
    """The weighted mean of several results, and whether it is enough: all hold, or it reaches the threshold."""
    weights = [part.weight for part in parts]
    total = sum(weights)
    score = (
        sum(result.score * weight for result, weight in zip(results, weights, strict=True)) / total if total else 1.0
    )
    passed = all(result.passed for result in results) if threshold is None else score >= threshold
    reasons = '' if passed else '; '.join(result.reason for result in results if not result.passed)
    return AssertionResult(score, passed, reasons)


def read_short(text: str) -> dict[str, Any]:
    """A short form: `icontains: Paris`, `similar(0.8): Paris`, `python: len(output) > 3`, or a text to equal.

    >>> read_short('similar(0.8): a dog'), read_short('Paris')
    ({'type': 'similar', 'value': 'a dog', 'threshold': 0.8}, {'type': 'equals', 'value': 'Paris'})
    """
    match = re.match(r'((?:not-)?[a-z]+(?:-[a-z]+)*)(?:\(([\d.]+)\))?(?::\s*|\Z)', text)
    if match is None or match[1].removeprefix('not-') not in {*CHECKS, *JUDGED, *_REFUSED, 'grade'}:
        return {'type': 'equals', 'value': text}
    kind, value = ('llm-rubric' if match[1] == 'grade' else match[1]), text[match.end() :]
    several = kind.endswith(('-any', '-all'))
    entry = {'type': kind, 'value': list_items(value) if several else value}
    return entry if match[2] is None else {**entry, 'threshold': float(match[2])}


def read_assertions(entries: Any, column: str = COLUMN, base: Path = Path()) -> tuple[Assertion, ...]:
    """The assertions of a row: one or a list, also as JSON in a text."""
    if isinstance(entries, str) and re.match(r'\s*(\[|\{\s*"type")', entries):
        try:
            entries = json.loads(entries)
        except ValueError as error:
            raise ConfigError(Problem(column, f'not valid JSON: {entries!r:.60}: {error}')) from error
    own = entries if isinstance(entries, list | tuple) else [] if entries in (None, '') else [entries]
    return tuple(Assertion.read(entry, column, base) for entry in own)


def assertions(
    column: str = COLUMN,
    asserts: Sequence[Any] = (),
    threshold: float | None = None,
    llm_evaluator: Metric | None = None,
    base: str = '.',
) -> Metric:
    """The share of rows whose answer meets all assertions, in a column of the row and of the config (`asserts`).

    A `threshold`, in the row or here, is what the weighted mean of their scores has to reach instead.

    >>> metric = assertions(asserts=['icontains: paris', 'not-contains: Rome'])
    >>> metric.mark(Answer('It is Paris.')).correct, metric.mark(Answer('Paris, not Rome')).note
    (True, "not-contains 'Rome' does not hold")
    """
    folder = Path(base)
    common = tuple(Assertion.read(entry, f'asserts[{place}]', folder) for place, entry in enumerate(asserts))

    def find(answer: Answer) -> tuple[Assertion, ...]:
        return (*common, *read_assertions(answer.values.get(column), column, folder))

    def mark(answer: Answer) -> Mark | None:
        parts = find(answer)
        verdict = llm_evaluator.mark(answer) if llm_evaluator and answer.judge_reply is not None else None
        if verdict is None and any(part.is_ruled for part in parts):
            if llm_evaluator is None:
                raise ScoringError('an assertion asks a judge, and none is configured: give llm_evaluator.')
            return None
        ruled = verdict is not None and (verdict.correct or verdict.score >= 0.5)
        results = [_check(part, answer, ruled) for part in parts]
        limit = answer.values.get('threshold', threshold)
        whole = combine(results, parts, float(limit) if isinstance(limit, int | float) else None)
        named = {part.metric: result.score for part, result in zip(parts, results, strict=True) if part.metric}
        return Mark(float(whole.passed), whole.passed, named, note=whole.reason)

    return Metric(
        'pass_rate',
        mark,
        needs_gold=False,
        needs_judge=(lambda answer: any(part.is_ruled for part in find(answer))) if llm_evaluator else None,
        takes_usage=True,
    )


def _check(part: Assertion, answer: Answer, ruled: bool) -> AssertionResult:
    try:
        return part.check(answer, ruled)
    except ConfigError:
        raise
    except (Exception, SystemExit) as error:  # a pattern, a file or Python of the config's own
        raise ScoringError(f'{part.kind}: {describe_error(error)}') from error
