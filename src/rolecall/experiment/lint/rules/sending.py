"""Rules about the way to a model and back: what happens to the dataset's words, settings, and how a reply is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from rolecall.checking import is_whole
from rolecall.core.render.arrange import Note
from rolecall.errors import ConfigError
from rolecall.experiment.lint.subject import CheckedRow, Subject, Violation, excerpt
from rolecall.scoring.metrics.assertions import read_assertions


def _report_notes(fits: Callable[[Note], bool]) -> Callable[[Subject, CheckedRow], Iterator[Violation]]:
    """A rule that reports certain notes of the renderer."""

    def check(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
        for prompt in row.sent:
            for note in prompt.notes:
                if fits(note):
                    yield Violation(note.message, about=note.message, example=excerpt(note.text))

    return check


def _is_answer_start(note: Note) -> bool:
    return note.kind == 'not_sent' and 'prefill' in note.message


fallback_roles = _report_notes(lambda note: note.kind == 'fallback')
moved_text = _report_notes(lambda note: note.kind == 'moved')
merged_speeches = _report_notes(lambda note: note.kind == 'merged')
unsent_answer_starts = _report_notes(_is_answer_start)
unsent_text = _report_notes(lambda note: note.kind == 'not_sent' and not _is_answer_start(note))


def dated_templates(subject: Subject) -> Iterator[Violation]:
    """Chat templates whose text changes with the calendar."""
    if subject.chat_template and subject.chat_template.prints_date:
        yield Violation("the model's chat template prints the date: prompts and cached results change at midnight.")


def missing_length(subject: Subject) -> Iterator[Violation]:
    """Generation without a limit."""
    if subject.asks in ('gen', 'wordings', 'dialogue') and subject.max_out_len is None:
        yield Violation('neither the inferencer nor the model says how long a reply may be.')


def limiting_servers(subject: Subject) -> Iterator[Violation]:
    """Servers that change prompts, or read less of them than the entry says, as they showed when they were asked."""
    server = subject.server
    if server is None:
        return
    if server.window and is_whole(subject.max_seq_len, least=server.window + 1):
        yield Violation(f'max_seq_len is {subject.max_seq_len:,}, but the server reads {server.window:,} tokens.')
    for is_so, what in (
        (server.keeps_system is False, 'the server drops system messages'),
        (server.truncates, 'the server cuts prompts that are longer than its window and answers all the same'),
        ((server.bos or 0) > 1, f'the server puts {server.bos} BOS tokens before a prompt'),
    ):
        if is_so:
            yield Violation(f'{what}, as a probe showed.')


def alike_samples(subject: Subject) -> Iterator[Violation]:
    """Several answers to one prompt, drawn without a temperature."""
    if subject.alike_samples:
        yield Violation('several answers are drawn to each prompt without a temperature: they may all be the same.')


def unknown_models(subject: Subject) -> Iterator[Violation]:
    """Models that a run cannot build."""
    for problem in subject.type_problems:
        yield Violation(f'{problem.where}: {problem.what}', remedy=problem.remedy)


def wrong_sampling(subject: Subject) -> Iterator[Violation]:
    """Sampling parameters that a run refuses."""
    for problem in subject.sampling_problems:
        yield Violation(f'{problem.where}: {problem.what}', about=problem.where, remedy=problem.remedy)


def misplaced_options(subject: Subject) -> Iterator[Violation]:
    """Options of the inferencer written one level too high."""
    for option in subject.misplaced_options:
        yield Violation(f'infer_cfg.{option} has no effect: it is an option of the inferencer.', about=option)


def shared_abbr(subject: Subject) -> Iterator[Violation]:
    """Entries that go by the same name."""
    if subject.namesakes:
        yield Violation(f'the same abbr is used at {", ".join(subject.namesakes)}: results would be mixed up.')


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


def unusable_assertions(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Assertions of a row that are misspelt, or no row with any."""
    column, for_all = subject.assertions
    if not column:
        return
    try:
        if not read_assertions(row.values.get(column), column) and not for_all:
            what = f'no row has an assertion in the column {column!r}, so every row would pass.'
            yield Violation(what, if_all_of=1)
    except ConfigError as error:
        for problem in error.problems:
            yield Violation(f'{problem.where}: {problem.what}', about=problem.what, remedy=problem.remedy)
