"""How the models of one run stand to each other: a headline, and a ranking with ties."""

from __future__ import annotations

from dataclasses import dataclass

from rolecall.report.counts import RunCounts
from rolecall.scoring.model_ranking import ModelPair, Ranking, rank_models
from rolecall.strings import count_noun

__all__ = ['Standing', 'describe_standing', 'find_standing']


@dataclass(frozen=True, slots=True)
class Standing:
    """The ranking of a run's models in points of 100, and one sentence about it."""

    headline: str
    ranking: Ranking
    complete: bool
    """Whether every scored row was compared, not only the first ones."""


def find_standing(counts: RunCounts) -> Standing | None:
    """The standing of the models; None if there are fewer than two with rows in common."""
    scores = {model: rows for model, rows in counts.scores.items() if rows}
    if len(scores) < 2:
        return None
    ranking = rank_models(scores)
    if not ranking.rows:
        return None
    return Standing(describe_standing(ranking), ranking, not counts.scores_capped)


def describe_standing(ranking: Ranking) -> str:
    """One sentence: who is best and by how much, or that they cannot be told apart."""
    first = ranking.places[0].model
    ahead = [pair for pair in ranking.pairs if pair.better == first and pair.told_apart]
    rows = count_noun(ranking.rows, 'row')
    if len(ranking.places) == 2:
        pair = ranking.pairs[0]
        if ahead:
            return f'{pair.better} beats {pair.worse} by {_points(pair)} on {rows}.'
        return f'{pair.better} and {pair.worse} cannot be told apart on {rows} (difference {_points(pair)}).'
    tied = [place.model for place in ranking.places if place.best == 1]
    if len(tied) == 1:
        next_best = min(ahead, key=lambda pair: pair.difference)
        return f'{first} is best on {rows}, ahead of {next_best.worse} by {_points(next_best)}.'
    return f'{", ".join(tied[:-1])} and {tied[-1]} share first place: they cannot be told apart on {rows}.'


def _points(pair: ModelPair) -> str:
    reach = (pair.high - pair.low) / 2
    return f'{100 * pair.difference:.1f} ± {100 * reach:.1f} points'
