"""Rules about entries of a config: keys that nothing reads, columns that no row has, a template that is not used."""

from __future__ import annotations

from collections.abc import Iterator

from rolecall.errors import close_match
from rolecall.experiment.lint.finding import Rule, Violation, excerpt
from rolecall.experiment.lint.subject import CheckedRows, Subject


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


ENTRY_RULES = (
    Rule(
        name='unknown-key',
        severity='warning',
        description='A key of an entry is read by nothing: it is misspelt, or belongs to another type.',
        remedy='Correct it, or take it out.',
        levels=('dataset', 'model'),
        once=unknown_keys,
    ),
    Rule(
        name='foreign-key',
        severity='info',
        description="A model's entry has keys that configure OpenCompass or AISBench; they have no effect here.",
        remedy='Nothing needs to be done.',
        levels=('model',),
        once=foreign_keys,
    ),
    Rule(
        name='own-template-unused',
        severity='warning',
        description='An instruct model is addressed without the chat template in its files; it may answer nothing.',
        remedy='Use a type that applies it (HuggingFacewithChatTemplate), or chat_template=True. '
        'chat_template=False says that bare text is meant.',
        levels=('model',),
        once=unused_template,
    ),
    Rule(
        name='input-column-missing',
        severity='warning',
        description='reader_cfg names an input column that no row has.',
        remedy='Correct input_columns.',
        levels=('dataset',),
        after=missing_input_columns,
    ),
    Rule(
        name='same-prompt',
        severity='error',
        description='Every row gives the same prompt, so every answer is the answer to one question.',
        remedy='Write the columns that differ into the template, in braces: {question}.',
        levels=('dataset',),
        after=same_prompt,
    ),
)
