"""Two runs compared: the difference of every score with its interval, and the changed rows with their prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from rolecall.experiment.previews.differences import Change, align_lines, request_lines
from rolecall.insight.pairing import PairedScores, pair_results
from rolecall.insight.run_source import StoredRun, requests_sent
from rolecall.runs.parts import PartDigests
from rolecall.runs.store.results import Result
from rolecall.scoring.scorecard import Scorecard

_ROUNDED = 1e-3
_LEFT_OUT = ('only_left', 'only_right', 'different_gold', 'different_requests')

Compared = Literal['rows', 'groups', 'values']


@dataclass(frozen=True, slots=True)
class Flip:
    """A row whose score differs between the two runs."""

    left: Result
    right: Result


class Flips(Sequence[Flip]):
    """The rows that flipped, lost ones first; of a group, the first of its rows that did.

    There may be very many, so they are read on access; the runs must stay open.
    """

    def __init__(self, pair: PairedScores, groups: Sequence[Sequence[int]], left: StoredRun, right: StoredRun) -> None:
        self._dataset = pair.dataset
        self._changes = (*pair.lost, *pair.gained)
        self._members = {group[0]: group for group in groups}
        self._runs = (left, pair.model_a), (right, pair.model_b)

    def __len__(self) -> int:
        return len(self._changes)

    @overload
    def __getitem__(self, place: int) -> Flip: ...
    @overload
    def __getitem__(self, place: slice) -> list[Flip]: ...
    def __getitem__(self, place: int | slice) -> Flip | list[Flip]:
        if isinstance(place, slice):
            return [self[index] for index in range(*place.indices(len(self)))]
        first = self._changes[place].row
        rows = self._members.get(first, (first,))
        both = [Flip(*(self._read(run, model, row) for run, model in self._runs)) for row in rows]
        return next((flip for flip in both if flip.left.score != flip.right.score), both[0])

    def _read(self, run: StoredRun, model: str, row: int) -> Result:
        result = run.result(self._dataset, model, row)
        return result or Result(self._dataset, model, row, 'failed', 'the row can no longer be read')


@dataclass(frozen=True, slots=True)
class Difference:
    """How one dataset × model differs between two runs, over the rows that both have scored. Second minus first."""

    dataset: str
    model: str
    metric: str
    left: float | None = None
    right: float | None = None
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None
    """How likely a difference this large is by chance alone."""
    rows: int = 0
    """Compared rows, or groups of rows."""
    flips: Sequence[Flip] = ()
    compared: Compared = 'rows'
    """What `rows` counts. `values`: no row has a score of its own, so the two scores stand side by side, untested."""
    only_left: int = 0
    """Rows (or groups) that only the first run has scored."""
    only_right: int = 0
    different_gold: int = 0
    """Rows left out because their gold answers differ."""
    different_requests: int = 0
    """Compared rows for which the two runs sent different requests."""
    left_model: str = ''
    right_model: str = ''
    differing: tuple[str, ...] = ()
    """The parts whose digests differ: wording, examples, rows, reader, …"""
    served: str = ''
    """Who answered, as the replies say: in both runs, where that differs."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two runs, dataset × model by dataset × model, and the pairs that only one of them has."""

    differences: Sequence[Difference]
    only_left: Sequence[tuple[str, str]] = ()
    only_right: Sequence[tuple[str, str]] = ()


def compare_runs(left: StoredRun, right: StoredRun) -> Comparison:
    """Two runs, row by row: the paired numbers, and the rows that flipped as both runs have them."""
    parts = left.parts, right.parts
    # Row scores come from the first extractor, so its column is the one compared.
    cards = [{(card.dataset, card.model): card for card in reversed(run.scorecards())} for run in (left, right)]
    groups = groups_in_cards([*cards[1].values(), *cards[0].values()])
    pairing = pair_results(left.results(), right.results(), groups=groups)
    differences = []
    for pair in pairing.pairs:
        keys = (pair.dataset, pair.model_a), (pair.dataset, pair.model_b)
        means = pair.all_mean_a, pair.all_mean_b
        before, other = (_RunScores(side.get(key), mean) for side, key, mean in zip(cards, keys, means, strict=True))
        ours, theirs = (digests.get(key, PartDigests()) for digests, key in zip(parts, keys, strict=True))
        flips = Flips(pair, groups.get(pair.dataset, ()), left, right)
        difference = _difference_of(pair, before, other, flips)
        served = ' → '.join(filter(None, dict.fromkeys((before.served, other.served))))
        differing = ours.find_differing(theirs)
        if difference.rows and not any(getattr(difference, name) for name in _LEFT_OUT):  # every row is the same
            differing = [part for part in differing if part != 'rows']
        differences.append(replace(difference, differing=tuple(differing), served=served))
    order = {pair: place for place, pair in enumerate((card.dataset, card.model) for card in left.scorecards())}
    differences.sort(key=lambda before: order.get((before.dataset, before.left_model), len(order)))
    return Comparison(differences, pairing.unpaired_a, pairing.unpaired_b)


