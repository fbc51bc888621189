"""How much of a score is the wording? Variants of a dataset on the same rows, and where the variance comes from.

Rows and variants are the two factors of an analysis of variance: how much variants differ beyond what single rows do is
the variance of an axis. Asked again, the base says what chance alone does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from rolecall.errors import ConfigError, Problem
from rolecall.experiment.experiment import Experiment
from rolecall.insight.sweep_axes import BASE, Entries, Variant, find_variants
from rolecall.runs.atomic import read_run_json, write_run_json
from rolecall.runs.listener import RunListener
from rolecall.runs.plan import RunSummary
from rolecall.runs.run import run_config
from rolecall.runs.run_options import RunOptions
from rolecall.runs.stopping import measured_score
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import read_pairs
from rolecall.scoring.confidence_sequence import ConfidenceSequence
from rolecall.scoring.statistics import mean_interval
from rolecall.strings import count_noun

SWEEP_FILE = 'sweep.json'
_STAGES = 4
"""Rounds in which hopeless variants are dropped, each with twice as many rows."""
_FOLDS = 5
INTERACTIONS = 'interactions'
_DROP_BELOW = 0.05
_NEXT_TO_NOTHING = 1e-9
_REPLACED = ('models', 'datasets', 'benchmarks', 'groups', 'summarizer')
"""How keys end that a config of variants has of its own."""
Scores = Mapping[int, float]
"""The scores of rows, from 0 to 1 where they are right or wrong."""


@dataclass(frozen=True, slots=True)
class HeldOutScore:
    """A variant that was chosen on every other row, on the rows between them."""

    variant: str
    held_out: float
    base_held_out: float
    """The score of what is written on the same rows."""
    held_out_interval: tuple[float, float] | None

    def describe(self, factor: float) -> str:
        bounds = self.held_out_interval and ', '.join(f'{factor * bound:.1f}' for bound in self.held_out_interval)
        number = f'{factor * self.held_out:.1f}{f" [{bounds}]" if bounds else ""}'
        return f'{self.variant}, {number} on the rows it was not chosen on ({BASE}: {factor * self.base_held_out:.1f})'


@dataclass(frozen=True)
class Swept:
    """A dataset × model under all variants."""

    dataset: str
    model: str
    percent: bool
    scores: Mapping[Variant, Scores]
    unparsed: Mapping[Variant, frozenset[int]]
    """Rows whose reply could not be read."""
    noise_scores: Mapping[str, Scores] = field(default_factory=dict)
    """What should not matter: the base asked again, or with another batch size, or at another server."""

    @property
    def base(self) -> Variant:
        return next(iter(self.scores))

    @property
    def axes(self) -> list[str]:
        longest_first = sorted(self.scores, key=lambda variant: -len(variant.levels))
        return list(dict.fromkeys(level.axis for variant in longest_first for level in variant.levels))

    @property
    def is_full(self) -> bool:
        """Whether every level was asked with every other."""
        return any(len(variant.levels) > 1 for variant in self.scores)

    def mean(self, variant: Variant, rows: Sequence[int] | None = None) -> float:
        """The score of a variant, on all rows that every variant has, or on some."""
        return fmean(self.scores[variant][row] for row in (self.rows if rows is None else rows))

    @property
    def factor(self) -> int:
        """From rows' scores to the scale of the report."""
        return 100 if self.percent else 1

    @cached_property
    def rows(self) -> list[int]:
        """The rows that every variant has a score for."""
        return sorted(set.intersection(*(set(scores) for scores in self.scores.values())))

    @property
    def row_error(self) -> float:
        """The standard error of the base's score from the choice of rows."""
        values = [self.scores[self.base][row] for row in self.rows]
        return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else 0.0

    def variance(self, axis: str | None = None) -> float:
        """The variance over the levels of an axis, or over all variants, beyond what single rows do by chance.

        Where every level was asked with every other, a level is the mean of its variants.
        """
        groups: dict[Any, list[Scores]] = {}
        for variant, scores in self.scores.items():
            if axis is None:
                groups[variant] = [scores]
            elif self.is_full or all(level.axis == axis for level in variant.levels):
                groups.setdefault(variant.label(axis), []).append(scores)
        rows = self.rows
        return variance_between([[fmean(scores[row] for scores in own) for row in rows] for own in groups.values()])

    @property
    def shares(self) -> dict[str, float]:
        """Each axis' part of the variance; with every level asked with every other, that of their interactions, too."""
        sizes = {axis: len({variant.label(axis) for variant in self.scores}) for axis in self.axes}
        parts = {axis: self.variance(axis) * (size - 1) / size for axis, size in sizes.items()}
        if self.is_full:
            count = len(self.scores)
            parts[INTERACTIONS] = max(0.0, self.variance() * (count - 1) / count - sum(parts.values()))
        total = sum(parts.values())
        return {axis: part / total if total else 0.0 for axis, part in parts.items()}

    @property
    def noise(self) -> float | None:
        """The standard deviation of the score over what should not matter; None if it was not measured."""
        if not self.noise_scores:
            return None
        runs = [self.scores[self.base], *self.noise_scores.values()]
        shared = set.intersection(*(set(scores) for scores in runs))
        return stdev(fmean(scores[row] for row in shared) for scores in runs) if shared else None

    @property
    def reading_share(self) -> float | None:
        """The share of changed verdicts on replies that one of the variants could not be read in."""
        base = self.scores[self.base]
        unread = [
            row in self.unparsed[variant] | self.unparsed[self.base]
            for variant, scores in self.scores.items()
            for row in self.rows
            if scores[row] != base[row]
        ]
        return fmean(unread) if unread else None

    def pick_best(self) -> Variant:
        """The best variant by every other row."""
        return max(self.scores, key=lambda variant: self.mean(variant, self.rows[::2]))

    def hold_out(self, variant: Variant) -> HeldOutScore:
        """Its score and that of the base on the rows that variants are not chosen by."""
        rows = self.rows[1::2] or self.rows
        scale = (0.0, 1.0) if self.percent else None
        interval = mean_interval([(self.scores[variant][row], 1) for row in rows], scale=scale)
        means = self.mean(variant, rows), self.mean(self.base, rows)
        return HeldOutScore(variant.name, *means, interval and (interval.low, interval.high))

    def losses(self, variant: Variant) -> list[float]:
        """By how much a variant is behind the best one, on each fifth of the rows that it is chosen by."""
        parts = [rows for start in range(_FOLDS) if (rows := self.rows[::2][start::_FOLDS])]
        return [max(self.mean(other, rows) for other in self.scores) - self.mean(variant, rows) for rows in parts]

    def line(self) -> str:
        """One line that a paper can print: the score, and the standard deviations of what it hangs on."""
        factor = self.factor
        parts = [f'{factor * self.mean(self.base):.1f} ± {factor * self.row_error:.1f} (rows)']
        if self.axes:
            count = count_noun(len(self.scores), 'variant')
            parts.append(f'± {factor * math.sqrt(self.variance()):.1f} ({", ".join(self.axes)}; {count})')
        if (noise := self.noise) is not None:
            others = ''.join(f'{name}, ' for name in self.noise_scores if not name.startswith(BASE))
            parts.append(f'± {factor * noise:.1f} (noise, {others}asked {len(self.noise_scores) + 1} times)')
        return f'{self.dataset} × {self.model}: {" ".join(parts)}'

    def describe(self) -> Iterator[str]:
        """The line, the axes by their share, the best variant, and what part of it all is reading."""
        if not self.rows:
            yield f'{self.dataset} × {self.model}: no row has a score under every variant'
            return
        factor = self.factor
        yield self.line()
        shares = self.shares
        for axis, share in sorted(shares.items(), key=lambda item: -item[1]):
            scores = ', '.join(
                f'{variant.label(axis)} {factor * self.mean(variant):.1f}'
                for variant in self.scores
                if variant.axis == axis
            )
            part = f'{100 * share:.0f} % of the variance' if any(shares.values()) else 'no variance'
            yield '; '.join(filter(None, (f'  {axis}: {part}', scores)))
        best = self.pick_best()
        if best is not self.base and len(self.rows) > 1:
            yield f'  best: {self.hold_out(best).describe(factor)}'
        if (unread := self.reading_share) is not None:
            yield f'  {100 * unread:.0f} % of the verdicts that change are replies that could not be read'

    def as_json(self) -> dict[str, Any]:
        """Everything in plain values; scores from 0 to 1."""
        names = {'dataset': self.dataset, 'model': self.model, 'rows': len(self.rows)}
        if not self.rows:
            return {**names, 'score': None, 'line': ''}
        return {
            **names,
            'score': self.mean(self.base),
            'percent': self.percent,
            'line': self.line(),
            'row_error': self.row_error,
            'spread': math.sqrt(self.variance()),
            'noise': self.noise,
            'axes': {axis: math.sqrt(self.variance(axis)) for axis in self.axes},
            'shares': self.shares,
            'variants': {variant.name: self.mean(variant) for variant in self.scores},
            'best': asdict(self.hold_out(self.pick_best())),
            'robust': asdict(self.hold_out(pick_robust([self]))),
            'reading_share': self.reading_share,
        }


