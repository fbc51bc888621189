"""What a run is about: every dataset × model that was picked, with its model, inferencer and scorer."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import merge
from operator import itemgetter
from typing import Any

from rolecall.core.program import fingerprint
from rolecall.core.prompts.pieces import Row, text_of
from rolecall.errors import MissingExtraError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.inferencers.inferencer import GenInferencer, Inferencer
from rolecall.experiment.opening.judge_config import JudgeComparison
from rolecall.experiment.opening.judges import JudgeEntry
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.pairs.pair import Pair
from rolecall.models.prices import find_price
from rolecall.models.protocol import Model, ModelContext
from rolecall.runs.parts import digest_scoring
from rolecall.runs.run_options import RunOptions
from rolecall.scoring.answers import Scorable
from rolecall.scoring.blame import ScoringError
from rolecall.scoring.evaluate import DatasetScorer
from rolecall.scoring.groups import DatasetGroup
from rolecall.scoring.scorecard import Verdict
from rolecall.scoring.session import ScoringSession


class RowDraw:
    """The rows of some datasets in a random order, dealt in turn so that each has its share of every beginning.

    Asked about are those from `begin` to `end` of each pool: the datasets whose rows are drawn together.

    >>> draw = RowDraw([{'easy': 40, 'hard': 20}], end=6, seed=1)
    >>> [len(draw.numbers(dataset)) for dataset in ('easy', 'hard')], draw.size
    ([4, 2], 60)
    >>> larger = RowDraw([{'easy': 40, 'hard': 20}], end=30, seed=1)
    >>> set(draw.numbers('hard')) <= set(larger.numbers('hard'))
    True
    """

    def __init__(
        self,
        pools: Sequence[Mapping[str, int]],
        *,
        end: int | None = None,
        seed: int = 0,
        rows: Sequence[int] | None = None,
    ) -> None:
        """With `rows`, those of each dataset that have these numbers, and no others."""
        self.seed = seed
        self._chosen = rows is not None
        self.begin = 0
        self.end = end
        self.totals = {dataset: total for pool in pools for dataset, total in pool.items()}
        self._orders = [
            _deal(pool, seed)
            if rows is None
            else [(name, row) for name, total in pool.items() for row in rows if row < total]
            for pool in pools
        ]

    @property
    def size(self) -> int:
        """How many rows there are to draw from, in the largest pool."""
        return max(map(len, self._orders), default=0)

    def numbers(self, dataset: str) -> array[int]:
        """The rows of a dataset that are asked about, ascending."""
        places = (place for order in self._orders for place in order[self.begin : self.end])
        return array('Q', sorted(number for name, number in places if name == dataset))

    @property
    def manner(self) -> str:
        """How the rows were chosen."""
        return 'by number' if self._chosen else f'drawn at random (seed {self.seed})'


def _deal(pool: Mapping[str, int], seed: int) -> list[tuple[str, int]]:
    """The rows of all datasets, each dataset shuffled and spread evenly over the whole."""
    return [place for _, place in merge(*(_spread(*dataset, seed) for dataset in pool.items()), key=itemgetter(0))]


def _spread(dataset: str, total: int, seed: int) -> list[tuple[float, tuple[str, int]]]:
    chance = random.Random(f'{seed} {total}')  # not by name: variants of a dataset are asked about the same rows
    numbers = list(range(total))
    chance.shuffle(numbers)
    start = chance.random()
    return [((place + start) / total, (dataset, number)) for place, number in enumerate(numbers)]


def pool_by_groups(totals: Mapping[str, int], groups: Sequence[DatasetGroup]) -> list[dict[str, int]]:
    """Datasets of one group, however deep it is nested, share a draw; others have one each.

    >>> from rolecall.scoring.groups import read_groups
    >>> pool_by_groups({'a': 5, 'b': 6, 'c': 7}, read_groups({'groups': {'all': ['inner'], 'inner': ['a', 'b']}}))
    [{'a': 5, 'b': 6}, {'c': 7}]
    """
    members = {group.name: [member.name for member in group.members] for group in groups}
    inner = {name for names in members.values() for name in names}

    def expand(name: str) -> list[str]:
        return [dataset for member in members[name] for dataset in expand(member)] if name in members else [name]

    pools: list[dict[str, int]] = []
    left = dict(totals)
    for name in members:
        pool = {dataset: left.pop(dataset) for dataset in expand(name) if name not in inner and dataset in left}
        pools += [pool] if pool else []
    return [*pools, *({dataset: total} for dataset, total in left.items())]


@dataclass(eq=False)
class PairRun:
    """One dataset × model in a run: how its rows are asked and scored, and how far that is."""

    compiled: Pair
    model_entry: ModelEntry
    model: Model
    inferencer: Inferencer
    scorer: DatasetScorer
    judges: tuple[JudgeEntry, ...] = ()
    """Each gives a score of its own; the first one's verdicts are those of the rows."""
    is_baseline: bool = False
    """Whether the other models are compared with this one, and it is compared with none."""
    cluster_column: Any = None
    is_asked: bool = False
    """Whether all its rows have been asked about."""
    pending: int = 0
    """Rows that wait for a batch."""
    prompt_difference: str = ''
    """How the server's token ids of the first prompt differ from those expected; empty if they are the same."""

    @property
    def dataset(self) -> str:
        return self.compiled.task.abbr

    @property
    def name(self) -> str:
        return f'{self.dataset} × {self.model.name}'

    @property
    def comparison(self) -> JudgeComparison | None:
        """What the answers are compared with; None if they are judged alone, or by a rule."""
        return self.judges[0].comparison if self.judges else None

    @property
    def single(self) -> GenInferencer | None:
        """The inferencer, if it asks once for each row: then rows can be asked about in groups."""
        inferencer = self.inferencer
        return inferencer if type(inferencer) is GenInferencer and inferencer.samples == 1 else None

    @cached_property
    def scoring_digest(self) -> str | None:
        """What the verdicts depend on; None if that cannot be told."""
        return digest_scoring(self.compiled.task, self.model_entry)

    def gold(self, row: Row) -> Any:
        """The row's own answer; of a dialogue that is asked for its last turn only, that turn's."""
        column = self.compiled.task.wording.output_column
        answer = row.get(column) if column is not None else None
        only_last = self.compiled.task.inferencer.asks_last_turn
        return answer[-1] if only_last and isinstance(answer, (list, tuple)) and answer else answer

    def cluster(self, row: Row) -> str | None:
        """What rows that belong together share: the column that eval_cfg names as `cluster`."""
        column = self.cluster_column
        return None if column is None or row.get(column) is None else text_of(row[column])

    def usage(self, seconds: float | None, input_tokens: int | None, output_tokens: int | None) -> Mapping[str, float]:
        """What a row took, as metrics take it; nothing if this metric does not."""
        if self.scorer.metric is None or not self.scorer.metric.takes_usage:
            return {}
        used = {} if seconds is None else {'seconds': seconds}
        price = find_price(self.model_entry.entry)
        if price is not None and input_tokens is not None:
            used['cost'] = price.cost(input_tokens, output_tokens or 0)
        return used

    def mark(self, rows: Sequence[Scorable]) -> Sequence[Verdict | None]:
        """The verdicts on rows as they finish; None where a verdict takes a judge, other rows or other processes."""
        session = self._marking
        if self.scoring_digest is None or not session.is_plain:
            return [None] * len(rows)
        try:
            return session.add(rows)
        except (ScoringError, MissingExtraError):  # reported when the rows are scored
            return [None] * len(rows)

    @cached_property
    def _marking(self) -> ScoringSession:
        return self.scorer.start(adds_up=False)


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A config, prepared: every dataset × model that was picked."""

    experiment: Experiment
    """With the datasets and models that have a pair."""
    pairs: tuple[PairRun, ...]
    options: RunOptions
    skipped: tuple[Problem, ...]
    """Why datasets or pairs were left out, where the run goes on without them."""
    context: ModelContext = field(repr=False)

    draw: RowDraw | None = None
    """Which rows are asked about, where they are drawn at random."""

    def numbers(self, pair: Pair) -> Sequence[int]:
        """The numbers of the rows that are asked about, ascending."""
        if self.draw is not None:
            drawn = self.draw.numbers(pair.task.abbr)
            share = self.options.share
            return drawn if share is None else drawn[share.rank :: share.of]
        limit, share = self.options.limit, self.options.share
        total = len(pair.data.test) if limit is None else min(len(pair.data.test), limit)
        return range(total) if share is None else share.numbers(total)

    @property
    def is_whole_beginning(self) -> bool:
        """Whether the rows are the first of each dataset, with none left out between them."""
        return self.draw is None and self.options.share is None

    @property
    def models(self) -> dict[str, Model]:
        return {pair.model.name: pair.model for pair in self.pairs}

    @property
    def judges(self) -> list[JudgeEntry]:
        return [judge for pair in self.pairs for judge in pair.judges]

    @property
    def asked_models(self) -> list[tuple[Model, Mapping[str, Any]]]:
        """The models that are asked, judges among them, with their entries."""
        models = {id(pair.model): (pair.model, pair.model_entry.entry) for pair in self.pairs}
        judges = {
            fingerprint('', model=dict(entry.model.identity)): (entry.model, entry.entry)
            for entry in (judge.model_entry for judge in self.judges)
            if id(entry.model) not in models
        }
        return [*models.values(), *judges.values()]
