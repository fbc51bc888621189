"""Rules about answers and questions that stand where they should not.

`answer-visible` reports only what is hardly a coincidence. It looks at what other columns put into the prompt outside
the examples: an answer of 12 letters and two words or more, or of 20 letters, in one of them is reported at once; a
shorter one only if a column equals it, or ends with it, in every row, five at least. Options to choose from hold the
answer by design: numbered or lettered columns, lists, and texts with lettered options are left out. So are tests in
place of an answer (MBPP), which a prompt may show. Passages (columns called `context`, …) that hold the answer
are noted, not refused: extractive questions are asked so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from rolecall.core.prompts.pieces import Row
from rolecall.core.render.spans import Span
from rolecall.experiment.lint.subject import (
    CheckedRow,
    CheckedRows,
    Subject,
    Violation,
    bag,
    excerpt,
    likeness,
    nearest_name,
    plain,
    readable,
)
from rolecall.experiment.pairs.pair import Preview
from rolecall.sources.datasets.columns import PASSAGES

_ENOUGH_ROWS = 5
_LONG, _LONG_PHRASE = 20, 12
_ALIKE, _DISTINCT_WORDS = 0.9, 8
_QUOTED_QUESTION = 24
_TIMES_AS_LONG = 3
_EXTRACTIVE = 'This is how extractive questions are asked.'
_OPTION_COLUMN = re.compile(r'^(.*?)([ _-][A-Za-z]|[A-H]|[ _-]?\d+)$')
_OPTION = re.compile(r'(?<![A-Za-z])\(?([A-H])[).:、．]')


def missing_output_column(subject: Subject, looked: CheckedRows) -> Iterator[Violation]:
    """An output column that no row has, so that it hides nothing."""
    column = subject.output_column
    if column is None or not looked.columns or column in looked.columns:
        return
    near = nearest_name(column, looked.columns)
    yield Violation(
        f'the rows have no column {column!r} (output_column), so nothing is hidden from the model. '
        f'The rows have: {", ".join(map(str, looked.columns))}.',
        remedy=f'Did you mean {near!r}?' if near else '',
    )


def visible_answers(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Gold answers that another column shows."""
    column = subject.output_column
    if column is None or subject.asks == 'whole' or column not in row.values:
        return
    options = _option_columns(subject.columns)
    looked_at = set()
    for prompt in row.spoken:
        answer = _answer(row.values[column], prompt.turn)
        for span in () if _is_test(answer) else prompt.own:
            name, text = span.origin.name, span.text
            if span.origin.kind != 'field' or name in options or (answer, text) in looked_at:
                continue
            looked_at.add((answer, text))
            if isinstance(text, str) and not isinstance(row.values.get(name), (list, tuple)):
                yield from _visible_in(span, answer)


def _visible_in(span: Span, answer: str) -> Iterator[Violation]:
    name = span.origin.name
    text, gold = plain(span.text), plain(answer)
    stated = _is_distinctive(gold) and gold in text and not _lists_options(span.text)
    if not stated and not _ends_with(text, gold):
        return
    if _is_passage(name, text, gold):
        example = excerpt(span.text, answer.strip())
        note = f"the answers stand in column '{name}', a passage to find them in."
        yield Violation(note, about=f'passage {name}', example=example, severity='info', remedy=_EXTRACTIVE)
        return
    message = f"column '{name}' shows the gold answer in the prompt, although the output column is hidden."
    if stated:
        yield Violation(message, about=name, example=excerpt(span.text, answer.strip()), weight=1)
    else:
        yield Violation(message, about=name, example=excerpt(span.text[-80:], answer.strip()), if_all_of=_ENOUGH_ROWS)


def _is_passage(name: str, text: str, gold: str) -> bool:
    """Whether a text is one to find the answer in: called so, and with several times as much to read."""
    return name.lower().rpartition('.')[2] in PASSAGES and len(text) >= _TIMES_AS_LONG * len(gold)


