"""Tables of pairwise judgements: wins of each model over each other, and Bradley-Terry ratings of all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rolecall.scoring.scorecard import HeadToHead, Scorecard

PAIRWISE_HEADS = ('dataset', 'model', 'against', 'win rate', 'W–T–L', 'first won', 'by order')
RATING_HEADS = ('dataset', 'model', 'rating', 'interval')
_RATED_FROM = 3


@dataclass(frozen=True, slots=True)
class PairwiseTables:
    """Lines of cells: each pair of models, and, with three or more of them, their Bradley-Terry ratings."""

    pairs: tuple[tuple[str, ...], ...]
    ratings: tuple[tuple[str, ...], ...]


def pairwise_tables(cards: Sequence[Scorecard]) -> PairwiseTables | None:
    """The comparisons recorded in scorecards; None if there are none.

    Two models of a run make one line, not two, unless each was shown first to the judge when it was its turn.
    """
    pairs = list(_find_pairs(cards))
    if not pairs:
        return None
    won: dict[str, dict[tuple[str, str], tuple[float, int]]] = {}
    for card, rival, outcome in pairs:
        if outcome.rows:
            wins = (outcome.win_rate or 0.0) / 100 * outcome.rows
            won.setdefault(_name_dataset(card), {})[card.model, rival] = (wins, outcome.rows)
    ratings = [line for dataset, games in won.items() for line in _rate(dataset, games)]
    return PairwiseTables(tuple(_word_pair(*pair) for pair in pairs), tuple(ratings))


def _find_pairs(cards: Sequence[Scorecard]) -> Iterator[tuple[Scorecard, str, HeadToHead]]:
    outcomes: dict[tuple[str, str, str], HeadToHead] = {}
    for card in cards:
        for rival, outcome in (card.compared or {}).items():
            dataset = _name_dataset(card)
            mirrored = outcomes.get((dataset, rival, card.model))
            if mirrored is None or (outcome.always_first and mirrored.always_first):
                outcomes[dataset, card.model, rival] = outcome
                yield card, rival, outcome


def _name_dataset(card: Scorecard) -> str:
    """The dataset, and the judge where there are several."""
    return f'{card.dataset} ({card.judge})' if card.judge else card.dataset


def _word_pair(card: Scorecard, rival: str, outcome: HeadToHead) -> tuple[str, ...]:
    missing = outcome.missing or 0
    if not outcome.rows:
        return (_name_dataset(card), card.model, rival, '–', f'{missing:,} missing', '', '')
    lacking = f', {missing:,} missing' if missing else ''
    changed = f'{outcome.order_changed:,} of {outcome.both_orders:,}' if outcome.both_orders else ''
    return (
        _name_dataset(card),
        card.model,
        rival,
        f'{outcome.win_rate:.1f} [{outcome.low:.1f}, {outcome.high:.1f}]',
        f'{outcome.wins:,}–{outcome.ties:,}–{outcome.losses:,}{lacking}',
        f'{outcome.first:,} of {outcome.decided:,}',
        changed,
    )


def _rate(dataset: str, games: Mapping[tuple[str, str], tuple[float, int]]) -> Iterator[tuple[str, ...]]:
    for connected in _split_connected(games):
        if len({name for pair in connected for name in pair}) >= _RATED_FROM:
            for rating in rate_models(connected):
                yield dataset, rating.model, f'{rating.points:.0f}', f'[{rating.low:.0f}, {rating.high:.0f}]'


def _split_connected(
    games: Mapping[tuple[str, str], tuple[float, int]],
) -> list[dict[tuple[str, str], tuple[float, int]]]:
    """Comparisons in connected parts: models of different parts share no opponent and cannot be rated together.

    >>> [len(part) for part in _split_connected({('a', 'b'): (1, 2), ('c', 'd'): (1, 2), ('b', 'e'): (1, 2)})]
    [2, 1]
    """
    parts: list[set[str]] = []
    for pair in games:
        joined = [part for part in parts if not part.isdisjoint(pair)]
        parts = [part for part in parts if part.isdisjoint(pair)] + [set(pair).union(*joined)]
    split = [{pair: result for pair, result in games.items() if pair[0] in part} for part in parts]
    return sorted(split, key=lambda part: list(games).index(next(iter(part))))


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
