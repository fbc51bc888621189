"""The report on a terminal: datasets down, models across; one line for each pair where that is too wide."""

from __future__ import annotations

from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.report.counts import Why, count_results, every_card, unjudged_reasons
from rolecall.report.run_source import Run
from rolecall.report.score_text import (
    OUTCOMES,
    Grid,
    denominator,
    digits_of,
    grid_of,
    interval,
    left_out,
    score,
)
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable

__all__ = ['report_terminal']

_CELL = 26
_FIRST = 24
_REASONS = 10
_REASON_WIDTH = 160
_ODD = '#d55e00'


def report_terminal(run: Run, to: Console) -> None:
    """Print the scores of a run with their intervals and denominators, and why rows are missing."""
    run_counts = count_results(run.results())
    cards = every_card(run.scorecards(), run_counts)
    grid = grid_of(cards)
    to.print(Text.assemble((printable(run.title), 'bold'), (f'  {printable(run.created)}', 'dim')))
    if not cards:
        to.print(Text('no scores yet'))
    elif _FIRST + _CELL * len(grid.models) <= to.width:
        to.print(_across(grid, digits_of(cards)))
    else:
        to.print(_down(cards, digits_of(cards)))
    _print_reasons([*unjudged_reasons(cards), *run_counts.reasons_by_count()], to)


def _across(grid: Grid, digits: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset', overflow='fold')
    for model in grid.models:
        table.add_column(Text(printable(model)), justify='right', overflow='fold')
    for line in grid.lines:
        dataset, metric = line
        head = Text.assemble((printable(dataset), 'bold'), (f'\n{printable(metric)}', 'dim'))
        table.add_row(head, *(_cell(grid.card(line, model), digits[metric]) for model in grid.models))
    return table


def _cell(card: Scorecard | None, digits: int) -> Text:
    if card is None:
        return Text('')
    missing = left_out(card)
    return Text.assemble(
        (score(card, digits), 'bold'),
        (f' {interval(card, digits)}' if interval(card, digits) else '', ''),
        (f'\n{denominator(card)} scored', 'dim'),
        (f'\n{missing}' if missing else '', _ODD),
    )


def _down(cards: Sequence[Scorecard], digits: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset × model', overflow='fold')
    table.add_column('score', justify='right', no_wrap=True)
    table.add_column('rows', overflow='fold')
    for card in cards:
        places = digits[card.metric]
        missing = left_out(card)
        table.add_row(
            Text.assemble(
                (printable(card.dataset), 'bold'), f' × {printable(card.model)}', (f'\n{printable(card.metric)}', 'dim')
            ),
            Text.assemble((score(card, places), 'bold'), f'\n{interval(card, places)}'),
            Text.assemble((f'{denominator(card)} scored', 'dim'), (f'\n{missing}' if missing else '', _ODD)),
        )
    return table


def _print_reasons(reasons: Sequence[Why], to: Console) -> None:
    if not reasons:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title='why', title_justify='left', title_style='bold')
    table.add_column('rows', justify='right')
    for name in ('outcome', 'reason', 'where'):
        table.add_column(name, overflow='fold')
    for why in reasons[:_REASONS]:
        short = printable(' '.join(why.reason.split())[:_REASON_WIDTH])
        table.add_row(f'{why.rows:,}', OUTCOMES.get(why.outcome, why.outcome), Text(short), Text(printable(why.place)))
    to.print(table)
    rest = len(reasons) - _REASONS
    if rest > 0:
        to.print(Text(f'and {count_noun(rest, "other reason")}', 'dim'))