def pick_robust(swept: Sequence[Swept]) -> Variant:
    """The variant whose largest loss against the best one is smallest, over models and parts of the rows."""
    losses: dict[str, float] = {}
    for each in swept:
        for variant in each.scores:
            losses[variant.name] = max(losses.get(variant.name, 0.0), *each.losses(variant))
    return min(swept[0].scores, key=lambda variant: losses[variant.name])


def variance_between(groups: Sequence[Sequence[float]]) -> float:
    """The variance of variants on the same rows: what is left of theirs after that of single rows is taken off.

    >>> variance_between([[1, 0, 1, 0], [1, 0, 1, 0]])
    0.0
    """
    count, rows = len(groups), len(groups[0]) if groups else 0
    if count < 2 or rows < 2:
        return 0.0
    means = [fmean(group) for group in groups]
    by_row = [fmean(values) for values in zip(*groups, strict=True)]
    middle = fmean(means)
    between = rows * sum((value - middle) ** 2 for value in means) / (count - 1)
    left = sum(
        (value - own - row + middle) ** 2
        for group, own in zip(groups, means, strict=True)
        for value, row in zip(group, by_row, strict=True)
    )
    return max(0.0, float(between - left / ((count - 1) * (rows - 1))) / rows)


def count_turns(swept: Sequence[Swept]) -> Iterator[str]:
    """How often the order of two models turns from one variant to another."""
    for left, right in combinations([each for each in swept if each.rows], 2):
        if left.dataset == right.dataset:
            others = {variant.name: right.mean(variant) for variant in right.scores}
            shared = [variant for variant in left.scores if variant.name in others]
            signs = [left.mean(variant) > others[variant.name] for variant in shared]
            turned = sum(sign != signs[0] for sign in signs)
            yield f'{left.dataset}: {left.model} and {right.model} change places in {turned} of {len(signs)} variants'


