"""The progress of a run in a notebook: one output that is redrawn in place, a bar for each dataset × model."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

from rolecall.runs.listener import RunListener
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import printable
from rolecall.ui.views.run_progress import PairProgress, PlainProgress, progress_for, score_line

_EVERY = 0.5
Show = Callable[[str], object]
"""Shows HTML in the place of what it showed before."""


def choose_progress(*, quiet: bool) -> RunListener:
    """The display that suits the place: redrawn HTML in a notebook, bars on a terminal, lines elsewhere."""
    if quiet or not _in_notebook():
        return progress_for(quiet=quiet)
    return NotebookProgress(_display())


def _in_notebook() -> bool:
    ipython = sys.modules.get('IPython')
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ in ('ZMQInteractiveShell', 'Shell')


def _display() -> Show:
    from importlib import import_module

    display: Any = import_module('IPython.display')
    handle = display.display(display.HTML(''), display_id=True)
    return lambda html: handle.update(display.HTML(html))


class NotebookProgress(PlainProgress):
    """Bars in HTML, with the messages and scores below them."""

    def __init__(self, show: Show, *, every: float = _EVERY) -> None:
        super().__init__(io.StringIO(), every=every)
        self._show_html = show
        self._lines: list[str] = []

    def on_scores(self, dataset: str, model: str, cards: Sequence[Scorecard]) -> None:
        """A dataset × model is finished and scored."""
        self._pairs.pop((dataset, model), None)
        for card in cards:
            self._print(printable(score_line(card)))

    def on_end(self) -> None:
        """The run is over."""
        super().on_end()
        self._redraw()

    def _print(self, line: str) -> None:
        self._lines.append(line)
        self._redraw()

    def _show(self, key: tuple[str, str], pair: PairProgress) -> None:
        self._redraw()

    def _redraw(self) -> None:
        bars = ''.join(map(_bar, self._pairs.copy().values()))
        lines = ''.join(f'<div>{escape(line)}</div>' for line in self._lines)
        self._show_html(f'<div style="font-family:monospace">{lines}{bars}</div>')


def _bar(pair: PairProgress) -> str:
    share = f' value="{pair.done}" max="{pair.total}"' if pair.total else ''
    return f'<div><progress{share}></progress> {escape(printable(pair.line()))}</div>'
