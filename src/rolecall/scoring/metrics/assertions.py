"""Assertions: conditions that the answer to a row has to meet, as promptfoo words them, in the row or in the config.

An assertion is a dict with `type`, mostly a `value`, and perhaps `threshold`, `weight` and `metric` (the name under
which its score is reported). `not-` before a type turns it round. A row is right if all its assertions hold, or if the
weighted mean of their scores reaches the row's threshold.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from xml.parsers import expat

from rolecall.core.prompts.values import text_of
from rolecall.errors import ConfigError, Problem, did_you_mean, import_extra
from rolecall.patterns import search_groups
from rolecall.scoring.blame import ScoringError, describe_error
from rolecall.scoring.metrics.metric import Answer, Mark, Metric
from rolecall.scoring.scanners import ScannedReply, find_refusal
from rolecall.usercode import neighbours_of, printing_to_stderr

COLUMN = 'assert'
CRITERION = 'criterion'
"""The column with what a judge is asked about."""
_RULED = ('llm-rubric', 'model-graded-closedqa', 'model-graded-factuality', 'factuality', 'answer-relevance', 'g-eval')
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
_TAG = re.compile(
    r'<(?:!doctype html|/?(?:html|head|body|div|span|p|a|ul|ol|li|table|tr|td|h[1-6]|br|img)\b[^<>]*)>', re.I
)
_DOCUMENT = re.compile(r'\s*<(?:!doctype html|html|[a-z][\w-]*)[\s>].*>\s*', re.IGNORECASE | re.DOTALL)
_ELEMENT = re.compile(r'<([A-Za-z_][\w.-]*)[^<>]*>')
_MOST_FRAGMENTS = 100
_WORD = re.compile(r'\S+')


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """What an assertion came to."""

    score: float
    passed: bool
    reason: str = ''


Check = Callable[['Assertion', str, Answer], 'AssertionResult | bool']


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
        if kind not in CHECKS and kind not in _RULED and kind != 'assert-set':
            raise ConfigError(
                Problem(where, f'there is no assertion {kind!r}.', did_you_mean(kind, [*CHECKS, *_RULED]))
            )
        inner = tuple(cls.read(part, where, base) for part in entry.get('assert') or ())
        weight, threshold = entry.get('weight', 1.0), entry.get('threshold')
        for name, number in (('weight', weight), ('threshold', threshold)):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int | float)):
                raise ConfigError(Problem(f'{where}.{name}', f'expected a number, got {number!r:.60}.'))
        return cls(
            kind,
            entry.get('value'),
            threshold,
            float(weight),
            str(entry.get('metric') or ''),
            entry['type'].startswith('not-'),
            inner,
            base,
        )

    @property
    def is_ruled(self) -> bool:
        """Whether a judge decides."""
        return self.kind in _RULED or any(part.is_ruled for part in self.parts)

    @property
    def words(self) -> Any:
        """The value, read from its file where it names one."""
        if isinstance(self.value, str) and self.value.startswith('file://') and self.kind != 'python':
            path = self.base / self.value.removeprefix('file://')
            text = path.read_text(encoding='utf-8')
            return _load_yaml(text) if path.suffix in ('.json', '.yaml', '.yml') else text
        return self.value

    def check(self, answer: Answer, ruled: bool | None = None) -> AssertionResult:
        """Whether the answer meets it. `ruled` is the judge's verdict, where one was asked."""
        text = text_of(answer.prediction)
        if self.weight == 0:
            return AssertionResult(1.0, passed=True)
        if self.kind == 'assert-set':
            return combine([part.check(answer, ruled) for part in self.parts], self.parts, self.threshold)
        if self.kind in _RULED:
            checked = AssertionResult(float(bool(ruled)), bool(ruled), 'the judge says no')
        else:
            result = CHECKS[self.kind](self, text, answer)
            checked = AssertionResult(float(result), result) if isinstance(result, bool) else result
        if self.negated:
            checked = AssertionResult(1 - checked.score, not checked.passed)
        if checked.passed:
            return checked
        value = '' if self.value is None else f' {text_of(self.value)!r:.60}'
        why = f': {checked.reason}' if checked.reason else ''
        return replace(checked, reason=f'{"not-" if self.negated else ""}{self.kind}{value} does not hold{why}')


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
    if match is None or match[1].removeprefix('not-') not in {*CHECKS, *_RULED, *_REFUSED, 'grade'}:
        return {'type': 'equals', 'value': text}
    kind, value = ('llm-rubric' if match[1] == 'grade' else match[1]), text[match.end() :]
    several = kind.endswith(('-any', '-all'))
    entry = {'type': kind, 'value': [part.strip() for part in value.split(',')] if several else value}
    return entry if match[2] is None else {**entry, 'threshold': float(match[2])}


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
        entries = answer.values.get(column)
        entries = json.loads(entries) if isinstance(entries, str) and entries.lstrip().startswith('[') else entries
        own = entries if isinstance(entries, list | tuple) else [] if entries in (None, '') else [entries]
        return (*common, *(Assertion.read(entry, column, folder) for entry in own))

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
    except Exception as error:  # a pattern, a file or Python of the config's own
        raise ScoringError(f'{part.kind}: {describe_error(error)}') from error


