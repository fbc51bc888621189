"""The geometry of plots with two axes: figures by load, and accuracy against latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rolecall.ui.report.plots import Scale, Tick, round_ticks

_TALL = 180.0
_TOP = 12.0
_MARGIN = -0.4
"""Left of the first place that has a name, for the numbers of the other axis."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A point of a curve: where it lies, and what it says when pointed at."""

    x: float
    y: float
    title: str


@dataclass(frozen=True, slots=True)
class DrawnPoint:
    """A point in the drawing."""

    series: int
    x: str
    y: float
    title: str
    after: DrawnPoint | None = None
    """The point that a line leads to."""


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """A drawing with two axes."""

    name: str
    x_name: str
    scale: Scale
    y_ticks: tuple[tuple[float, Tick], ...]
    series: tuple[str, ...]
    points: tuple[DrawnPoint, ...]
    line: tuple[DrawnPoint, ...] = ()
    """Points of a line beside the series, such as the Pareto line."""
    height: float = _TALL + _TOP


def curve_plot(
    name: str,
    x_name: str,
    series: Mapping[str, Sequence[CurvePoint]],
    *,
    labels: Sequence[str] = (),
    line: Sequence[CurvePoint] = (),
    lowest: float | None = 0.0,
) -> CurvePlot:
    """Draw each series with a line through its points; `labels` name the places 0, 1, … along the width."""
    every = [point for points in series.values() for point in points]
    heights = [point.y for point in every]
    top = round_ticks(min(heights) if lowest is None else lowest, max(heights), about=4)
    at = (_MARGIN, *map(float, range(len(labels)))) if labels else round_ticks(0.0, max(point.x for point in every))
    scale = Scale(tuple(at), ('', *labels) if labels else ())

    def draw(number: int, points: Sequence[CurvePoint]) -> list[DrawnPoint]:
        drawn = [DrawnPoint(number, scale.x(point.x), _y(point.y, top), point.title) for point in points]
        return [
            *(DrawnPoint(number, left.x, left.y, left.title, after=right) for left, right in pairwise(drawn)),
            *drawn[-1:],
        ]

    return CurvePlot(
        name,
        x_name,
        scale,
        tuple((_y(tick, top), Tick('0', f'{tick:,.10g}')) for tick in top),
        tuple(series),
        tuple(point for number, points in enumerate(series.values()) for point in draw(number, points)),
        tuple(draw(0, line)),
    )


def _y(value: float, ticks: Sequence[float]) -> float:
    return round(_TOP + _TALL * (1 - (value - ticks[0]) / (ticks[-1] - ticks[0])), 1)
