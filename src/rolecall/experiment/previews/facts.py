"""The facts below a request: notes, the examples used, its size and its fingerprint."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rolecall.core.program import fingerprint
from rolecall.core.render.spans import join_spans
from rolecall.experiment.pairs.pair import Preview
from rolecall.strings import count_noun

_HAPPENED = {
    'fallback': 'fell back',
    'not_sent': 'not sent',
    'moved': 'moved',
    'merged': 'merged',
    'shots_dropped': 'dropped',
    'truncated': 'truncated',
    'too_long': 'not sent',
    'not_counted': 'context',
}


def title_of(preview: Preview) -> str:
    """Which request this is, in one line."""
    words = [f'{preview.dataset} × {preview.model or "no model"}', f'row {preview.row}', preview.mode]
    if preview.label is not None:
        words.append(f'label {preview.label}')
    if preview.turn is not None:
        words.append(f'turn {preview.turn}')
    return ' · '.join(words)


def facts_of(preview: Preview) -> Iterator[tuple[str, str]]:
    """Headings with their text."""
    for note, times in Counter(preview.notes).items():
        quoted = f' {note.text!r:.120}' if note.text else ''
        again = f' ({times} times)' if times > 1 else ''
        yield _HAPPENED[note.kind], f'{note.message}{quoted}{again}'
    if preview.shots:
        yield 'shots', f'{len(preview.shots)}: {_name_rows(preview.shots)}'
    if preview.skipped:
        yield 'skipped', f'{_name_rows(preview.skipped)}: the same as the row being asked about'
    hidden = dict.fromkeys(span.origin.name for span in preview.spans if span.origin.kind == 'masked')
    if hidden:
        yield 'hidden', ', '.join(name or 'the answer' for name in hidden)
    if (at := _end_of_context(preview)) is not None:
        yield 'context', f'ends after character {at:,}'
    yield 'size', _size(preview)
    if preview.request is not None:
        yield 'fingerprint', fingerprint(preview.request)


def _name_rows(numbers: Sequence[int]) -> str:
    noun = 'training row' if len(numbers) == 1 else 'training rows'
    return f'{noun} {", ".join(map(str, numbers))}'


def _end_of_context(preview: Preview) -> int | None:
    """Where a sep_token divides a text into context and answer."""
    at = 0
    for span in preview.spans:
        if span.origin.kind == 'sep' and span.message is None:
            return at
        at += len(span.text)
    return None


def _size(preview: Preview) -> str:
    places = join_spans(preview.spans)
    characters = count_noun(sum(map(len, places.values())), 'character')
    if isinstance(preview.request, list) and preview.spans and preview.spans[0].message is not None:
        return f'{characters} in {count_noun(len(preview.request), "message")}'
    return characters
