"""The report as Markdown, for issues and pull requests, and as CSV with numbers in full."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rolecall.insight.kept_counts import TEXT_CELLS, ProbeCount, ScanCount
from rolecall.insight.pairwise import PAIRWISE_HEADS, RATING_HEADS, pairwise_tables
from rolecall.insight.run_source import RunSource, find_batched, find_counts, find_notices, find_parts, find_seal
from rolecall.models.prices import Price
from rolecall.runs.result_files import quote_formula
from rolecall.scoring.score_warnings import warnings_of
from rolecall.scoring.scorecard import ReplyCount, Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.report.calibration_text import describe_corrections
from rolecall.ui.report.counts import RunCounts, count_results, every_card, unjudged_reasons
from rolecall.ui.report.ranking_summary import RankingSummary, rank_run, word_headline
from rolecall.ui.report.score_text import (
    OUTCOMES,
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
from rolecall.ui.report.slice_tables import SliceTable
from rolecall.ui.report.times import TIME_HEADS, TIME_TEXTS, list_times
from rolecall.ui.report.usage import UsageLine, usage_lines, usage_table

_SPECIAL = re.compile(r'([\\`*_{}\[\]<>|#~])')
_REASONS = 20
_SCORES = ('dataset', 'model', 'metric', 'value', 'low', 'high', 'scored', 'total')
_REPLIES = ('cut', 'empty', 'value_of_finished')
_USED = ('input_tokens', 'cached_tokens', 'cache_written_tokens', 'output_tokens', 'reasoning_tokens')


def report_markdown(run: RunSource, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, the ranking of its models, tokens and money, and why rows are missing."""
    return '\n'.join(_lines(run, prices)) + '\n'


def _lines(run: RunSource, prices: Mapping[str, Price | None] | None) -> Iterator[str]:
    yield f'# {_words(run.title)}'
    yield ''
    yield _words(run.created)
    yield ''
    run_counts = count_results(run.light_results(), batched=find_batched(run))
    cards = every_card(run.scorecards(), run_counts)
    grid, digits = grid_of(cards), digits_of(cards)
    cards = list(grid.cards_in_order())
    for notice in find_notices(run):
        yield f'**{_words(notice)}**'
        yield ''
    for warning in warnings_of(cards):
        yield f'**{_words(warning)}**'
        yield ''
    parts = find_parts(run)
    ranked = rank_run(run_counts, cards, parts)
    if headline := word_headline(ranked, run_counts, cards, parts):
        yield f'**{_words(headline)}**'
        yield ''
    if seal := find_seal(run):
        yield from (_words(seal), '')
    for line in describe_corrections(run):
        yield from (_words(line), '')
    yield from _table(
        ['dataset', 'metric', *grid.models],
        [
            [
                '· ' * grid.depths[line] + (f'{line[0]} ({grid.alias(line)})' if grid.alias(line) else line[0]),
                line[1],
                *(
                    '' if card is None else f'{score(card, digits[line[1]])} {interval(card, digits[line[1]])}'
                    for card in (grid.card(line, model) for model in grid.models)
                ),
            ]
            for line in grid.lines
        ],
        numbers_from=2,
    )
    yield from ('', *grid.interval_notes) if grid.interval_notes else ()
    yield ''
    yield '## Rows'
    yield ''
    yield from _table(
        ['dataset', 'model', 'metric', 'scored', 'the rest', 'replies'],
        [
            [card.dataset, card.model, card.metric, denominator(card), left_out(card), _describe_replies(card)]
            for card in cards
        ],
    )
    if readings := [f'{card.dataset} × {card.model}: {words}' for card in cards if (words := card.describe_readings())]:
        yield from ('', '## Readings', '', *(f'- {_words(line)}' for line in readings))
    if numbers := [line for card in cards if (line := _further_numbers(card, digits[card.metric]))]:
        yield from ('', '## Further numbers', '', *(f'- {_words(line)}' for line in numbers))
    if descriptions := describe_extraction(cards):
        yield from ('', '## Extraction', '', *(f'- {_words(line)}' for line in descriptions))
    if descriptions := describe_servers(cards):
        yield from ('', '## Servers', '', *(f'- {_words(line)}' for line in descriptions))
    if descriptions := describe_judges(cards):
        yield from ('', '## Judges', '', *(f'- {_words(line)}' for line in descriptions))
    if scanned := [count.cells for count in find_counts(run, ScanCount) if count.hits]:
        yield from ('', '## Replies', '', *_table(ScanCount.HEADS, scanned, numbers_from=TEXT_CELLS))
    if probed := [count.cells for count in find_counts(run, ProbeCount)]:
        yield from ('', '## Probes of judges', '', *_table(ProbeCount.HEADS, probed, numbers_from=TEXT_CELLS))
    if tables := pairwise_tables(cards):
        yield from ('', '## Comparisons', '', *_table(PAIRWISE_HEADS, tables.pairs, numbers_from=3))
        if tables.ratings:
            yield from ('', '## Bradley-Terry ratings', '', *_table(RATING_HEADS, tables.ratings, numbers_from=2))
    yield from _more_tables(ranked, run_counts, prices or {})
    if times := list_times(run):
        yield from ('', '## Where time went, in seconds', '', *_table(TIME_HEADS, times, numbers_from=TIME_TEXTS))
    reasons = [*unjudged_reasons(cards), *run_counts.reasons_by_count()][:_REASONS]
    if reasons:
        yield ''
        yield '## Why rows are missing'
        yield ''
        yield from _table(
            ['rows', 'outcome', 'reason', 'where'],
            [[f'{why.rows:,}', OUTCOMES.get(why.outcome, why.outcome), why.reason, why.place] for why in reasons],
        )


