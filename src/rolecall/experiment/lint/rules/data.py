"""Rules about data that looks like something it is not. Here data stays data; other tools may read it otherwise."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rolecall.core.render.spans import Span
from rolecall.experiment.lint.finding import Rule, Violation, excerpt
from rolecall.experiment.lint.subject import CheckedRow, Subject

_FIELD = re.compile(r'\{([^{}]+)\}')


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


DATA_RULES = (
    Rule(
        name='data-looks-like-field',
        severity='info',
        description="A value holds a column's name in braces; it stays as it is, but other tools would fill it in.",
        remedy='Nothing needs to be done here; where other tools fill templates, it leaks or loses that column.',
        levels=('dataset',),
        each=looks_like_field,
    ),
    Rule(
        name='data-looks-like-ice-token',
        severity='info',
        description='A value holds the example token or the separator; it stays as it is, other tools would act on it.',
        remedy='Nothing needs to be done here; a token that no row holds is safer with other tools.',
        levels=('dataset',),
        each=looks_like_mark,
    ),
    Rule(
        name='data-looks-like-special-token',
        severity='warning',
        description='A value holds a control token of the model, which the server may take for the real one.',
        remedy='Take the token out of the data, or run the model in this process, where values stay text.',
        levels=('pair',),
        each=looks_like_special_token,
    ),
)
