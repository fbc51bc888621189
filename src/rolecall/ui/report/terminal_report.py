"""The report on a terminal: a headline, scores (models across, or one line for each pair where that is too wide),
the ranking, tokens and money, and why rows have no answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rolecall.insight.kept_counts import TEXT_CELLS, Kept, ProbeCount, ScanCount
from rolecall.insight.pairwise import PAIRWISE_HEADS, RATING_HEADS, pairwise_tables
from rolecall.insight.run_source import RunSource, find_batched, find_counts, find_notices, find_parts, find_seal
from rolecall.models.prices import Price
from rolecall.scoring.score_warnings import warnings_of
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.report.calibration_text import describe_corrections
from rolecall.ui.report.counts import RunCounts, Why, count_results, every_card, unjudged_reasons
from rolecall.ui.report.ranking_summary import RankingSummary, rank_run, word_headline
from rolecall.ui.report.score_text import (
    FOLD_FROM,
    MOST_FURTHER,
    OUTCOMES,
    Grid,
    Line,
    alias_of,
    denominator,
    describe_extraction,
    describe_judges,
    describe_servers,
    digits_of,
    further_numbers,
    grid_of,
    interval,
    left_out,
    score,
)
from rolecall.ui.report.times import TIME_HEADS, TIME_TEXTS, list_times
from rolecall.ui.report.usage import usage_table

_CELL = 26
_FIRST = 24
_NARROW, _NARROW_FIRST = 10, 18
_NARROW_REMARKS = 12
_REASONS = 10
_MOST_LINES = 12
_REASON_WIDTH = 160
_ODD = '#d55e00'


def report_terminal(
    run: RunSource, to: Console, *, everything: bool = False, prices: Mapping[str, Price | None] | None = None
) -> None:
    """Print the scores of a run with their intervals and denominators, and what to know about them."""
    run_counts = count_results(run.light_results(), batched=find_batched(run))
    cards = every_card(run.scorecards(), run_counts)
    whole = grid_of(cards)
    grid = whole if everything or len(whole.groups) < FOLD_FROM else whole.fold()
    to.print(Text.assemble((printable(run.title), 'bold'), (f'  {printable(run.created)}', 'dim')))
    parts = find_parts(run)
    ranked = rank_run(run_counts, cards, parts)
    if headline := word_headline(ranked, run_counts, cards, parts):
        to.print(Text(printable(headline), 'bold'))
    if seal := find_seal(run):
        to.print(Text(printable(seal)))
    for line in describe_corrections(run):
        to.print(Text(printable(line)))
    if not cards:
        to.print(Text('no scores yet'))
    elif _FIRST + _CELL * len(grid.models) <= to.width:
        to.print(_across(grid, digits_of(cards)))
    elif len(grid.models) > 2 and _NARROW_FIRST + _NARROW * len(grid.models) <= to.width:
        to.print(_narrow_table(grid, digits_of(cards)))
        _print_remarks(grid, digits_of(cards), to)
    else:
        to.print(_make_tall_table(grid, digits_of(cards)))
    if hidden := len(whole.lines) - len(grid.lines):
        to.print(Text(f'{count_noun(hidden, "line")} folded into groups; --all shows them.', 'dim'))
    for note in grid.interval_notes:
        to.print(Text(note, 'dim'))
    for warning in (*find_notices(run), *warnings_of(cards)):
        to.print(Text(f'warning: {printable(warning)}', _ODD))
    _print_lines('extraction', describe_extraction(grid.cards_in_order()), to)
    _print_lines('servers', describe_servers(grid.cards_in_order()), to)
    _print_lines('judges', describe_judges(grid.cards_in_order()), to)
    if ranked is not None and len(ranked.ranking.places) > 2:
        rows = count_noun(ranked.ranking.rows, 'row')
        to.print(Text(f'ranking on {rows} that all models have', 'bold'))
        to.print(_ranking_table(ranked))
    print_counts('replies', find_counts(run, ScanCount), to)
    print_counts('judges', find_counts(run, ProbeCount), to)
    _print_pairwise(cards, to)
    _print_usage(run_counts, prices or {}, to, everything=everything)
    _print_times(run, to)
    _print_reasons([*unjudged_reasons(cards), *run_counts.reasons_by_count()], to)


def _head(grid: Grid, line: Line) -> Text:
    indent = '  ' * grid.depths[line]
    alias = _in_brackets(grid.alias(line))
    return Text.assemble(
        (f'{indent}{printable(line[0])}', 'bold'), (alias, 'dim'), (f'\n{indent}{printable(line[1])}', 'dim')
    )


def _in_brackets(alias: str) -> str:
    return f' ({printable(alias)})' if alias else ''


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
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1))
    table.add_column('dataset', overflow='fold')
    for model in grid.models:
        table.add_column(Text(printable(model)), justify='right', overflow='fold', max_width=_NARROW - 2)
    for line in grid.lines:
        cells = []
        for card in (grid.card(line, model) for model in grid.models):
            places = digits[line[1]]
            mark = '*' if card is not None and _remarks(card, places) else ''
            reach = '' if card is None or card.low is None or card.high is None else (card.high - card.low) / 2
            half = f'\n±{reach:,.{places}f}' if reach != '' else ''
            number = '' if card is None else f'{score(card, places)}{mark}'
            cells.append(Text.assemble((number, 'bold'), (half, 'dim')))
        table.add_row(_head(grid, line), *cells)
    return table


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
    for line in grid.lines:
        for card in (grid.card(line, model) for model in grid.models):
            if card is None:
                continue
            indent, places = '  ' if line in grid.groups else '', digits[card.metric]
            table.add_row(
                Text.assemble(
                    (f'{indent}{printable(card.dataset)}', 'bold'),
                    (_in_brackets(alias_of(card)), 'dim'),
                    f' × {printable(card.model)}',
                    (f'\n{indent}{printable(card.metric)}', 'dim'),
                ),
                Text.assemble((score(card, places), 'bold'), f'\n{interval(card, places)}'),
                Text.assemble((f'{denominator(card)} scored', 'dim'), *_remarks(card, places)),
            )
    return table


def _print_lines(title: str, lines: Sequence[str], to: Console) -> None:
    """How much scores depend on the extractor or the judge, where the same replies have several readings."""
    if lines:
        to.print(Text(title, 'bold'))
    for line in lines[:_MOST_LINES]:
        to.print(Text(f' {printable(line)}'))
    if (rest := len(lines) - _MOST_LINES) > 0:
        to.print(Text(f' and {count_noun(rest, "other line")}; --markdown shows them all', 'dim'))


def _new_table(title: str, numbers: Sequence[str], texts: Sequence[str] = ()) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, title=title or None, title_justify='left', title_style='bold')
    for name in texts:
        table.add_column(name, overflow='fold')
    for name in numbers:
        table.add_column(name, justify='right')
    return table


def _ranking_table(ranked: RankingSummary) -> Table:
    table = _new_table('', ('rank', 'mean'), ('model',))
    for place in ranked.ranking.places:
        table.add_row(Text(printable(place.model)), place.rank, f'{100 * place.value:.1f}')
    return table


def _print_pairwise(cards: Sequence[Scorecard], to: Console) -> None:
    """Who wins against whom, where a judge compared models, and a rating of three or more."""
    tables = pairwise_tables(cards)
    if tables is None:
        return
    one_dataset = len({line[0] for line in tables.pairs}) == 1
    named = ((PAIRWISE_HEADS, tables.pairs, 'comparisons'), (RATING_HEADS, tables.ratings, 'Bradley-Terry ratings'))
    for heads, lines, title in named:
        if not lines:
            continue
        start = 1 if one_dataset else 0
        texts = 3 if heads is PAIRWISE_HEADS else 2
        table = _new_table(title, heads[texts:], heads[start:texts])
        table.collapse_padding = True
        for column in table.columns[texts - start :]:
            column.no_wrap = True
        for line in lines:
            table.add_row(*(Text(printable(cell)) for cell in line[start:]))
        to.print(table)


def print_counts(title: str, counts: Sequence[Kept], to: Console) -> None:
    """What scanners find in replies, or what sways judges. Scanners without a hit are named below the table."""
    lines = [count.cells for count in counts if not isinstance(count, ScanCount) or count.hits]
    if lines:
        table = _new_table(title, counts[0].HEADS[TEXT_CELLS:], counts[0].HEADS[:TEXT_CELLS])
        for column in table.columns[TEXT_CELLS : TEXT_CELLS + 2]:
            column.no_wrap = True
        for line in lines:
            table.add_row(*(Text(printable(cell)) for cell in line))
        to.print(table)
    reported = {line[0] for line in lines}
    if clean := [name for name in dict.fromkeys(count.cells[0] for count in counts) if name not in reported]:
        to.print(Text(f'no reply: {printable(", ".join(clean))}', 'dim'))


def _print_usage(counts: RunCounts, prices: Mapping[str, Price | None], to: Console, *, everything: bool) -> None:
    usage = usage_table(counts, prices)
    if usage is None:
        return
    fold = not everything and len({line.dataset for line, _ in usage.rows}) > FOLD_FROM
    table = _new_table('tokens', usage.heads, ('model, dataset',))
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


def _print_times(run: RunSource, to: Console) -> None:
    times = list_times(run)
    if not times:
        return
    table = _new_table('where time went, in seconds', TIME_HEADS[TIME_TEXTS:], TIME_HEADS[:TIME_TEXTS])
    for cells in times:
        table.add_row(*(Text(printable(cell)) for cell in cells))
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
