"""How scores are written: numbers with as many digits as their scale needs, intervals, and honest denominators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rolecall.scoring.scorecard import Scorecard

__all__ = ['OUTCOMES', 'Grid', 'denominator', 'digits_of', 'grid_of', 'interval', 'left_out', 'scale_of', 'score']

OUTCOMES = {
    'ok': 'ok',
    'unparsed': 'unparsed',
    'filtered': 'filtered',
    'too_long': 'too long',
    'thinking_exhausted': 'thinking exhausted',
    'failed': 'failed',
}
"""How a row can end, in words."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Scorecards by dataset and metric (down) and model (across)."""

    lines: tuple[tuple[str, str], ...]
    models: tuple[str, ...]
    cards: dict[tuple[str, str, str], Scorecard]

    def card(self, line: tuple[str, str], model: str) -> Scorecard | None:
        """The score in one cell, if there is one."""
        return self.cards.get((*line, model))


def grid_of(cards: Iterable[Scorecard]) -> Grid:
    """The scorecards as a table, in the order they come.

    >>> grid_of([Scorecard('gsm8k', 'a', 'accuracy', 50.0), Scorecard('gsm8k', 'b', 'accuracy', 60.0)]).models
    ('a', 'b')
    """
    kept = {(card.dataset, card.metric, card.model): card for card in cards}
    lines = tuple(dict.fromkeys((dataset, metric) for dataset, metric, _ in kept))
    return Grid(lines, tuple(dict.fromkeys(model for _, _, model in kept)), kept)


def digits_of(cards: Sequence[Scorecard]) -> dict[str, int]:
    """Decimals for each metric: three where it stays within 1, one where it goes beyond 10, two between."""
    scales: dict[str, float] = {}
    for card in cards:
        scales[card.metric] = max(scales.get(card.metric, 0.0), scale_of(card))
    return {metric: 3 if scale <= 1 else 2 if scale <= 10 else 1 for metric, scale in scales.items()}


def scale_of(card: Scorecard) -> float:
    """The largest number of a scorecard, whatever its sign."""
    return max((abs(number) for number in (card.value, card.low, card.high) if number is not None), default=0.0)


def score(card: Scorecard, digits: int) -> str:
    """The score itself, or a dash."""
    return '–' if card.value is None else f'{card.value:,.{digits}f}'


def interval(card: Scorecard, digits: int) -> str:
    """The interval in brackets, or nothing."""
    if card.low is None or card.high is None:
        return ''
    return f'[{card.low:,.{digits}f}, {card.high:,.{digits}f}]'


def denominator(card: Scorecard) -> str:
    """How many rows made the number, of how many."""
    return f'{card.scored:,}/{card.total:,}'


def left_out(card: Scorecard) -> str:
    """How the rows ended that are no plain answers, and how many others are missing from the score.

    >>> left_out(Scorecard('d', 'm', 'acc', 50.0, scored=6, total=10, outcomes={'ok': 7, 'failed': 2}))
    '2 failed, 1 not scored, 1 not asked'
    """
    named = dict.fromkeys([*OUTCOMES, *card.outcomes])
    ended = [
        f'{card.outcomes[outcome]:,} {OUTCOMES.get(outcome, outcome)}'
        for outcome in named
        if outcome != 'ok' and card.outcomes.get(outcome)
    ]
    finished = sum(card.outcomes.values())
    unscored = card.outcomes.get('ok', 0) - card.scored
    unasked = card.total - finished if card.outcomes else 0
    return ', '.join(
        ended
        + ([f'{unscored:,} not scored'] if unscored > 0 else [])
        + ([f'{unasked:,} not asked'] if unasked > 0 else [])
    )
