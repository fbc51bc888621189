"""Two requests side by side on a terminal, or interleaved where it is narrow."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import show_blanks, title_of
from rolecall.experiment.previews.differences import Change, Pieces, align_lines, request_lines
from rolecall.strings import count_noun, printable

_NARROW = 100
_LEFT = 'bold reverse #d55e00'
_RIGHT = 'bold reverse #56b4e9'


def show_diff(left: Preview, right: Preview, to: Console, *, whitespace: bool = False) -> None:
    """Print two requests with their differences marked."""
    changes = align_lines(request_lines(left), request_lines(right))
    titles = [Text(printable(title_of(preview)), 'bold') for preview in (left, right)]
    if to.width >= _NARROW:
        to.print(_table(changes, titles, whitespace))
    else:
        to.print(Text.assemble(('- ', _LEFT), titles[0]))
        to.print(Text.assemble(('+ ', _RIGHT), titles[1]))
        _print_unified(changes, to, whitespace)
    differing = sum(not change.same for change in changes)
    to.print(
        Text(
            'the same' if not differing else f'{differing} of {count_noun(len(changes), "row")} differ',
            'bold',
        )
    )


def _table(changes: list[Change], titles: list[Text], whitespace: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, expand=True, pad_edge=False)
    table.add_column(titles[0], ratio=1, overflow='fold')
    table.add_column('', width=1)
    table.add_column(titles[1], ratio=1, overflow='fold')
    for change in changes:
        mark = ' ' if change.same else '<' if change.right is None else '>' if change.left is None else '≠'
        left, right = (
            _draw_pieces(side, style, whitespace) for side, style in ((change.left, _LEFT), (change.right, _RIGHT))
        )
        table.add_row(left, Text(mark, 'bold'), right)
    return table


def _print_unified(changes: list[Change], to: Console, whitespace: bool) -> None:
    for change in changes:
        if change.same:
            to.print(Text.assemble('  ', _draw_pieces(change.left, '', whitespace)))
            continue
        for sign, side, style in (('-', change.left, _LEFT), ('+', change.right, _RIGHT)):
            for line in _draw_pieces(side, style, whitespace).split('\n', allow_blank=True) if side is not None else ():
                to.print(Text.assemble((f'{sign} ', style), line))


def _draw_pieces(pieces: Pieces | None, style: str, whitespace: bool) -> Text:
    text = Text(overflow='fold')
    for words, differs in pieces or ():
        visible = printable(words)
        text.append(show_blanks(visible) if whitespace else visible, style if differs else '')
    return text
