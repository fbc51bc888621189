"""Confidence intervals for one score and tests for two. All random draws are seeded.

Rows of one cluster (one passage, one dialogue) are not independent, so the cluster is the unit that is resampled,
flipped or counted. A row without a cluster is a cluster of one.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Hashable, Sequence
from itertools import compress, product
from statistics import NormalDist
from typing import NamedTuple, TypeVar

__all__ = [
    'Interval',
    'bootstrap',
    'cluster_sums',
    'clustered_wilson',
    'g_pass_at_k',
    'mcnemar',
    'mean_interval',
    'paired_difference',
    'pass_at_k',
    'sign_flip',
    'wilson',
]

RESAMPLES = 2000
_MOST_DRAWS = 4_000_000
_FEWEST_RESAMPLES = 200
_EXACT_UP_TO = 12
_NORMAL_FROM = 20_000
"""Beyond this many clusters a mean is normally distributed, and resampling would only take time."""

Unit = TypeVar('Unit')


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: float, trials: float, *, confidence: float = 0.95) -> Interval:
    """Wilson's interval for a proportion; 0 to 1 without trials.

    >>> [round(bound, 4) for bound in wilson(10, 10)]
    [0.7225, 1.0]
    """
    if trials <= 0:
        return Interval(0.0, 1.0)
    z, share = _z(confidence), successes / trials
    centre = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    reach = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return Interval(max(0.0, min(share, centre - reach)), min(1.0, max(share, centre + reach)))


def clustered_wilson(sums: Sequence[tuple[float, int]], *, confidence: float = 0.95) -> Interval:
    """Wilson's interval with the effective sample size of clustered rows.

    `sums` holds (right rows, rows) of each cluster. The design effect is how much more clusters vary than independent
    rows would. One all-right and one all-wrong cluster are added to its estimate, so that few clusters, or clusters
    that all agree, do not look certain.

    >>> alone, together = clustered_wilson([(1, 1), (0, 1)] * 20), clustered_wilson([(2, 2), (0, 2)] * 10)
    >>> alone == wilson(20, 40), together.low < alone.low
    (True, True)
    """
    clusters, rows = len(sums), sum(count for _, count in sums)
    right = sum(total for total, _ in sums)
    if clusters == rows:
        return wilson(right, rows, confidence=confidence)
    usual = rows / clusters
    wider = [*sums, (usual, usual), (0.0, usual)]
    share = (right + usual) / (rows + 2 * usual)
    spread = sum((total - share * count) ** 2 for total, count in wider) * (clusters + 2) / (clusters + 1)
    inflation = max(1.0, spread / (share * (1 - share) * (rows + 2 * usual)))
    return wilson(right / inflation, rows / inflation, confidence=confidence)


def bootstrap(
    units: Sequence[Unit],
    statistic: Callable[[Sequence[Unit]], float],
    *,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The percentile bootstrap interval of a statistic, with fewer resamples where there are very many units.

    >>> low, high = bootstrap([0.0, 1.0, 2.0, 3.0] * 25, lambda drawn: sum(drawn) / len(drawn))
    >>> low < 1.5 < high
    True
    """
    drawn = random.Random(seed)
    size = len(units)
    times = max(min(resamples, _MOST_DRAWS // max(size, 1)), min(resamples, _FEWEST_RESAMPLES))
    values = sorted(statistic(drawn.choices(units, k=size)) for _ in range(times))
    tail = (1 - confidence) / 2
    return Interval(_quantile(values, tail), _quantile(values, 1 - tail))


def mean_interval(sums: Sequence[tuple[float, int]], *, confidence: float = 0.95, seed: int = 0) -> Interval:
    """The bootstrap interval of a mean; `sums` holds (sum, rows) of each cluster.

    >>> mean_interval([(2.0, 1)] * 5)
    Interval(low=2.0, high=2.0)
    """
    if len(sums) > _NORMAL_FROM:
        return _normal_interval(sums, confidence)
    if all(count == 1 for _, count in sums):
        return bootstrap([total for total, _ in sums], _mean, confidence=confidence, seed=seed)
    return bootstrap(sums, _ratio, confidence=confidence, seed=seed)


def cluster_sums(values: Sequence[float], clusters: Sequence[Hashable | None]) -> list[tuple[float, int]]:
    """(Sum, rows) of each cluster; None is a cluster of its own.

    >>> cluster_sums([1.0, 0.0, 1.0], ['a', None, 'a'])
    [(2.0, 2), (0.0, 1)]
    """
    sums: dict[Hashable, tuple[float, int]] = {}
    for place, (value, cluster) in enumerate(zip(values, clusters, strict=True)):
        key = (place,) if cluster is None else cluster
        total, count = sums.get(key, (0.0, 0))
        sums[key] = (total + value, count + 1)
    return list(sums.values())


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p-value of McNemar's test.

    >>> round(mcnemar(2, 10), 4), mcnemar(0, 0)
    (0.0386, 1.0)
    """
    flips, fewer = gained + lost, min(gained, lost)
    ways = term = 1
    for place in range(fewer):
        term = term * (flips - place) // (place + 1)
        ways += term
    return min(1.0, 2 * ways / (1 << flips) if flips < 1000 else math.exp(math.log(2 * ways) - flips * math.log(2)))


def paired_difference(gained: int, lost: int, pairs: int, *, confidence: float = 0.95) -> Interval:
    """The interval of the difference of two paired proportions (Agresti and Min: half a pair added to each cell).

    >>> [round(bound, 3) for bound in paired_difference(0, 0, 10)]
    [-0.163, 0.163]
    """
    size, change = pairs + 2, gained - lost
    error = math.sqrt(max(gained + lost + 1 - change**2 / size, 0.0)) / size
    reach, centre = _z(confidence) * error, change / size
    return Interval(max(-1.0, centre - reach), min(1.0, centre + reach))


def sign_flip(differences: Sequence[float], *, resamples: int = 5000, seed: int = 0) -> float:
    """The two-sided p-value of the paired permutation (sign-flip) test.

    Exact for few pairs, sampled for many.

    >>> sign_flip([1.0, 1.0, 1.0, 1.0, 1.0])
    0.0625
    """
    moved = [difference for difference in differences if difference]
    seen = abs(sum(moved)) * (1 - 1e-12)
    if len(moved) <= _EXACT_UP_TO:
        sums = [sum(ways) for ways in product(*((one, -one) for one in moved))]
        return sum(abs(one) >= seen for one in sums) / len(sums)
    drawn = random.Random(seed)
    times = max(min(resamples, _MOST_DRAWS // len(moved)), _FEWEST_RESAMPLES)
    doubled = [2 * one for one in moved]
    total = sum(moved)
    flips = (drawn.choices((False, True), k=len(moved)) for _ in range(times))
    as_far = sum(abs(total - sum(compress(doubled, flipped))) >= seen for flipped in flips)
    return (as_far + 1) / (times + 1)


def pass_at_k(samples: int, right: int, k: int) -> float:
    """The probability that at least one of `k` samples, drawn without replacement, is right.

    >>> pass_at_k(4, 1, 2)
    0.5
    """
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def g_pass_at_k(samples: int, right: int, k: int, threshold: float) -> float:
    """The probability that at least the share `threshold` of `k` drawn samples is right.

    >>> g_pass_at_k(4, 2, 2, 1.0) == 1 / 6, g_pass_at_k(4, 1, 2, 0.5) == pass_at_k(4, 1, 2)
    (True, True)
    """
    least = max(1, math.ceil(threshold * k - 1e-9))
    ways = sum(math.comb(right, hit) * math.comb(samples - right, k - hit) for hit in range(least, k + 1))
    return ways / math.comb(samples, k)


def _normal_interval(sums: Sequence[tuple[float, int]], confidence: float) -> Interval:
    rows, clusters = sum(count for _, count in sums), len(sums)
    mean = _ratio(sums)
    spread = sum((total - mean * count) ** 2 for total, count in sums) * clusters / (clusters - 1)
    reach = _z(confidence) * math.sqrt(spread) / rows
    return Interval(mean - reach, mean + reach)


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _ratio(sums: Sequence[tuple[float, int]]) -> float:
    return sum(total for total, _ in sums) / sum(count for _, count in sums)


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
