"""Requests on a terminal: coloured by origin, in blocks by role, with a legend above and the facts below."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from rich.box import ROUNDED
from rich.console import Console, Group
from rich.panel import Panel
from rich.rule import Rule
from rich.style import Style
from rich.table import Table
from rich.text import Text

from rolecall.core.render.spans import Span
from rolecall.experiment.pairs.pair import Preview
from rolecall.experiment.previews.blocks import (
    SPECIAL_TOKEN,
    Block,
    blocks_of,
    facts_of,
    is_messages,
    show_blanks,
    split_matches,
    title_of,
)
from rolecall.strings import printable
from rolecall.ui.views.looks import LOOKS, groups_in, style_of
from rolecall.ui.views.plain import span_text

if TYPE_CHECKING:
    from rolecall.experiment.previews.blocks import TokenAt
    from rolecall.ui.views.tokens import Counted


_SPECIAL = 'bold reverse'
_TAB = 4
_GAP = '  '
_SHADES = ('#1c1c1c', '#363636')
_CROSSING = '#7a1f5c'
_TEXT_ON_SHADE = '#eeeeee'
Draw = Callable[[Sequence[Span]], Text]


_SIXTEEN = {
    '#56b4e9': 'bright_cyan',
    '#009e73': 'green',
    '#00d19b': 'bright_green',
    '#e69f00': 'yellow',
    '#cc79a7': 'magenta',
    '#d55e00': 'red',
    '#f0e442': 'bright_yellow',
    '#0072b2': 'bright_blue',
    '#eeeeee': 'bright_white',
    '#1c1c1c': 'black',
    '#363636': 'blue',
    '#7a1f5c': 'magenta',
}
"""Our hues on terminals with 16 colours. Rounding to the nearest colour would merge fields and examples."""


Translate = Callable[[str], str]


class _Console(Console):
    """A console that maps our hues to 16 colours where necessary, and translates tables and lines."""

    translate_line: Translate | None = None
    translate_head: Translate = str

    def print(self, *objects: Any, **options: Any) -> None:
        drawables = objects if self.translate_line is None else map(self._translate, objects)
        super().print(*drawables, **options)

    def _translate(self, drawable: Any) -> Any:
        """Texts line by line; of a table, what is not a Text (heads, titles, fixed words) by its own words."""
        if isinstance(drawable, str):
            return self.translate_head(drawable)
        if isinstance(drawable, Text):
            return Text('\n').join(map(self._translate_text, drawable.split('\n')))
        if isinstance(drawable, Table | Rule):
            drawable.title = self._translate(drawable.title)
        for column in drawable.columns if isinstance(drawable, Table) else ():
            column.header = self._translate(column.header) if isinstance(column.header, str) else column.header
            column._cells[:] = map(self._translate, column._cells)
        return drawable

    def _translate_text(self, line: Text) -> Text:
        translated = self.translate_line(line.plain) if self.translate_line else line.plain
        return line if translated == line.plain else Text(translated, line.spans[0].style if line.spans else line.style)

    def get_style(self, name: str | Style, *, default: Style | str | None = None) -> Style:
        if isinstance(name, str) and self.color_system == 'standard':
            name = ' '.join(_SIXTEEN.get(word, word) for word in name.split(' '))
        return super().get_style(name, default=default)


def make_console(
    file: TextIO | None = None,
    *,
    force: bool = False,
    width: int | None = None,
    translate: tuple[Translate, Translate] | None = None,
) -> Console:
    """A console that prints text unchanged, except for translating lines and heads."""
    console = _Console(
        file=file, force_terminal=force or None, width=width, highlight=False, markup=False, emoji=False, tab_size=_TAB
    )
    if translate is not None:
        console.translate_line, console.translate_head = translate
    return console


def show_preview(preview: Preview, to: Console, *, whitespace: bool = False, counted: Counted | None = None) -> None:
    """Print one request with its legend and facts; with its tokens, if they were counted."""

    def draw(spans: Sequence[Span]) -> Text:
        place = (spans[0].message, spans[0].part) if spans else None
        tokens = [token for token in counted.tokens if (token.message, token.part) == place] if counted else []
        return draw_tokens(tokens, whitespace=whitespace) if tokens else draw_spans(spans, whitespace=whitespace)

    to.rule(Text(printable(title_of(preview)), 'bold'), style='dim')
    to.print(draw_legend(preview.spans, to.width))
    to.print(Group(*(frame_block(block, draw, heading=is_messages(preview)) for block in blocks_of(preview))))
    if counted:
        to.print(
            Panel(
                draw_token_ids(counted.tokens), box=ROUNDED, border_style='dim', title='token ids', title_align='left'
            )
        )
    to.print(draw_facts([*facts_of(preview), *(counted.facts() if counted else ())]))


def draw_legend(spans: Iterable[Span], width: int, meanings: Mapping[str, str] | None = None) -> Text:
    """The groups that occur in a request, each drawn as its spans are, no entry broken over two lines."""
    lines: list[list[Text]] = []
    for group, names in groups_in(spans).items():
        named = f' ({printable(", ".join(names))})' if names else ''
        entry = Text(f'{(meanings or {}).get(group, LOOKS[group].meaning)}{named}', LOOKS[group].style)
        if not lines or sum(item.cell_len + len(_GAP) for item in lines[-1]) + entry.cell_len > width:
            lines.append([])
        lines[-1].append(entry)
    return Text('\n').join(Text(_GAP).join(line) for line in lines)


def frame_block(block: Block, draw: Draw, *, heading: bool) -> Panel:
    """One block in a frame; a text has no heading."""
    words = draw(block.spans)
    if block.extra:
        words.append(f'\n{printable(block.extra)}', 'dim')
    title = Text(printable(block.heading), 'bold') if heading else None
    return Panel(words, box=ROUNDED, border_style='dim', title=title, title_align='left', padding=(0, 1))


def draw_spans(spans: Iterable[Span], *, whitespace: bool = False) -> Text:
    """The text of some spans, coloured; where whitespace is shown, special tokens are highlighted as well."""
    text = Text(overflow='fold', tab_size=_TAB)
    for span in spans:
        style = style_of(span.origin)
        words = span_text(span, whitespace=whitespace)
        if span.token is not None:
            text.append(words, f'{style} {_SPECIAL}')
            continue
        for stretch, special in split_matches(words, SPECIAL_TOKEN) if whitespace else [(words, False)]:
            text.append(stretch, f'{style} {_SPECIAL}' if special else style)
    return text


def draw_tokens(tokens: Iterable[TokenAt], *, whitespace: bool = False) -> Text:
    """The text of some tokens, coloured by origin, on alternating backgrounds."""
    text = Text(overflow='fold', tab_size=_TAB)
    for number, token in enumerate(tokens):
        words = printable(token.text)
        text.append(show_blanks(words) if whitespace else words, _on_shade(token, number))
    return text


def draw_token_ids(tokens: Iterable[TokenAt]) -> Text:
    """Each token's id and what it shows."""
    return Text('  ').join(
        Text.assemble((str(token.id), 'dim'), '\u00a0', (token.as_line(), _on_shade(token, number)))
        for number, token in enumerate(tokens)
    )


def _on_shade(token: TokenAt, number: int) -> str:
    shade = _CROSSING if token.crosses else _SHADES[number % 2]
    return f'{style_of(token.origin) or _TEXT_ON_SHADE} on {shade}'


def draw_facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Headings and words in two columns."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify='right', style='bold', no_wrap=True)
    table.add_column(overflow='fold')
    for heading, words in pairs:
        table.add_row(Text(heading), Text(printable(words)))
    return table
