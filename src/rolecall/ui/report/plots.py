"""The geometry of the page's plots: scores with intervals, how rows ended, lengths and latencies.

Only numbers and texts are computed here; `templates/plots.html` draws them. Places along the width are in percent.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from urllib.parse import urlencode

from rolecall.scoring.scorecard import Scorecard
from rolecall.strings import count_noun
from rolecall.ui.report.counts import VERDICTS, Pair
from rolecall.ui.report.score_text import OUTCOMES, Grid, denominator, grid_of, interval, score

ENDINGS = (*VERDICTS, *(outcome for outcome in OUTCOMES if outcome != 'ok'))
"""How rows end, in the order they are stacked: verdicts on answers, then outcomes without one."""
Drawn = dict[str, Any]
"""What a macro of `templates/plots.html` draws, by the names that stand there."""

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
    def ticks(self) -> list[tuple[str, str]]:
        """The places of the round numbers, and what stands there."""
        return list(zip(self.places, self.labels or [f'{number:,.10g}' for number in self.at], strict=False))


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


def score_plots(cards: Sequence[Scorecard], models: Sequence[str], digits: Mapping[str, int]) -> Iterator[Drawn]:
    """A dot-and-whisker plot for each metric that has numbers."""
    for metric in dict.fromkeys(card.metric for card in cards):
        grid = grid_of(card for card in cards if card.metric == metric and _is_drawable(card.value))
        by_dataset: dict[str, list[_Point]] = {}
        for card in grid.cards_in_order():
            point = (card.model, card.low, card.value or 0.0, card.high, _describe(card, digits[metric]))
            by_dataset.setdefault(card.dataset, []).append(point)
        if by_dataset:
            yield _whisker_plot(metric, by_dataset, models)


def _describe(card: Scorecard, digits: int) -> str:
    return f'{card.model} {score(card, digits)} {interval(card, digits)}, {denominator(card)} scored'


_Point = tuple[str, float | None, float, float | None, str]
"""A model, the low end, the middle and the high end of its whisker, and what it says."""


def _whisker_plot(name: str, points: Mapping[str, Sequence[_Point]], models: Sequence[str], *least: float) -> Drawn:
    """A band for each dataset with a model on each line; `least` is on the scale in any case."""
    numbers = [
        *least,
        *(number for own in points.values() for point in own for number in point[1:4] if _is_drawable(number)),
    ]
    scale = Scale(tuple(round_ticks(min(numbers), max(numbers))))
    bands = [_band(dataset, own, scale, models) for dataset, own in points.items()]
    return {'metric': name, 'scale': scale, 'bands': bands}


def _band(dataset: str, points: Sequence[_Point], scale: Scale, models: Sequence[str]) -> Drawn:
    whiskers = [
        {
            'model': models.index(model),
            'y': _PAD + _STEP * (place + 0.5),
            'x': scale.x(middle),
            'ends': [scale.x(low), scale.x(high)] if _is_drawable(low) and _is_drawable(high) else [],
            'title': f'{dataset} × {words}',
            'href': link_to_rows(dataset=dataset, model=model),
        }
        for place, (model, low, middle, high, words) in enumerate(points)
    ]
    title = f'{dataset}: ' + '; '.join(words for *_, words in points)
    return {'dataset': dataset, 'height': _STEP * len(points) + 2 * _PAD, 'title': title, 'whiskers': whiskers}


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


def outcome_bars(endings: Mapping[Pair, Counter[str]], groups: Collection[str] = ()) -> Iterator[Drawn]:
    """A bar for each dataset × model, divided by how rows ended; bars of `groups` lead to the rows of all datasets."""
    before = None
    for (dataset, model), counts in endings.items():
        words = ', '.join(f'{counts[ending]:,} {OUTCOMES.get(ending, ending)}' for ending in _in_order(counts))
        yield {
            'dataset': dataset,
            'model': model,
            'first': dataset != before,
            'total': counts.total(),
            'title': f'{dataset} × {model}: {words}',
            'parts': list(_bar_parts(('' if dataset in groups else dataset, model), counts)),
        }
        before = dataset


def _in_order(counts: Counter[str]) -> list[str]:
    """The endings that occur, known ones first."""
    return [ending for ending in dict.fromkeys([*ENDINGS, *counts]) if counts[ending]]


def _bar_parts(pair: Pair, counts: Counter[str]) -> Iterator[Drawn]:
    total, x = counts.total(), 0.0
    for ending in _in_order(counts):
        count = counts[ending]
        width = 100 * count / total
        label = f'{count:,}'
        chosen = {'outcome': 'ok', 'verdict': ending} if ending in VERDICTS else {'outcome': ending}
        yield {
            'hue': f'e-{ending.replace(" ", "_")}',
            'x': f'{x:.2f}%',
            'width': f'{max(width - _GAP, 0.1):.2f}%',
            'middle': f'{x + width / 2:.2f}%',
            'label': label if width > 2.4 * len(label) + 0.5 else '',
            'title': f'{count:,} of {total:,} {OUTCOMES.get(ending, ending)}',
            'href': link_to_rows(**({'dataset': pair[0]} if pair[0] else {}), model=pair[1], **chosen),
        }
        x += width


def measure_plot(name: str, numbers: Mapping[str, array[float]], models: Sequence[str], *, unit: str = 'row') -> Drawn:
    """How a measure spreads, one small histogram for each model."""
    own = [(models.index(model), model, sorted(numbers[model])) for model in models if numbers.get(model)]
    scale = Scale(tuple(round_ticks(0.0, max(_quantile(values, _TAIL) for _, _, values in own), about=4)))
    beyond = sum(1 for _, _, values in own for value in values if value > scale.at[-1])
    histograms = [_histogram(*item, scale, unit) for item in own]
    return {'name': name, 'beyond': beyond, 'scale': scale, 'histograms': histograms, 'height': _TALL}


def merge_datasets(numbers: Mapping[Pair, array[float]]) -> dict[str, array[float]]:
    """The numbers of each model over all datasets."""
    merged: dict[str, array[float]] = {}
    for (_, model), values in numbers.items():
        merged.setdefault(model, array('d')).extend(values)
    return merged


def spread_plot(name: str, numbers: Mapping[Pair, array[float]], models: Sequence[str]) -> Drawn:
    """How a measure spreads in each dataset: the median of each model, and what 90 of 100 rows lie between."""
    points: dict[str, list[_Point]] = {dataset: [] for dataset, _ in numbers}
    for dataset, own in points.items():
        for model in models:
            if (dataset, model) in numbers:
                ordered = sorted(numbers[dataset, model])
                low, middle, high = (_quantile(ordered, share) for share in (0.05, 0.5, 0.95))
                words = f'{model} median {_round(middle)}, {_round(low)} to {_round(high)}'
                own.append((model, low, middle, high, words))
    return _whisker_plot(name, points, models, 0.0)


def _histogram(number: int, model: str, values: Sequence[float], scale: Scale, unit: str) -> Drawn:
    top = scale.at[-1]
    middle = _quantile(values, 0.5)
    summary = f'median {_round(middle)} · 95% below {_round(_quantile(values, 0.95))}'
    counts = Counter(min(int(value / top * _BINS), _BINS - 1) for value in values if value <= top)
    columns = [_column(bin_, count, counts, scale, unit) for bin_, count in sorted(counts.items())]
    median = scale.x(min(middle, top))
    return {'number': number, 'model': model, 'summary': summary, 'median': median, 'columns': columns}


def _column(bin_: int, count: int, counts: Counter[int], scale: Scale, unit: str) -> Drawn:
    top = scale.at[-1]
    low, high = top * bin_ / _BINS, top * (bin_ + 1) / _BINS
    tall = round(max(1.0, _TALL * count / max(counts.values())), 1)
    width = f'{(_RIGHT - _LEFT) / _BINS - _GAP:.2f}%'
    title = f'{_round(low)} – {_round(high)}: {count_noun(count, unit)}'
    return {'x': scale.x(low), 'y': round(_TALL - tall, 1), 'width': width, 'height': tall, 'title': title}


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
