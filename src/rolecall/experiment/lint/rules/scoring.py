"""Rules about how a reply is read: a postprocessor can only find what the prompt asks for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rolecall.experiment.lint.subject import CheckedRow, Subject, Violation, excerpt

Mismatch = Callable[[str, Mapping[str, Any]], str]
"""What a postprocessor with these options misses in a prompt; nothing if all is well."""


def _wants_options(text: str, options: Mapping[str, Any]) -> str:
    letters = str(options.get('options') or 'ABCD')
    visible = [letter for letter in letters if _stands_alone(letter, text)]
    if len(visible) >= min(2, len(letters)):
        return ''
    return f'it looks for one of the options {letters}, and the prompt shows no such options'


def _stands_alone(letter: str, text: str) -> bool:
    return re.search(rf'(?<![A-Za-z0-9]){re.escape(letter)}(?![A-Za-z0-9])', text) is not None


def _wants_pattern(text: str, options: Mapping[str, Any]) -> str:
    pattern = options.get('answer_pattern')
    if not isinstance(pattern, str):
        return ''
    wordings = _words_of(pattern)
    prompt = text.casefold()
    if not wordings or any(all(word in prompt for word in words) for words in wordings):
        return ''
    return f'it looks for {pattern!r}, and the prompt never says {" or ".join(repr(" ".join(w)) for w in wordings)}'


@lru_cache(maxsize=64)
def _words_of(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The literal words of a regular expression, for each of its alternatives; nothing if one of them has none.

    >>> _words_of(r'(?i)final answer\\s*:\\s*([A-D])')
    (('final', 'answer'),)
    """
    bare = re.sub(r'\(\?[a-zA-Z]+\)|\(\?(?:[:=!]|<[=!]|P?<\w+>)', '(', pattern)
    bare = re.sub(r'\\[a-zA-Z]|\[[^\]]*\]|\{\d*,?\d*\}|.[?*]', ' ', bare)
    alternatives = tuple(tuple(re.findall(r'[^\W\d_]{2,}', alternative.casefold())) for alternative in bare.split('|'))
    return alternatives if all(alternatives) else ()


def _wants_any(*phrases: str) -> Mismatch:
    def check(text: str, options: Mapping[str, Any]) -> str:
        prompt = text.casefold()
        if any(phrase in prompt for phrase in phrases):
            return ''
        return f'it looks for {" or ".join(map(repr, phrases))}, and the prompt never says so'

    return check


_MISMATCHES: Mapping[str, Mismatch] = {
    'first_option_postprocess': _wants_options,
    'last_option_postprocess': _wants_options,
    'first_capital_postprocess': _wants_options,
    'first_capital_postprocess_multi': _wants_options,
    'last_capital_postprocess': _wants_options,
    'match_answer_pattern': _wants_pattern,
    'math_postprocess': _wants_any('final answer', 'boxed'),
    'math_postprocess_v2': _wants_any('final answer', 'boxed'),
    'bbh_mcq_postprocess': _wants_any('answer is', '(a)'),
    'bbh_freeform_postprocess': _wants_any('answer is'),
    'TheoremQA_postprocess': _wants_any('answer is'),
    'TheoremQA_postprocess_v2': _wants_any('answer is', 'boxed'),
    'dapo_math_postprocess': _wants_any('answer:'),
    'dapo_math_postprocess_v2': _wants_any('answer:', 'boxed'),
}
"""Postprocessors that need the prompt to ask for a certain form."""


def unmatched_postprocessor(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """A postprocessor that looks for something the prompt does not ask for."""
    reads = subject.postprocessor
    mismatch = _MISMATCHES.get(reads.name) if reads else None
    if reads is None or mismatch is None or subject.mode != 'gen':
        return
    for prompt in row.spoken[-1:]:
        if missing := mismatch(prompt.text, reads.options):
            yield Violation(
                f'{reads.name} cannot match: {missing}.',
                about=reads.name,
                example=excerpt(prompt.text[-80:]),
                if_all_of=1,
            )


def unusable_scoring(subject: Subject) -> Iterator[Violation]:
    """An eval_cfg that cannot score: an unknown evaluator, a wrong option, no sandbox."""
    for problem in subject.scoring_problems:
        place = f'eval_cfg.{problem.where}' if problem.where else 'eval_cfg'
        yield Violation(f'{place}: {problem.what}', about=f'{problem.where} {problem.what}', remedy=problem.remedy)
