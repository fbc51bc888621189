"""The report as Markdown, for issues and pull requests, and as CSV with numbers in full."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rolecall.insight.run_source import StoredRun
from rolecall.models.prices import Price
from rolecall.runs.result_files import quote_formula
from rolecall.scoring.scorecard import ReplyCount, Scorecard
from rolecall.strings import printable
from rolecall.ui.report.counts import UsageLine, usage_lines
from rolecall.ui.report.document import ReportDocument, ReportTable
from rolecall.ui.report.score_text import OUTCOMES, denominator, further_numbers, interval, left_out, score

_SPECIAL = re.compile(r'([\\`*_{}\[\]<>|#~])')
_REASONS = 20
_SCORES = ('dataset', 'model', 'metric', 'value', 'low', 'high', 'scored', 'total')
_REPLIES = ('cut', 'empty', 'value_of_finished')
_USED = ('input_tokens', 'cached_tokens', 'cache_written_tokens', 'output_tokens', 'reasoning_tokens')


def report_markdown(run: StoredRun, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, the ranking of its models, tokens and money, and why rows are missing."""
    return '\n'.join(_lines(run, prices)) + '\n'


def _lines(run: StoredRun, prices: Mapping[str, Price | None] | None) -> Iterator[str]:
    report = ReportDocument.of(run, prices=prices)
    grid, digits = report.grid, report.digits
    cards = list(grid.cards_in_order())
    yield from (f'# {_words(report.title)}', '', _words(report.created), '')
    for line in filter(None, (*report.notices, *report.warnings, report.headline)):
        yield from (f'**{_words(line)}**', '')
    for line in (*report.standing, *report.corrections):
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
    yield from ('', '## Rows', '')
    yield from _table(
        ['dataset', 'model', 'metric', 'scored', 'the rest', 'replies'],
        [
            [card.dataset, card.model, card.metric, denominator(card), left_out(card), _describe_replies(card)]
            for card in cards
        ],
    )
    readings = [f'{card.dataset} × {card.model}: {words}' for card in cards if (words := card.describe_readings())]
    further = [(card, further_numbers(card, digits[card.metric])) for card in cards]
    numbers = [f'{card.dataset} × {card.model}: {", ".join(own)}' for card, own in further if own]
    for title, lines in {'Readings': readings, 'Further numbers': numbers, **report.remarks}.items():
        if lines:
            yield from ('', f'## {title}', '', *(f'- {_words(line)}' for line in lines))
    for table in report.tables:
        if table.rows:
            yield from ('', *_titled(table))
    if usage := report.usage:
        rows = [[line.name, line.dataset or 'all', *cells] for line, cells in usage.rows]
        yield from ('', '## Tokens', '', *_table(['model', 'dataset', *usage.heads], rows, numbers_from=2))
    if report.reasons:
        yield from ('', '## Why rows are missing', '')
        yield from _table(
            ['rows', 'outcome', 'reason', 'where'],
            [
                [f'{why.rows:,}', OUTCOMES.get(why.outcome, why.outcome), why.reason, why.place]
                for why in report.reasons[:_REASONS]
            ],
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> Iterator[str]:
    right = len(heads) if numbers_from is None else numbers_from
    yield f'| {" | ".join(map(_words, heads))} |'
    yield f'|{"|".join("---" if at < right else "---:" for at in range(len(heads)))}|'
    for row in rows:
        yield f'| {" | ".join(map(_words, row))} |'


def _titled(table: ReportTable) -> Iterator[str]:
    yield from (f'## {_words(table.title)}', '')
    yield from _table(table.heads, table.rows, numbers_from=table.numbers_from)


def tables_markdown(tables: Iterable[ReportTable]) -> str:
    """Tables of slices in Markdown."""
    return '\n'.join(line for table in tables for line in (*_titled(table), ''))


def _words(text: str) -> str:
    """The text on one line, with Markdown and HTML escaped."""
    return _SPECIAL.sub(r'\\\1', printable(' '.join(text.split()))).replace('&', '&amp;')


def report_csv(run: StoredRun, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, tokens and money. The outcomes add up to the rows that are finished."""
    out = io.StringIO(newline='')
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow([*_SCORES, *OUTCOMES, *_REPLIES, *_USED, 'cost', 'details'])
    report = ReportDocument.of(run)
    lines = usage_lines(report.counts, prices or {})
    usage = {(line.dataset, line.model): line for line in lines if not line.as_judge}
    for card in report.grid.cards_in_order():
        cut, empty = (count or ReplyCount(0, 0) for count in (card.cut, card.empty))
        writer.writerow(
            [
                *map(quote_formula, (card.dataset, card.model, card.metric)),
                *('' if number is None else repr(number) for number in (card.value, card.low, card.high)),
                *(card.scored, card.total),
                *(card.outcomes.get(outcome, 0) for outcome in OUTCOMES),
                *(cut.rows, empty.rows, '' if cut.finished is None else repr(cut.finished)),
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


def _describe_replies(card: Scorecard) -> str:
    return '; '.join(filter(None, (card.describe_replies(), card.describe_receipt())))
