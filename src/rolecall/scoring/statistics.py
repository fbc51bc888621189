"""Confidence intervals for one score, tests for two, and the agreement of judges. All random draws are seeded.

Rows of one cluster (one passage, one dialogue) are not independent, so the cluster is the unit that is resampled or
counted. A row without a cluster is a cluster of one. How often the intervals hold the truth: design/intervals.md.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeVar

RESAMPLES = 2000
_MOST_DRAWS = 4_000_000
_FEWEST_RESAMPLES = 200
_CORRECTION = 0.5
"""Of the continuity corrections 0, a half and 1 the only one with at most 5 % errors and little width to spare
(design/intervals.md)."""
_HALVINGS = 34
_NO_LIMITS = (-math.inf, math.inf)

Unit = TypeVar('Unit')


class Interval(NamedTuple):
    """A confidence interval."""

    low: float
    high: float


def wilson(successes: float, trials: float, *, confidence: float = 0.95) -> Interval:
    """Wilson's interval for a proportion; 0 to 1 without trials.

    >>> [round(bound, 4) for bound in (*wilson(10, 10), *wilson(0, 0))]
    [0.7225, 1.0, 0.0, 1.0]
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
    return Interval(quantile(values, tail), quantile(values, 1 - tail))


def mean_interval(
    sums: Sequence[tuple[float, int]], *, scale: tuple[float, float] | None = None, confidence: float = 0.95
) -> Interval | None:
    """The score interval of a mean; `sums` holds (sum, rows) of each cluster. None if there are too few clusters.

    Half a cluster at either end of the scale is added, so that clusters that agree do not look certain; without a
    scale, its ends are the lowest and the highest mean of a cluster.

    >>> mean_interval([(2.0, 1)] * 5)
    Interval(low=2.0, high=2.0)
    >>> [round(bound, 3) for bound in mean_interval([(1.0, 1)] * 10, scale=(0.0, 1.0))]
    [0.802, 1.0]
    """
    if not sums:
        return None
    means = [total / count for total, count in sums] if scale is None else scale
    return _score_interval(sums, (min(means), max(means)), scale or _NO_LIMITS, confidence)


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


class PairedTest(NamedTuple):
    """The test of a paired difference. Its interval excludes 0 where `p` is below one minus the confidence."""

    name: Literal['mcnemar', 'paired mean', 'none']
    p: float | None
    interval: Interval | None
    clusters: int


def compare_paired(
    before: Sequence[float],
    after: Sequence[float],
    clusters: Sequence[Hashable | None],
    *,
    confidence: float = 0.95,
) -> PairedTest:
    """Test whether two scores of the same rows differ. Comparisons, rankings and gates all use this test.

    Right and wrong (1 and 0) are compared by McNemar's test; other scores, and rows in clusters, by their mean.

    >>> found = compare_paired([0.0] * 8 + [1.0] * 12, [1.0] * 20, [None] * 20)
    >>> found.name, round(found.p, 3), [round(bound, 3) for bound in found.interval]
    ('mcnemar', 0.008, [0.134, 0.636])
    """
    differences = [later - earlier for earlier, later in zip(before, after, strict=True)]
    if not differences:
        return PairedTest('none', None, None, 0)
    scores = {*before, *after}
    together = [cluster for cluster in clusters if cluster is not None]
    if len(set(together)) == len(together) and scores <= {0.0, 1.0}:
        gained = sum(difference > 0 for difference in differences)
        lost = sum(difference < 0 for difference in differences)
        interval = paired_difference(gained, lost, len(differences), confidence=confidence)
        return PairedTest('mcnemar', mcnemar(gained, lost), interval, len(differences))
    sums = cluster_sums(differences, clusters)
    largest = max(abs(total / count) for total, count in sums) or 1.0
    limits = (-1.0, 1.0) if all(0 <= score <= 1 for score in scores) else _NO_LIMITS
    spread = math.hypot(*(total for total, _ in sums), largest * len(differences) / len(sums))
    p = _two_sided(sum(differences) / spread)
    return PairedTest('paired mean', p, _score_interval(sums, (-largest, largest), limits, confidence), len(sums))