def _ends_with(text: str, gold: str) -> bool:
    """Whether the last words of a text are the answer, or all of it is."""
    text = text.rstrip(' .!"\'')
    before = text.removesuffix(gold.rstrip(' .!"\''))
    return len(before) < len(text) and not before[-1:].isalnum()


def _answer(value: object, turn: int | None) -> str:
    if turn is not None and isinstance(value, (list, tuple)):
        value = value[turn] if turn < len(value) else None
    return readable(value)


def _is_test(answer: str) -> bool:
    """Whether there is no answer to find: none at all, or tests that the answer must pass, which prompts may show."""
    return not answer.strip() or answer.lstrip().startswith('assert ')


def _is_distinctive(answer: str) -> bool:
    return len(answer) >= _LONG or (len(answer) >= _LONG_PHRASE and ' ' in answer)


@lru_cache(maxsize=64)
def _option_columns(columns: tuple[str, ...]) -> frozenset[str]:
    """Columns that differ only in a letter or number at the end: `A`, `B`; `opt1`, `opt2`; `choice_a`, `choice_b`."""
    stems = {column: match[1] for column in columns if (match := _OPTION_COLUMN.match(column))}
    counts = Counter(stems.values())
    return frozenset(column for column, stem in stems.items() if counts[stem] > 1)


def _lists_options(text: str) -> bool:
    return len(set(_OPTION.findall(text))) > 1


def equal_examples(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """The row's question among its examples, or in the template's own words."""
    asks = _question(subject, row.values)
    for number, shot in zip(row.shot_ids, row.shots, strict=True):
        if asks and _question(subject, shot) == asks:
            yield Violation(
                f'training row {number} is shown as an example and asks the same as the row itself.',
                about='example',
                example=excerpt(asks),
            )
    for column in subject.question_columns:
        question = plain(readable(row.values[column])) if isinstance(row.values.get(column), str) else ''
        if len(question) >= _QUOTED_QUESTION and any(question in _own_words(prompt) for prompt in row.spoken):
            yield Violation(
                f"the template's own words hold the row's {column}, probably as a hand-written example.",
                about='template',
                example=excerpt(str(row.values[column])),
            )


def near_examples(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Examples that ask nearly the same as the row."""
    if not row.shots:
        return
    asks = _question(subject, row.values)
    words = _kept_bag(asks)
    for number, shot in zip(row.shot_ids, row.shots, strict=True):
        example = _question(subject, shot)
        if example == asks or not words:
            continue
        alike = likeness(words, _kept_bag(example)) if len(words) >= _DISTINCT_WORDS else 0.0
        if alike >= _ALIKE or plain(example) == plain(asks):
            yield Violation(
                f'training row {number} is shown as an example and asks nearly the same as the row itself.',
                example=f'{excerpt(asks)} ↔ {excerpt(example)}',
                weight=round(alike * 1000),
            )


def _question(subject: Subject, row: Row) -> str:
    return ' '.join(readable(row[column]) for column in subject.question_columns if column in row)


def _own_words(prompt: Preview) -> str:
    return _kept_plain(''.join(str(span.text) for span in prompt.own if span.origin.kind == 'text'))


_kept_bag = lru_cache(maxsize=4096)(bag)
_kept_plain = lru_cache(maxsize=64)(plain)


def same_split(subject: Subject) -> Iterator[Violation]:
    """Examples from the rows that are asked about."""
    if subject.same_rows and subject.shots:
        yield Violation('the examples are picked from the very rows that are asked about: train_split = test_split.')


def skipped_examples(subject: Subject, row: CheckedRow) -> Iterator[Violation]:
    """Training rows that were passed over for a row."""
    if row.skipped:
        rows = ', '.join(map(str, row.skipped))
        yield Violation(
            f'training rows were passed over because they are, or ask the same as, the row itself (here: {rows}).',
            example=excerpt(_question(subject, row.values)),
        )
