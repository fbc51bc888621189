"""The geometry of the page's plots: scores with intervals, how rows ended, lengths and latencies.

Only numbers and texts are computed here; `templates/plots.html` draws them. Places along the width are in percent.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard
from urllib.parse import urlencode

from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun
from rolecall.ui.report.counts import VERDICTS, Pair
from rolecall.ui.report.score_text import OUTCOMES, Grid, denominator, grid_of, interval, score

ENDINGS = (*VERDICTS, *(outcome for outcome in OUTCOMES if outcome != 'ok'))
"""How rows end, in the order they are stacked: verdicts on answers, then outcomes without one."""

_STEP = 15.0
_PAD = 6.0
_GAP = 0.12
_BINS = 30
_TALL = 44.0
_TAIL = 0.99
_LEAST = 1e-9
_LEFT, _RIGHT = 2.0, 97.0
_MARKERS = (
    (),
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.3), (1.2, 0.9), (-1.2, 0.9)),
    ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
)
_MARKER_SIZE = 4.05


@dataclass(frozen=True, slots=True)
class Tick:
    """A round number on an axis."""

    x: str
    label: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Round numbers along the width of a drawing, between two margins."""

    at: tuple[float, ...]
    labels: tuple[str, ...] = ()
    """What stands at the round numbers, if not they themselves."""

    def x(self, number: float) -> str:
        """The place of a number."""
        share = (number - self.at[0]) / (self.at[-1] - self.at[0])
        return f'{_LEFT + share * (_RIGHT - _LEFT):.2f}%'

    @property
    def places(self) -> list[str]:
        """The places of the round numbers."""
        return [self.x(number) for number in self.at]

    @property
    def ticks(self) -> list[Tick]:
        """The round numbers with their places."""
        labels = self.labels or [f'{number:,.10g}' for number in self.at]
        return [Tick(self.x(number), label) for number, label in zip(self.at, labels, strict=False)]


