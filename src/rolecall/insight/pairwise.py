"""Tables of pairwise judgements: wins of each model over each other, and a rating of all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rolecall.scoring.bradley_terry import rate_models
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
