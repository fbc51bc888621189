"""Models that a judge compared two by two, as tables: who wins against whom, and a rating of all."""

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
    """The comparisons that cards tell of; None if none does.

    Two models of a run make one line, not two, unless each was shown first to the judge when it was its turn.
    """
    found = list(_find_pairs(cards))
    if not found:
        return None
    won: dict[str, dict[tuple[str, str], tuple[float, int]]] = {}
    for card, rival, told in found:
        if told.rows:
            wins = (told.win_rate or 0.0) / 100 * told.rows
            won.setdefault(_name_dataset(card), {})[card.model, rival] = (wins, told.rows)
    ratings = [line for dataset, games in won.items() for line in _rate(dataset, games)]
    return PairwiseTables(tuple(_word_pair(*one) for one in found), tuple(ratings))


def _find_pairs(cards: Sequence[Scorecard]) -> Iterator[tuple[Scorecard, str, HeadToHead]]:
    seen: dict[tuple[str, str, str], HeadToHead] = {}
    for card in cards:
        for rival, told in (card.compared or {}).items():
            dataset = _name_dataset(card)
            mirrored = seen.get((dataset, rival, card.model))
            if mirrored is None or (told.always_first and mirrored.always_first):
                seen[dataset, card.model, rival] = told
                yield card, rival, told


def _name_dataset(card: Scorecard) -> str:
    """The dataset, and the judge where there are several."""
    return f'{card.dataset} ({card.judge})' if card.judge else card.dataset


def _word_pair(card: Scorecard, rival: str, told: HeadToHead) -> tuple[str, ...]:
    missing = told.missing or 0
    if not told.rows:
        return (_name_dataset(card), card.model, rival, '–', f'{missing:,} missing', '', '')
    lacking = f', {missing:,} missing' if missing else ''
    changed = f'{told.order_changed:,} of {told.both_orders:,}' if told.both_orders else ''
    return (
        _name_dataset(card),
        card.model,
        rival,
        f'{told.win_rate:.1f} [{told.low:.1f}, {told.high:.1f}]',
        f'{told.wins:,}–{told.ties:,}–{told.losses:,}{lacking}',
        f'{told.first:,} of {told.decided:,}',
        changed,
    )


def _rate(dataset: str, games: Mapping[tuple[str, str], tuple[float, int]]) -> Iterator[tuple[str, ...]]:
    for connected in _split_connected(games):
        if len({name for pair in connected for name in pair}) >= _RATED_FROM:
            for one in rate_models(connected):
                yield dataset, one.model, f'{one.points:.0f}', f'[{one.low:.0f}, {one.high:.0f}]'


def _split_connected(
    games: Mapping[tuple[str, str], tuple[float, int]],
) -> list[dict[tuple[str, str], tuple[float, int]]]:
    """Comparisons in parts: models of different parts share no opponent, so no rating tells which is better.

    >>> [len(part) for part in _split_connected({('a', 'b'): (1, 2), ('c', 'd'): (1, 2), ('b', 'e'): (1, 2)})]
    [2, 1]
    """
    parts: list[set[str]] = []
    for pair in games:
        joined = [part for part in parts if not part.isdisjoint(pair)]
        parts = [part for part in parts if part.isdisjoint(pair)] + [set(pair).union(*joined)]
    split = [{pair: told for pair, told in games.items() if pair[0] in part} for part in parts]
    return sorted(split, key=lambda part: list(games).index(next(iter(part))))
