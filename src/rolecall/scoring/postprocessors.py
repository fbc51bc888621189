"""Postprocessors by the names configs use, and how a config entry becomes a function from reply to answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.prompts.values import text_of
from rolecall.scoring.blame import blame_errors_on
from rolecall.scoring.naming import Entry, is_reference_name, problems_with_options, read_entry, unknown_name
from rolecall.scoring.postprocess import expressions, freeform, numbers, options

__all__ = ['POSTPROCESSORS', 'Extract', 'is_empty', 'read_postprocessor']

Extract = Callable[[Any], Any]
"""From a reply to its answer; None or an empty string if there is none."""

POSTPROCESSORS: Mapping[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (
        options.first_option_postprocess,
        options.last_option_postprocess,
        options.first_capital_postprocess,
        options.last_capital_postprocess,
        options.first_capital_postprocess_multi,
        options.multiple_select_postprocess,
        options.bbh_mcq_postprocess,
        freeform.bbh_freeform_postprocess,
        numbers.first_number_postprocess,
        numbers.gsm8k_postprocess,
        numbers.gsm8k_dataset_postprocess,
        expressions.math_postprocess,
        expressions.math_postprocess_v2,
        freeform.general_postprocess,
        freeform.general_cn_postprocess,
        freeform.triviaqa_postprocess,
        freeform.match_answer_pattern,
        freeform.xml_tag_postprocessor,
        freeform.think_pred_postprocess,
        freeform.extract_non_reasoning_content,
        freeform.humaneval_postprocess_v2,
        freeform.humaneval_postprocess_v3,
    )
}
"""Each is described by the first line of its docstring."""

_PATTERNS = ('answer_pattern', 're_pattern')


def read_postprocessor(entry: Any, *, where: str = '') -> Extract:
    """Resolve a config entry (a name, a function, or `{'type': …}` with options) to a function.

    Exceptions inside it are raised as `ScoringError`.

    >>> read_postprocessor({'type': 'first_option_postprocess', 'options': 'ABCD'})('The answer is C.')
    'C'
    >>> read_postprocessor(str.upper)('yes')
    'YES'
    """
    read = read_entry(entry, where=where)
    function = _find_function(read)
    problems = [*problems_with_options(function, read), *_bad_patterns(read)]
    if problems:
        raise ConfigError(problems)
    given = dict(read.options)

    def extract(reply: Any) -> Any:
        with blame_errors_on(f'the postprocessor {read.name}'):
            return function(reply if isinstance(reply, str) else text_of(reply), **given)

    return extract


def is_empty(extracted: Any) -> bool:
    """Whether a postprocessor found no answer."""
    return extracted is None or (isinstance(extracted, (str, list, tuple)) and not extracted)


def _find_function(read: Entry) -> Callable[..., Any]:
    if callable(read.kind) and not is_reference_name(read.kind):
        own: Callable[..., Any] = read.kind
        return own
    known = {_normalise_name(name): function for name, function in POSTPROCESSORS.items()}
    found = known.get(_normalise_name(read.name))
    if found is None:
        raise ConfigError(unknown_name(read, 'postprocessor', POSTPROCESSORS))
    return found


def _normalise_name(name: str) -> str:
    """`first-option`, `first_option` and `first_option_postprocess` are the same name."""
    return re.sub(r'_postprocess(?:or)?(?=_|$)', '', name.replace('-', '_')).lower()


def _bad_patterns(read: Entry) -> list[Problem]:
    problems = []
    for name in _PATTERNS:
        try:
            re.compile(read.options.get(name, ''))
        except (re.error, TypeError) as error:
            problems.append(Problem(f'{read.where}.{name}'.lstrip('.'), f'not a regular expression: {error}.'))
    return problems