@dataclass(slots=True)
class AxisCost:
    """What the variants of an axis took."""

    requests: int = 0
    spared: int = 0
    """Requests that were not sent, because their answer was known."""
    tokens: int = 0
    cached: int = 0
    """Input tokens that an engine or a server had computed for an earlier request."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Variants of the datasets of an experiment, and where their answers are kept."""

    experiment: Experiment
    axes: tuple[str, ...]
    options: RunOptions
    repeats: int = 0
    noise: tuple[str, ...] = ()
    """Axes that should not matter: their variants are noise."""
    full: bool = False
    """Whether every level is asked with every other."""
    variants: dict[str, list[Variant]] = field(init=False, default_factory=dict)
    costs: dict[str, AxisCost] = field(init=False, default_factory=dict)
    """What each axis took."""
    dropped: dict[str, int] = field(init=False, default_factory=dict)
    """Variants that were dropped early, with the rows they were asked about."""
    summaries: list[RunSummary] = field(init=False, default_factory=list)
    """What each run of variants came to."""

    def __post_init__(self) -> None:
        models = tuple(model.entry for model in self.experiment.models)
        for task in self.experiment.tasks:
            own = find_variants(
                Entries(task.entry, models), self.axes, noise=self.noise, repeats=self.repeats, full=self.full
            )
            if len(own) < 2:
                what = f'{task.abbr}: none of the axes changes anything about it.'
                raise ConfigError(Problem('--axis', what, 'Look at its prompt with rolecall view.'))
            self.variants[task.abbr] = own

    @property
    def out(self) -> Path:
        return Path(self.options.out or 'sweeps')

    def describe_idle_axes(self) -> Iterator[str]:
        """The axes that change nothing about a dataset."""
        named = dict.fromkeys(text.partition('=')[0].rpartition('.')[2] for text in (*self.axes, *self.noise))
        for dataset, own in self.variants.items():
            varied = {level.axis for variant in own for level in variant.levels}
            for axis in (axis for axis in named if axis not in varied):
                yield f'{dataset}: {axis} changes nothing about it, and is not varied.'

    def run(self, listener: RunListener | None = None) -> list[Swept]:
        """Ask all variants about the same rows; what is noise is asked again."""
        self._ask(self.variants, self.options, listener)
        return self._finish(self.variants)

    def find_best(self, listener: RunListener | None = None) -> list[Swept]:
        """Ask in stages, each with twice as many rows, and drop variants that are surely behind the best one."""
        experiment = self.experiment
        pairs = [experiment.pair(task, model) for task in experiment.tasks for model in experiment.models]
        rows = max(len(pair.data.test) for pair in pairs)
        wanted = min(rows, self.options.sample or self.options.limit or rows)
        left = {dataset: [variant for variant in own if not variant.folder] for dataset, own in self.variants.items()}
        for stage in reversed(range(_STAGES)):
            staged = replace(self.options, limit=None, sample=max(2, math.ceil(wanted / 2**stage)))
            self._ask(self._find_behind(left, staged) if stage else left, staged, listener)
            if not stage or self._is_over:
                break
            swept = self._read(left)
            for dataset, own in left.items():
                left[dataset] = _drop_hopeless(own, [each for each in swept if each.dataset == dataset])
                gone = [variant for variant in own if variant not in left[dataset]]
                self.dropped.update({f'{dataset} [{variant.name}]': staged.sample or 0 for variant in gone})
        return self._finish(left)

    def _find_behind(self, variants: Mapping[str, list[Variant]], staged: RunOptions) -> dict[str, list[Variant]]:
        """The variants that were not asked about more rows of the same draw before: a stopped sweep goes on."""
        rows = {names: pair.get('sample', 0) for names, pair in read_pairs(self.out).items()}

        def is_behind(dataset: str, variant: Variant) -> bool:
            models = (variant.abbr(model.abbr, of_model=True) for model in self.experiment.models)
            return any(rows.get((variant.abbr(dataset), model), 0) <= (staged.sample or 0) for model in models)

        return {dataset: [each for each in own if is_behind(dataset, each)] for dataset, own in variants.items()}

    def describe_cost(self) -> Iterator[str]:
        """What was asked, what was known or computed already, and which variants were given up."""
        costs = {axis or BASE: cost for axis, cost in self.costs.items()}
        requests, spared = (sum(getattr(cost, name) for cost in costs.values()) for name in ('requests', 'spared'))
        saved = ', '.join(f'{axis} {cost.spared:,} of {cost.requests:,}' for axis, cost in costs.items() if cost.spared)
        planned = ' planned' if self._is_over else ''
        yield f'{count_noun(requests, "request")}{planned}, {spared:,} not sent again{f" ({saved})" if saved else ""}'
        shares = [f'{axis} {100 * cost.cached / cost.tokens:.0f} %' for axis, cost in costs.items() if cost.cached]
        if shares:
            yield f'input tokens that were computed before: {", ".join(shares)}'
        for cap in dict.fromkeys(summary.ended for summary in self.summaries if summary.ended):
            yield f'Not finished, {cap}. Go on with a higher cap, or ask fewer rows: --sample N.'
        for name, rows in self.dropped.items():
            yield f'{name}: given up after {count_noun(rows, "row")}'

    def plan(self, listener: RunListener) -> None:
        """Say what would be asked."""
        self._ask(self.variants, replace(self.options, dry_run=True), listener)

    def _ask(
        self, variants: Mapping[str, Sequence[Variant]], options: RunOptions, listener: RunListener | None
    ) -> None:
        """A run for each way that models are set up, with all the datasets that they are asked about so."""
        groups: dict[tuple[str, ...], dict[str, Variant]] = {}
        for own in variants.values():
            for variant in own:
                models = (variant.abbr('', of_model=True), variant.folder)
                groups.setdefault(models, {})[variant.renamed.dataset['abbr']] = variant
        rest = {key: value for key, value in self.experiment.config.items() if not key.endswith(_REPLACED)}
        for (_, folder), by_dataset in groups.items():
            if self._is_over:
                return
            entries = [variant.renamed for variant in by_dataset.values()]
            config = {**rest, 'models': list(entries[0].models), 'datasets': [own.dataset for own in entries]}
            summary = run_config(config, replace(self._spend(options), out=self.out / folder), progress=listener)
            self.summaries.append(summary)
            if summary.interrupted:
                raise KeyboardInterrupt
            for pair in summary.plan.pairs:
                variant = by_dataset[pair.dataset]
                cost = self.costs.setdefault('noise' if variant.folder else variant.axis, AxisCost())
                cost.requests += pair.requests + pair.repeated
                cost.spared += pair.cached + pair.repeated

    def _spend(self, options: RunOptions) -> RunOptions:
        """The options with what the runs before this one left of the caps."""
        cost, tokens, seconds = (
            sum(getattr(summary, name) for summary in self.summaries) for name in ('cost', 'tokens', 'seconds')
        )
        return replace(
            options,
            max_cost=options.max_cost and max(options.max_cost - cost, _NEXT_TO_NOTHING),
            max_total_tokens=options.max_total_tokens and max(options.max_total_tokens - tokens, 1),
            max_minutes=options.max_minutes and max(options.max_minutes - seconds / 60, _NEXT_TO_NOTHING),
        )

    @property
    def _is_over(self) -> bool:
        return any(summary.ended for summary in self.summaries)

    def _finish(self, variants: Mapping[str, Sequence[Variant]]) -> list[Swept]:
        """What came of it, kept in a file beside the answers."""
        swept = self._read(variants)
        write_run_json(self.out / SWEEP_FILE, [each.as_json() for each in swept])
        return swept

    def _read(self, variants: Mapping[str, Sequence[Variant]]) -> list[Swept]:
        """What the answers on disk say."""
        for cost in self.costs.values():
            cost.tokens = cost.cached = 0
        with ExitStack() as stack:
            folders = {variant.folder for own in variants.values() for variant in own}
            readers = {
                folder: stack.enter_context(RunReader(self.out / folder))
                for folder in folders
                if (self.out / folder / FILE).exists()
            }
            return [
                self._read_pair(readers, dataset, model.abbr, own)
                for dataset, own in variants.items()
                for model in self.experiment.models
            ]

    def _read_pair(
        self, readers: Mapping[str, RunReader], dataset: str, model: str, variants: Sequence[Variant]
    ) -> Swept:
        scores, noise, unparsed = {}, {}, {}
        for variant in variants:
            if variant.folder not in readers:
                continue
            names = variant.abbr(dataset), variant.abbr(model, of_model=True)
            results = list(readers[variant.folder].results(*names))
            measured = {row.row: score for row in results if (score := measured_score(row)) is not None}
            if variant.folder:
                noise[f'{variant.name} ({variant.folder})' if variant.name == BASE else variant.name] = measured
                continue
            scores[variant] = measured
            unparsed[variant] = frozenset(row.row for row in results if row.outcome == 'unparsed')
            if (cost := self.costs.get(variant.axis)) is not None:
                cost.tokens += sum(row.input_tokens or 0 for row in results)
                cost.cached += sum(row.cached_tokens or 0 for row in results)
        cards = {(card.dataset, card.model): card for card in readers[''].scorecards()}
        card = cards.get((dataset, model))
        return Swept(dataset, model, card is not None and card.is_percent, scores, unparsed, noise)


def read_sweep(directory: str | Path) -> list[dict[str, Any]]:
    """What a finished sweep has kept of each dataset × model, as `Swept.as_json` gives it; empty if there is none."""
    swept = read_run_json(Path(directory, SWEEP_FILE))
    return [record for record in swept if isinstance(record, dict)] if isinstance(swept, list) else []


def _drop_hopeless(variants: Sequence[Variant], swept: Sequence[Swept]) -> list[Variant]:
    """The variants that may still be the best for some model. The dataset as it is written always stays."""
    measured = [each for each in swept if each.rows]
    return [
        variant
        for variant in variants
        if not variant.levels or not measured or not all(_is_behind(each, variant) for each in measured)
    ]


def _is_behind(swept: Swept, variant: Variant) -> bool:
    best = max(swept.scores, key=swept.mean)
    differences = [swept.scores[variant][row] - swept.scores[best][row] for row in swept.rows]
    confidence = 1 - _DROP_BELOW / len(swept.scores)
    return ConfidenceSequence(-1, 1, differences).interval(confidence=confidence).high < 0