def groups_in_cards(cards: Iterable[Scorecard]) -> dict[str, Sequence[Sequence[int]]]:
    """By dataset, the rows that are counted together."""
    return {card.dataset: card.groups for card in cards if card.groups}


def name_models(pair: PairedScores) -> str:
    """The model of a pair, or both where they differ."""
    return pair.model_a if pair.model_a == pair.model_b else f'{pair.model_a} → {pair.model_b}'


def same_metric(left: Scorecard, right: Scorecard) -> bool:
    """Whether two scores are comparable: the same metric in the same unit."""
    return (left.metric, left.is_percent) == (right.metric, right.is_percent)


@dataclass(frozen=True, slots=True)
class _RunScores:
    """One run of a dataset × model: its scorecard, and the mean of its rows' scores."""

    card: Scorecard | None
    mean: float | None

    @property
    def served(self) -> str:
        receipt = self.card.receipt if self.card else None
        return '; '.join(receipt.served or ()) if receipt else ''

    @property
    def metric(self) -> str:
        return self.card.metric if self.card else 'score'

    @property
    def factor(self) -> float:
        """From rows' scores to the scale of the report."""
        return 100.0 if self.card and self.card.is_percent else 1.0

    @property
    def value(self) -> float | None:
        return self.card.value if self.card else None

    @property
    def is_mean_of_rows(self) -> bool:
        """Whether the reported number is the mean of the rows' scores."""
        if self.value is None or self.mean is None:
            return True
        return math.isclose(self.value, self.mean * self.factor, rel_tol=_ROUNDED, abs_tol=_ROUNDED)


def _difference_of(pair: PairedScores, left: _RunScores, right: _RunScores, flips: Sequence[Flip]) -> Difference:
    comparable = left.card is None or right.card is None or same_metric(left.card, right.card)
    scored = left if left.card is not None else right
    common = Difference(
        dataset=pair.dataset,
        model=name_models(pair),
        metric=scored.metric if comparable else f'{left.metric} → {right.metric}',
        only_left=pair.only_a,
        only_right=pair.only_b,
        different_gold=pair.different_gold,
        left_model=pair.model_a,
        right_model=pair.model_b,
    )
    if not comparable or (left.mean is None and right.mean is None):
        gap = None if left.value is None or right.value is None or not comparable else right.value - left.value
        return replace(common, left=left.value, right=right.value, difference=gap, compared='values')
    of_rows = not pair.grouped and not (left.is_mean_of_rows and right.is_mean_of_rows)
    return replace(
        common,
        metric=f'{common.metric}, mean of rows' if of_rows else common.metric,
        left=_scale(pair.mean_a, scored.factor),
        right=_scale(pair.mean_b, scored.factor),
        difference=_scale(pair.difference, scored.factor),
        low=_scale(pair.low, scored.factor),
        high=_scale(pair.high, scored.factor),
        p=pair.p,
        rows=pair.n,
        flips=flips,
        compared='groups' if pair.grouped else 'rows',
        different_requests=pair.different_requests,
    )


def _scale(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def prompt_changes(flip: Flip, left: StoredRun, right: StoredRun) -> Iterator[Change]:
    """The lines of the prompts that differ."""
    sides = [
        [line for sent in requests_sent(run, result) for line in request_lines(sent.preview)]
        for run, result in ((left, flip.left), (right, flip.right))
    ]
    if sides[0] != sides[1]:
        yield from (change for change in align_lines(*sides) if not change.same)


def comparison_as_json(comparison: Comparison, *, left: StoredRun, right: StoredRun) -> dict[str, Any]:
    """Everything in plain values: each difference, and the rows that flipped with the changes of their prompts."""
    return {
        'left': left.title,
        'right': right.title,
        **{
            side: [{'dataset': dataset, 'model': model} for dataset, model in pairs]
            for side, pairs in (('only_left', comparison.only_left), ('only_right', comparison.only_right))
        },
        'differences': [
            {
                **{name: getattr(difference, name) for name in ('dataset', 'model', 'metric', 'left', 'right')},
                **{name: getattr(difference, name) for name in ('difference', 'low', 'high', 'p', 'rows', 'compared')},
                **{name: getattr(difference, name) for name in _LEFT_OUT},
                'differing': list(difference.differing),
                'served': difference.served,
                'flips': [_flip_as_json(flip, left, right) for flip in difference.flips],
            }
            for difference in comparison.differences
        ],
    }


def _flip_as_json(flip: Flip, left: StoredRun, right: StoredRun) -> dict[str, Any]:
    changes = list(prompt_changes(flip, left, right))
    return {
        'row': flip.left.row,
        'gold': flip.left.gold,
        'left': _result_as_json(flip.left),
        'right': _result_as_json(flip.right),
        'same_prompt': not changes,
        'changes': [change.as_json() for change in changes],
    }


def _result_as_json(result: Result) -> dict[str, Any]:
    names = ('outcome', 'extracted', 'score', 'correct', 'fingerprint')
    return {name: getattr(result, name) for name in names}
