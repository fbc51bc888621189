"""The report as one HTML page: no other file, no network, no markup from data.

The plots are drawn here; the rows travel as JSON and are drawn by the page's own script when somebody looks at them. A
content policy in the page allows that one script and nothing else.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from importlib.resources import files

from rolecall._version import __version__
from rolecall.report.counts import VERDICTS, RunCounts, Why, every_card, not_judged
from rolecall.report.packing import Packer, packed
from rolecall.report.palette import plot_sheet, style_sheet
from rolecall.report.plots import ENDINGS, histograms, outcome_bars, score_plots
from rolecall.report.run_source import Previews, Run, requests_sent
from rolecall.report.score_text import OUTCOMES, Grid, denominator, digits_of, grid_of, interval, left_out, score
from rolecall.report.svg import element, link_to_rows, marker, shown
from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun
from rolecall.views.looks import LOOKS

__all__ = ['page_parts', 'report_html']

_MOST_BYTES = 50_000_000
_LEAST_SHARE = 100_000
_REASONS = 50


def report_html(run: Run, *, previews: Previews | None = None, most_bytes: int = _MOST_BYTES) -> str:
    """The whole page. `previews` gives origins to the prompts; rows beyond `most_bytes` are counted, not shown."""
    return ''.join(page_parts(run, previews=previews, most_bytes=most_bytes))


def page_parts(run: Run, *, previews: Previews | None = None, most_bytes: int = _MOST_BYTES) -> Iterator[str]:
    """The page in parts, for writing it to a file as it comes."""
    cards: Sequence[Scorecard] = run.scorecards()
    pairs = dict.fromkeys((card.dataset, card.model) for card in cards)
    packer = Packer(share=max(_LEAST_SHARE, most_bytes // 2 // max(1, len(pairs))), pool=most_bytes // 2)
    run_counts = RunCounts()
    for result in run.results():
        pair = (result.dataset, result.model)
        if packer.has_room(pair):
            run_counts.add(result, prompt_characters=packer.add(result, requests_sent(run, result, previews)))
        else:
            packer.skip(pair)
            run_counts.add(result)
    cards = every_card(cards, run_counts)
    models = tuple(dict.fromkeys([model for _, model in (*pairs, *run_counts.endings)]))
    styles = _styles(packer)
    yield from _head(run, styles)
    yield from _summary(run, cards, run_counts, models)
    yield from _scores(cards, models)
    yield from _outcomes(run_counts, not_judged(cards))
    yield from _lengths(run_counts, models)
    yield from _browser(packer)
    yield from _data(packer, styles)
    yield f'<script>{_asset("report.js")}</script></body></html>\n'


def _styles(packer: Packer) -> list[str]:
    """Every way a span can look, of the legend and of this run; their places are the names of their rules."""
    return list(dict.fromkeys(['', *(look.style for look in LOOKS.values()), *(one[0] for one in packer.origins)]))


def _asset(name: str) -> str:
    return files(__package__).joinpath(f'assets/{name}').read_text('utf-8')


def _digest(words: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(words.encode()).digest()).decode()}'"


def _head(run: Run, styles: Sequence[str]) -> Iterator[str]:
    sheet = _asset('report.css') + plot_sheet() + style_sheet(styles)
    policy = (
        f"default-src 'none'; script-src {_digest(_asset('report.js'))}; style-src {_digest(sheet)}; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    yield '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f'<meta name="color-scheme" content="light dark"><meta name="generator" content="rolecall {__version__}">'
    yield f'<title>{shown(run.title)} – rolecall report</title><style>{sheet}</style></head>\n<body>'


def _summary(run: Run, cards: Sequence[Scorecard], run_counts: RunCounts, models: Sequence[str]) -> Iterator[str]:
    datasets = dict.fromkeys([card.dataset for card in cards] + [dataset for dataset, _ in run_counts.endings])
    facts = (count_noun(len(datasets), 'dataset'), count_noun(len(models), 'model'), count_noun(run_counts.rows, 'row'))
    links = ''.join(f'<a href="#{name}">{name}</a>' for name in ('scores', 'outcomes', 'lengths', 'rows'))
    yield f'<header><p class="brand">rolecall report</p><h1><bdi>{shown(run.title)}</bdi></h1>'
    yield f'<p class="facts"><span>{shown(run.created)}</span>{"".join(f"<span>{fact}</span>" for fact in facts)}</p>'
    yield f'<nav aria-label="Sections">{links}</nav></header>\n<main>'


def _scores(cards: Sequence[Scorecard], models: Sequence[str]) -> Iterator[str]:
    yield '<section id="scores" aria-labelledby="h-scores"><h2 id="h-scores">Scores</h2>'
    if not cards:
        yield '<p class="note">No scores yet.</p></section>\n'
        return
    digits = digits_of(cards)
    yield from _score_table(grid_of(cards), digits)
    yield f'<p class="legend">{"".join(_model_key(number, model) for number, model in enumerate(models))}</p>'
    for metric, plot in score_plots(cards, models, digits):
        yield f'<figure><figcaption>{shown(metric)}</figcaption>{plot}</figure>'
    yield '<p class="note">Dots are scores, whiskers their intervals. The counts say how many rows made each score, '
    yield 'and how many ended without a plain answer.</p></section>\n'


def _model_key(number: int, model: str) -> str:
    sign = element('svg', marker(number, '7', 7), width=14, height=14, aria_hidden='true')
    return f'<span>{sign}<bdi>{shown(model)}</bdi></span>'


def _score_table(grid: Grid, digits: dict[str, int]) -> Iterator[str]:
    heads = ''.join(f'<th scope="col"><bdi>{shown(model)}</bdi></th>' for model in grid.models)
    yield f'<div class="scroll" tabindex="0"><table><thead><tr><th scope="col">dataset</th>{heads}</tr></thead><tbody>'
    for line in grid.lines:
        dataset, metric = line
        yield f'<tr><th scope="row"><bdi>{shown(dataset)}</bdi><small>{shown(metric)}</small></th>'
        yield from (_score_cell(grid.card(line, model), digits[metric]) for model in grid.models)
        yield '</tr>'
    yield '</tbody></table></div>'


def _score_cell(card: Scorecard | None, digits: int) -> str:
    if card is None:
        return '<td></td>'
    linked = link_to_rows(f'<b>{score(card, digits)}</b>', dataset=card.dataset, model=card.model)
    missing = left_out(card)
    rest = f'<small class="missing">{shown(missing)}</small>' if missing else ''
    return f'<td>{linked} <i>{interval(card, digits)}</i><small>{denominator(card)} scored</small>{rest}</td>'


def _outcomes(run_counts: RunCounts, unjudged: Sequence[Why]) -> Iterator[str]:
    yield '<section id="outcomes" aria-labelledby="h-outcomes"><h2 id="h-outcomes">Outcomes</h2>'
    seen = {ending for counts in run_counts.endings.values() for ending in counts}
    keys = ''.join(
        f'<span><i class="key e-{ending.replace(" ", "_")}"></i>{OUTCOMES.get(ending, ending)}</span>'
        for ending in ENDINGS
        if ending in seen
    )
    if run_counts.endings:
        yield f'<p class="legend">{keys}</p>{outcome_bars(run_counts.endings)}'
    reasons = [*unjudged, *run_counts.why()]
    if reasons:
        heads = ''.join(f'<th scope="col">{name}</th>' for name in ('rows', 'outcome', 'reason', 'where'))
        yield '<details><summary>Why rows have no answer or no score</summary><div class="scroll" tabindex="0"><table>'
        yield f'<thead><tr>{heads}</tr></thead><tbody>'
        for why in reasons[:_REASONS]:
            places = ', '.join(f'{dataset} × {model}' for dataset, model in why.pairs)
            yield f'<tr><td>{why.rows:,}</td><td>{shown(OUTCOMES.get(why.outcome, why.outcome))}</td>'
            yield f'<td>{shown(why.reason)}</td><td>{shown(places)}</td></tr>'
        yield '</tbody></table></div></details>'
    yield '</section>\n'


def _lengths(run_counts: RunCounts, models: Sequence[str]) -> Iterator[str]:
    yield '<section id="lengths" aria-labelledby="h-lengths"><h2 id="h-lengths">Lengths and latencies</h2>'
    choices = (('prompt tokens', 'prompt characters'), ('answer tokens', 'answer characters'), ('seconds',))
    found = [measure for names in choices if (measure := run_counts.measure(*names))]
    if found:
        yield f'<div class="columns">{"".join(histograms(name, numbers, models) for name, numbers in found)}</div>'
    else:
        yield '<p class="note">Nothing was measured.</p>'
    yield '</section>\n'


def _browser(packer: Packer) -> Iterator[str]:
    yield '<section id="rows" aria-labelledby="h-rows"><h2 id="h-rows">Rows</h2>'
    if packer.left_out:
        total = sum(packer.left_out.values())
        per_pair = ', '.join(f'{dataset} × {model}: {count:,}' for (dataset, model), count in packer.left_out.items())
        yield f'<p class="note missing">{count_noun(total, "row")} left out here to keep this file small (they are in '
        yield 'the '
        yield f'scores and plots above): {shown(per_pair)}. <code>rolecall export results</code> prints every row.</p>'
    yield '<noscript><p class="note">The rows are drawn by a script; scores and plots above need none.</p></noscript>'
    yield '<div id="browser" hidden></div></section>\n</main>'
    yield '<footer>One file, nothing loaded from elsewhere. Made by rolecall.</footer>\n'


def _data(packer: Packer, styles: Sequence[str]) -> Iterator[str]:
    numbers = {style: number for number, style in enumerate(styles)}
    about = {
        'pairs': [list(pair) for pair in packer.pairs],
        'outcomes': [[name, OUTCOMES.get(name, name)] for name in packer.outcomes],
        'verdicts': list(VERDICTS),
        'origins': [[numbers[style], *rest] for style, *rest in packer.origins],
        'legend': [[group, look.meaning, numbers[look.style]] for group, look in LOOKS.items()],
    }
    yield f'<script type="application/json" id="about">{packed(about)}</script>\n'
    for name, entries in (('texts', packer.texts), ('packed', packer.rows)):
        yield f'<script type="application/json" id="{name}">[\n'
        yield ',\n'.join(entries)
        yield '\n]</script>\n'
