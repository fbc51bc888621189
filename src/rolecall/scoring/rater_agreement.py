"""How far raters agree beyond chance: Cohen's kappa of two, Krippendorff's alpha of any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import permutations
from typing import Any


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


def krippendorff_alpha(rows: Iterable[Sequence[Any]], *, ordered: bool = False) -> float | None:
    """Krippendorff's alpha of the ratings of each row, by any number of raters, some of whom may be missing.

    Names differ or not; numbers with `ordered` differ by their squared distance. None where all ratings are the same.

    >>> round(krippendorff_alpha([['a', 'a', 'b'], ['b', 'b'], ['a', 'a'], ['c']]), 3)
    0.5
    """
    rated = [row for row in rows if len(row) > 1]
    counts = Counter(rating for row in rated for rating in row)
    size = counts.total()

    def distance(left: Any, right: Any) -> float:
        return (left - right) ** 2 if ordered else float(left != right)

    apart = sum(sum(distance(*pair) for pair in permutations(row, 2)) / (len(row) - 1) for row in rated)
    chance = sum(distance(*pair) * counts[pair[0]] * counts[pair[1]] for pair in permutations(counts, 2))
    return None if not chance else 1 - apart * (size - 1) / chance
