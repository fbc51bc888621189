"""Rules about what cannot be looked at: rows that are not at hand, and rows that give no prompt."""

from __future__ import annotations

from collections.abc import Iterator

from rolecall.lint.finding import Hit, Rule, excerpt
from rolecall.lint.subject import Asked, Subject

__all__ = ['STATE_RULES']


def missing_rows(subject: Subject) -> Iterator[Hit]:
    """A dataset whose rows cannot be read."""
    if subject.rows_missing:
        yield Hit(f'there are no rows to look at: {subject.rows_missing}')


def failing_rows(subject: Subject, asked: Asked) -> Iterator[Hit]:
    """Rows that cannot become a prompt."""
    if asked.failed:
        yield Hit(asked.failed, example=excerpt(str(dict(asked.values))) if asked.values else '')


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
        name='row-fails',
        severity='error',
        description='A row cannot be read or become a prompt: a column is missing, a chat template refuses it, ….',
        remedy='Correct the row, or leave it out with test_range.',
        levels=('dataset', 'pair'),
        each=failing_rows,
    ),
)
