"""The shapes that a view can take: JSON lines, plain lines, or colours on a terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TextIO

from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import as_json, json_line
from rolecall.experiment.previews.differences import diff_as_json, plain_diff
from rolecall.ui.views.plain import plain_lines

if TYPE_CHECKING:
    from rich.console import Console

    from rolecall.ui.views.tokens import Counted


class Shape(Protocol):
    """Shows previews, one after the other."""

    def show(self, preview: Preview, counted: Counted | None) -> None:
        """Show one request, with its tokens if they were counted."""

    def compare(self, left: Preview, right: Preview) -> None:
        """Show two requests and how they differ."""


@dataclass(frozen=True, slots=True)
class JsonShape:
    """One JSON object on each line."""

    to: TextIO

    def show(self, preview: Preview, counted: Counted | None) -> None:
        tokens = {} if counted is None else {'tokens': counted.as_json()}
        print(json_line({**as_json(preview), **tokens}), file=self.to)

    def compare(self, left: Preview, right: Preview) -> None:
        print(json_line(diff_as_json(left, right)), file=self.to)


@dataclass(frozen=True, slots=True)
class PlainShape:
    """Lines without colour, a blank line between requests."""

    to: TextIO
    whitespace: bool = False

    def show(self, preview: Preview, counted: Counted | None) -> None:
        for line in plain_lines(preview, whitespace=self.whitespace):
            print(line, file=self.to)
        for line in counted.plain_lines() if counted else ():
            print(line, file=self.to)
        print(file=self.to)

    def compare(self, left: Preview, right: Preview) -> None:
        for line in plain_diff(left, right, whitespace=self.whitespace):
            print(line, file=self.to)
        print(file=self.to)


@dataclass(frozen=True, slots=True)
class TerminalShape:
    """Colours, frames and a legend."""

    to: Console
    whitespace: bool = False

    def show(self, preview: Preview, counted: Counted | None) -> None:
        from rolecall.ui.views.terminal import show_preview

        show_preview(preview, self.to, whitespace=self.whitespace, counted=counted)
        self.to.print()

    def compare(self, left: Preview, right: Preview) -> None:
        from rolecall.ui.views.side_by_side import show_diff

        show_diff(left, right, self.to, whitespace=self.whitespace)
