"""The report on a terminal: a headline, scores (models across, or one line for each pair where that is too wide),
the ranking, tokens and money, and why rows have no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.insight.run_source import StoredRun
from rolecall.models.prices import Price
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.report.counts import UsageTable, Why
from rolecall.ui.report.document import ReportDocument, ReportTable
from rolecall.ui.report.score_text import (
    FOLD_FROM,
    MOST_FURTHER,
    OUTCOMES,
    Grid,
    Line,
    denominator,
    further_numbers,
    interval,
    left_out,
    score,
)

_CELL = 26
_FIRST = 24
_NARROW, _NARROW_FIRST = 10, 18
_NARROW_REMARKS = 12
_REASONS = 10
_MOST_LINES = 12
_REASON_WIDTH = 160
_ODD = '#d55e00'


def report_terminal(
    run: StoredRun, to: Console, *, everything: bool = False, prices: Mapping[str, Price | None] | None = None
) -> None:
    """Print the scores of a run with their intervals and denominators, and what to know about them."""
    report = ReportDocument.of(run, prices=prices)
    whole, digits = report.grid, report.digits
    grid = whole if everything or len(whole.groups) < FOLD_FROM else whole.fold()
    to.print(Text.assemble((printable(report.title), 'bold'), (f'  {printable(report.created)}', 'dim')))
    for warning in (*report.notices, *report.warnings):
        to.print(Text(f'warning: {printable(warning)}', _ODD))
    if report.headline:
        to.print(Text(printable(report.headline), 'bold'))
    for line in (*report.standing, *report.corrections):
        to.print(Text(printable(line)))
    if not report.cards:
        to.print(Text('no scores yet'))
    elif _FIRST + _CELL * len(grid.models) <= to.width:
        cells = [[_cell(card, digits[line[1]]) for card in _cards(grid, line)] for line in grid.lines]
        to.print(_make_wide_table(grid, cells))
    elif len(grid.models) > 2 and _NARROW_FIRST + _NARROW * len(grid.models) <= to.width:
        to.print(_narrow_table(grid, digits))
        _print_remarks(grid, digits, to)
    else:
        to.print(_make_tall_table(grid, digits))
    if hidden := len(whole.lines) - len(grid.lines):
        to.print(Text(f'{count_noun(hidden, "line")} folded into groups; --all shows them.', 'dim'))
    for note in grid.interval_notes:
        to.print(Text(note, 'dim'))
    for title, lines in report.remarks.items():
        _print_lines(title, lines, to)
    for table in report.tables:
        print_table(table, to)
    if report.usage is not None:
        _print_usage(report.usage, to, everything=everything)
    _print_reasons(report.reasons, to)


def _head(grid: Grid, line: Line) -> Text:
    indent = '  ' * grid.depths[line]
    alias = _in_brackets(grid.alias(line))
    return Text.assemble(
        (f'{indent}{printable(line[0])}', 'bold'), (alias, 'dim'), (f'\n{indent}{printable(line[1])}', 'dim')
    )


def _in_brackets(alias: str) -> str:
    return f' ({printable(alias)})' if alias else ''


def _cards(grid: Grid, line: Line) -> list[Scorecard | None]:
    return [grid.card(line, model) for model in grid.models]


def _make_wide_table(grid: Grid, cells: Sequence[Sequence[Text]], **column: int) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset', overflow='fold')
    for model in grid.models:
        table.add_column(Text(printable(model)), justify='right', overflow='fold', **column)  # type: ignore[arg-type]
    for line, texts in zip(grid.lines, cells, strict=True):
        table.add_row(_head(grid, line), *texts)
    return table


def _cell(card: Scorecard | None, digits: int) -> Text:
    if card is None:
        return Text('')
    return Text.assemble(
        (score(card, digits), 'bold'),
        (f' {interval(card, digits)}' if interval(card, digits) else '', ''),
        (f'\n{denominator(card)} scored', 'dim'),
        *_remarks(card, digits),
    )


def _remarks(card: Scorecard, digits: int) -> list[tuple[str, str]]:
    """Further numbers, what is missing from a score, and how many replies were cut or empty."""
    odd = [
        (f'\n{words}', _ODD)
        for words in (
            card.describe_missing(),
            left_out(card),
            card.describe_replies(digits),
            card.describe_readings(digits),
        )
        if words
    ]
    plain = (*further_numbers(card, digits, most=MOST_FURTHER), card.describe_receipt())
    return [*((f'\n{words}', 'dim') for words in plain if words), *odd]


def _narrow_table(grid: Grid, digits: dict[str, int]) -> Table:
    """Models across with a score and half its interval each, for many models on few columns."""
    cells = [[_narrow_cell(card, digits[line[1]]) for card in _cards(grid, line)] for line in grid.lines]
    return _make_wide_table(grid, cells, max_width=_NARROW - 2)


def _narrow_cell(card: Scorecard | None, digits: int) -> Text:
    if card is None:
        return Text('')
    mark = '*' if _remarks(card, digits) else ''
    half = '' if card.low is None or card.high is None else f'\n±{(card.high - card.low) / 2:,.{digits}f}'
    return Text.assemble((f'{score(card, digits)}{mark}', 'bold'), (half, 'dim'))


def _print_remarks(grid: Grid, digits: dict[str, int], to: Console) -> None:
    """The footnotes of a narrow table: rows without a score, replies that were cut or empty."""
    by_card = [(card, _remarks(card, digits[card.metric])) for card in grid.cards_in_order()]
    by_card.sort(key=lambda entry: all(style != _ODD for _, style in entry[1]))  # further numbers last
    lines = [
        f'{card.dataset} × {card.model}{_name_extractor(card)}: {", ".join(words.strip() for words, _ in remarks)}'
        for card, remarks in by_card
        if remarks
    ]
    marked = list(dict.fromkeys(lines))  # extractors of one dataset often have the same
    for remark in marked[:_NARROW_REMARKS]:
        to.print(Text(f'* {printable(remark)}', _ODD))
    if (rest := len(marked) - _NARROW_REMARKS) > 0:
        to.print(Text(f'* and {count_noun(rest, "other remark")}; --html shows them all', 'dim'))


def _name_extractor(card: Scorecard) -> str:
    """Which of several extractors a remark is about, where it has numbers of its own."""
    return f' ({card.extractor})' if card.extractor and card.cut else ''


def _make_tall_table(grid: Grid, digits: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset × model', overflow='fold')
    table.add_column('score', justify='right', no_wrap=True)
    table.add_column('rows', overflow='fold')
    for card in grid.cards_in_order():
        indent, places = '  ' if (card.dataset, card.metric) in grid.groups else '', digits[card.metric]
        table.add_row(
            Text.assemble(
                (f'{indent}{printable(card.dataset)}', 'bold'),
                (_in_brackets(card.alias), 'dim'),
                f' × {printable(card.model)}',
                (f'\n{indent}{printable(card.metric)}', 'dim'),
            ),
            Text.assemble((score(card, places), 'bold'), f'\n{interval(card, places)}'),
            Text.assemble((f'{denominator(card)} scored', 'dim'), *_remarks(card, places)),
        )
    return table


def _print_lines(title: str, lines: Sequence[str], to: Console) -> None:
    """How much scores depend on the extractor or the judge, where the same replies have several readings."""
    to.print(Text(title, 'bold'))
    for line in lines[:_MOST_LINES]:
        to.print(Text(f' {printable(line)}'))
    if (rest := len(lines) - _MOST_LINES) > 0:
        to.print(Text(f' and {count_noun(rest, "other line")}; --markdown shows them all', 'dim'))


def new_table(
    title: str, numbers: Sequence[str], texts: Sequence[str] = (), more: Sequence[str] = (), *, no_wrap: bool = False
) -> Table:
    """A table with columns of texts, of numbers, and of texts again."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify='left', title_style='bold')
    for name in texts:
        table.add_column(name, overflow='fold')
    for name in numbers:
        table.add_column(name, justify='right', no_wrap=no_wrap)
    for name in more:
        table.add_column(name, overflow='fold')
    return table


