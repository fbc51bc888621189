"""Replies scored anew, scoring mixed from two sides, and the exact share of every cause in the difference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import factorial, isclose
from typing import Any

from rolecall.insight.explanation import CauseShare
from rolecall.runs.pair_scoring import scorable_of
from rolecall.runs.store.results import Result
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.statistics import compare_paired

Fields = Mapping[str, Any]
Scores = Sequence[float | None]
_ROUNDED = 1e-6


@dataclass(frozen=True, slots=True)
class Marks:
    """The score of some rows, with the score and the answer of each."""

    value: float | None
    scores: Scores
    extracted: Sequence[Any]

    @classmethod
    def stored(cls, results: Sequence[Result], value: float | None = None) -> Marks:
        """The marks that rows have in their run or log."""
        return cls(value, [result.score for result in results], [result.extracted for result in results])

    def is_mean(self, factor: float) -> bool:
        """Whether the score is the mean of those of the rows."""
        return self.value is None or isclose(
            mean_score(self.scores) * factor, self.value, rel_tol=_ROUNDED, abs_tol=_ROUNDED
        )


def mean_score(scores: Scores) -> float:
    """The mean of the rows that have a score."""
    counted = [score for score in scores if score is not None]
    return sum(counted) / len(counted) if counted else 0.0


def score_results(scorer: DatasetScorer, results: Sequence[Result], fields: Sequence[Fields]) -> Marks:
    """Stored rows scored anew. Of a judge, the stored replies are read again; it is not asked."""
    rows = [
        replace(scorable_of(result, own), row=at) for at, (result, own) in enumerate(zip(results, fields, strict=True))
    ]
    judged = {
        at: [None if reply is None else reply['reply'] for reply in result.judged] for at, result in enumerate(results)
    }
    card = replace(scorer, beside=None).score(rows, judge_replies=judged if scorer.needs_judge else None)
    by_row = {verdict.row: verdict for verdict in card.verdicts}
    verdicts = [by_row[at] for at in range(len(rows))]
    return Marks(card.value, [verdict.score for verdict in verdicts], [verdict.extracted for verdict in verdicts])


def mix_scorers(left: DatasetScorer, right: DatasetScorer, taken: frozenset[str]) -> DatasetScorer:
    """The left scoring with the causes `taken` from the right one: reader, metric, aggregation, denominator."""
    by_cause = {
        cause: right if cause in taken else left for cause in ('reader', 'metric', 'aggregation', 'denominator')
    }
    flags, reader = (next(iter(by_cause[cause].readers.values())) for cause in ('metric', 'reader'))
    return replace(
        by_cause['metric'],
        readers={'': replace(flags, extract=reader.extract)},
        k=by_cause['aggregation'].k,
        failures=by_cause['denominator'].failures,
        unparsed=by_cause['denominator'].unparsed,
    )


def decide_again(result: Result, decide_by: str) -> Result:
    """A row whose label is chosen by another loss (`sum`, `per_character`), where the run has stored it."""
    labels = result.details.get('labels')
    losses = {
        label['label']: label[decide_by]
        for label in (labels if isinstance(labels, list | tuple) else ())
        if isinstance(label, Mapping) and isinstance(label.get(decide_by), int | float)
    }
    return replace(result, prediction=min(losses, key=lambda label: losses[label])) if losses else result


def shapley_shares(factors: Sequence[str], value: Callable[[frozenset[str]], float]) -> dict[str, float]:
    """The exact share of each factor in the difference between having none and having all of them.

    >>> shapley_shares(['a', 'b'], lambda taken: 10.0 * ('a' in taken) + 4.0 * (len(taken) == 2))
    {'a': 12.0, 'b': 2.0}
    """
    known = cache(value)
    size = len(factors)
    shares = dict.fromkeys(factors, 0.0)
    for factor in factors:
        others = [other for other in factors if other != factor]
        for count in range(size):
            weight = factorial(count) * factorial(size - count - 1) / factorial(size)
            for chosen in map(frozenset, combinations(others, count)):
                shares[factor] += weight * (known(chosen | {factor}) - known(chosen))
    return shares


def make_share(
    cause: str, shares: Sequence[float], clusters: Sequence[str | None], factor: float, points: float | None = None
) -> CauseShare:
    """A cause with its points (by default the mean of the rows' shares) and their 95 % interval, with the rows as a
    sample of such rows."""
    lost, gained = [max(0.0, -share) for share in shares], [max(0.0, share) for share in shares]
    interval = compare_paired(lost, gained, clusters).interval
    return CauseShare(
        cause,
        mean_score(shares) * factor if points is None else points,
        sum(map(bool, shares)),
        low=None if interval is None else interval.low * factor,
        high=None if interval is None else interval.high * factor,
    )


def differ(before: float | None, after: float | None) -> float:
    """What a row gains; one that is not counted as one that is wrong."""
    return (after or 0.0) - (before or 0.0)
