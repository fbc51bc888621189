"""Accuracy against latency and against price, for each model of a run, with the line of those that no other beats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rolecall.models.prices import Price
from rolecall.scoring.statistics import quantile
from rolecall.ui.report.counts import RunCounts
from rolecall.ui.report.curves import CurvePoint, curve_plot
from rolecall.ui.report.plots import merge_datasets
from rolecall.ui.report.ranking_summary import RankingSummary
from rolecall.ui.report.usage import usage_lines


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
) -> list[dict[str, Any]]:
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
