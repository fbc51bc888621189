"""A config, prepared for a run: every dataset × model that was picked, with its model, inferencer and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rolecall.core.prompts.pieces import Row
from rolecall.core.prompts.values import text_of
from rolecall.errors import ConfigError, Problem
from rolecall.experiment.inferencers.inferencer import Inferencer
from rolecall.experiment.opening.entries import Entries
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.protocol import Model
from rolecall.runs.scores import Scores


@dataclass(frozen=True, slots=True)
class PreparedPair:
    """One dataset × model with everything a run needs to ask and score it."""

    pair: Pair
    model_entry: ModelEntry
    model: Model
    inferencer: Inferencer
    scores: Scores
    cluster_column: Any = None

    @property
    def dataset(self) -> str:
        return self.pair.task.abbr

    def gold(self, row: Row) -> Any:
        """The row's own answer; of a dialogue that is asked for its last turn only, that turn's."""
        column = self.pair.task.wording.output_column
        answer = row.get(column) if column is not None else None
        only_last = self.pair.task.inferencer.asks_last_turn
        return answer[-1] if only_last and isinstance(answer, (list, tuple)) and answer else answer

    def cluster(self, row: Row) -> str | None:
        """What rows that belong together share: the column that eval_cfg names as `cluster`."""
        column = self.cluster_column
        return None if column is None or row.get(column) is None else text_of(row[column])


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of one process among several that run the same config: every row whose number leaves its rank.

    >>> list(Share(1, 4).numbers(10))
    [1, 5, 9]
    """

    rank: int
    of: int

    def __post_init__(self) -> None:
        if self.of < 1 or not 0 <= self.rank < self.of:
            raise ConfigError(
                Problem('rank', f'rank {self.rank} of {self.of} does not exist.', 'Ranks count from 0 to one less.')
            )

    def numbers(self, total: int) -> range:
        """The numbers of its rows."""
        return range(self.rank, total, self.of)


@dataclass(frozen=True, slots=True)
class Prepared:
    """A config, prepared: every dataset × model that was picked."""

    config: Mapping[str, Any]
    plan: Entries
    picked: Entries
    """The tasks and models of the plan that were picked."""
    pairs: tuple[PreparedPair, ...]
    limit: int | None
    skipped: tuple[Problem, ...] = ()
    """Why datasets or pairs were left out, where the run goes on without them."""
    share: Share | None = None
    """Which rows are asked, where several processes share them."""
    guards: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """What models were told by the names of their methods: media folders, secrets."""

    def numbers(self, pair: Pair) -> range:
        """The numbers of the rows that are asked about."""
        total = len(pair.data.test) if self.limit is None else min(len(pair.data.test), self.limit)
        return range(total) if self.share is None else self.share.numbers(total)

    def count(self, pair: Pair) -> int:
        """How many rows are asked about."""
        return len(self.numbers(pair))

    @property
    def models(self) -> dict[str, Model]:
        return {pair.model.name: pair.model for pair in self.pairs}


def guard_model(model: Model | None, guards: Mapping[str, Any]) -> None:
    """Call the methods of these names that the model has: which media it may read, what its replies must not show."""
    for guard, given in guards.items():
        if callable(guarded := getattr(model, guard, None)):
            guarded(given)