def _further_numbers(card: Scorecard, digits: int) -> str:
    numbers = further_numbers(card, digits)
    return f'{card.dataset} × {card.model}: {", ".join(numbers)}' if numbers else ''


def _more_tables(
    ranked: RankingSummary | None, run_counts: RunCounts, prices: Mapping[str, Price | None]
) -> Iterator[str]:
    if ranked is not None and len(ranked.ranking.places) > 2:
        yield from ('', f'## Ranking on {count_noun(ranked.ranking.rows, "row")}', '')
        places = ranked.ranking.places
        yield from _table(
            ['model', 'rank', 'mean'],
            [[place.model, place.rank, f'{100 * place.value:.1f}'] for place in places],
            numbers_from=1,
        )
    if usage := usage_table(run_counts, prices):
        yield from ('', '## Tokens', '')
        yield from _table(
            ['model', 'dataset', *usage.heads],
            [[line.name, line.dataset or 'all', *cells] for line, cells in usage.rows],
            numbers_from=2,
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> Iterator[str]:
    right = len(heads) if numbers_from is None else numbers_from
    yield f'| {" | ".join(map(_words, heads))} |'
    yield f'|{"|".join("---" if at < right else "---:" for at in range(len(heads)))}|'
    for row in rows:
        yield f'| {" | ".join(map(_words, row))} |'


def tables_markdown(tables: Iterable[SliceTable]) -> str:
    """Tables of slices in Markdown."""
    lines: list[str] = []
    for table in tables:
        lines += [
            f'## {_words(table.title)}',
            '',
            *_table(table.heads, table.rows, numbers_from=table.numbers_from),
            '',
        ]
    return '\n'.join(lines)


def _words(text: str) -> str:
    """The text on one line, with Markdown and HTML escaped."""
    return _SPECIAL.sub(r'\\\1', printable(' '.join(text.split()))).replace('&', '&amp;')


def report_csv(run: RunSource, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, tokens and money. The outcomes add up to the rows that are finished."""
    out = io.StringIO(newline='')
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow([*_SCORES, *OUTCOMES, *_REPLIES, *_USED, 'cost', 'details'])
    run_counts = count_results(run.light_results(), batched=find_batched(run))
    cards = list(grid_of(every_card(run.scorecards(), run_counts)).cards_in_order())
    lines = usage_lines(run_counts, prices or {})
    usage = {(line.dataset, line.model): line for line in lines if not line.as_judge}
    for card in cards:
        writer.writerow(
            [
                *map(quote_formula, (card.dataset, card.model, card.metric)),
                *('' if number is None else repr(number) for number in (card.value, card.low, card.high)),
                *(card.scored, card.total),
                *(card.outcomes.get(outcome, 0) for outcome in OUTCOMES),
                *_reply_counts(card),
                *_usage_cells(usage.get((card.dataset, card.model))),
                json.dumps(details, ensure_ascii=False, default=str) if (details := card.details) else '',
            ]
        )
    return out.getvalue()


def _usage_cells(line: UsageLine | None) -> list[Any]:
    """Tokens and dollars; empty where they are not known, and for groups of datasets."""
    if line is None:
        return [''] * (len(_USED) + 1)
    numbers = [getattr(line.used, name) for name in _USED]
    return ['' if number is None else round(number) for number in numbers] + ['' if line.cost is None else line.cost]


def _reply_counts(card: Scorecard) -> tuple[Any, Any, str]:
    """The numbers of cut and empty replies, and the score of the others, if the run has counted them."""
    cut, empty = (count or ReplyCount(0, 0) for count in (card.cut, card.empty))
    return cut.rows, empty.rows, '' if cut.finished is None else repr(cut.finished)


def _describe_replies(card: Scorecard) -> str:
    return '; '.join(filter(None, (card.describe_replies(), card.describe_receipt())))
