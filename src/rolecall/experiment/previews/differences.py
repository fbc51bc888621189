"""Two requests compared word by word, and laid out in rows that end where both have a line break.

Long requests are cut at lines they share first, so that the time stays near linear.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from rolecall.core.render.spans import join_spans
from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import SPECIAL_TOKEN, as_json, blocks_of, is_messages, show_blanks, title_of
from rolecall.strings import common_length, printable

_UNSPACED = '\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af'
_WORD = re.compile(rf'(?:{SPECIAL_TOKEN.pattern})|(?m:^── [^\n]+ ──$)|[^\W{_UNSPACED}]+ ?|.', re.DOTALL)
"""A special token, a word with the space after it, or any one character (of scripts without spaces, too)."""
_LONG = 40_000
_JUNK_FROM = 1000

Pieces = tuple[tuple[str, bool], ...]
"""Text in pieces; the flag says which of them differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """Text of one request beside that of the other; None where one has none.

    A row of differing words may hold line breaks.
    """

    left: Pieces | None
    right: Pieces | None

    @property
    def same(self) -> bool:
        """Whether both texts are the same."""
        return self.left == self.right

    def as_json(self) -> dict[str, Any]:
        """Both texts in plain values."""
        return {
            side: None if pieces is None else [{'text': text, 'differs': differs} for text, differs in pieces]
            for side, pieces in (('left', self.left), ('right', self.right))
        }


def request_lines(preview: Preview) -> list[str]:
    """A request as lines, with a heading before each message."""
    lines: list[str] = []
    for block in blocks_of(preview):
        if is_messages(preview):
            lines.append(f'── {block.heading} ──')
        lines += ''.join(join_spans(block.spans).values()).split('\n')
        lines += [block.extra] if block.extra else []
    return lines


def align_lines(left: Sequence[str], right: Sequence[str]) -> list[Change]:
    """The lines of two requests, aligned.

    >>> for change in align_lines(['Q: 1+1=?', 'A:'], ['Q: 1+2=?', 'A:']):
    ...     print(change.left, change.right)
    (('Q: 1+', False), ('1', True), ('=?', False)) (('Q: 1+', False), ('2', True), ('=?', False))
    (('A:', False),) (('A:', False),)
    """
    line, other = '\n'.join(left), '\n'.join(right)
    runs = _by_words(line, other) if len(line) + len(other) < _LONG else _by_lines(left, right)
    return list(_rows(runs))


Runs = Iterable[tuple[str, str]]
"""Stretches of both texts, one after the other; those that are equal on both sides are shared."""


def _by_lines(left: Sequence[str], right: Sequence[str]) -> Runs:
    text, other = ([f'{line}\n' for line in side[:-1]] + list(side[-1:]) for side in (left, right))
    for op, a, b, c, d in SequenceMatcher(None, text, other, autojunk=False).get_opcodes():
        before, after = ''.join(text[a:b]), ''.join(other[c:d])
        yield from [(before, after)] if op == 'equal' else _by_words(before, after)


def _by_words(left: str, right: str) -> Runs:
    word, other = _WORD.findall(left), _WORD.findall(right)
    forgiving = max(len(word), len(other)) > _JUNK_FROM
    for op, a, b, c, d in SequenceMatcher(None, word, other, autojunk=forgiving).get_opcodes():
        before, after = ''.join(word[a:b]), ''.join(other[c:d])
        yield from [(before, after)] if op == 'equal' else _trim_common(before, after)


def _trim_common(left: str, right: str) -> Runs:
    """Two differing texts without their common start and end."""
    start = min(_move_outside_token(text, common_length((left, right))) for text in (left, right))
    stop = common_length((left[start:][::-1], right[start:][::-1]))
    stop = min(len(text) - _move_outside_token(text, len(text) - stop, after=True) for text in (left, right))
    middle = left[start : len(left) - stop], right[start : len(right) - stop]
    return [(left[:start], left[:start]), middle, (left[len(left) - stop :], right[len(right) - stop :])]


def _move_outside_token(text: str, at: int, *, after: bool = False) -> int:
    """The place, or if it lies inside a special token, the place before (or after) that token."""
    for match in SPECIAL_TOKEN.finditer(text):
        if match.start() < at < match.end():
            return match.end() if after else match.start()
    return at


def _rows(runs: Runs) -> Iterator[Change]:
    """Rows that end where both sides have the same line break."""
    left: list[tuple[str, bool]] = []
    right: list[tuple[str, bool]] = []
    for before, after in runs:
        if before != after:
            left += [(before, True)] if before else []
            right += [(after, True)] if after else []
            continue
        for number, line in enumerate(before.split('\n')):
            if number:
                yield _row(left, right)
                left, right = [], []
            left += [(line, False)] if line else []
            right += [(line, False)] if line else []
    yield _row(left, right)


def _row(left: list[tuple[str, bool]], right: list[tuple[str, bool]]) -> Change:
    if left and not right:
        return Change(_merge_neighbours(left), None)
    return (
        Change(None, _merge_neighbours(right))
        if right and not left
        else Change(_merge_neighbours(left), _merge_neighbours(right))
    )


def _merge_neighbours(pieces: list[tuple[str, bool]]) -> Pieces:
    """The pieces with neighbours of the same kind put together."""
    groups = groupby(pieces, key=lambda piece: piece[1])
    return tuple((''.join(text for text, _ in group), differs) for differs, group in groups)


def plain_diff(left: Preview, right: Preview, *, whitespace: bool = False) -> Iterator[str]:
    """Both requests in one column: the left one's text after `-`, the right one's after `+`, changes in brackets."""
    yield f'--- {printable(title_of(left))}'
    yield f'+++ {printable(title_of(right))}'
    waiting: list[str] = []
    for change in align_lines(request_lines(left), request_lines(right)):
        if change.same:
            yield from waiting
            waiting = []
            yield f'  {_plain(change.left or (), ("", ""), whitespace)}'
            continue
        if change.left is not None:
            marks = ('[-', '-]') if change.right is not None else ('', '')
            yield from (f'- {line}' for line in _plain(change.left, marks, whitespace).split('\n'))
        if change.right is not None:
            marks = ('{+', '+}') if change.left is not None else ('', '')
            waiting += [f'+ {line}' for line in _plain(change.right, marks, whitespace).split('\n')]
    yield from waiting


def _plain(pieces: Pieces, marks: tuple[str, str], whitespace: bool) -> str:
    display = ((show_blanks(printable(text)) if whitespace else printable(text), differs) for text, differs in pieces)
    return ''.join(_marked_lines(text, marks) if differs else text for text, differs in display)


def _marked_lines(text: str, marks: tuple[str, str]) -> str:
    return '\n'.join(f'{marks[0]}{line}{marks[1]}' if line else '' for line in text.split('\n'))


def diff_as_json(left: Preview, right: Preview) -> dict[str, Any]:
    """Both previews, whether what is sent is the same, and the lines that differ."""
    changes = [change for change in align_lines(request_lines(left), request_lines(right)) if not change.same]
    return {
        'same': left.request == right.request if left.request is not None else left.prompt == right.prompt,
        'left': as_json(left),
        'right': as_json(right),
        'changes': [change.as_json() for change in changes],
    }
