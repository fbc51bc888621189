"""The geometry of plots with two axes: figures by load, and accuracy against latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rolecall.ui.report.plots import Scale, round_ticks

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
) -> dict[str, Any]:
    """What `plots.curve` draws: each series with a line through its points; `labels` name the places 0, 1, …"""
    every = [point for points in series.values() for point in points]
    heights = [point.y for point in every]
    ticks = round_ticks(0.0 if labels else min(heights), max(heights), about=4)
    at = (_MARGIN, *map(float, range(len(labels)))) if labels else round_ticks(0.0, max(point.x for point in every))
    scale = Scale(tuple(at), ('', *labels) if labels else ())

    def place(height: float) -> float:
        return round(_TOP + _TALL * (1 - (height - ticks[0]) / (ticks[-1] - ticks[0])), 1)

    def draw(number: int, points: Sequence[CurvePoint]) -> list[dict[str, Any]]:
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
