"""An explanation for people: a sentence and a waterfall, then the rows that each cause changes. Terminal and HTML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from rolecall.insight.explanation import CauseShare, Explanation, FlippedRow
from rolecall.strings import count_noun, printable
from rolecall.ui.report.page import make_environment

_STYLES = {'score': '#56b4e9', 'gain': '#009e73', 'loss': '#d55e00'}
_NAME, _NUMBER, _NOTE = 20, 7, 24
_SHORT = 90
_ALTERNATIVES = 8


def print_explanation(explanation: Explanation, to: Console, *, flips: int) -> None:
    """Print why two numbers differ."""
    rows = f', {count_noun(explanation.rows, "row")} in both' if explanation.rows else ''
    to.print(Text(printable(f'{explanation.dataset} × {explanation.model} ({explanation.metric}{rows})'), 'bold'))
    to.print(Text(printable(explanation.sentence)))
    room = max(10, to.width - _NAME - _NUMBER - _NOTE - 4)
    for bar in explanation.waterfall():
        start, end = round(bar.start * room), max(round(bar.end * room), round(bar.start * room) + 1)
        name = printable(bar.name)
        short = name if len(name) <= _NAME else f'…{name[1 - _NAME :]}'
        line = Text(f'{short:<{_NAME}} {bar.number:>{_NUMBER}} ')
        line.append(' ' * start).append('█' * (end - start), _STYLES[bar.kind]).append(' ' * (room - end))
        to.print(line.append(f' {bar.note}', 'dim'))
    for name, value in explanation.alternatives[:_ALTERNATIVES]:
        to.print(Text(f'  {value:6.1f}  {printable(name)}'))
    for sentence in explanation.unknown:
        to.print(Text(f'not known: {printable(sentence)}', 'dim'))
    for step in explanation.steps:
        if flips and (step.flips or step.changes):
            _print_step(step, to, flips)


def _print_step(step: CauseShare, to: Console, flips: int) -> None:
    to.rule(Text(printable(f'{step.cause}: {count_noun(step.rows, "row")}'), 'bold'), style='dim')
    for change in step.changes:
        left, right = _brief(change.left), _brief(change.right)
        if left == right:  # only spaces differ
            left, right = repr(change.left), repr(change.right)
        to.print(Text(printable(f'  {change.origin}: {left} → {right}')))
    for flip in step.flips[:flips]:
        to.print(Text(printable(_describe_flip(flip))))
    if step.rows > flips and step.flips:
        to.print(Text(f'  and {count_noun(step.rows - flips, "other row")}', 'dim'))


def _describe_flip(flip: FlippedRow) -> str:
    row = str(flip.left_row) if flip.left_row == flip.right_row else f'{flip.left_row} ↔ {flip.right_row}'
    scores = f'{_score(flip.before)} → {_score(flip.after)}'
    read = f'read {flip.left_read!r:.40} → {flip.right_read!r:.40}, gold {flip.gold!r:.40}'
    return f'  row {row}: {scores}, {read}: {_brief(flip.right_reply)}'


def _score(score: float | None) -> str:
    return 'not counted' if score is None else f'{score:g}'


def _brief(text: Any) -> str:
    words = ' '.join(str(text).split()) or '(nothing)'
    return words if len(words) <= _SHORT else f'{words[: _SHORT // 2]} … {words[-_SHORT // 2 :]}'


def explanation_page(explanations: Sequence[Explanation]) -> str:
    """One self-contained HTML file: waterfalls, and the rows and requests behind every bar."""
    return make_environment().get_template('explain.html').render(explanations=explanations, describe=_describe_flip)