def win_rate_interval(sums: Sequence[tuple[float, int]], *, confidence: float = 0.95) -> Interval | None:
    """The interval of a win rate: the other side's is 1 minus it, so `compare_paired` tests the two.

    `sums` holds (wins, rows) of each cluster, a tie as half a win. It excludes one half where the two models can be
    told apart.

    >>> [round(bound, 3) for bound in win_rate_interval([(1.0, 1)] * 60 + [(0.0, 1)] * 40)]
    [0.5, 0.693]
    """
    wins = [total / count for total, count in sums for _ in range(count)]
    clusters = [place for place, (_, count) in enumerate(sums) for _ in range(count)]
    interval = compare_paired([1 - win for win in wins], wins, clusters, confidence=confidence).interval
    return None if interval is None else Interval((1 + interval.low) / 2, (1 + interval.high) / 2)


def mcnemar(gained: int, lost: int) -> float:
    """The two-sided p-value of McNemar's test with a continuity correction of a half.

    >>> round(mcnemar(2, 10), 4), mcnemar(0, 0)
    (0.0304, 1.0)
    """
    if gained == lost:
        return 1.0
    return _two_sided((abs(gained - lost) - _CORRECTION) / math.sqrt(gained + lost))


def paired_difference(gained: float, lost: float, pairs: int, *, confidence: float = 0.95) -> Interval:
    """Tango's score interval for the difference of two paired proportions, with the correction of `mcnemar`.

    It holds the differences that the score test does not reject; `mcnemar` is that test for a difference of 0.

    >>> [round(bound, 3) for bound in paired_difference(0, 0, 10)]
    [-0.345, 0.345]
    """
    z, change = _z(confidence), gained - lost

    def rejected(difference: float) -> bool:
        linear = (2 * pairs - change) * difference - gained - lost
        root = math.sqrt(max(linear**2 + 8 * pairs * lost * difference * (1 - difference), 0.0))
        variance = (root - linear) / 2 + pairs * difference * (1 - difference)
        return abs(change - pairs * difference) - _CORRECTION > z * math.sqrt(max(variance, 0.0))

    return Interval(*(_last_accepted(rejected, change / pairs, end) for end in (-1.0, 1.0)))


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


def _score_interval(
    sums: Sequence[tuple[float, int]], ends: tuple[float, float], limits: tuple[float, float], confidence: float
) -> Interval | None:
    """The means that a test does not reject whose variance is taken around the mean that it tests.

    Half a cluster of the usual size is added at each of the `ends`. None if the interval has no finite bounds.
    """
    rows, z = sum(count for _, count in sums), _z(confidence)
    mean, usual = sum(total for total, _ in sums) / rows, rows / len(sums)
    low, high = (end - mean for end in ends)
    errors = [(total - mean * count, count) for total, count in sums]
    total, size = usual * (low + high) / 2, rows + usual
    squares = sum(error * error for error, _ in errors) + usual**2 * (low * low + high * high) / 2
    products = sum(error * count for error, count in errors) + usual**2 * (low + high) / 2
    sizes = sum(count * count for _, count in errors) + usual**2
    square, half, constant = size**2 - z * z * sizes, z * z * products - total * size, total**2 - z * z * squares
    accepted = _solve(square, half, constant, total / size)
    bounds = Interval(
        max(limits[0], mean + min(0.0, accepted.low)),
        min(limits[1], mean + max(0.0, accepted.high)),
    )
    return bounds if all(map(math.isfinite, bounds)) else None


def _solve(square: float, half: float, constant: float, inside: float) -> Interval:
    """Where `square·x² + 2·half·x + constant` is at most 0: the part around `inside`, at which it is."""
    under_root = half * half - square * constant
    if square == 0 or under_root < 0:
        return Interval(inside, inside) if square > 0 else Interval(*_NO_LIMITS)
    first, second = sorted((-half + sign * math.sqrt(under_root)) / square for sign in (-1, 1))
    if square > 0:
        return Interval(first, second)
    return Interval(-math.inf, first) if inside <= first else Interval(second, math.inf)


