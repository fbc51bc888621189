"""The conditions that assertions put to a reply: texts, patterns, JSON, XML, likeness, limits and Python.

Replies are written by models: patterns have a time limit, and nesting and lengths are bounded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.parsers import expat

from rolecall.core.prompts.pieces import text_of
from rolecall.errors import import_extra
from rolecall.patterns import PatternError, search_groups
from rolecall.plain_files import read_plain
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.scanners import ScannedReply, find_refusal
from rolecall.strings import edit_distance
from rolecall.usercode import neighbours_of, printing_to_stderr

if TYPE_CHECKING:
    from rolecall.scoring.metrics.assertions import Assertion

_TAG = re.compile(
    r'<(?:!doctype html|/?(?:html|head|body|div|span|p|a|ul|ol|li|table|tr|td|h[1-6]|br|img)\b[^<>]*)>', re.I
)
_DOCUMENT = re.compile(r'\s*<(?:!doctype html|html|[a-z][\w-]*)[\s>].*>\s*', re.IGNORECASE | re.DOTALL)
_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*|([^,]*)),')
_ELEMENT = re.compile(r'<([A-Za-z_][\w.-]*)[^<>]*>')
_MOST_FRAGMENTS = 100
_DEEPEST = 100
"""Elements of XML that lie deeper are not looked for."""
_MOST_LETTERS = 50_000
"""The longest texts whose distance is counted."""
_WORD = re.compile(r'\S+')


@dataclass(frozen=True, slots=True)
class AssertionResult:
    """What an assertion came to."""

    score: float
    passed: bool
    reason: str = ''


Check = Callable[['Assertion', str, Answer], 'AssertionResult | bool']


def list_items(value: Any) -> list[str]:
    """The items of a list, or of a text with commas; an item in quotes may hold commas, `""` and `\\\\`, or be empty.

    >>> list_items('Paris, "Washington, D.C.",')
    ['Paris', 'Washington, D.C.']
    """
    if isinstance(value, list | tuple):
        return [text_of(each).strip() for each in value]
    items = [(match[1], (match[2] or '').strip()) for match in _ITEM.finditer(f'{value or ""},')]
    return [
        plain if quoted is None else quoted.replace('""', '"').replace('\\\\', '\\')
        for quoted, plain in items
        if quoted is not None or plain
    ]


def _contains(wanted: Callable[[Iterable[bool]], bool], *, fold: bool = False) -> Check:
    def check(part: Assertion, text: str, answer: Answer) -> bool:
        words = part.words
        listed = words if isinstance(words, list | tuple) else list_items(words) if wanted is not bool else [words]
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
        except (ValueError, RecursionError):
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
    schema = load_yaml(schema) if isinstance(schema, str) else schema
    if not schema:
        return AssertionResult(1.0, passed=True)
    try:
        error = next(_make_validator(schema).iter_errors(value), None)
    except RecursionError:
        return AssertionResult(0.0, passed=False, reason='the JSON, or its schema, nests too deeply')
    return AssertionResult(float(error is None), error is None, '' if error is None else str(error.message)[:200])


def _make_validator(schema: Any) -> Any:
    """A validator whose patterns have a time limit, and which fetches nothing: only known drafts can be referred to."""
    jsonschema = import_extra('jsonschema', extra='score', purpose='for assertions with a JSON schema')
    drafts = import_extra('jsonschema_specifications', extra='score', purpose='for assertions with a JSON schema')

    def match(validator: Any, pattern: str, text: Any, schema: Any) -> Iterator[Any]:
        if isinstance(text, str) and search_groups(pattern, text) is None:
            yield jsonschema.ValidationError(f'{text!r:.60} does not match {pattern!r:.60}')

    def check_matching(validator: Any, patterns: Any, value: Any, schema: Any) -> Iterator[Any]:
        for pattern, inner in patterns.items():
            for name in value if validator.is_type(value, 'object') else ():
                if search_groups(pattern, name):
                    yield from validator.descend(value[name], inner, path=name, schema_path=pattern)

    def check_others(validator: Any, inner: Any, value: Any, schema: Any) -> Iterator[Any]:
        known, patterns = schema.get('properties', ()), schema.get('patternProperties', ())
        for name in value if validator.is_type(value, 'object') else ():
            if name in known or any(search_groups(pattern, name) for pattern in patterns):
                continue
            if inner is False:
                yield jsonschema.ValidationError(f'Additional properties are not allowed ({name!r} was unexpected)')
            else:
                yield from validator.descend(value[name], inner, path=name)

    def check_unique(validator: Any, unique: Any, value: Any, schema: Any) -> Iterator[Any]:
        if unique and validator.is_type(value, 'array') and len(set(map(_hashable, value))) < len(value):
            yield jsonschema.ValidationError(f'{value!r:.60} has non-unique elements')

    if all(word in str(schema) for word in ('patternProperties', 'unevaluatedProperties')):
        raise PatternError('patternProperties and unevaluatedProperties in one schema cannot be limited in time')
    kind = jsonschema.validators.validator_for(schema)
    keywords = {
        'pattern': match,
        'patternProperties': check_matching,
        'additionalProperties': check_others,
        'uniqueItems': check_unique,
    }
    bounded = jsonschema.validators.extend(kind, keywords)
    return bounded(schema, registry=drafts.REGISTRY, format_checker=getattr(kind, 'FORMAT_CHECKER', None))


def _hashable(value: Any) -> Any:
    """JSON values are equal where these are: 1 and 1.0, but not 1 and true."""
    if isinstance(value, dict):
        return dict, frozenset((name, _hashable(inner)) for name, inner in value.items())
    return (list, *map(_hashable, value)) if isinstance(value, list) else (type(value) is bool, value)


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is not JSON')


def _is_json(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
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
        if len(path) <= _DEEPEST:
            names.add('.'.join(path))

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda name: path.pop()
    try:
        parser.Parse(text.strip(), True)
    except (expat.ExpatError, UnicodeEncodeError):
        return None
    return names


def _xml(part: Assertion, text: str, answer: Answer) -> AssertionResult | bool:
    wanted = part.words.get('requiredElements', []) if isinstance(part.words, Mapping) else part.words or []
    required = set(list_items(wanted)) if wanted else set()
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


def _levenshtein(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    wanted = text_of(part.words)
    limit = 5 if part.threshold is None else part.threshold
    least = abs(len(text) - len(wanted))
    if least > limit or max(len(text), len(wanted)) > _MOST_LETTERS:
        return AssertionResult(0.0, passed=False, reason=f'the distance is at least {least}')
    distance = edit_distance(text, wanted)
    return AssertionResult(float(distance <= limit), distance <= limit, f'the distance is {distance}')


def _rouge(part: Assertion, text: str, answer: Answer) -> AssertionResult:
    ours, theirs = (re.findall(r'\w+', words.casefold()) for words in (text, text_of(part.words)))
    shared = (Counter(ours) & Counter(theirs)).total()
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
        if used is None:
            raise ValueError(f'the {name} of this row is not known')
        amount, passed = factor * used, factor * used <= (part.threshold or 0.0)
        return AssertionResult(float(passed), passed, f'it took {amount:g}{unit}')

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
            exec(compile(read_plain(path), str(path), 'exec'), names)
        return names[function or 'get_assert']  # type: ignore[no-any-return]
    if '\n' in source.strip():
        body = '\n'.join(f'    {line}' for line in source.strip().splitlines())
        exec(compile(f'def check(output, context):\n{body}', '<assertion>', 'exec'), names)
        return names['check']  # type: ignore[no-any-return]
    code = compile(source.strip(), '<assertion>', 'eval')
    return lambda output, context: eval(code, {'output': output, 'context': context})


def load_yaml(text: str) -> Any:
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
NEEDS_VALUE = (
    frozenset(CHECKS)
    - {'latency', 'cost', 'is-refusal'}
    - {f'{how}-{form}' for how in ('is', 'contains') for form in ('json', 'xml', 'html')}
)
"""The types that mean nothing without a value."""
