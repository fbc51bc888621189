"""Rules about entries of a config: keys that nothing reads, columns that no row has, a template that is not used."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rolecall.core.render.spans import Span
from rolecall.errors import close_match
from rolecall.experiment.lint.subject import CheckedRow, CheckedRows, Subject, Violation, excerpt, text_or_none

_FIELD = re.compile(r'\{([^{}]+)\}')


def unknown_keys(subject: Subject) -> Iterator[Violation]:
    """Keys that nothing reads."""
    for key, meant in subject.unknown_keys:
        remedy = f"Did you mean '{meant}'?" if meant else ''
        yield Violation(f'the key {key!r} has no effect.', about=key, remedy=remedy)


def foreign_keys(subject: Subject) -> Iterator[Violation]:
    """Keys that configure another program."""
    if subject.foreign_keys:
        keys = ', '.join(subject.foreign_keys)
        yield Violation(f'keys of OpenCompass or AISBench without effect here: {keys}.')


def unused_template(subject: Subject) -> Iterator[Violation]:
    """An instruct model that is sent bare text."""
    if subject.template_unused:
        yield Violation('the model has a chat template, and prompts are sent to it as bare text.')


def missing_input_columns(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """Columns that reader_cfg names and no row has."""
    for column in subject.input_columns if looked.columns else ():
        if column not in looked.columns:
            close = close_match(column, looked.columns)
            yield Violation(
                f'no row has the input column {column!r}.',
                about=column,
                remedy=f"Did you mean '{close}'?" if close else f'The rows have: {", ".join(looked.columns)}.',
            )


def same_prompt(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """Rows that all ask the same."""
    if looked.same_prompt:
        yield Violation('every row gives the same prompt.', example=excerpt(looked.same_prompt))


def looks_like_field(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Values with a column's name in braces."""
    for span in _values(row):
        for match in _FIELD.finditer(span.text) if '{' in span.text else ():
            if match[1] in row.values:
                yield _make_violation(span, match[0], 'reads like a field of the template')


def looks_like_mark(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Values with the example token or the separator in them."""
    for span in _values(row) if subject.marks else ():
        for mark in subject.marks:
            if mark in span.text:
                yield _make_violation(span, mark, "is the template's own token")


def looks_like_special_token(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Values with a control token of the model in them."""
    tokens = () if subject.values_stay_text else subject.control_tokens
    firsts = {token[0] for token in tokens}
    for span in _values(row) if tokens else ():
        if any(first in span.text for first in firsts):
            for token in tokens:
                if token in span.text:
                    yield _make_violation(span, token, 'is a control token of the model')


def _values(row: CheckedRow) -> Iterator[Span]:
    """What the row and its examples put into the prompts."""
    texts = set()
    for prompt in row.spoken:
        for span in prompt.spans:
            if span.origin.kind == 'field' and isinstance(span.text, str) and span.text not in texts:
                texts.add(span.text)
                yield span


def _make_violation(span: Span, token: str, what: str) -> Violation:
    return Violation(
        f"column '{span.origin.name}' holds {token!r}, which {what}.",
        about=f'{span.origin.name} {token}',
        example=excerpt(span.text, token),
    )


def missing_rows(subject: Subject) -> Iterator[Violation]:
    """A dataset whose rows cannot be read."""
    if subject.rows_missing:
        yield Violation(f'there are no rows to look at: {subject.rows_missing}')


def no_rows(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """A dataset that can be read and asks nothing."""
    if looked.empty:
        ranged = f': test_range {subject.test_range!r} leaves none' if subject.test_range is not None else ''
        yield Violation(f'there are no rows to ask about{ranged}.')


def failing_retriever(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """Settings of a retriever that cannot work with the training rows there are."""
    if looked.unpicked:
        yield Violation(f'no examples can be picked: {looked.unpicked}')


def failing_rows(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Rows that cannot become a prompt."""
    if row.failed:
        values = {name: text_or_none(value) for name, value in row.values.items()}
        yield Violation(row.failed, example=excerpt(str(values)) if values else '')


def left_out_lines(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """Malformed lines that `on_error='skip'` passed over."""
    for which, count in looked.left_out.items():
        if count:
            lines = '1 malformed line was' if count == 1 else f'{count:,} malformed lines were'
            yield Violation(f'{lines} left out of the {which} rows.', about=which)
