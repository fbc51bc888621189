"""How much of a score is the wording? Variants of a dataset on the same rows, and where the variance comes from.

Rows and variants are the two factors of an analysis of variance: how much variants differ beyond what single rows do is
the variance of an axis. Asked again, the base says what chance alone does.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path
from statistics import mean
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.insight.sweep_axes import Variant, find_variants
from rolecall.runs.listener import RunListener
from rolecall.runs.run import run_config
from rolecall.runs.run_options import RunOptions
from rolecall.runs.run_summary import RunSummary
from rolecall.runs.stopping import measured_score
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.confidence_sequence import ConfidenceSequence
from rolecall.scoring.statistics import Interval
from rolecall.strings import count_noun

_STAGES = 4
"""Rounds in which hopeless variants are dropped, each with twice as many rows."""
_DROP_BELOW = 0.05
_NEXT_TO_NOTHING = 1e-9
_REPLACED = ('models', 'datasets', 'benchmarks', 'groups', 'summarizer')
"""How keys end that a config of variants has of its own."""
Scores = Mapping[int, float]
"""The scores of rows, from 0 to 1 where they are right or wrong."""


@dataclass(frozen=True, slots=True)
class Swept:
    """A dataset × model under all variants."""

    dataset: str
    model: str
    percent: bool
    scores: Mapping[Variant, Scores]
    unparsed: Mapping[Variant, frozenset[int]]
    """Rows whose reply could not be read."""
    repeats: Sequence[Scores] = ()
    """The base asked again."""

    @property
    def base(self) -> Variant:
        return next(iter(self.scores))

    @property
    def axes(self) -> list[str]:
        return list(dict.fromkeys(variant.axis for variant in self.scores if variant.axis))

    def mean(self, variant: Variant, rows: Sequence[int] | None = None) -> float:
        """The score of a variant, on all rows that every variant has, or on some."""
        return mean(self.scores[variant][row] for row in (self.rows if rows is None else rows))

    @property
    def rows(self) -> list[int]:
        """The rows that every variant has a score for."""
        shared = set.intersection(*(set(scores) for scores in self.scores.values()))
        return sorted(shared)

    @property
    def row_error(self) -> float:
        """The standard error of the base's score from the choice of rows."""
        values = [self.scores[self.base][row] for row in self.rows]
        middle = mean(values)
        return math.sqrt(sum((value - middle) ** 2 for value in values) / max(len(values) - 1, 1) / len(values))

    def spread(self, axis: str | None = None) -> float:
        """The standard deviation over the variants of an axis, or all, beyond what single rows do by chance."""
        chosen = [self.scores[variant] for variant in self.scores if axis in (None, variant.axis) or not variant.axis]
        return math.sqrt(variance_between([[scores[row] for row in self.rows] for scores in chosen]))

    @property
    def noise(self) -> float | None:
        """The standard deviation of the score when the base is asked again; None if it was not."""
        if not self.repeats:
            return None
        runs = [self.scores[self.base], *self.repeats]
        shared = sorted(set.intersection(*(set(scores) for scores in runs)))
        means = [mean(scores[row] for row in shared) for scores in runs]
        middle = mean(means)
        return math.sqrt(sum((value - middle) ** 2 for value in means) / (len(means) - 1))

    @property
    def reading_share(self) -> float | None:
        """The share of changed verdicts on replies that one of the variants could not be read in."""
        changed = unread = 0
        for variant in self.scores:
            for row in self.rows:
                if self.scores[variant][row] != self.scores[self.base][row]:
                    changed += 1
                    unread += row in self.unparsed[variant] or row in self.unparsed[self.base]
        return unread / changed if changed else None

    def pick_best(self) -> tuple[Variant, float, float]:
        """The best variant by every other row, and the scores of it and of the base on the rows between them."""
        chosen_on, reported_on = self.rows[::2], self.rows[1::2] or self.rows
        best = max(self.scores, key=lambda variant: self.mean(variant, chosen_on))
        return best, self.mean(best, reported_on), self.mean(self.base, reported_on)

    def line(self) -> str:
        """One line that a paper can print: the score, and the standard deviations of what it hangs on."""
        factor = 100 if self.percent else 1
        parts = [f'{factor * self.mean(self.base):.1f} ± {factor * self.row_error:.1f} (rows)']
        if self.axes:
            count = count_noun(len(self.scores), 'variant')
            parts.append(f'± {factor * self.spread():.1f} ({", ".join(self.axes)}; {count})')
        if (noise := self.noise) is not None:
            parts.append(f'± {factor * noise:.1f} (noise, asked {len(self.repeats) + 1} times)')
        return f'{self.dataset} × {self.model}: {" ".join(parts)}'

    def describe(self) -> Iterator[str]:
        """The line, the axes by their share, the best variant, and what part of it all is reading."""
        if not self.rows:
            yield f'{self.dataset} × {self.model}: no row has a score under every variant'
            return
        factor = 100 if self.percent else 1
        yield self.line()
        spreads = {axis: self.spread(axis) ** 2 for axis in self.axes}
        total = sum(spreads.values())
        for axis, variance in sorted(spreads.items(), key=lambda item: -item[1]):
            scores = ', '.join(
                f'{variant.label} {factor * self.mean(variant):.1f}' for variant in self.scores if variant.axis == axis
            )
            share = f'{100 * variance / total:.0f} % of the variance' if total else 'no variance'
            yield f'  {axis}: {share}; {scores}'
        best, reported, base = self.pick_best()
        if best is not self.base and len(self.rows) > 1:
            yield (
                f'  best: {best.name}, {factor * reported:.1f} on the rows it was not chosen on '
                f'({self.base.name}: {factor * base:.1f})'
            )
        if (unread := self.reading_share) is not None:
            yield f'  {100 * unread:.0f} % of the verdicts that change are replies that could not be read'

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values; scores from 0 to 1."""
        names = {'dataset': self.dataset, 'model': self.model, 'rows': len(self.rows)}
        if not self.rows:
            return {**names, 'score': None}
        best, reported, base = self.pick_best()
        return {
            **names,
            'score': self.mean(self.base),
            'row_error': self.row_error,
            'spread': self.spread(),
            'noise': self.noise,
            'axes': {axis: self.spread(axis) for axis in self.axes},
            'variants': {variant.name: self.mean(variant) for variant in self.scores},
            'best': {'variant': best.name, 'held_out': reported, 'base_held_out': base},
            'reading_share': self.reading_share,
        }


def variance_between(groups: Sequence[Sequence[float]]) -> float:
    """The variance of variants on the same rows: what is left of theirs after that of single rows is taken off.

    >>> variance_between([[1, 0, 1, 0], [1, 0, 1, 0]])
    0.0
    """
    count, rows = len(groups), len(groups[0]) if groups else 0
    if count < 2 or rows < 2:
        return 0.0
    means = [mean(group) for group in groups]
    by_row = [mean(values) for values in zip(*groups, strict=True)]
    middle = mean(means)
    between = rows * sum((value - middle) ** 2 for value in means) / (count - 1)
    left = sum(
        (value - own - row + middle) ** 2
        for group, own in zip(groups, means, strict=True)
        for value, row in zip(group, by_row, strict=True)
    )
    return max(0.0, float(between - left / ((count - 1) * (rows - 1))) / rows)


def count_turns(swept: Sequence[Swept]) -> Iterator[str]:
    """How often the order of two models turns from one variant to another."""
    by_dataset: dict[str, list[Swept]] = {}
    for each in swept:
        by_dataset.setdefault(each.dataset, []).append(each)
    for dataset, models in by_dataset.items():
        for left, right in combinations([each for each in models if each.rows], 2):
            names = {variant.name: variant for variant in right.scores}
            signs = [
                left.mean(variant) > right.mean(names[variant.name]) for variant in left.scores if variant.name in names
            ]
            turned = sum(sign != signs[0] for sign in signs)
            yield f'{dataset}: {left.model} and {right.model} change places in {turned} of {len(signs)} variants'


@dataclass(frozen=True, slots=True)
class Sweep:
    """Variants of the datasets of an experiment, and where their answers are kept."""

    experiment: Experiment
    axes: tuple[str, ...]
    options: RunOptions
    repeats: int = 0
    variants: dict[str, list[Variant]] = field(init=False)
    requests: Counter[str] = field(init=False, default_factory=Counter)
    """Requests that the variants take, by axis."""
    spared: Counter[str] = field(init=False, default_factory=Counter)
    """Those of them that were not sent, because their answer was known."""
    dropped: dict[str, int] = field(init=False, default_factory=dict)
    """Variants that were dropped early, with the rows they were asked about."""

    summaries: list[RunSummary] = field(init=False, default_factory=list)
    """What each run of variants came to."""

    def __post_init__(self) -> None:
        variants = {task.abbr: find_variants(task.entry, self.axes) for task in self.experiment.tasks}
        for dataset, own in variants.items():
            if len(own) < 2 and not self.repeats:
                what = f'{dataset}: none of the axes changes anything about it.'
                raise ConfigError(Problem('--axis', what, 'Look at its prompt with rolecall view.'))
        object.__setattr__(self, 'variants', variants)

    @property
    def out(self) -> Path:
        return Path(self.options.out or 'sweeps')

    def run(self, listener: RunListener | None = None) -> list[Swept]:
        """Ask all variants about the same rows, and the base again as often as was wanted."""
        self._ask(self.variants, self.out, self.options, listener)
        for number in range(1, self.repeats + 1):
            if self._is_over:
                break
            base = {dataset: own[:1] for dataset, own in self.variants.items()}
            self._ask(base, self.out / f'again-{number}', self.options, listener)
        return self.read()

    def find_best(self, listener: RunListener | None = None) -> list[Swept]:
        """Ask in stages, each with twice as many rows, and drop variants that are surely behind the best one."""
        experiment = self.experiment
        pairs = [experiment.pair(task, model) for task in experiment.tasks for model in experiment.models]
        rows = max(len(pair.data.test) for pair in pairs)
        wanted = min(rows, self.options.sample or self.options.limit or rows)
        left = dict(self.variants)
        for stage in reversed(range(_STAGES)):
            staged = replace(self.options, limit=None, sample=max(2, math.ceil(wanted / 2**stage)))
            self._ask(left, self.out, staged, listener)
            swept = self.read(left)
            for dataset, own in left.items():
                left[dataset] = _drop_hopeless(own, [each for each in swept if each.dataset == dataset])
                self.dropped.update(
                    {_name(dataset, variant): staged.sample or 0 for variant in own if variant not in left[dataset]}
                )
            if self._is_over:
                break
        return swept

    def describe_cost(self) -> Iterator[str]:
        """What was asked, what was known already, and which variants were given up."""
        spared = ', '.join(
            f'{axis or "as written"} {count:,} of {self.requests[axis]:,}'
            for axis, count in self.spared.items()
            if count
        )
        total = count_noun(self.requests.total(), 'request')
        yield f'{total}, {self.spared.total():,} not sent again{f" ({spared})" if spared else ""}'
        for cap in dict.fromkeys(summary.ended for summary in self.summaries if summary.ended):
            yield f'Not finished, {cap}. Go on with a higher cap.'
        for name, rows in self.dropped.items():
            yield f'{name}: given up after {count_noun(rows, "row")}'

    def plan(self, listener: RunListener) -> None:
        """Say what would be asked."""
        self._ask(self.variants, self.out, replace(self.options, dry_run=True), listener)

    def _ask(
        self, variants: Mapping[str, Sequence[Variant]], out: Path, options: RunOptions, listener: RunListener | None
    ) -> None:
        config = self.experiment.config
        datasets = [
            {**variant.entry, 'abbr': _name(dataset, variant)} for dataset, own in variants.items() for variant in own
        ]
        models = [model.entry for model in self.experiment.models]
        rest = {key: value for key, value in config.items() if not key.endswith(_REPLACED)}
        changed = {**rest, 'models': models, 'datasets': datasets}
        summary = run_config(changed, replace(self._spend(options), out=out), progress=listener)
        self.summaries.append(summary)
        if summary.interrupted:
            raise KeyboardInterrupt
        axes = {_name(dataset, variant): variant.axis for dataset, own in variants.items() for variant in own}
        for pair in summary.plan.pairs:
            self.requests[axes[pair.dataset]] += pair.requests + pair.repeated
            self.spared[axes[pair.dataset]] += pair.cached + pair.repeated

    def _spend(self, options: RunOptions) -> RunOptions:
        """The options with what the runs before this one left of the caps."""
        cost = sum(summary.cost for summary in self.summaries)
        tokens = sum(summary.tokens for summary in self.summaries)
        minutes = sum(summary.seconds for summary in self.summaries) / 60
        return replace(
            options,
            max_cost=options.max_cost and max(options.max_cost - cost, _NEXT_TO_NOTHING),
            max_total_tokens=options.max_total_tokens and max(options.max_total_tokens - tokens, 1),
            max_minutes=options.max_minutes and max(options.max_minutes - minutes, _NEXT_TO_NOTHING),
        )

    @property
    def _is_over(self) -> bool:
        return any(summary.ended for summary in self.summaries)

    def read(self, variants: Mapping[str, Sequence[Variant]] | None = None) -> list[Swept]:
        """What the answers on disk say."""
        chosen = self.variants if variants is None else variants
        again = [self.out / f'again-{number}' for number in range(1, self.repeats + 1)]
        again = [directory for directory in again if directory.exists()]
        with RunReader(self.out) as reader:
            cards = {(card.dataset, card.model): card for card in reader.scorecards()}
            models = [model.abbr for model in self.experiment.models]
            return [
                self._read_one(reader, dataset, model, own, cards, again)
                for dataset, own in chosen.items()
                for model in models
            ]

    def _read_one(
        self,
        reader: RunReader,
        dataset: str,
        model: str,
        variants: Sequence[Variant],
        cards: Any,
        again: Sequence[Path],
    ) -> Swept:
        scores, unparsed = {}, {}
        for variant in variants:
            results = list(reader.results(_name(dataset, variant), model))
            scores[variant] = _read_scores(results)
            unparsed[variant] = frozenset(result.row for result in results if result.outcome == 'unparsed')
        repeats = []
        for directory in again:
            with RunReader(directory) as other:
                repeats.append(_read_scores(other.results(_name(dataset, variants[0]), model)))
        card = cards.get((_name(dataset, variants[0]), model))
        return Swept(dataset, model, card is not None and card.is_percent, scores, unparsed, repeats)


def _read_scores(results: Iterable[Result]) -> Scores:
    scores = ((result.row, measured_score(result)) for result in results)
    return {row: score for row, score in scores if score is not None}


def _name(dataset: str, variant: Variant) -> str:
    return dataset if not variant.axis else f'{dataset} [{variant.name}]'


def _drop_hopeless(variants: Sequence[Variant], swept: Sequence[Swept]) -> list[Variant]:
    """The variants that may still be the best for some model. The dataset as it is written always stays."""
    kept = []
    for variant in variants:
        measured = [each for each in swept if each.rows]
        behind = bool(measured) and all(_is_behind(each, variant, len(variants)) for each in measured)
        if not variant.axis or not behind:
            kept.append(variant)
    return kept


def _is_behind(swept: Swept, variant: Variant, count: int) -> bool:
    best = max(swept.scores, key=swept.mean)
    differences = [swept.scores[variant][row] - swept.scores[best][row] for row in swept.rows]
    interval: Interval = ConfidenceSequence(-1, 1, differences).interval(confidence=1 - _DROP_BELOW / count)
    return interval.high < 0
