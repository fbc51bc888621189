"""Requests on a terminal: coloured by origin, in blocks by role, with a legend above and the facts below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TextIO

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from rolecall.pairs.pair import Preview
from rolecall.render.spans import Span
from rolecall.views.blocks import Block, blocks_of, is_messages
from rolecall.views.facts import facts_of, title_of
from rolecall.views.looks import LOOKS, groups_in, style_of
from rolecall.views.plain import shown_text
from rolecall.views.visible import SPECIAL_TOKEN, blanks_shown, safe, stretches

if TYPE_CHECKING:
    from rich.console import RenderableType

    from rolecall.views.tokens import Counted, TokenAt

__all__ = ['body', 'console', 'drawn', 'facts', 'framed', 'ids_drawn', 'legend', 'show', 'tokens_drawn']

_SPECIAL = 'bold reverse'
_TAB = 4
_GAP = '  '
_SHADES = ('#1c1c1c', '#363636')
_CROSSING = '#7a1f5c'
_TEXT_ON_SHADE = '#eeeeee'
Draw = Callable[[Sequence[Span]], Text]


def console(file: TextIO | None = None, *, force: bool = False, width: int | None = None) -> Console:
    """A console that changes nothing about the words it is given."""
    return Console(
        file=file, force_terminal=force or None, width=width, highlight=False, markup=False, emoji=False, tab_size=_TAB
    )


def show(preview: Preview, to: Console, *, whitespace: bool = False, counted: Counted | None = None) -> None:
    """Print one request with its legend and facts; with its tokens, if they were counted."""

    def draw(spans: Sequence[Span]) -> Text:
        tokens = [token for token in counted.tokens if _same_place(token, spans)] if counted else []
        return tokens_drawn(tokens, whitespace=whitespace) if tokens else drawn(spans, whitespace=whitespace)

    to.rule(Text(safe(title_of(preview)), 'bold'), style='dim')
    to.print(legend(preview, to.width))
    to.print(body(preview, draw))
    if counted:
        to.print(
            Panel(ids_drawn(counted.tokens), box=ROUNDED, border_style='dim', title='token ids', title_align='left')
        )
    to.print(facts([*facts_of(preview), *(counted.facts() if counted else ())]))


def _same_place(token: TokenAt, spans: Sequence[Span]) -> bool:
    return bool(spans) and (token.message, token.part) == (spans[0].message, spans[0].part)


def legend(preview: Preview, width: int) -> Text:
    """The groups that occur in this request, each drawn as its spans are, no entry broken over two lines."""
    lines: list[list[Text]] = []
    for group, names in groups_in(preview.spans).items():
        named = f' ({safe(", ".join(names))})' if names else ''
        entry = Text(f'{LOOKS[group].meaning}{named}', LOOKS[group].style)
        if not lines or sum(one.cell_len + len(_GAP) for one in lines[-1]) + entry.cell_len > width:
            lines.append([])
        lines[-1].append(entry)
    return Text('\n').join(Text(_GAP).join(line) for line in lines)


def body(preview: Preview, draw: Draw) -> RenderableType:
    """The request in blocks; a text is one block without a heading."""
    messages = is_messages(preview)
    return Group(*(framed(block, draw, heading=messages) for block in blocks_of(preview)))


def framed(block: Block, draw: Draw, *, heading: bool) -> Panel:
    """One block in a frame."""
    words = draw(block.spans)
    if block.extra:
        words.append(f'\n{safe(block.extra)}', 'dim')
    title = Text(safe(block.heading), 'bold') if heading else None
    return Panel(words, box=ROUNDED, border_style='dim', title=title, title_align='left', padding=(0, 1))


def drawn(spans: Iterable[Span], *, whitespace: bool = False) -> Text:
    """The words of some spans, coloured; where blanks are shown, special tokens stand out, too."""
    text = Text(overflow='fold', tab_size=_TAB)
    for span in spans:
        style = style_of(span.origin)
        words = shown_text(span, whitespace=whitespace)
        if span.token is not None:
            text.append(words, f'{style} {_SPECIAL}')
            continue
        for stretch, special in stretches(words, SPECIAL_TOKEN) if whitespace else [(words, False)]:
            text.append(stretch, f'{style} {_SPECIAL}' if special else style)
    return text


def tokens_drawn(tokens: Iterable[TokenAt], *, whitespace: bool = False) -> Text:
    """The words of some tokens, coloured by origin, on two backgrounds in turn."""
    text = Text(overflow='fold', tab_size=_TAB)
    for number, token in enumerate(tokens):
        words = safe(token.text)
        text.append(blanks_shown(words) if whitespace else words, _on_shade(token, number))
    return text


def ids_drawn(tokens: Iterable[TokenAt]) -> Text:
    """Each token's id and what it shows."""
    return Text('  ').join(
        Text.assemble((str(token.id), 'dim'), '\u00a0', (token.shown(), _on_shade(token, number)))
        for number, token in enumerate(tokens)
    )


def _on_shade(token: TokenAt, number: int) -> str:
    shade = _CROSSING if token.crosses else _SHADES[number % 2]
    return f'{style_of(token.origin) or _TEXT_ON_SHADE} on {shade}'


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Headings and words in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify='right', style='bold', no_wrap=True)
    table.add_column(overflow='fold')
    for heading, words in pairs:
        table.add_row(Text(heading), Text(safe(words)))
    return table
