"""Rules about what cannot be looked at: rows that are not at hand, left out, or give no prompt."""

from __future__ import annotations

from collections.abc import Iterator

from rolecall.experiment.lint.finding import Rule, Violation, excerpt
from rolecall.experiment.lint.subject import CheckedRow, CheckedRows, Subject
from rolecall.experiment.lint.text_matching import text_or_none


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


STATE_RULES = (
    Rule(
        name='rows-not-at-hand',
        severity='error',
        description="A dataset's rows cannot be read, so only its templates and settings were looked at.",
        remedy='Supply them with --data train=FILE test=FILE.',
        levels=('dataset',),
        once=missing_rows,
    ),
    Rule(
        name='no-rows',
        severity='error',
        description='A dataset can be read, but has no rows to ask about.',
        remedy='Look at the file, and at test_split and test_range of reader_cfg.',
        levels=('dataset',),
        after=no_rows,
    ),
    Rule(
        name='retriever-fails',
        severity='error',
        description='The retriever cannot pick examples from the training rows, so no row was looked at.',
        remedy='Correct its settings, or give it the training rows that it needs.',
        levels=('dataset',),
        after=failing_retriever,
    ),
    Rule(
        name='row-fails',
        severity='error',
        description='A row cannot be read or become a prompt: a column is missing, a chat template refuses it, ….',
        remedy='Correct the row, or leave it out with test_range.',
        levels=('dataset', 'pair'),
        each=failing_rows,
    ),
    Rule(
        name='lines-left-out',
        severity='warning',
        description="Malformed lines of a file were left out, because the dataset is read with on_error='skip'.",
        remedy="Correct them; without on_error='skip' the first one is shown with its line number.",
        levels=('dataset',),
        after=left_out_lines,
    ),
)
