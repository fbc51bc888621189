"""The report on a terminal: a headline, scores (models across, or one line for each pair where that is too wide),
the ranking, tokens and money, and why rows have no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.models.prices import Price
from rolecall.report.counts import RunCounts, Why, count_results, every_card, unjudged_reasons
from rolecall.report.run_source import Run, StoredRun
from rolecall.report.score_text import (
    FOLD_FROM,
    OUTCOMES,
    Grid,
    Line,
    denominator,
    digits_of,
    grid_of,
    interval,
    left_out,
    numbers_with_stderr,
    score,
    warnings_of,
)
from rolecall.report.standing import Standing, find_standing
from rolecall.report.usage import USAGE_HEADS, usage_lines
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable

__all__ = ['report_terminal']

_CELL = 26
_FIRST = 24
_REASONS = 10
_REASON_WIDTH = 160
_ODD = '#d55e00'


def report_terminal(
    run: Run, to: Console, *, everything: bool = False, prices: Mapping[str, Price | None] | None = None
) -> None:
    """Print the scores of a run with their intervals and denominators, and what to know about them."""
    run_counts = count_results(run.light_results())
    cards = every_card(run.scorecards(), run_counts)
    whole = grid_of(cards)
    grid = whole if everything or len(whole.groups) < FOLD_FROM else whole.fold()
    to.print(Text.assemble((printable(run.title), 'bold'), (f'  {printable(run.created)}', 'dim')))
    standing = find_standing(run_counts)
    if standing is not None:
        to.print(Text(printable(standing.headline), 'bold'))
    if not cards:
        to.print(Text('no scores yet'))
    elif _FIRST + _CELL * len(grid.models) <= to.width:
        to.print(_across(grid, digits_of(cards)))
    else:
        to.print(_make_tall_table(grid, digits_of(cards)))
    if hidden := len(whole.lines) - len(grid.lines):
        to.print(Text(f'{count_noun(hidden, "line")} folded into groups; --all shows them.', 'dim'))
    for warning in (*filter(None, [run.damage]), *warnings_of(cards)):
        to.print(Text(f'warning: {printable(warning)}', _ODD))
    if standing is not None and len(standing.ranking.places) > 2:
        rows = count_noun(standing.ranking.rows, 'row')
        to.print(Text(f'ranking on {rows} that all models have', 'bold'))
        to.print(_ranking_table(standing))
    _print_usage(run_counts, prices or {}, to)
    _print_times(run, to)
    _print_reasons([*unjudged_reasons(cards), *run_counts.reasons_by_count()], to)


def _head(grid: Grid, line: Line) -> Text:
    indent = '  ' if line in grid.groups else ''
    cards = (grid.card(line, model) for model in grid.models)
    alias = next((_alias(card) for card in cards if card is not None), '')
    return Text.assemble(
        (f'{indent}{printable(line[0])}', 'bold'), (alias, 'dim'), (f'\n{indent}{printable(line[1])}', 'dim')
    )


def _alias(card: Scorecard) -> str:
    """The other name of a dataset, where a task file has one."""
    alias = card.details.get('alias')
    return f' ({printable(str(alias))})' if alias else ''


def _across(grid: Grid, digits: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset', overflow='fold')
    for model in grid.models:
        table.add_column(Text(printable(model)), justify='right', overflow='fold')
    for line in grid.lines:
        cells = (_cell(grid.card(line, model), digits[line[1]]) for model in grid.models)
        table.add_row(_head(grid, line), *cells)
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
    odd = [(f'\n{words}', _ODD) for words in (left_out(card), card.describe_replies(digits)) if words]
    return [*((f'\n{words}', 'dim') for words in numbers_with_stderr(card, digits)), *odd]


def _make_tall_table(grid: Grid, digits: dict[str, int]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column('dataset × model', overflow='fold')
    table.add_column('score', justify='right', no_wrap=True)
    table.add_column('rows', overflow='fold')
    for line in grid.lines:
        for card in (grid.card(line, model) for model in grid.models):
            if card is None:
                continue
            indent, places = '  ' if line in grid.groups else '', digits[card.metric]
            table.add_row(
                Text.assemble(
                    (f'{indent}{printable(card.dataset)}', 'bold'),
                    (_alias(card), 'dim'),
                    f' × {printable(card.model)}',
                    (f'\n{indent}{printable(card.metric)}', 'dim'),
                ),
                Text.assemble((score(card, places), 'bold'), f'\n{interval(card, places)}'),
                Text.assemble((f'{denominator(card)} scored', 'dim'), *_remarks(card, places)),
            )
    return table


def _new_table(title: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify='left', title_style='bold')
    for name in texts:
        table.add_column(name, overflow='fold')
    for name in numbers:
        table.add_column(name, justify='right')
    return table


def _ranking_table(standing: Standing) -> Table:
    table = _new_table('', ('rank', 'mean'), ('model',))
    for place in standing.ranking.places:
        table.add_row(Text(printable(place.model)), place.rank, f'{100 * place.value:.1f}')
    return table


def _print_usage(counts: RunCounts, prices: Mapping[str, Price | None], to: Console) -> None:
    lines = list(usage_lines(counts, prices))
    if not any(line.known for line in lines):
        return
    table = _new_table('tokens', USAGE_HEADS, ('model', 'dataset'))
    for line in lines:
        table.add_row(Text(printable(line.model)), Text(printable(line.dataset or 'all')), *line.cells)
    to.print(table)


def _print_times(run: Run, to: Console) -> None:
    times = run.times() if isinstance(run, StoredRun) else []
    if not times:
        return
    table = _new_table('where rows were computed', ('rows', 'computing s', 'waiting s'), ('model', 'machine'))
    for one in times:
        cells = (f'{one.rows:,}', f'{one.computing:,.1f}', f'{one.waiting:,.1f}')
        table.add_row(Text(printable(one.model)), Text(printable(one.node)), *cells)
    to.print(table)


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
