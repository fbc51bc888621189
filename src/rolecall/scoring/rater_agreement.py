"""How far raters agree beyond chance: Cohen's kappa of two, Krippendorff's alpha of any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence

from rolecall.scoring.statistics import AgreementCounter


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
