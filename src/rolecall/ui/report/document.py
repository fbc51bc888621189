"""What a report says about a run, in values: the terminal, Markdown and the page write the same document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rolecall.insight.kept_counts import HEADS, TEXT_CELLS, CountKind, HitCount
from rolecall.insight.pairwise import PAIRWISE_HEADS, RATING_HEADS, pairwise_tables
from rolecall.insight.run_source import StoredRun
from rolecall.models.prices import Price
from rolecall.registry import load_object
from rolecall.runs.store.directory import LABELS_FILE
from rolecall.scoring.score_warnings import warnings_of
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun
from rolecall.ui.report.counts import (
    RunCounts,
    UsageTable,
    Why,
    count_results,
    every_card,
    unjudged_reasons,
    usage_table,
)
from rolecall.ui.report.ranking_summary import RankingSummary, rank_run, word_headline
from rolecall.ui.report.score_text import (
    Grid,
    describe_extraction,
    describe_judges,
    describe_servers,
    digits_of,
    grid_of,
)

_CORRECTIONS = 'rolecall.ui.report.calibration_text:describe_corrections'  # not for runs without labels
_TIME_HEADS = ('model', 'machine', 'requests', 'computing', 'waiting', 'rendering', 'writing')
_COMPARED = (
    'A judge saw two answers to each row. A tie is half a win; one win and one loss in the two orders are a tie, and a '
    'win in one order with a tie in the other is a row won that counts three quarters. First won: verdicts for the '
    'answer shown first, of those that were not ties; by order: rows whose verdict changed with the order. W–T–L: rows '
    'won, tied and lost.'
)


@dataclass(frozen=True, slots=True)
class ReportTable:
    """A table of texts; all columns from `numbers_from` on hold numbers."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers_from: int = 1
    words: int | None = None
    """How many heads are words of ours; the others are names from the run, which are not translated."""
    note: str = ''
    """What the columns mean, for the page."""
    also: str = ''
    """A line below the table on a terminal."""


@dataclass(frozen=True, slots=True)
class ReportDocument:
    """The report of a run."""

    title: str
    created: str
    headline: str
    """How the models rank, or how the only one scores."""
    standing: list[str]
    """Whether it went as sealed, and which other versions stand beside it."""
    corrections: list[str]
    """Scores corrected by labels."""
    notices: list[str]
    """What is wrong with the run itself."""
    warnings: list[str]
    cards: list[Scorecard]
    counts: RunCounts
    ranked: RankingSummary | None
    remarks: dict[str, list[str]]
    """Lines about extraction, servers and judges, by title."""
    tables: list[ReportTable]
    usage: UsageTable | None
    reasons: list[Why]
    """Why rows have no answer or no score."""

    @classmethod
    def of(
        cls, run: StoredRun, *, prices: Mapping[str, Price | None] | None = None, counts: RunCounts | None = None
    ) -> ReportDocument:
        """Read a run. `counts` are those of its rows, if they have been counted."""
        counts = count_results(run.light_results(), batched=run.batched) if counts is None else counts
        cards = every_card(run.scorecards(), counts)
        parts = run.parts
        ranked = rank_run(counts, cards, parts)
        in_order = list(grid_of(cards).cards_in_order())
        remarks = {
            'Extraction': describe_extraction(in_order),
            'Servers': describe_servers(in_order),
            'Judges': describe_judges(in_order),
        }
        return cls(
            title=run.title,
            created=run.created,
            headline=word_headline(ranked, counts, cards, parts),
            standing=list(run.standing),
            corrections=load_object(_CORRECTIONS)(run) if (run.archive.directory / LABELS_FILE).exists() else [],
            notices=list(run.notices),
            warnings=warnings_of(cards),
            cards=cards,
            counts=counts,
            ranked=ranked,
            remarks={title: lines for title, lines in remarks.items() if lines},
            tables=list(_make_tables(run, cards, ranked)),
            usage=usage_table(counts, prices or {}),
            reasons=[*unjudged_reasons(cards), *counts.reasons_by_count()],
        )

    @property
    def grid(self) -> Grid:
        """The scores by dataset and model."""
        return grid_of(self.cards)

    @property
    def digits(self) -> dict[str, int]:
        """The decimals of each metric."""
        return digits_of(self.cards)


def _make_tables(run: StoredRun, cards: Sequence[Scorecard], ranked: RankingSummary | None) -> Iterator[ReportTable]:
    if ranked is not None and len(ranked.ranking.places) > 2:
        yield _ranking_table(ranked)
    yield from count_tables('scan', run.counts('scan'))
    yield from count_tables('probes', run.counts('probes'))
    if compared := pairwise_tables(cards):
        yield ReportTable('Comparisons', PAIRWISE_HEADS, compared.pairs, 3, note=_COMPARED)
        if compared.ratings:
            scale = '400 points are odds of 10 to 1; 1000 is the mean of these models.'
            yield ReportTable('Bradley-Terry ratings', RATING_HEADS, compared.ratings, 2, note=scale)
    if times := run.times():
        rows = tuple(
            (
                time.model or '(this run)',
                time.node,
                f'{time.count:,}' if time.model else '',
                *(
                    '' if spent is None else f'{spent:,.1f}'
                    for spent in (time.computing, time.waiting, time.rendering, time.writing)
                ),
            )
            for time in times
        )
        note = (
            'Workers of one machine are added up. The process that ran the config reads, renders and scores rows '
            '(rendering), writes them, and waits for models.'
        )
        yield ReportTable('Where time went, in seconds', _TIME_HEADS, rows, 2, note=note)


def _ranking_table(ranked: RankingSummary) -> ReportTable:
    rows = count_noun(ranked.ranking.rows, 'row')
    note = (
        f"Paired tests with Holm's correction on {rows} that all models have scored"
        f'{"" if ranked.complete else " (the first of a large run)"}. Models that share a rank cannot be told apart.'
    )
    places = tuple((place.model, place.rank, f'{100 * place.value:.1f}') for place in ranked.ranking.places)
    return ReportTable(f'Ranking on {rows} that all models have', ('model', 'rank', 'mean'), places, note=note)


def count_tables(kind: CountKind, counts: Sequence[HitCount]) -> Iterator[ReportTable]:
    """What scanners find in replies, or what sways judges, if anything was counted. Names those that find nothing."""
    if counts and kind == 'probes':
        rows = tuple(count.cells(kind) for count in counts)
        yield ReportTable('Probes of judges', HEADS[kind], rows, TEXT_CELLS)
    elif counts:
        hits = [count for count in counts if count.hits]
        names = ', '.join(dict.fromkeys(count.name for count in counts if count.name not in {hit.name for hit in hits}))
        note = 'What `rolecall runs scan` reports, with 95 % intervals and rows to look at.'
        also = f'no hits: {names}' if names else ''
        yield ReportTable(
            'Replies', HEADS[kind], tuple(hit.cells(kind) for hit in hits), TEXT_CELLS, note=note, also=also
        )
