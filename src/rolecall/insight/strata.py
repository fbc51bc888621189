"""The rows of a dataset × model in strata, the sample of them that people decided about, and the rows to decide next.

Within a stratum, rows are decided in the order of a hash, which makes the decided ones a random sample of it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from itertools import chain, combinations, islice, pairwise
from statistics import NormalDist
from typing import NamedTuple

from rolecall.insight.pairing import pair_results
from rolecall.runs.store.labels import RowKey
from rolecall.runs.store.results import Result, SettledRows
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.corrected_scores import Stratum, draw_means, marks_of

_FEW = 3
"""Verdicts with more different marks than this are graded: all rows are one stratum."""
_Z = NormalDist().inv_cdf(0.975)


class StratumKey(NamedTuple):
    """What the rows of a stratum share: the run's mark, and another trait if there is one."""

    mark: float
    trait: str = ''


@dataclass
class StratifiedRows:
    """The scored rows of one dataset × model."""

    dataset: str
    model: str
    rows: dict[StratumKey, array[int]] = field(default_factory=dict)
    priors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By trait, how many rows are known beforehand to be marked `right` and `wrong` by the run."""
    _clustered: int = 0
    _clusters: set[str] = field(default_factory=set)

    def add(self, row: int, mark: float, *, trait: str = '', cluster: str | None = None) -> None:
        """Add a row with the run's mark."""
        self.rows.setdefault(StratumKey(mark, trait), array('q')).append(row)
        if cluster is not None:
            self._clustered += 1
            self._clusters.add(cluster)

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(map(len, self.rows.values()))

    @property
    def units(self) -> int:
        """How many independent rows there are: a cluster is one."""
        return self.count - self._clustered + len(self._clusters)

    @property
    def mean(self) -> float:
        """The run's own score."""
        return sum(key.mark * len(rows) for key, rows in self.rows.items()) / self.count

    @property
    def is_graded(self) -> bool:
        """Whether marks are numbers, not a few classes."""
        return len({key.mark for key in self.rows}) > _FEW

    def strata(self, labels: Mapping[int, float]) -> list[Stratum]:
        """The strata with the labels of their rows, by row."""
        if self.is_graded:
            return [Stratum(self.mean, self.count, list(labels.values()))]
        return [
            Stratum(key.mark, len(rows), [labels[row] for row in rows if row in labels], self._prior(key))
            for key, rows in sorted(self.rows.items())
        ]

    def _prior(self, key: StratumKey) -> dict[float, float]:
        prior = self.priors.get(key.trait)
        return {key.mark: prior['right'], 1.0 - key.mark: prior['wrong']} if prior else {}

    def queue(self, labels: Mapping[int, float], length: int) -> list[tuple[float, int]]:
        """The rows to decide next: how much each helps, and its number."""
        strata = self.strata(labels)
        marks = marks_of(strata)
        queue = []
        for stratum, rows in zip(strata, self._shuffled, strict=True):
            waiting = list(islice((row for row in rows if row not in labels), length))
            gains = (stratum.variance(marks, more=more) for more in range(len(waiting) + 1))
            steps = [(before - after) / self.count**2 for before, after in pairwise(gains)]
            queue += list(zip(steps, waiting, strict=True))
        return sorted(queue, key=lambda entry: -entry[0])[:length]

    @cached_property
    def _shuffled(self) -> list[list[int]]:
        """The rows of each stratum in the order in which they are decided."""
        by_stratum = [list(rows) for _, rows in sorted(self.rows.items())]
        groups = [[*chain(*by_stratum)]] if self.is_graded else by_stratum
        return [sorted(rows, key=lambda row: place_of(self.dataset, self.model, row)) for rows in groups]


def place_of(dataset: str, model: str, row: int) -> bytes:
    """The place of a row in an order that is as good as random, and always the same."""
    return blake2b(f'{dataset}\0{model}\0{row}'.encode(), digest_size=8).digest()


def stratify(run: RunReader) -> dict[tuple[str, str], StratifiedRows]:
    """The scored rows of every dataset × model, by the run's mark."""
    pairs: dict[tuple[str, str], StratifiedRows] = {}
    for entry in run.light_results():
        rows = pairs.setdefault((entry.dataset, entry.model), StratifiedRows(entry.dataset, entry.model))
        if isinstance(entry, SettledRows):
            for row, score in zip(entry.rows, entry.scores, strict=True):
                rows.add(row, score)
        elif (mark := mark_of_result(entry)) is not None:
            rows.add(entry.row, mark, cluster=entry.cluster)
    return {pair: rows for pair, rows in pairs.items() if rows.rows}


def mark_of_result(result: Result) -> float | None:
    """The run's mark of a row; None if it has none."""
    return result.score if result.score is not None or result.correct is None else float(result.correct)


def queue_rows(
    pairs: Mapping[tuple[str, str], StratifiedRows], labels: Mapping[RowKey, float], length: int
) -> list[RowKey]:
    """The rows of a run to decide next, the most helpful first."""
    queue = []
    for (dataset, model), rows in pairs.items():
        own = {row: mark for (name, other, row), mark in labels.items() if (name, other) == (dataset, model)}
        queue += [(gain, (dataset, model, row)) for gain, row in rows.queue(own, length)]
    return [key for _, key in sorted(queue, key=lambda entry: -entry[0])[:length]]


class Order(NamedTuple):
    """Two models of a dataset, ranked by their scores, and whether the order stays when errors are counted in."""

    dataset: str
    better: str
    worse: str
    low: float
    high: float
    """The corrected difference of the two, with everything that is not known."""


Sampled = tuple[StratifiedRows, Sequence[Stratum]]
"""The rows of a dataset × model, and its strata with what people decided."""


def check_orders(run: RunReader, pairs: Mapping[tuple[str, str], Sampled]) -> list[Order]:
    """Every two models of a dataset: the paired difference of the run, and the errors of both models' marks."""
    orders = []
    ranked = sorted(pairs, key=lambda pair: (pair[0], -pairs[pair][0].mean))
    for better, worse in combinations(ranked, 2):
        paired = pair_results(run.results(*worse), run.results(*better)).pairs if better[0] == worse[0] else ()
        if paired and paired[0].low is not None and paired[0].high is not None:
            noise, spread = random.Random(2), (paired[0].high - paired[0].low) / 2 / _Z
            means = [draw_means(pairs[pair][1], fixed=True, seed=seed) for seed, pair in enumerate((better, worse))]
            draws = sorted(high - low + noise.gauss(0.0, spread) for high, low in zip(*means, strict=True))
            low, high = (draws[round(share * (len(draws) - 1))] for share in (0.025, 0.975))
            orders.append(Order(better[0], better[1], worse[1], low, high))
    return orders
