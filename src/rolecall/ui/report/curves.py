"""The geometry of plots with two axes: figures by load, and accuracy against latency and price."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from rolecall.models.prices import Price
from rolecall.scoring.statistics import quantile
from rolecall.ui.report.counts import RunCounts, usage_lines
from rolecall.ui.report.plots import Drawn, Scale, merge_datasets, round_ticks
from rolecall.ui.report.ranking_summary import RankingSummary

_TALL = 180.0
_TOP = 12.0
_MARGIN = -0.4
"""Left of the first place that has a name, for the numbers of the other axis."""


class CurvePoint(NamedTuple):
    """A point of a curve: where it lies, and what it says when pointed at."""

    x: float
    y: float
    title: str


def curve_plot(
    name: str,
    x_name: str,
    series: Mapping[str, Sequence[CurvePoint]],
    *,
    labels: Sequence[str] = (),
    frontier: Sequence[CurvePoint] = (),
) -> Drawn:
    """What `plots.curve` draws: each series with a line through its points; `labels` name the places 0, 1, …"""
    every = [point for points in series.values() for point in points]
    heights = [point.y for point in every]
    low, high = 0.0 if labels else min(heights), max(heights)
    ticks = round_ticks(low - (low == high), high + (low == high), about=4)
    at = (_MARGIN, *map(float, range(len(labels)))) if labels else round_ticks(0.0, max(point.x for point in every))
    scale = Scale(tuple(at), ('', *labels) if labels else ())

    def place(height: float) -> float:
        return round(_TOP + _TALL * (1 - (height - ticks[0]) / (ticks[-1] - ticks[0])), 1)

    def draw(number: int, points: Sequence[CurvePoint]) -> list[Drawn]:
        return [
            {'series': number, 'x': scale.x(point.x), 'y': place(point.y), 'title': point.title} for point in points
        ]

    drawn = [draw(number, points) for number, points in enumerate(series.values())]
    return {
        'name': name,
        'x_name': x_name,
        'scale': scale,
        'y_ticks': [(place(tick), f'{tick:,.10g}') for tick in ticks],
        'series': list(series),
        'points': [point for points in drawn for point in points],
        'lines': [line for points in drawn for line in pairwise(points)],
        'frontier': list(pairwise(draw(0, frontier))),
        'height': _TALL + _TOP,
    }


def find_pareto(points: Sequence[CurvePoint]) -> list[CurvePoint]:
    """The points that no other beats: none is as high and further left.

    >>> [point.title for point in find_pareto([CurvePoint(1, 5, 'a'), CurvePoint(2, 4, 'b'), CurvePoint(3, 9, 'c')])]
    ['a', 'c']
    """
    line: list[CurvePoint] = []
    for point in sorted(points, key=lambda point: (point.x, -point.y)):
        if not line or point.y > line[-1].y:
            line.append(point)
    return line


def tradeoff_plots(
    ranked: RankingSummary | None, counts: RunCounts, models: Sequence[str], prices: Mapping[str, Price | None]
) -> list[Drawn]:
    """A plot for each cost that two models or more have: seconds for a row, and dollars for a thousand rows."""
    if ranked is None:
        return []
    scores = {place.model: 100 * place.value for place in ranked.ranking.places}
    seconds = {
        model: quantile(sorted(values), 0.5)
        for model, values in merge_datasets(counts.measures.get('seconds', {})).items()
    }
    dollars: dict[str, float] = {}
    for used in usage_lines(counts, prices):
        if used.cost is not None and used.used.rows and not used.as_judge:
            dollars.setdefault(used.model, 1000 * used.cost / used.used.rows)  # the first line of a model is its total
    costs = (('seconds for a row (median)', seconds, '{:,.3g} s'), ('US$ for 1,000 rows', dollars, 'US$ {:,.3g}'))
    plots = []
    for name, cost, form in costs:
        points = {
            model: [CurvePoint(cost[model], scores[model], f'{model}: {scores[model]:.1f}, {form.format(cost[model])}')]
            for model in models
            if model in cost and model in scores
        }
        if len(points) > 1:
            frontier = find_pareto([point for [point] in points.values()])
            plots.append(curve_plot(f'Mean score against {name}', name, points, frontier=frontier))
    return plots
