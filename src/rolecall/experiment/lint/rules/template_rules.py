"""Rules about what the templates say and what a row's values become in them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence

from rolecall.core.prompts.messages import has_messages
from rolecall.core.render.spans import Span
from rolecall.experiment.lint.subject import CheckedRow, Subject, Violation, excerpt, nearest_name, plain, text_or_none
from rolecall.experiment.opening.rows_config import find_option_list
from rolecall.experiment.pairs.pair import Preview
from rolecall.sources.datasets.columns import LETTERS, options_of, spread_choices
from rolecall.strings import count_noun

_LATEX_COMMAND = re.compile(r'\\[A-Za-z]+\*?(\[[^\]]*\])?\{?$')
_UNCLOSED = re.compile(r'\{([\w.-]+)(?![\w.-])(?=[^{}]*(?:\{|$))')
_NAME_LIKE = re.compile(r'[\w .-]+')
_DATASET_WORDS = ('text', 'field', 'unfilled', 'label', 'default', 'message', 'reply', 'media')


def unfilled_fields(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Fields that stand in the prompt as written, and columns of the row behind a brace that nothing closes."""
    for prompt in row.spoken:
        for before, span in _find_unfilled(prompt.spans):
            shot = span.origin.shot
            near = nearest_name(span.origin.name, row.values if shot is None else row.shots[shot])
            if not span.text:
                yield Violation(
                    f'the row has no column {span.origin.name!r}, so its picture, sound or film is not sent.',
                    about=span.origin.name,
                    remedy=f'Did you mean {{{near}}}?' if near else '',
                )
            elif _is_meant_as_field(span.origin.name, before, near):
                yield Violation(
                    f'the template has the field {span.text}, and the row has no such column: it is sent as written.',
                    about=span.text,
                    example=excerpt(prompt.text, span.text),
                    remedy=f'Did you mean {{{near}}}?' if near else '',
                    severity='error' if near else None,
                )
    for prompt in row.spoken:
        yield from _find_unclosed(prompt, row)


def _find_unclosed(prompt: Preview, row: CheckedRow) -> Iterator[Violation]:
    for span in prompt.spans:
        text = span.text if span.origin.kind == 'text' and isinstance(span.text, str) else ''
        for field in _UNCLOSED.finditer(text):
            if field[1] in row.values:
                yield Violation(
                    f'the template has {field[0]!r} without a closing brace: it is sent as written.',
                    about=field[0],
                    example=excerpt(prompt.text, field[0]),
                    remedy=f'Write {{{field[1]}}}.',
                    severity='error',
                )


