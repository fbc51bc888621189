"""The geometry of plots with two axes: figures by load, and accuracy against latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

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


class DrawnPoint(NamedTuple):
    """A point in the drawing."""

    series: int
    x: str
    y: float
    title: str


class CurvePlot(NamedTuple):
    """A drawing with two axes: points of each series, and lines between two points."""

    name: str
    x_name: str
    scale: Scale
    y_ticks: list[tuple[float, str]]
    series: list[str]
    points: list[DrawnPoint]
    lines: list[tuple[DrawnPoint, DrawnPoint]]
    frontier: list[tuple[DrawnPoint, DrawnPoint]]
    height: float = _TALL + _TOP


def curve_plot(
    name: str,
    x_name: str,
    series: Mapping[str, Sequence[CurvePoint]],
    *,
    labels: Sequence[str] = (),
    frontier: Sequence[CurvePoint] = (),
) -> CurvePlot:
    """Draw each series with a line through its points; `labels` name the places 0, 1, … along the width."""
    every = [point for points in series.values() for point in points]
    heights = [point.y for point in every]
    ticks = round_ticks(0.0 if labels else min(heights), max(heights), about=4)
    at = (_MARGIN, *map(float, range(len(labels)))) if labels else round_ticks(0.0, max(point.x for point in every))
    scale = Scale(tuple(at), ('', *labels) if labels else ())

    def place(height: float) -> float:
        return round(_TOP + _TALL * (1 - (height - ticks[0]) / (ticks[-1] - ticks[0])), 1)

    def draw(number: int, points: Sequence[CurvePoint]) -> list[DrawnPoint]:
        return [DrawnPoint(number, scale.x(point.x), place(point.y), point.title) for point in points]

    drawn = [draw(number, points) for number, points in enumerate(series.values())]
    return CurvePlot(
        name,
        x_name,
        scale,
        [(place(tick), f'{tick:,.10g}') for tick in ticks],
        list(series),
        [point for points in drawn for point in points],
        [line for points in drawn for line in pairwise(points)],
        list(pairwise(draw(0, frontier))),
    )
