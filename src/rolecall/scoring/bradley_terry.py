"""Bradley-Terry ratings: one number for each of several models that a judge compared two by two.

The chance that one model's answer is preferred to another's is a logistic function of the difference of their ratings,
on Elo's scale: 400 points are odds of 10 to 1, and 1000 is the mean of all. Each model is given half a win and half a
loss against an average one, so that ratings stay finite where one wins every row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SCALE = 400 / math.log(10)
_Z = 1.959964
_STEPS = 50


@dataclass(frozen=True, slots=True)
class Rating:
    """A model's rating with its 95 % interval."""

    model: str
    points: float
    low: float
    high: float


def rate_models(won: Mapping[tuple[str, str], tuple[float, int]]) -> list[Rating]:
    """Ratings from the rows that the first of two models won (a tie is half of one) and the rows compared; best first.

    >>> rated = rate_models({('a', 'b'): (9, 12), ('b', 'c'): (8, 12), ('a', 'c'): (11, 12)})
    >>> [(one.model, round(one.points)) for one in rated]
    [('a', 1184), ('b', 976), ('c', 840)]
    """
    names = list(dict.fromkeys(name for pair in won for name in pair))
    place = {name: at for at, name in enumerate(names)}
    games = [(place[first], place[second], wins, rows) for (first, second), (wins, rows) in won.items() if rows]
    strengths, information = [0.0] * len(names), _identity(len(names))
    for _ in range(_STEPS):
        gradient, information = _differentiate(strengths, games)
        step = _solve(information, [gradient])[0]
        strengths = [strength + change for strength, change in zip(strengths, step, strict=True)]
        if max(map(abs, step)) < 1e-9:
            break
    covariance = _solve(information, _identity(len(names)))
    mean = sum(strengths) / len(names)
    rated = []
    for at, name in enumerate(names):
        reach = _Z * _SCALE * math.sqrt(_variance_from_mean(covariance, at))
        points = 1000 + _SCALE * (strengths[at] - mean)
        rated.append(Rating(name, points, points - reach, points + reach))
    return sorted(rated, key=lambda rating: -rating.points)


def _differentiate(
    strengths: Sequence[float], games: Sequence[tuple[int, int, float, int]]
) -> tuple[list[float], list[list[float]]]:
    """The gradient of the likelihood, and its information."""
    size = len(strengths)
    chances = [_chance(strength) for strength in strengths]  # against an average model
    gradient = [0.5 - chance for chance in chances]
    information = [[chances[i] * (1 - chances[i]) if i == j else 0.0 for j in range(size)] for i in range(size)]
    for i, j, wins, rows in games:
        chance = _chance(strengths[i] - strengths[j])
        gradient[i] += wins - rows * chance
        gradient[j] -= wins - rows * chance
        weight = rows * chance * (1 - chance)
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            information[a][b] += sign * weight
    return gradient, information


def _chance(difference: float) -> float:
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, difference))))


def _variance_from_mean(covariance: Sequence[Sequence[float]], at: int) -> float:
    """The variance of one strength's distance from the mean of all."""
    size = len(covariance)
    weights = [(1.0 if i == at else 0.0) - 1 / size for i in range(size)]
    return max(0.0, sum(weights[i] * weights[j] * covariance[i][j] for i in range(size) for j in range(size)))


def _identity(size: int) -> list[list[float]]:
    return [[float(i == j) for j in range(size)] for i in range(size)]


def _solve(matrix: Sequence[Sequence[float]], sides: Sequence[Sequence[float]]) -> list[list[float]]:
    """The solutions of a symmetric positive definite system for each right-hand side."""
    size = len(matrix)
    rows = [[*matrix[i], *(side[i] for side in sides)] for i in range(size)]
    for i in range(size):
        pivot = rows[i][i]
        rows[i] = [value / pivot for value in rows[i]]
        for j in range(size):
            if j != i and rows[j][i]:
                factor = rows[j][i]
                rows[j] = [value - factor * own for value, own in zip(rows[j], rows[i], strict=True)]
    return [[rows[i][size + k] for i in range(size)] for k in range(len(sides))]
