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

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from rolecall._version import __version__
from rolecall.insight.run_source import Previews, StoredRun, judge_requests, requests_sent
from rolecall.models.prices import PRICES_OF, Price
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun, printable
from rolecall.ui.report.counts import VERDICTS, RunCounts
from rolecall.ui.report.curves import tradeoff_plots
from rolecall.ui.report.document import ReportDocument, ReportTable
from rolecall.ui.report.packing import Packer, RowSample, pack
from rolecall.ui.report.palette import SERIES, plot_sheet, style_sheet
from rolecall.ui.report.plots import (
    ENDINGS,
    Drawn,
    fold_endings,
    link_to_rows,
    marker_points,
    measure_plot,
    merge_datasets,
    outcome_bars,
    score_plots,
    spread_plot,
)
from rolecall.ui.report.score_text import (
    FOLD_FROM,
    MOST_FURTHER,
    OUTCOMES,
    denominator,
    further_numbers,
    grid_of,
    interval,
    left_out,
    score,
)
from rolecall.ui.views.chinese import (
    is_chinese,
    markup_in_chinese,
    read_chinese,
    translate_head,
    translate_message,
)
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
    run: StoredRun,
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


@dataclass(frozen=True, slots=True)
class ReportPage:
    """The page in parts, and the sentence at its top."""

    headline: str
    parts: Iterator[str]


def build_page(
    run: StoredRun,
    *,
    previews: Previews | None = None,
    most_bytes: int = _MOST_BYTES,
    most_rows: int = _MOST_ROWS,
    prices: Mapping[str, Price | None] | None = None,
    slices: Sequence[ReportTable] = (),
) -> ReportPage:
    """The page: every row is read here, once, and the parts are made as they are written."""
    cards: Sequence[Scorecard] = run.scorecards()
    pairs = dict.fromkeys((card.dataset, card.model) for card in cards)
    packer = Packer(share=max(_LEAST_SHARE, most_bytes // 2 // max(1, len(pairs))), pool=most_bytes // 2)
    sample = RowSample(max(_FEWEST_ROWS, most_rows // max(1, len(pairs))))
    packer.sort_as(card for card in grid_of(cards).cards_in_order())
    run_counts = RunCounts(batched=run.batched)
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
    report = ReportDocument.of(run, prices=prices, counts=run_counts)
    models = tuple(dict.fromkeys([model for _, model in (*pairs, *run_counts.endings)]))
    headline = ' '.join(filter(None, (report.headline, *report.standing)))
    parts = (
        make_environment()
        .get_template('page.html')
        .generate(
            **_head(run, packer),
            report=report,
            headline=headline,
            facts=_facts(report, models),
            models=models,
            score_plots=_score_plots(report, models),
            slices=slices,
            prices_of=PRICES_OF,
            fold_from=FOLD_FROM,
            **_outcomes(report),
            **_lengths(run_counts, models),
            tradeoffs=tradeoff_plots(report.ranked, run_counts, models, prices or {}),
            **_rows(packer),
        )
    )
    return ReportPage(headline, parts)


def make_environment() -> Environment:
    """Templates that escape every value and write out bidirectional control characters, in the chosen language."""
    return _make_environment(is_chinese())


@lru_cache
def _make_environment(chinese: bool) -> Environment:  # a key of the cache
    words = markup_in_chinese if chinese else str
    folder = files(__package__).joinpath('templates')
    environment = Environment(
        loader=FunctionLoader(lambda name: words(folder.joinpath(name).read_text('utf-8'))),
        autoescape=True,
        finalize=_make_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters['raw'] = Markup
    environment.globals.update(
        hues=len(SERIES),
        language='zh' if chinese else 'en',
        head=translate_head,
        translate_head=translate_head,
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
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return printable(translate_message(value))


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


def _head(run: StoredRun, packer: Packer) -> dict[str, Any]:
    looks = (look.style for look in LOOKS.values())
    styles = list(dict.fromkeys(['', *looks, *(origin[0] for origin in packer.origins)]))
    script = read_asset('draw.js') + read_asset('report.js')
    head = page_head(run.title, run.created, styles=styles, script=script)
    return {**head, 'about': pack(_describe_page(packer, styles))}


def _describe_page(packer: Packer, styles: Sequence[str]) -> dict[str, Any]:
    """What the script of the page reads; a style is its place among `styles`."""
    numbers = {style: number for number, style in enumerate(styles)}
    return {
        'pairs': [list(pair) for pair in packer.pairs],
        'outcomes': [[name, OUTCOMES.get(name, name)] for name in packer.outcomes],
        'verdicts': list(VERDICTS),
        'origins': [[numbers[style], *rest] for style, *rest in packer.origins],
        'legend': [[group, look.meaning, numbers[look.style]] for group, look in LOOKS.items()],
        **({'words': dict(read_chinese('page'))} if is_chinese() else {}),
    }


def _facts(report: ReportDocument, models: Sequence[str]) -> list[str]:
    scored = [card.dataset for card in report.cards if not card.members]
    datasets = dict.fromkeys(scored + [dataset for dataset, _ in report.counts.endings])
    counts = ((len(datasets), 'dataset'), (len(models), 'model'), (report.counts.rows, 'row'))
    return [count_noun(*count) for count in counts]


def _score_plots(report: ReportDocument, models: Sequence[str]) -> list[Drawn]:
    grid = report.grid
    few = len(grid.groups) < FOLD_FROM
    plotted = [card for card in report.cards if few or (card.dataset, card.metric) not in grid.groups]
    return list(score_plots(plotted, models, report.digits))


def _lengths(run_counts: RunCounts, models: Sequence[str]) -> dict[str, Any]:
    measures = [measure for names in _MEASURES if (measure := run_counts.measure(*names)) is not None]
    several = len({dataset for _, numbers in measures for dataset, _ in numbers}) > 1
    return {
        'measures': [measure_plot(name, merge_datasets(numbers), models) for name, numbers in measures],
        'length_plots': [spread_plot(name, numbers, models) for name, numbers in measures] if several else [],
    }


def _outcomes(report: ReportDocument) -> dict[str, Any]:
    every = report.counts.endings
    folded, members = fold_endings(every, report.grid)
    endings = Counter(ending for counts in every.values() for ending in counts)
    return {
        'bars': list(outcome_bars(folded, groups={group for group, _ in folded.keys() - every.keys()})),
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
            for why in report.reasons[:_REASONS]
        ],
    }


def _rows(packer: Packer) -> Mapping[str, Any]:
    return {
        'left_out': [f'{dataset} × {model}: {count:,}' for (dataset, model), count in packer.left_out.items()],
        'left_out_total': count_noun(packer.left_out.total(), 'row'),
        'data': (('texts', packer.texts), ('packed', packer.rows)),
    }
