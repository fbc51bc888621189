"""Postprocessors by the names configs use, and how a config entry becomes a function from reply to answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any

from rolecall.core.prompts.values import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.registry import Part, Registry
from rolecall.scoring.blame import blame_errors_on
from rolecall.scoring.readers.reading import Reading
from rolecall.scoring.reading_choice import read_meaning

POSTPROCESSORS: Registry[Callable[..., Any]] = Registry(
    'postprocessor',
    'rolecall.compat.opencompass.evaluator_names:POSTPROCESSORS',
    is_ours=lambda name: False,
    spelling=lambda name: re.sub(r'_postprocess(?:or)?(?=_|$)', '', name.replace('-', '_')).lower(),
)
"""`first-option`, `first_option` and `first_option_postprocess` are the same name."""

_PATTERNS = ('answer_pattern', 're_pattern')


@dataclass(frozen=True, slots=True)
class Extractor:
    """A postprocessor with its options. Calling it gives the answer, `read` gives the reading with its place."""

    function: Callable[..., Any]
    name: str
    options: Mapping[str, Any]
    takes: tuple[str, ...] = ()
    """What else a reader of ours takes: the `row`, and the `forms` that the prompt asks for."""

    def __call__(self, reply: Any) -> Any:
        """The answer in a reply; None or an empty string if there is none."""
        answer = self.read(reply)
        return (answer.value if answer.counts else '') if isinstance(answer, Reading) else answer

    def read(self, reply: Any, row: Mapping[str, Any] | None = None) -> Any:
        """The answer in a reply to a row, as a `Reading` where the postprocessor gives one."""
        options = {**self.options, 'row': row} if 'row' in self.takes else self.options
        try:
            return self.function(reply if isinstance(reply, str) else text_of(reply), **options)
        except Exception:
            with blame_errors_on(f'the postprocessor {self.name}'):
                raise


def read_postprocessor(entry: Any, *, where: str = '', read_as: str | None = None) -> Extractor:
    """Resolve a config entry (a name, a function, or `{'type': …}` with options).

    A name of another system means what it means there, unless `read_as` is another one. Exceptions inside it are raised
    as `ScoringError`.

    >>> entry, reply = {'type': 'first_option_postprocess', 'options': 'ABCD'}, 'A is tempting, but the answer is C.'
    >>> read_postprocessor(entry)(reply), read_postprocessor(entry, read_as='own')(reply)
    ('C', 'C')
    >>> read_postprocessor(str.upper)('yes')
    'YES'
    """
    part = POSTPROCESSORS.read(entry, where=where)
    part = read_meaning(part, entry.get('type') if isinstance(entry, Mapping) else entry, read_as, skip=1)
    function: Callable[..., Any] = part.value
    if not callable(function):
        raise ConfigError(Problem(where, f'{part.name} is not a function.', 'A postprocessor takes a reply.'))
    if problems := [*part.option_problems(skip=1), *_bad_patterns(part)]:
        raise ConfigError(problems)
    taken = signature(function).parameters if part.builtin else ()
    return Extractor(function, part.name, dict(part.options), tuple(name for name in ('row', 'forms') if name in taken))


def is_empty(extracted: Any) -> bool:
    """Whether a postprocessor found no answer."""
    return extracted is None or (isinstance(extracted, (str, list, tuple)) and not extracted)


def _bad_patterns(part: Part[Any]) -> list[Problem]:
    problems = []
    for name in _PATTERNS:
        try:
            re.compile(part.options.get(name, ''))
        except (re.error, TypeError) as error:
            problems.append(Problem(f'{part.where}.{name}'.lstrip('.'), f'not a regular expression: {error}.'))
    return problems
