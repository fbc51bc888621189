"""The report as one HTML page: no other file, no network, no markup from data.

The plots are drawn by the templates; the rows travel as JSON and are drawn by the page's own script when opened. A
content security policy in the page allows that one script and nothing else.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rolecall._version import __version__
from rolecall.insight.kept_counts import ProbeCount, ScanCount
from rolecall.insight.pairwise import PAIRWISE_HEADS, RATING_HEADS, pairwise_tables
from rolecall.insight.run_source import (
    Previews,
    RunSource,
    find_batched,
    find_counts,
    find_notices,
    find_parts,
    find_seal,
    judge_requests,
    requests_sent,
)
from rolecall.models.prices import PRICES_OF, Price
from rolecall.scoring.score_warnings import warnings_of
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.report.calibration_text import describe_corrections
from rolecall.ui.report.counts import VERDICTS, RunCounts, every_card, unjudged_reasons
from rolecall.ui.report.packing import Packer, pack
from rolecall.ui.report.palette import SERIES, plot_sheet, style_sheet
from rolecall.ui.report.plots import (
    ENDINGS,
    fold_endings,
    link_to_rows,
    marker_points,
    measure_plot,
    merge_datasets,
    outcome_bars,
    score_plots,
    spread_plot,
)
from rolecall.ui.report.ranking_summary import rank_run, word_headline
from rolecall.ui.report.row_sample import RowSample
from rolecall.ui.report.score_text import (
    FOLD_FROM,
    MOST_FURTHER,
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
from rolecall.ui.report.times import TIME_HEADS, list_times
from rolecall.ui.report.tradeoffs import tradeoff_plots
from rolecall.ui.report.usage import usage_table
from rolecall.ui.views.looks import LOOKS

_MOST_BYTES = 50_000_000
_LEAST_SHARE = 100_000
_MOST_ROWS, _FEWEST_ROWS = 10_000, 50
"""Rows shown of a run, and at least of each dataset × model."""
_REASONS = 50
_MEASURES = (
    *(('prompt tokens', 'prompt characters'), ('answer tokens', 'answer characters'), ('seconds',)),
    *(('seconds to first token',), ('milliseconds per output token',)),
)


def report_html(
    run: RunSource,
    *,
    previews: Previews | None = None,
    most_bytes: int = _MOST_BYTES,
    most_rows: int = _MOST_ROWS,
    prices: Mapping[str, Price | None] | None = None,
) -> str:
    """The whole page. `previews` gives origins to the prompts.

    Of a larger run, `most_rows` are shown, spread over all, and no more than fit into `most_bytes`; all are counted.
    """
    return ''.join(build_page(run, previews=previews, most_bytes=most_bytes, most_rows=most_rows, prices=prices).parts)


def page_parts(run: RunSource, *, prices: Mapping[str, Price | None] | None = None) -> Iterator[str]:
    """The page in parts, for writing it to a file as it is made."""
    return build_page(run, prices=prices).parts


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The page in parts, and the sentence at its top."""

    headline: str
    parts: Iterator[str]