def hidden_options(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Options to choose from, of which a prompt shows neither one nor a part that tells it from the others."""
    answer = subject.output_column
    if answer is None or answer not in row.values or subject.asks == 'whole':
        return
    columns = find_option_list(row.values)
    options = options_of(row.values, columns) if columns else None
    texts = {plain(str(option)) for option in (options or {}).values()} - {letter.lower() for letter in LETTERS}
    if not columns or not options or not texts:
        return
    if spread_choices(row.values, columns, answer)[answer] not in list(LETTERS):
        return
    filled = {plain(str(span.text)) for prompt in row.spoken for span in prompt.own if span.origin.kind == 'field'}
    parts = (value for value in filled if value and sum(value in text for text in texts) == 1)
    if not any(text in plain(prompt.text) for prompt in row.spoken for text in texts) and not any(parts):
        letters = ','.join(LETTERS[: len(options)])
        place = f'column {columns!r}' if isinstance(columns, str) else f'columns {", ".join(columns)}'
        yield Violation(
            f'the answer is one of the options in {place}, and the prompt shows none of them.',
            about=str(columns),
            example=excerpt(row.spoken[0].text if row.spoken else ''),
            remedy=f'Without --template, --choices {letters} writes them into the prompt; in a config, '
            f'choices_from={columns!r} gives the columns {letters}.',
            if_all_of=1,
        )


def check_judge_prompts(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Fields that stand in a judge's prompt as written, and prompts that do not fit the judge's context."""
    names = (*row.values, 'prediction', 'prediction2', 'obj_gold', 'history', 'dialogue')
    for prompt in row.judged:
        for note in prompt.notes:
            if note.kind == 'too_long':
                yield Violation(
                    f"the judge's prompt is {note.message}",
                    about='judge',
                    example=excerpt(prompt.text),
                    remedy='Shorten the template, or give the judge a longer max_seq_len.',
                )
        for before, span in _find_unfilled(prompt.spans):
            near = nearest_name(span.origin.name, names)
            if span.text and _is_meant_as_field(span.origin.name, before, near):
                yield Violation(
                    f"the judge's template has the field {span.text}, and nothing fills it: it is sent as written.",
                    about=span.text,
                    example=excerpt(prompt.text, span.text),
                    remedy=f'Did you mean {{{near}}}?' if near else '',
                )


def missing_judge(subject: Subject) -> Iterator[Violation]:
    """A judge that cannot be asked."""
    if subject.judge_missing:
        yield Violation(subject.judge_missing)


def _find_unfilled(spans: tuple[Span, ...]) -> Iterator[tuple[str, Span]]:
    """Each unfilled field with the words before it. In `\\frac{a}{b}`, `{b}` comes after the same words as `{a}`."""
    before = ''
    last_was_unfilled = False
    for span in spans:
        unfilled = span.origin.kind == 'unfilled'
        if unfilled:
            yield before, span
        if not (unfilled and last_was_unfilled):
            before = before if unfilled else str(span.text)
        last_was_unfilled = unfilled


def _is_meant_as_field(name: str, before: str, near: str) -> bool:
    """A name in braces, as opposed to JSON, code, LaTeX and doubled braces."""
    if _LATEX_COMMAND.search(before) or before.endswith('{') or not _NAME_LIKE.fullmatch(name):
        return False
    return bool(near) or (name.isidentifier() and not before.endswith(('_', '^', '{')))


def non_string_values(subject: Subject, checked: CheckedRow) -> Iterator[Violation]:
    """Values whose text form may not be what a person would write. (A value without one makes its row fail.)"""
    turns = subject.asks == 'dialogue'
    for row, columns in ((checked.values, subject.columns), *((shot, subject.shot_columns) for shot in checked.shots)):
        for column in columns:
            if column not in row:
                continue
            value = row[column]
            if turns and has_messages(value):
                continue  # a dialogue, of which each message is worded
            for item in value if turns and isinstance(value, (list, tuple)) else (value,):
                if (form := _odd(item)) is None or (text := text_or_none(item)) is None:
                    continue
                yield Violation(
                    f"column '{column}' is filled in with {form}.",
                    about=column,
                    example=f'{item!r:.40} → {text!r:.60}',
                    severity='info' if _is_number(item) else None,
                    weight=0 if _is_number(item) else 1,
                )


def _is_number(value: object) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _odd(value: object) -> str | None:
    if value is None:
        return 'None, which becomes nothing'
    if isinstance(value, (list, tuple)):
        return 'a list, which becomes JSON'
    if isinstance(value, Mapping):
        return 'a dict, which becomes JSON'
    if isinstance(value, float):
        return 'a float, which keeps its .0 or exponent' if _is_number(value) else f'the float {value}'
    return None


def empty_prompts(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Prompts without words, and rows that add nothing to theirs."""
    silent = next((prompt for prompt in row.spoken if not _has_words(prompt.spans)), None)
    if subject.level == 'pair':
        lost = next((prompt for prompt in row.sent if not _has_words(prompt.spans)), None)
        if lost is not None and silent is None:
            yield Violation(
                'nothing of the prompt reaches the model.', about='sent', example=excerpt(row.spoken[0].text)
            )
        return
    if silent is not None:
        yield Violation('the prompt is empty.', about='prompt', example=excerpt(silent.text))
        return
    for prompt in row.spoken[-1:]:
        filled = [span for span in prompt.own if span.origin.kind in ('field', 'media', 'unfilled')]
        if filled and not _has_words(filled):
            blank = ', '.join(dict.fromkeys(span.origin.name for span in filled))
            yield Violation(
                f'the row adds nothing to its prompt: {blank} {"are" if "," in blank else "is"} blank.',
                about='row',
                example=excerpt(prompt.text),
                severity='warning',
            )


def _has_words(spans: Sequence[Span]) -> bool:
    """Whether any role says something; a chat template's own text counts only if its origin is unknown."""
    if len(spans) == 1 and spans[0].origin.kind == 'chat_template':
        return True
    return any(span.origin.kind in _DATASET_WORDS and str(span.text).strip() for span in spans)


def lost_shots(subject: Subject) -> Iterator[Violation]:
    """An ice_template that is never used."""
    wording = subject.wording
    if wording and wording.ice_template and wording.prompt_template and not subject.shots:
        yield Violation(
            'there is an ice_template, but the retriever picks no examples: it is never used.', about='unused'
        )


def missing_shots(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Rows with fewer examples than the others."""
    if len(row.shot_ids) < subject.shots:
        yield Violation(
            f'only {len(row.shot_ids)} of {count_noun(subject.shots, "example")} could be found.',
            about='fewer',
            weight=subject.shots - len(row.shot_ids),
        )