def _last_accepted(rejected: Callable[[float], bool], inside: float, end: float) -> float:
    """The point between `inside` and `end` at which a test begins to reject."""
    if not rejected(end):
        return end
    for _ in range(_HALVINGS):
        middle = (inside + end) / 2
        inside, end = (inside, middle) if rejected(middle) else (middle, end)
    return (inside + end) / 2


def _two_sided(z: float) -> float:
    return math.erfc(abs(z) / math.sqrt(2))


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf((1 + confidence) / 2)


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which a share of sorted values lies, between neighbours in proportion."""
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(slots=True)
class AgreementCounter:
    """The verdicts of several judges, added up row by row. A judge without a verdict is left out of that row.

    Alpha is 1 where they always agree and 0 where they agree no more than by chance. Its distance is the squared
    difference, which for right and wrong is that of names.

    >>> agreement = AgreementCounter()
    >>> for scores in ([1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [None, 1.0]):
    ...     agreement.add(scores)
    >>> told = agreement.describe()
    >>> told['rows'], told['equal'], round(told['alpha'], 3)
    (4, 75.0, 0.533)
    """

    rows: int = 0
    _pairs: int = 0
    _equal: int = 0
    _verdicts: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _apart: float = 0.0

    def add(self, scores: Sequence[float | None]) -> None:
        """Add the judges' scores of one row."""
        verdicts = [score for score in scores if score is not None]
        if len(verdicts) < 2:
            return
        differences = [first - other for first, other in combinations(verdicts, 2)]
        self.rows += 1
        self._pairs += len(differences)
        self._equal += sum(math.isclose(difference, 0.0, abs_tol=1e-9) for difference in differences)
        self._verdicts += len(verdicts)
        self._total += sum(verdicts)
        self._squares += sum(score * score for score in verdicts)
        self._apart += sum(difference * difference for difference in differences) / (len(verdicts) - 1)

    def describe(self) -> dict[str, Any]:
        """The rows with two verdicts or more, the share of equal pairs of verdicts in percent, and alpha.

        Alpha is None where all verdicts are the same: then nothing tells agreement from chance.
        """
        if not self.rows:
            return {'rows': 0, 'equal': None, 'alpha': None}
        expected = (self._verdicts * self._squares - self._total**2) / (self._verdicts - 1)
        alpha = None if expected <= 1e-12 else 1 - self._apart / expected
        return {'rows': self.rows, 'equal': 100 * self._equal / self._pairs, 'alpha': alpha}


def cohen_kappa(pairs: Sequence[tuple[Hashable, Hashable]], weights: Sequence[float] | None = None) -> float | None:
    """Cohen's kappa of two raters' classes, row by row; None where both only ever use one and the same class.

    >>> round(cohen_kappa([('a', 'a'), ('a', 'b'), ('b', 'b'), ('b', 'b')]), 3)
    0.5
    """
    joint: Counter[tuple[Hashable, Hashable]] = Counter()
    for pair, weight in zip(pairs, weights or [1.0] * len(pairs), strict=True):
        joint[pair] += weight  # type: ignore[assignment]  # a weight counts like so many rows
    total = sum(joint.values())
    first, second = Counter[Hashable](), Counter[Hashable]()
    for (left, right), weight in joint.items():
        first[left] += weight
        second[right] += weight
    equal = sum(weight for (left, right), weight in joint.items() if left == right)
    chance = sum(weight * second[name] for name, weight in first.items()) / total if total else 0.0
    return None if total - chance <= 1e-12 else (equal - chance) / (total - chance)


def krippendorff_alpha(rows: Iterable[Sequence[float]]) -> float | None:
    """Krippendorff's alpha of the ratings of each row, by any number of raters, by their squared distance.

    Of right and wrong, that is alpha of names. None where all ratings are the same.

    >>> round(krippendorff_alpha([[1, 1, 0], [0, 0], [1, 1], [0]]), 3)
    0.5
    """
    counter = AgreementCounter()
    for row in rows:
        counter.add(row)
    alpha: float | None = counter.describe()['alpha']
    return alpha