def build_page(
    run: RunSource,
    *,
    previews: Previews | None = None,
    most_bytes: int = _MOST_BYTES,
    most_rows: int = _MOST_ROWS,
    prices: Mapping[str, Price | None] | None = None,
    slices: Sequence[SliceTable] = (),
) -> ReportPage:
    """The page: every row is read here, once, and the parts are made as they are written."""
    cards: Sequence[Scorecard] = run.scorecards()
    pairs = dict.fromkeys((card.dataset, card.model) for card in cards)
    packer = Packer(share=max(_LEAST_SHARE, most_bytes // 2 // max(1, len(pairs))), pool=most_bytes // 2)
    sample = RowSample(max(_FEWEST_ROWS, most_rows // max(1, len(pairs))))
    packer.sort_as(card for card in grid_of(cards).cards_in_order())
    run_counts = RunCounts(batched=find_batched(run))
    for light in run.light_results():
        run_counts.add_some(light)
        sample.add(light)
    packer.left_out.update(sample.left_out)
    full = (run.result(*row) for row in sample.rows()) if packer.left_out else run.results()
    for result in filter(None, full):
        pair = (result.dataset, result.model)
        if packer.has_room(pair):
            sent = requests_sent(run, result, previews)
            run_counts.measure_texts(result, packer.add(result, sent, judge_requests(run, result)))
        else:
            packer.skip(pair)
            run_counts.measure_texts(result, None)
    cards = every_card(cards, run_counts)
    models = tuple(dict.fromkeys([model for _, model in (*pairs, *run_counts.endings)]))
    digests = find_parts(run)
    ranked = rank_run(run_counts, cards, digests)
    headline = ' '.join(filter(None, (word_headline(ranked, run_counts, cards, digests), find_seal(run))))
    parts = (
        make_environment()
        .get_template('page.html')
        .generate(
            **_head(run, packer),
            **_summary(cards, run_counts, models),
            **_scores(cards, models, [*find_notices(run), *describe_corrections(run)]),
            **_outcomes(cards, run_counts),
            ranked=ranked,
            headline=headline,
            scan=[ScanCount.HEADS, *(count.cells for count in find_counts(run, ScanCount) if count.hits)],
            probes=[ProbeCount.HEADS, *(count.cells for count in find_counts(run, ProbeCount))],
            slices=slices,
            pairwise=pairwise_tables(cards),
            pairwise_heads=PAIRWISE_HEADS,
            rating_heads=RATING_HEADS,
            **_usage(run_counts, prices or {}),
            times=list_times(run),
            time_heads=TIME_HEADS,
            **_lengths(run_counts, models),
            tradeoffs=tradeoff_plots(ranked, run_counts, models, prices or {}),
            **_rows(packer),
        )
    )
    return ReportPage(headline, parts)


@lru_cache(maxsize=1)
def make_environment() -> Environment:
    """Templates that escape every value and write out bidirectional control characters."""
    environment = Environment(
        loader=PackageLoader('rolecall.ui.report', 'templates'),
        autoescape=True,
        finalize=_make_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters['raw'] = Markup
    environment.globals.update(
        hues=len(SERIES),
        marker_points=marker_points,
        link=link_to_rows,
        score=score,
        interval=interval,
        denominator=denominator,
        left_out_of=left_out,
        further_numbers=partial(further_numbers, most=MOST_FURTHER),
        count=count_noun,
        breakable=_make_breakable,
        outcome_words=lambda outcome: OUTCOMES.get(outcome, outcome),
    )
    return environment


def _make_breakable(name: str) -> Markup:
    """A name that a browser breaks after its underscores, dashes and slashes, if it has to."""
    return Markup('<wbr>').join(printable(part) for part in re.split(r'(?<=[_/.-])', name))


def _make_printable(value: object) -> object:
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def read_asset(name: str) -> str:
    """A style sheet or script of the page."""
    return files(__package__).joinpath(f'assets/{name}').read_text('utf-8')


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_head(title: str, created: str, *, styles: Sequence[str] = (), script: str = '') -> dict[str, Any]:
    """What stands at the top of a page: its title, its style sheet and script, and what the policy allows."""
    sheet = read_asset('report.css') + plot_sheet() + style_sheet(styles)
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(sheet)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return {
        'title': title,
        'created': created,
        'version': __version__,
        'policy': Markup(policy),
        'sheet': sheet,
        'script': script,
    }


def _head(run: RunSource, packer: Packer) -> dict[str, Any]:
    styles = _styles(packer)
    script = read_asset('draw.js') + read_asset('report.js')
    head = page_head(run.title, run.created, styles=styles, script=script)
    return {**head, 'about': pack(_describe_page(packer, styles))}


def _styles(packer: Packer) -> list[str]:
    """Every way a span can look, of the legend and of this run; a style's number is its place in this list."""
    return list(
        dict.fromkeys(['', *(look.style for look in LOOKS.values()), *(origin[0] for origin in packer.origins)])
    )


def _describe_page(packer: Packer, styles: Sequence[str]) -> dict[str, Any]:
    numbers = {style: number for number, style in enumerate(styles)}
    return {
        'pairs': [list(pair) for pair in packer.pairs],
        'outcomes': [[name, OUTCOMES.get(name, name)] for name in packer.outcomes],
        'verdicts': list(VERDICTS),
        'origins': [[numbers[style], *rest] for style, *rest in packer.origins],
        'legend': [[group, look.meaning, numbers[look.style]] for group, look in LOOKS.items()],
    }


def _summary(cards: Sequence[Scorecard], run_counts: RunCounts, models: Sequence[str]) -> dict[str, Any]:
    scored = [card.dataset for card in cards if not card.members]
    datasets = dict.fromkeys(scored + [dataset for dataset, _ in run_counts.endings])
    counts = ((len(datasets), 'dataset'), (len(models), 'model'), (run_counts.rows, 'row'))
    return {'facts': [count_noun(*count) for count in counts], 'models': models}


def _scores(cards: Sequence[Scorecard], models: Sequence[str], notices: Sequence[str]) -> dict[str, Any]:
    digits, grid = digits_of(cards), grid_of(cards)
    few = len(grid.groups) < FOLD_FROM
    plotted = [card for card in cards if few or (card.dataset, card.metric) not in grid.groups]
    return {
        'grid': grid,
        'digits': digits,
        'score_plots': list(score_plots(plotted, models, digits)),
        'notices': notices,
        'warnings': warnings_of(cards),
        'extraction': describe_extraction(cards),
        'judges': describe_judges(cards),
        'servers': describe_servers(cards),
    }


def _usage(run_counts: RunCounts, prices: Mapping[str, Price | None]) -> dict[str, Any]:
    return {'usage': usage_table(run_counts, prices), 'prices_of': PRICES_OF}


def _lengths(run_counts: RunCounts, models: Sequence[str]) -> dict[str, Any]:
    measures = [measure for names in _MEASURES if (measure := run_counts.measure(*names)) is not None]
    several = len({dataset for _, numbers in measures for dataset, _ in numbers}) > 1
    return {
        'measures': [measure_plot(name, merge_datasets(numbers), models) for name, numbers in measures],
        'length_plots': [spread_plot(name, numbers, models) for name, numbers in measures] if several else [],
        'fold_from': FOLD_FROM,
    }


def _outcomes(cards: Sequence[Scorecard], run_counts: RunCounts) -> dict[str, Any]:
    folded, members = fold_endings(run_counts.endings, grid_of(cards))
    endings = Counter(ending for counts in run_counts.endings.values() for ending in counts)
    reasons = [*unjudged_reasons(cards), *run_counts.reasons_by_count()][:_REASONS]
    return {
        'bars': list(outcome_bars(folded, groups={group for group, _ in folded.keys() - run_counts.endings.keys()})),
        'member_bars': list(outcome_bars(members)),
        'member_count': len({dataset for dataset, _ in members}),
        'endings': [
            {'name': ending.replace(' ', '_'), 'words': OUTCOMES.get(ending, ending)}
            for ending in ENDINGS
            if ending in endings
        ],
        'reasons': [
            {
                'rows': why.rows,
                'outcome': why.outcome,
                'reason': why.reason,
                'places': ', '.join(f'{dataset} × {model}' for dataset, model in why.pairs),
            }
            for why in reasons
        ],
    }


def _rows(packer: Packer) -> Mapping[str, Any]:
    return {
        'left_out': [f'{dataset} × {model}: {count:,}' for (dataset, model), count in packer.left_out.items()],
        'left_out_total': count_noun(packer.left_out.total(), 'row'),
        'data': (('texts', packer.texts), ('packed', packer.rows)),
    }
