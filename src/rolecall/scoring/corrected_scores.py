"""Scores corrected by labels: marks that people gave some rows, carried over to all rows of a run.

Rows are split into strata: by the run's verdict, and by what decides which rows are labelled first. Within a stratum
the labelled rows are a random sample, so its mean mark is known with the error of that sample. This is
prediction-powered inference with the verdict as the prediction. How often the intervals hold: design/labels.md.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist, fmean, pvariance
from typing import NamedTuple

from rolecall.scoring.statistics import Interval, mean_interval

_DRAWS = 2000
_PRIOR = 0.5
"""Added to each mark of a stratum before drawing (Jeffreys)."""
_CHANCE = 0.05
"""How much more often than by chance a verdict must be right to be corrected by its error rates."""
_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Rows that the run marks alike, with the marks that people gave some of them."""

    verdict: float
    rows: float
    labels: Sequence[float] = ()
    prior: Mapping[float, float] = field(default_factory=dict)
    """What is known of its marks beforehand, as counts; half a row for each mark if empty."""

    @property
    def mean(self) -> float:
        """The mean label; the verdict where there is none."""
        return fmean(self.labels) if self.labels else self.verdict

    def counts(self, marks: Sequence[float]) -> dict[float, float]:
        """How often each mark was given, with what is known beforehand."""
        labels = Counter(self.labels)
        return {mark: labels[mark] + self.prior.get(mark, 0.0 if self.prior else _PRIOR) for mark in marks}

    def variance(self, marks: Sequence[float], *, more: int = 0) -> float:
        """The variance of its mean mark, times its squared rows; with so many more labels."""
        counts = self.counts(marks)
        size = sum(counts.values())
        mean = sum(mark * count for mark, count in counts.items()) / size
        spread = sum(count * (mark - mean) ** 2 for mark, count in counts.items()) / size
        return self.rows**2 * spread / (size + 1 + more)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval, and the labels it rests on."""

    value: float
    low: float
    high: float
    labels: int
    halved_by: int | None = None
    """How many more labels would halve the interval; None if labels alone cannot."""


def marks_of(strata: Sequence[Stratum]) -> list[float]:
    """Every mark that a row of these strata has or was given."""
    marks = {mark for stratum in strata for mark in (stratum.verdict, *stratum.labels, *stratum.prior)}
    return sorted(marks if len(marks) > 1 else {*marks, 0.0, 1.0})


def correct_by_strata(strata: Sequence[Stratum], *, units: float | None = None) -> Estimate:
    """The mean mark of all rows, by the labels of each stratum.

    `units`: the number of independent rows, where rows of one cluster are not.

    >>> strata = [Stratum(1.0, 700, [1.0] * 18 + [0.0] * 2), Stratum(0.0, 300, [0.0] * 9 + [1.0])]
    >>> corrected = correct_by_strata(strata)
    >>> round(corrected.value, 2), round(corrected.low, 2), round(corrected.high, 2), corrected.labels
    (0.66, 0.52, 0.76, 30)
    """
    rows = sum(stratum.rows for stratum in strata)
    value = sum(stratum.rows * stratum.mean for stratum in strata) / rows
    draws, marks = sorted(draw_means(strata, units=units)), marks_of(strata)
    size = sum(sum(stratum.counts(marks).values()) for stratum in strata)
    wider = 1 + (_Z**2 + 1) / 4 / size  # as Student's t is than the normal distribution, to first order
    ends = (value + wider * (draws[round(share * (len(draws) - 1))] - value) for share in (0.025, 0.975))
    low, high = (min(max(end, marks[0]), marks[-1]) for end in ends)
    labels = sum(len(stratum.labels) for stratum in strata)
    within = sum(stratum.variance(marks) for stratum in strata) / rows**2
    between = sum(stratum.rows * (stratum.mean - value) ** 2 for stratum in strata) / rows / (units or rows)
    return Estimate(value, min(low, value), max(high, value), labels, _labels_to_halve(within, between, labels, rows))


def draw_means(
    strata: Sequence[Stratum], *, units: float | None = None, fixed: bool = False, seed: int = 0
) -> Iterator[float]:
    """Mean marks that are as likely as the labels leave them; with `fixed`, of these very rows, not of such rows."""
    drawn, marks = random.Random(seed), marks_of(strata)
    rows = sum(stratum.rows for stratum in strata)
    scale = (units or rows) / rows
    counts = [[(mark, count) for mark, count in stratum.counts(marks).items() if count] for stratum in strata]
    for _ in range(_DRAWS):
        shares = [stratum.rows if fixed else drawn.gammavariate(stratum.rows * scale + _PRIOR, 1) for stratum in strata]
        yield sum(share * _draw_mean(drawn, weights) for share, weights in zip(shares, counts, strict=True)) / sum(
            shares
        )


def _draw_mean(drawn: random.Random, counts: Sequence[tuple[float, float]]) -> float:
    weights = [drawn.gammavariate(count, 1) for _, count in counts]
    total = sum(weights)
    return (
        sum(mark * weight for (mark, _), weight in zip(counts, weights, strict=True)) / total if total else counts[0][0]
    )


def correct_graded(
    mean: float, rows: float, pairs: Sequence[tuple[float, float]], scale: tuple[float, float]
) -> Estimate:
    """The mean of graded marks, by some rows' (mark, label): labels regressed on marks.

    >>> pairs = [(mark, mark - 0.1 + 0.05 * (place % 2)) for place, mark in enumerate([0.1, 0.5, 0.9] * 20)]
    >>> corrected = correct_graded(0.5, 300, pairs, (0.0, 1.0))
    >>> round(corrected.value, 2), round(corrected.low, 2), round(corrected.high, 2)
    (0.43, 0.38, 0.48)
    """
    verdicts, labels = zip(*pairs, strict=True)
    spread = pvariance(verdicts)
    centre, middle = fmean(verdicts), fmean(labels)
    shared = fmean((mark - centre) * (label - middle) for mark, label in pairs)
    slope = min(1.0, max(0.0, shared / spread)) if spread else 0.0
    rest = [label - slope * mark for mark, label in pairs]
    value = fmean(rest) + slope * mean
    ends = scale[0] - slope * scale[1], scale[1] - slope * scale[0]
    inner = mean_interval([(error, 1) for error in rest], scale=ends) or Interval(*ends)
    between = max(0.0, pvariance(labels) - pvariance(rest)) / rows
    low, high = (math.hypot(fmean(rest) - bound, _Z * math.sqrt(between)) for bound in inner)
    within = ((inner.high - inner.low) / 2 / _Z) ** 2
    bounds = max(scale[0], value - low), min(scale[1], value + high)
    return Estimate(value, *bounds, len(pairs), _labels_to_halve(within, between, len(pairs), rows))


class ErrorRates(NamedTuple):
    """How often right rows are called right, and wrong ones wrong, each with the number of labels it rests on."""

    sensitivity: float
    right_labels: float
    specificity: float
    wrong_labels: float


def measure_error_rates(strata: Sequence[Stratum]) -> ErrorRates | None:
    """The error rates of verdicts of right (1) and wrong (0); None unless both kinds of rows were labelled.

    >>> measure_error_rates([Stratum(1.0, 30, [1.0] * 9 + [0.0]), Stratum(0.0, 30, [0.0] * 10)])
    ErrorRates(sensitivity=1.0, right_labels=9.0, specificity=0.9090909090909091, wrong_labels=11.0)
    """
    weighted = [
        (stratum.verdict, label, stratum.rows / len(stratum.labels)) for stratum in strata for label in stratum.labels
    ]
    shares = []
    for truth in (1.0, 0.0):
        weights = [weight for _, label, weight in weighted if label == truth]
        if not weights:
            return None
        hits = sum(weight for verdict, label, weight in weighted if verdict == label == truth)
        shares += [hits / sum(weights), sum(weights) ** 2 / sum(weight * weight for weight in weights)]
    return ErrorRates(*shares)


def rogan_gladen(right: float, rows: float, rates: ErrorRates) -> Estimate | None:
    """The share of right rows behind `right` of `rows` called right, by error rates measured on these or other rows.

    The interval is Lang and Reiczigel's. None where verdicts are hardly better than chance.

    >>> corrected = rogan_gladen(700, 1000, ErrorRates(0.95, 60, 0.8, 40))
    >>> round(corrected.value, 2), round(corrected.low, 2), round(corrected.high, 2)
    (0.67, 0.58, 0.76)
    """
    gain = rates.sensitivity + rates.specificity - 1
    if gain < _CHANCE:
        return None
    size, hits, misses = rows + _Z**2, rates.right_labels + 2, rates.wrong_labels + 2
    share = (right + _Z**2 / 2) / size
    sensitivity = (rates.sensitivity * rates.right_labels + 1) / hits
    specificity = (rates.specificity * rates.wrong_labels + 1) / misses
    better = sensitivity + specificity - 1
    value = min(1.0, max(0.0, (right / rows + rates.specificity - 1) / gain))
    labels = round(rates.right_labels + rates.wrong_labels)
    if better < _CHANCE:
        return None
    centre = (share + specificity - 1) / better
    errors = sensitivity * (1 - sensitivity) / hits, specificity * (1 - specificity) / misses
    shift = 2 * _Z**2 * (centre * errors[0] - (1 - centre) * errors[1])
    reach = _Z * math.sqrt(share * (1 - share) / size + centre**2 * errors[0] + (1 - centre) ** 2 * errors[1]) / better
    low, high = (min(1.0, max(0.0, centre + shift + side * reach)) for side in (-1, 1))
    return Estimate(value, min(low, value), max(high, value), labels)


def _labels_to_halve(within: float, between: float, labels: int, rows: float) -> int | None:
    target = (within + between) / 4 - between
    more = labels * (within / target - 1) if target > 0 and labels else math.inf
    return math.ceil(more) if labels + more <= rows else None
