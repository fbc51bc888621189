"""Two requests compared: line by line, and inside changed lines word by word."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from rolecall.preview import Preview
from rolecall.render.spans import joined
from rolecall.views.blocks import blocks_of, is_messages
from rolecall.views.facts import title_of
from rolecall.views.jsonl import as_json
from rolecall.views.visible import blanks_shown, safe

__all__ = ['Change', 'Pieces', 'compare', 'diff_as_json', 'plain_diff', 'request_lines']

_WORD = re.compile(r'[^\W\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|.', re.DOTALL)
"""A word, or one character of a script that writes words without spaces, or anything else."""

Pieces = tuple[tuple[str, bool], ...]
"""A line cut into stretches; the flag says which of them differ."""


@dataclass(frozen=True, slots=True)
class Change:
    """A line of one request beside the line of the other; None where the other has no such line."""

    left: Pieces | None
    right: Pieces | None

    @property
    def same(self) -> bool:
        """Whether the two lines are equal."""
        return self.left == self.right


def request_lines(preview: Preview) -> list[str]:
    """A request as lines, with a heading before each message."""
    lines: list[str] = []
    for block in blocks_of(preview):
        if is_messages(preview):
            lines.append(f'[{block.heading}]')
        lines += ''.join(joined(block.spans).values()).split('\n')
        lines += [block.extra] if block.extra else []
    return lines


def compare(left: Sequence[str], right: Sequence[str]) -> list[Change]:
    """The lines of two requests, aligned.

    >>> compare(['Q: 1+1=?'], ['Q: 1+2=?'])
    [Change(left=(('Q: 1+', False), ('1', True), ('=?', False)), right=(('Q: 1+', False), ('2', True), ('=?', False)))]
    """
    changes: list[Change] = []
    for op, a, b, c, d in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if op == 'equal':
            changes += [Change(((line, False),), ((line, False),)) for line in left[a:b]]
        else:
            changes += _aligned(left[a:b], right[c:d])
    return changes


def _aligned(left: Sequence[str], right: Sequence[str]) -> Iterator[Change]:
    """Changed lines beside each other; those that have no counterpart stand alone."""
    for one, other in zip(left, right, strict=False):
        yield _by_words(one, other)
    for line in left[len(right) :]:
        yield Change(((line, True),), None)
    for line in right[len(left) :]:
        yield Change(None, ((line, True),))


def _by_words(left: str, right: str) -> Change:
    one, other = _WORD.findall(left), _WORD.findall(right)
    shown_left: list[tuple[str, bool]] = []
    shown_right: list[tuple[str, bool]] = []
    for op, a, b, c, d in SequenceMatcher(None, one, other, autojunk=False).get_opcodes():
        if a < b:
            shown_left.append((''.join(one[a:b]), op != 'equal'))
        if c < d:
            shown_right.append((''.join(other[c:d]), op != 'equal'))
    return Change(tuple(shown_left), tuple(shown_right))


def plain_diff(left: Preview, right: Preview, *, whitespace: bool = False) -> Iterator[str]:
    """Both requests in one column: lines of the left with `-`, of the right with `+`, changed words in brackets."""
    yield f'--- {safe(title_of(left))}'
    yield f'+++ {safe(title_of(right))}'
    changes = compare(request_lines(left), request_lines(right))
    waiting: list[str] = []
    for change in changes:
        if change.same:
            yield from waiting
            waiting = []
            yield f'  {_plain(change.left or (), "", "", whitespace)}'
            continue
        if change.left is not None:
            yield f'- {_plain(change.left, "[-", "-]", whitespace, alone=change.right is None)}'
        if change.right is not None:
            waiting.append(f'+ {_plain(change.right, "{+", "+}", whitespace, alone=change.left is None)}')
    yield from waiting


def _plain(pieces: Pieces, before: str, after: str, whitespace: bool, *, alone: bool = False) -> str:
    shown = ((blanks_shown(safe(text)) if whitespace else safe(text), differs) for text, differs in pieces)
    return ''.join(f'{before}{text}{after}' if differs and not alone else text for text, differs in shown)


def diff_as_json(left: Preview, right: Preview) -> dict[str, Any]:
    """Both previews, whether what is sent is the same, and the lines that differ."""
    changes = [change for change in compare(request_lines(left), request_lines(right)) if not change.same]
    return {
        'same': left.request == right.request if left.request is not None else left.prompt == right.prompt,
        'left': as_json(left),
        'right': as_json(right),
        'changes': [{'left': _marked(change.left), 'right': _marked(change.right)} for change in changes],
    }


def _marked(pieces: Pieces | None) -> list[dict[str, Any]] | None:
    return None if pieces is None else [{'text': text, 'differs': differs} for text, differs in pieces]