def round_ticks(low: float, high: float, *, about: int = 5) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`.

    >>> round_ticks(0.31, 0.87)
    [0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = max(high - low, abs(high) / 1000, abs(low) / 1000)
    span = span if span > _LEAST else 1.0
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * times for times in (1, 2, 5, 10) if power * times >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, max(last, first + 1) + 1)]


def link_to_rows(**filters: str) -> str:
    """The address of the rows that match some filters, within the page."""
    return '#' + urlencode(filters, errors='replace')


def marker_points(number: int) -> str:
    """The corners of a model's marker; none for a circle. Hue and shape change together, so neither is needed alone."""
    corners = _MARKERS[number % len(_MARKERS)]
    return ' '.join(f'{dx * _MARKER_SIZE:.1f},{dy * _MARKER_SIZE:.1f}' for dx, dy in corners)


@dataclass(frozen=True, slots=True)
class Whisker:
    """One score with its interval."""

    model: int
    y: float
    x: str
    ends: tuple[str, ...]
    """Both ends of the interval, or none."""
    title: str
    href: str


@dataclass(frozen=True, slots=True)
class Band:
    """The scores of one dataset, a model on each line."""

    dataset: str
    height: float
    title: str
    whiskers: tuple[Whisker, ...]


@dataclass(frozen=True, slots=True)
class ScorePlot:
    """The dot-and-whisker plot of one metric."""

    metric: str
    scale: Scale
    bands: tuple[Band, ...]


def score_plots(cards: Sequence[Scorecard], models: Sequence[str], digits: Mapping[str, int]) -> Iterator[ScorePlot]:
    """A plot for each metric that has numbers."""
    for metric in dict.fromkeys(card.metric for card in cards):
        own = [card for card in cards if card.metric == metric and _is_drawable(card.value)]
        if own:
            yield _score_plot(metric, own, models, digits[metric])


def _score_plot(metric: str, cards: Sequence[Scorecard], models: Sequence[str], digits: int) -> ScorePlot:
    grid = grid_of(cards)
    ends = [number for card in cards for number in (card.value, card.low, card.high) if _is_drawable(number)]
    scale = Scale(tuple(round_ticks(min(ends), max(ends))))
    bands = []
    for line in grid.lines:
        own = [card for model in grid.models if (card := grid.card(line, model))]
        points = [(card.model, card.low, card.value or 0.0, card.high, _describe(card, digits)) for card in own]
        bands.append(_band(line[0], points, scale, models))
    return ScorePlot(metric, scale, tuple(bands))


def _describe(card: Scorecard, digits: int) -> str:
    return f'{card.model} {score(card, digits)} {interval(card, digits)}, {denominator(card)} scored'


_Point = tuple[str, float | None, float, float | None, str]
"""A model, the low end, the middle and the high end of its whisker, and what it says."""


def _band(dataset: str, points: Sequence[_Point], scale: Scale, models: Sequence[str]) -> Band:
    whiskers = []
    for place, (model, low, middle, high, words) in enumerate(points):
        ends = (low, high) if _is_drawable(low) and _is_drawable(high) else ()
        whiskers.append(
            Whisker(
                model=models.index(model),
                y=_PAD + _STEP * (place + 0.5),
                x=scale.x(middle),
                ends=tuple(map(scale.x, ends)),
                title=f'{dataset} × {words}',
                href=link_to_rows(dataset=dataset, model=model),
            )
        )
    title = f'{dataset}: ' + '; '.join(words for *_, words in points)
    return Band(dataset, _STEP * len(points) + 2 * _PAD, title, tuple(whiskers))


@dataclass(frozen=True, slots=True)
class BarPart:
    """The rows of one dataset × model that ended the same way."""

    hue: str
    x: str
    width: str
    middle: str
    label: str
    title: str
    href: str


@dataclass(frozen=True, slots=True)
class Bar:
    """One dataset × model, divided by how its rows ended."""

    dataset: str
    model: str
    first: bool
    """Whether it is the first bar of its dataset."""
    total: int
    title: str
    parts: tuple[BarPart, ...]


def fold_endings(
    endings: Mapping[Pair, Counter[str]], grid: Grid
) -> tuple[dict[Pair, Counter[str]], dict[Pair, Counter[str]]]:
    """The endings of groups and of datasets outside groups, and those of the groups' members, in the grid's order."""
    inside = {line[0]: grid.groups_over(line[0]) for line in grid.groups}
    models = {model: place for place, model in enumerate(grid.models)}
    places = {line[0]: place for place, line in enumerate(grid.lines)}
    order = sorted(endings, key=lambda pair: (places.get(pair[0], len(places)), models.get(pair[1], len(models))))
    folded: dict[Pair, Counter[str]] = {}
    for dataset, model in order:
        for name in inside.get(dataset) or [dataset]:
            folded.setdefault((name, model), Counter()).update(endings[dataset, model])
    members = {pair: endings[pair] for pair in order if pair[0] in inside}
    by_place = sorted(folded, key=lambda pair: (places.get(pair[0], len(places)), models.get(pair[1], len(models))))
    return {pair: folded[pair] for pair in by_place}, members


def outcome_bars(endings: Mapping[Pair, Counter[str]], groups: Collection[str] = ()) -> Iterator[Bar]:
    """A bar for each dataset × model; bars of `groups` lead to the rows of all datasets."""
    before = None
    for (dataset, model), counts in endings.items():
        words = ', '.join(f'{counts[ending]:,} {OUTCOMES.get(ending, ending)}' for ending in _in_order(counts))
        yield Bar(
            dataset,
            model,
            dataset != before,
            sum(counts.values()),
            f'{dataset} × {model}: {words}',
            tuple(_bar_parts(('' if dataset in groups else dataset, model), counts)),
        )
        before = dataset


def _in_order(counts: Counter[str]) -> list[str]:
    """The endings that occur, known ones first."""
    return [ending for ending in dict.fromkeys([*ENDINGS, *counts]) if counts[ending]]


def _bar_parts(pair: Pair, counts: Counter[str]) -> Iterator[BarPart]:
    total = sum(counts.values())
    x = 0.0
    for ending in _in_order(counts):
        count = counts[ending]
        width = 100 * count / total
        label = f'{count:,}'
        yield BarPart(
            hue=f'e-{ending.replace(" ", "_")}',
            x=f'{x:.2f}%',
            width=f'{max(width - _GAP, 0.1):.2f}%',
            middle=f'{x + width / 2:.2f}%',
            label=label if width > 2.4 * len(label) + 0.5 else '',
            title=f'{count:,} of {total:,} {OUTCOMES.get(ending, ending)}',
            href=link_to_rows(**_filters(pair, ending)),
        )
        x += width


def _filters(pair: Pair, ending: str) -> dict[str, str]:
    chosen = {'outcome': 'ok', 'verdict': ending} if ending in VERDICTS else {'outcome': ending}
    return ({'dataset': pair[0]} if pair[0] else {}) | {'model': pair[1], **chosen}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a histogram."""

    x: str
    y: float
    width: str
    height: float
    title: str


@dataclass(frozen=True, slots=True)
class Histogram:
    """How a measure spreads for one model."""

    number: int
    model: str
    summary: str
    median: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Measure:
    """The histograms of one measure, on a common scale."""

    name: str
    beyond: int
    """Values larger than the scale."""
    scale: Scale
    histograms: tuple[Histogram, ...]
    height: float = _TALL


def measure_plot(
    name: str, numbers: Mapping[str, array[float]], models: Sequence[str], *, unit: str = 'row'
) -> Measure:
    """How a measure spreads, one small histogram for each model."""
    own = [(models.index(model), model, sorted(numbers[model])) for model in models if numbers.get(model)]
    scale = Scale(tuple(round_ticks(0.0, max(_quantile(values, _TAIL) for _, _, values in own), about=4)))
    beyond = sum(1 for _, _, values in own for value in values if value > scale.at[-1])
    return Measure(name, beyond, scale, tuple(_histogram(*item, scale, unit) for item in own))


def merge_datasets(numbers: Mapping[Pair, array[float]]) -> dict[str, array[float]]:
    """The numbers of each model over all datasets."""
    merged: dict[str, array[float]] = {}
    for (_, model), values in numbers.items():
        merged.setdefault(model, array('d')).extend(values)
    return merged


def spread_plot(name: str, numbers: Mapping[Pair, array[float]], models: Sequence[str]) -> ScorePlot:
    """How a measure spreads in each dataset: the median of each model, and what 90 of 100 rows lie between."""
    spreads = {pair: _spread(values) for pair, values in numbers.items()}
    scale = Scale(tuple(round_ticks(0.0, max(high for _, _, high in spreads.values()))))
    bands = []
    for dataset in dict.fromkeys(dataset for dataset, _ in spreads):
        own = [(model, *spreads[dataset, model]) for model in models if (dataset, model) in spreads]
        points: list[_Point] = [
            (model, low, middle, high, f'{model} median {_round(middle)}, {_round(low)} to {_round(high)}')
            for model, low, middle, high in own
        ]
        bands.append(_band(dataset, points, scale, models))
    return ScorePlot(name, scale, tuple(bands))


def _spread(values: Sequence[float]) -> tuple[float, float, float]:
    ordered = sorted(values)
    return _quantile(ordered, 0.05), _quantile(ordered, 0.5), _quantile(ordered, 0.95)


def _histogram(number: int, model: str, values: Sequence[float], scale: Scale, unit: str) -> Histogram:
    top = scale.at[-1]
    middle = _quantile(values, 0.5)
    summary = f'median {_round(middle)} · 95% below {_round(_quantile(values, 0.95))}'
    counts = Counter(min(int(value / top * _BINS), _BINS - 1) for value in values if value <= top)
    columns = (_column(bin_, count, counts, scale, unit) for bin_, count in sorted(counts.items()))
    return Histogram(number, model, summary, scale.x(min(middle, top)), tuple(columns))


def _column(bin_: int, count: int, counts: Counter[int], scale: Scale, unit: str) -> Column:
    top = scale.at[-1]
    low, high = top * bin_ / _BINS, top * (bin_ + 1) / _BINS
    tall = round(max(1.0, _TALL * count / max(counts.values())), 1)
    width = (_RIGHT - _LEFT) / _BINS - _GAP
    title = f'{_round(low)} – {_round(high)}: {count_noun(count, unit)}'
    return Column(scale.x(low), round(_TALL - tall, 1), f'{width:.2f}%', tall, title)


def _is_drawable(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def _round(number: float) -> str:
    """A number with as many digits as matter.

    >>> _round(1234.5), _round(0.0312)
    ('1,234', '0.031')
    """
    return f'{number:,.0f}' if number >= 10 else f'{number:.2g}'