def _list(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else str(value or '').split(',')
    return [text_of(each).strip() for each in values]


def _contains(wanted: Callable[[Iterable[bool]], bool], *, fold: bool = False) -> Check:
    def check(part: Assertion, text: str, answer: Answer) -> bool:
        words = part.words
        listed = words if isinstance(words, list | tuple) else _list(words) if wanted is not bool else [words]
        texts = [text_of(word) for word in listed]
        if fold:
            text, texts = text.casefold(), [word.casefold() for word in texts]
        found = [word in text for word in texts]
        return wanted(found) if wanted is not bool else found[0]

    return check


def _equals(part: Assertion, text: str, answer: Answer) -> bool:
    words = part.words
    if isinstance(words, dict | list):
        try:
            return bool(json.loads(text) == words)
        except ValueError:
            return False
    return text.strip() == text_of(words).strip()


def _regex(part: Assertion, text: str, answer: Answer) -> bool:
    return search_groups(text_of(part.words), text) is not None


def _find_json(text: str) -> Iterator[Any]:
    """JSON objects and lists in a text, each from the first bracket on that begins one."""
    decoder, place = json.JSONDecoder(), 0
    for _ in range(_MOST_FRAGMENTS):
        match = re.compile(r'[{\[]').search(text, place)
        if match is None:
            return
        try:
            value, place = decoder.raw_decode(text, match.start())
            yield value
        except (ValueError, RecursionError):
            place = match.end()


def _fits(value: Any, schema: Any) -> AssertionResult:
    schema = _load_yaml(schema) if isinstance(schema, str) else schema
    if not schema:
        return AssertionResult(1.0, passed=True)
    validators = import_extra('jsonschema', extra='score', purpose='for assertions with a JSON schema')
    kind = validators.validators.validator_for(schema)
    checker = getattr(kind, 'FORMAT_CHECKER', None)
    error = next(kind(schema, format_checker=checker).iter_errors(value), None)
    return (
        AssertionResult(1.0, passed=True)
        if error is None
        else AssertionResult(0.0, passed=False, reason=str(error.message)[:200])
    )


def _is_json(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return AssertionResult(0.0, passed=False, reason='the reply is not JSON')
    return _fits(value, part.words)


def _contains_json(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    results = [_fits(value, part.words) for value in _find_json(text)]
    last = results[-1] if results else AssertionResult(0.0, passed=False, reason='there is no JSON in the reply')
    return next((result for result in results if result.passed), last)


def _is_xml(text: str) -> set[str] | None:
    """The names of the elements of a document; None if it is not well formed."""
    names: set[str] = set()
    parser = expat.ParserCreate()
    path: list[str] = []

    def start(name: str, attributes: Mapping[str, str]) -> None:
        path.append(name)
        names.add('.'.join(path))

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: path.pop()
    try:
        parser.Parse(text.strip(), True)
    except expat.ExpatError:
        return None
    return names


def _xml(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    wanted = part.words.get('requiredElements', []) if isinstance(part.words, Mapping) else part.words or []
    required = set(_list(wanted)) if wanted else set()
    documents = [text] if part.kind == 'is-xml' else _find_elements(text)
    names = [elements for document in documents if (elements := _is_xml(document)) is not None]
    if any(required <= elements for elements in names):
        return True
    missing = f'missing {", ".join(sorted(required - names[0]))}' if names else 'there is no well-formed XML'
    return AssertionResult(0.0, passed=False, reason=missing)


def _find_elements(text: str) -> Iterator[str]:
    for count, match in enumerate(_ELEMENT.finditer(text)):
        end = text.rfind(f'</{match[1]}>', match.end())
        if end >= 0:
            yield text[match.start() : end + len(match[1]) + 3]
        if count > _MOST_FRAGMENTS:
            return


def _distance(ours: str, theirs: str) -> int:
    """Levenshtein's distance."""
    row = list(range(len(theirs) + 1))
    for place, letter in enumerate(ours, start=1):
        before, row[0] = row[0], place
        for at, other in enumerate(theirs, start=1):
            before, row[at] = row[at], min(row[at] + 1, row[at - 1] + 1, before + (letter != other))
    return row[-1]


def _levenshtein(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    distance = _distance(text[:5000], text_of(part.words)[:5000])
    limit = 5 if part.threshold is None else part.threshold
    return AssertionResult(float(distance <= limit), distance <= limit, f'the distance is {distance}')


def _rouge(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    ours, theirs = (re.findall(r'\w+', words.casefold()) for words in (text, text_of(part.words)))
    shared = sum(min(ours.count(word), theirs.count(word)) for word in set(theirs))
    score = 2 * shared / (len(ours) + len(theirs)) if shared else 0.0
    return _reaches(score, part, 0.75)


def _bleu(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    sacrebleu = import_extra('sacrebleu', extra='score', purpose='for BLEU')
    references = [text_of(each) for each in (part.words if isinstance(part.words, list) else [part.words])]
    return _reaches(sacrebleu.sentence_bleu(text, references).score / 100, part, 0.5)


def _reaches(score: float, part: Assertion, default: float) -> AssertionResult:
    limit = default if part.threshold is None else part.threshold
    return AssertionResult(score, score >= limit, f'{score:.2f} is below {limit:g}')


def _similar(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    vectors = _encoder()(
        [text, *(text_of(each) for each in (part.words if isinstance(part.words, list) else [part.words]))]
    )
    lengths = (vectors**2).sum(axis=1) ** 0.5
    scores = (vectors[1:] @ vectors[0]) / (lengths[1:] * lengths[0])
    return _reaches(float(max(scores)), part, 0.75)


@lru_cache(maxsize=1)
def _encoder() -> Callable[[list[str]], Any]:
    from rolecall.sources.retrievers.encoders import SentenceEncoder

    return SentenceEncoder('all-MiniLM-L6-v2', 32)


def _word_count(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    words = len(_WORD.findall(text))
    wanted = part.words
    if isinstance(wanted, Mapping):
        low, high = wanted.get('min', 0), wanted.get('max', float('inf'))
    else:
        low = high = int(wanted)
    return AssertionResult(float(low <= words <= high), low <= words <= high, f'there are {words} words')


def _limit(name: str, factor: float, unit: str) -> Check:
    def check(part: Assertion, text: str, answer: Answer) -> AssertionResult:
        used = answer.used.get(name)
        if part.threshold is None:
            raise ValueError('threshold is missing')
        if used is None:
            raise ValueError(f'the {name} of this row is not known')
        amount = factor * used
        return AssertionResult(float(amount <= part.threshold), amount <= part.threshold, f'it took {amount:g}{unit}')

    return check


def _python(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    context = {'vars': dict(answer.values), 'gold': answer.gold, 'config': {}}
    with printing_to_stderr:
        result = _load_function(text_of(part.value), part.base)(text, context)
    if isinstance(result, Mapping):
        score = float(result.get('score', result.get('pass', 0.0)))
        passed = bool(result.get('pass', score > 0 if part.threshold is None else score >= part.threshold))
        return AssertionResult(score, passed, str(result.get('reason') or ''))
    if isinstance(result, bool):
        return result
    score = float(result)
    return AssertionResult(score, score > 0 if part.threshold is None else score >= part.threshold, f'{score:g}')


@lru_cache(maxsize=256)
def _load_function(source: str, base: Path) -> Callable[[str, Mapping[str, Any]], Any]:
    """The function of a Python assertion: of a file, or written in place as an expression or as lines with `return`."""
    names: dict[str, Any] = {}
    if source.startswith('file://'):
        file, _, function = source.removeprefix('file://').partition('.py:')
        path = base / (f'{file}.py' if function else file)
        with neighbours_of(path):
            exec(compile(path.read_text(encoding='utf-8'), str(path), 'exec'), names)
        return names[function or 'get_assert']  # type: ignore[no-any-return]
    if '\n' in source.strip():
        body = '\n'.join(f'    {line}' for line in source.strip().splitlines())
        exec(compile(f'def check(output, context):\n{body}', '<assertion>', 'exec'), names)
        return names['check']  # type: ignore[no-any-return]
    code = compile(source.strip(), '<assertion>', 'eval')
    return lambda output, context: eval(code, {'output': output, 'context': context})


def _load_yaml(text: str) -> Any:
    import yaml  # type: ignore[import-untyped]

    return yaml.safe_load(text)


CHECKS: dict[str, Check] = {
    'equals': _equals,
    'contains': _contains(bool),
    'icontains': _contains(bool, fold=True),
    'contains-all': _contains(all),
    'contains-any': _contains(any),
    'icontains-all': _contains(all, fold=True),
    'icontains-any': _contains(any, fold=True),
    'starts-with': lambda part, text, answer: text.startswith(text_of(part.words)),
    'regex': _regex,
    'is-json': _is_json,
    'contains-json': _contains_json,
    'is-xml': _xml,
    'contains-xml': _xml,
    'is-html': lambda part, text, answer: bool(_DOCUMENT.fullmatch(text) and _TAG.search(text)),
    'contains-html': lambda part, text, answer: _TAG.search(text) is not None,
    'is-refusal': lambda part, text, answer: not text.strip() or find_refusal(ScannedReply(text)) is not None,
    'levenshtein': _levenshtein,
    'rouge-n': _rouge,
    'bleu': _bleu,
    'similar': _similar,
    'word-count': _word_count,
    'latency': _limit('seconds', 1000.0, ' ms'),
    'cost': _limit('cost', 1.0, ''),
    'python': _python,
}
"""The types of assertions, without `not-`."""