def print_table(table: ReportTable, to: Console) -> None:
    """Print a table of the report. A dataset that all lines share has no column."""
    start = int(table.heads[0] == 'dataset' and len({row[0] for row in table.rows}) == 1)
    if table.rows:
        to.print(Text(printable(table.title), 'bold'))
        drawn = new_table('', table.heads[table.numbers_from :], table.heads[start : table.numbers_from])
        drawn.collapse_padding = True
        for row in table.rows:
            drawn.add_row(*(Text(printable(cell)) for cell in row[start:]))
        to.print(drawn)
    if table.also:
        to.print(Text(printable(table.also), 'dim'))


def _print_usage(usage: UsageTable, to: Console, *, everything: bool) -> None:
    fold = not everything and len({line.dataset for line, _ in usage.rows}) > FOLD_FROM
    table = new_table('Tokens', usage.heads, ('model, dataset',))
    table.collapse_padding = True
    before = None
    for line, cells in usage.rows:
        alone = line.dataset and line.name != before
        before = line.name
        if fold and line.dataset and not alone:
            continue
        name = f'{line.name}, {line.dataset}' if alone else f'  {line.dataset}' if line.dataset else line.name
        table.add_row(Text(printable(name), '' if line.dataset and not alone else 'bold'), *cells)
    to.print(table)
    if fold:
        to.print(Text('--all shows the tokens of each dataset.', 'dim'))


def _print_reasons(reasons: Sequence[Why], to: Console) -> None:
    if not reasons:
        return
    table = new_table('Why rows are missing', ('rows',), more=('outcome', 'reason', 'where'))
    for why in reasons[:_REASONS]:
        short = printable(' '.join(why.reason.split())[:_REASON_WIDTH])
        table.add_row(f'{why.rows:,}', OUTCOMES.get(why.outcome, why.outcome), Text(short), Text(printable(why.place)))
    to.print(table)
    rest = len(reasons) - _REASONS
    if rest > 0:
        to.print(Text(f'and {count_noun(rest, "other reason")}', 'dim'))
