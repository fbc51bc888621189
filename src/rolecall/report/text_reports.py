"""The report as Markdown, for issues and pull requests, and as CSV with numbers in full."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rolecall.models.prices import Price
from rolecall.report.counts import RunCounts, count_results, every_card, unjudged_reasons
from rolecall.report.run_source import Run
from rolecall.report.score_text import OUTCOMES, denominator, digits_of, grid_of, interval, left_out, score
from rolecall.report.standing import Standing, find_standing
from rolecall.report.usage import USAGE_HEADS, UsageLine, usage_lines
from rolecall.runs.result_files import quote_formula
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable

__all__ = ['report_csv', 'report_markdown']

_SPECIAL = re.compile(r'([\\`*_{}\[\]<>|#~])')
_REASONS = 20
_SCORES = ('dataset', 'model', 'metric', 'value', 'low', 'high', 'scored', 'total')
_REPLIES = ('cut', 'empty', 'value_of_finished')
_USED = ('input_tokens', 'cached_tokens', 'output_tokens', 'reasoning_tokens')


def report_markdown(run: Run, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, the ranking of its models, tokens and money, and why rows are missing."""
    return '\n'.join(_lines(run, prices)) + '\n'


def _lines(run: Run, prices: Mapping[str, Price | None] | None) -> Iterator[str]:
    yield f'# {_words(run.title)}'
    yield ''
    yield _words(run.created)
    yield ''
    run_counts = count_results(run.light_results())
    cards = every_card(run.scorecards(), run_counts)
    grid, digits = grid_of(cards), digits_of(cards)
    if run.damage:
        yield f'**{_words(run.damage)}**'
        yield ''
    if standing := find_standing(run_counts):
        yield _words(standing.headline)
        yield ''
    yield from _table(
        ['dataset', 'metric', *grid.models],
        [
            [
                *line,
                *(
                    '' if card is None else f'{score(card, digits[line[1]])} {interval(card, digits[line[1]])}'
                    for card in (grid.card(line, model) for model in grid.models)
                ),
            ]
            for line in grid.lines
        ],
        numbers_from=2,
    )
    yield ''
    yield '## Rows'
    yield ''
    yield from _table(
        ['dataset', 'model', 'metric', 'scored', 'the rest', 'replies'],
        [
            [card.dataset, card.model, card.metric, denominator(card), left_out(card), card.describe_replies()]
            for card in cards
        ],
    )
    yield from _more_tables(standing, run_counts, prices or {})
    reasons = [*unjudged_reasons(cards), *run_counts.reasons_by_count()][:_REASONS]
    if reasons:
        yield ''
        yield '## Why rows are missing'
        yield ''
        yield from _table(
            ['rows', 'outcome', 'reason', 'where'],
            [[f'{why.rows:,}', OUTCOMES.get(why.outcome, why.outcome), why.reason, why.place] for why in reasons],
        )


def _more_tables(standing: Standing | None, run_counts: RunCounts, prices: Mapping[str, Price | None]) -> Iterator[str]:
    if standing is not None and len(standing.ranking.places) > 2:
        yield from ('', f'## Ranking on {count_noun(standing.ranking.rows, "row")}', '')
        places = standing.ranking.places
        yield from _table(
            ['model', 'rank', 'mean'],
            [[place.model, place.rank, f'{100 * place.value:.1f}'] for place in places],
            numbers_from=1,
        )
    usage = list(usage_lines(run_counts, prices))
    if any(line.known for line in usage):
        yield from ('', '## Tokens', '')
        yield from _table(
            ['model', 'dataset', *USAGE_HEADS],
            [[line.model, line.dataset or 'all', *line.cells] for line in usage],
            numbers_from=2,
        )


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]], *, numbers_from: int | None = None) -> Iterator[str]:
    right = len(heads) if numbers_from is None else numbers_from
    yield f'| {" | ".join(map(_words, heads))} |'
    yield f'|{"|".join("---" if at < right else "---:" for at in range(len(heads)))}|'
    for row in rows:
        yield f'| {" | ".join(map(_words, row))} |'


def _words(text: str) -> str:
    """The text on one line, with nothing in it that Markdown or HTML would act upon."""
    return _SPECIAL.sub(r'\\\1', printable(' '.join(text.split()))).replace('&', '&amp;')


def report_csv(run: Run, *, prices: Mapping[str, Price | None] | None = None) -> str:
    """The scores of a run, tokens and money. The outcomes add up to the rows that are finished."""
    out = io.StringIO(newline='')
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow([*_SCORES, *OUTCOMES, *_REPLIES, *_USED, 'cost', 'details'])
    run_counts = count_results(run.light_results())
    usage = {(line.dataset, line.model): line for line in usage_lines(run_counts, prices or {})}
    for card in every_card(run.scorecards(), run_counts):
        writer.writerow(
            [
                *map(quote_formula, (card.dataset, card.model, card.metric)),
                *('' if number is None else repr(number) for number in (card.value, card.low, card.high)),
                *(card.scored, card.total),
                *(card.outcomes.get(outcome, 0) for outcome in OUTCOMES),
                *_reply_counts(card),
                *_usage_cells(usage.get((card.dataset, card.model))),
                json.dumps(dict(card.details), ensure_ascii=False, default=str) if card.details else '',
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
    """How many replies were cut and empty, and the score of the others, where a run has counted that."""
    cut, empty = (card.details.get(name) or {} for name in ('cut', 'empty'))
    finished = cut.get('finished')
    return cut.get('rows', 0), empty.get('rows', 0), '' if finished is None else repr(finished)
