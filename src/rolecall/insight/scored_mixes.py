"""Scores of mixes of two sides (replies of one, reading of the other), and the exact share of every cause in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import factorial, isclose
from typing import Any

from rolecall.runs.pair_scoring import scorable_of
from rolecall.runs.store.results import Result
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.statistics import Interval, compare_paired

Fields = Mapping[str, Any]
_ROUNDED = 1e-6


@dataclass(frozen=True, slots=True)
class Marks:
    """The score of some rows, with the score and the answer of each."""

    value: float | None
    scores: Sequence[float | None]
    extracted: Sequence[Any]

    @property
    def mean(self) -> float | None:
        """The mean of the rows that have a score."""
        scores = [score for score in self.scores if score is not None]
        return sum(scores) / len(scores) if scores else None


def score_results(scorer: DatasetScorer, results: Sequence[Result], fields: Sequence[Fields]) -> Marks:
    """Stored rows scored anew. Of a judge, the stored replies are read again; it is not asked."""
    rows = [
        replace(scorable_of(result, own), row=at) for at, (result, own) in enumerate(zip(results, fields, strict=True))
    ]
    judged = {at: [_reply_in(reply) for reply in result.judged] for at, result in enumerate(results)}
    card = scorer.score(rows, judge_replies=judged if scorer.needs_judge else None)
    by_row = {verdict.row: verdict for verdict in card.verdicts}
    verdicts = [by_row[at] for at in range(len(rows))]
    return Marks(card.value, [verdict.score for verdict in verdicts], [verdict.extracted for verdict in verdicts])


def _reply_in(judged: Mapping[str, str] | None) -> str | None:
    return None if judged is None else judged['reply']


def stored_marks(results: Sequence[Result], factor: float) -> Marks:
    """The marks that rows have in their run or log."""
    marks = Marks(None, [result.score for result in results], [result.extracted for result in results])
    return replace(marks, value=None if marks.mean is None else marks.mean * factor)


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


def interval_of_shares(shares: Sequence[float], clusters: Sequence[str | None]) -> Interval | None:
    """The 95 % interval of a mean share, from each row's, with the rows as a sample of such rows."""
    lost, gained = [max(0.0, -share) for share in shares], [max(0.0, share) for share in shares]
    return compare_paired(lost, gained, clusters).interval


class Mixes:
    """Two sides on the rows that both have. `classes` names, for each row, the cause that its reply goes by."""

    def __init__(
        self,
        results: tuple[Sequence[Result], Sequence[Result]],
        fields: tuple[Sequence[Fields], Sequence[Fields]],
        scorers: tuple[DatasetScorer, DatasetScorer],
        *,
        classes: Sequence[str],
        factor: float,
        decide_by: tuple[str, str] = ('', ''),
        gold_from: tuple[int, int] | None = None,
    ) -> None:
        """`gold_from`: the sides whose gold answers and columns the left and the right metric take, where a log has
        them in a form of its own; without it, those of the reply's side."""
        self._results = results
        self._fields = fields
        self._scorers = scorers
        self._classes = classes
        self._factor = factor
        self._decide_by = decide_by
        self._gold_from = gold_from
        self._marks: dict[tuple[int, frozenset[str]], Marks] = {}

    def marks(self, side: int, scoring: frozenset[str]) -> Marks:
        """The replies of one side, scored as on the left but for the causes in `scoring`; each computed once."""
        if (side, scoring) not in self._marks:
            self._marks[side, scoring] = self._score(self._results[side], self._fields[side], scoring)
        return self._marks[side, scoring]

    def _score(self, results: Sequence[Result], fields: Sequence[Fields], scoring: frozenset[str]) -> Marks:
        metric_side = int('metric' in scoring)
        if decide_by := self._decide_by[metric_side]:
            results = [decide_again(result, decide_by) for result in results]
        if self._gold_from is not None:
            own = self._gold_from[metric_side]
            golds = (result.gold for result in self._results[own])
            results = [replace(result, gold=gold) for result, gold in zip(results, golds, strict=True)]
            fields = self._fields[own]
        return score_results(mix_scorers(*self._scorers, scoring), results, fields)

    def rows(self, taken: frozenset[str]) -> list[float | None]:
        """The score of every row with the causes `taken` from the right side."""
        scoring = taken - {*self._classes}
        left = self.marks(0, scoring).scores
        if taken.isdisjoint(self._classes):
            return list(left)
        right = self.marks(1, scoring).scores
        return [right[at] if cause in taken else left[at] for at, cause in enumerate(self._classes)]

    def value(self, taken: frozenset[str]) -> float:
        """The score over all rows with the causes `taken` from the right side."""
        scoring = taken - {*self._classes}
        sides = (0,) if taken.isdisjoint(self._classes) else (0, 1)
        marks = [self.marks(side, scoring) for side in sides]
        if all(own.mean is None or own.value is None or _is_mean(own, self._factor) for own in marks):
            return (Marks(None, self.rows(taken), ()).mean or 0.0) * self._factor
        places = [int(cause in taken) for cause in self._classes]
        results = [self._results[side][at] for at, side in enumerate(places)]
        fields = [self._fields[side][at] for at, side in enumerate(places)]
        return self._score(results, fields, scoring).value or 0.0


def _is_mean(marks: Marks, factor: float) -> bool:
    return isclose((marks.mean or 0.0) * factor, marks.value or 0.0, rel_tol=_ROUNDED, abs_tol=_ROUNDED)
