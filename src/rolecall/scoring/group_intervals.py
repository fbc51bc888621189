"""The intervals of a weighted mean of datasets: with the datasets as a sample of such datasets, and as given."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from rolecall.scoring.accumulate import CONFIDENCE
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import Interval


@dataclass(frozen=True, slots=True)
class Leaf:
    """A dataset in a group, and its part of the group's mean."""

    weight: float
    card: Scorecard


def interval_between(leaves: Sequence[Leaf], mean: float) -> tuple[float | None, float | None]:
    """The interval of a mean of clusters, with Student's t; a single dataset keeps its own."""
    if len(leaves) == 1:
        return leaves[0].card.low, leaves[0].card.high
    spread = sum((leaf.weight * (float(leaf.card.value or 0) - mean)) ** 2 for leaf in leaves)
    reach = student_t(len(leaves) - 1) * math.sqrt(spread * len(leaves) / (len(leaves) - 1))
    return _keep_in_scale(leaves, mean - reach, mean + reach)


def interval_within(leaves: Sequence[Leaf], mean: float) -> Interval | None:
    """The interval with the datasets as given: their own intervals, added up as independent errors."""
    errors = 0.0
    for leaf in leaves:
        if leaf.card.low is None or leaf.card.high is None:
            return None
        errors += (leaf.weight * (leaf.card.high - leaf.card.low) / 2) ** 2
    return _keep_in_scale(leaves, mean - math.sqrt(errors), mean + math.sqrt(errors))


def _keep_in_scale(leaves: Sequence[Leaf], low: float, high: float) -> Interval:
    percent = all(leaf.card.unit in (None, '%') for leaf in leaves)
    return Interval(max(0.0, low), min(100.0, high)) if percent else Interval(low, high)


def student_t(freedom: int) -> float:
    """The two-sided 95 % point of Student's t, by its expansion around the normal one.

    >>> round(student_t(10), 2), round(student_t(56), 2)
    (2.23, 2.0)
    """
    z = float(NormalDist().inv_cdf((1 + CONFIDENCE) / 2))
    terms: tuple[float, ...] = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / float(freedom**power) for power, term in enumerate(terms, start=1))
