"""A judge, or any metric, measured by people's labels: how often it is right, and the score corrected for its errors.

A calibration belongs to the judge's model, prompt and reader. It carries over to another run only if all three are
the same there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rolecall._version import __version__
from rolecall.insight.kept_counts import ATTACKS, HitCount, read_counts
from rolecall.insight.strata import StratifiedRows, mark_of_result, stratify
from rolecall.runs.store.labels import Labels, RowKey, mark_of, settle
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import find_entries, pairs_of
from rolecall.scoring.corrected_scores import (
    Estimate,
    Stratum,
    correct_by_strata,
    correct_graded,
    measure_error_rates,
    rogan_gladen,
)
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import bootstrap, cohen_kappa, krippendorff_alpha, mean_interval, wilson

_RESAMPLES = 400
_JUDGE_PARTS = {'model': ('judge_cfg', 'judge_models'), 'prompt': ('prompt_template', 'dataset_cfg')}
_NAMES = {1.0: 'correct', 0.0: 'wrong'}
_PREFERENCES = {1.0: 'win', 0.5: 'tie', 0.0: 'loss'}
_Unit = TypeVar('_Unit', bound=Sequence[float])


@dataclass(frozen=True, slots=True)
class ClassQuality:
    """One class of verdicts: how many of them people share (precision), and how many of theirs are found (recall)."""

    name: str
    precision: Estimate | None
    recall: Estimate | None


@dataclass(frozen=True, slots=True)
class Calibration:
    """The verdicts of one dataset × model against people's labels. Scores are on the scale of the marks."""

    dataset: str
    model: str
    metric: str
    judge: Mapping[str, str]
    """Digests of what the verdicts depend on: model, prompt and reader."""
    raw: Estimate
    factor: float = 100.0
    """From marks to the scale of the report."""
    corrected: Estimate | None = None
    rogan_gladen: Estimate | None = None
    agreement: Estimate | None = None
    kappa: Estimate | None = None
    """Cohen's kappa of verdicts and labels; of graded ones Krippendorff's alpha."""
    classes: tuple[ClassQuality, ...] = ()
    people: int = 0
    alpha: float | None = None
    """Krippendorff's alpha of the people."""
    conflicts: int = 0
    """Rows on which as many people say one thing as another."""
    stale: int = 0
    """Labels of replies that the run no longer has."""
    attacks: tuple[HitCount, ...] = ()
    """How many rows the probes of each of its judges swayed it on (`rolecall run --probe`), if they were probed."""


class RowLabel(NamedTuple):
    """A labelled row: the run's mark, and what people say about its present reply."""

    verdict: float
    label: float
    votes: Mapping[str, float]
    is_settled: bool


def collect_labels(run: RunReader, labels: Labels) -> tuple[dict[RowKey, RowLabel], Counter[tuple[str, str]]]:
    """The labelled rows that have a mark of the run; and how many labels of each dataset × model are stale."""
    labelled: dict[RowKey, RowLabel] = {}
    stale: Counter[tuple[str, str]] = Counter()
    for key, decisions in sorted(labels.by_row().items()):  # in whatever order people labelled them
        result = run.result(*key)
        current = {by: decision.value for by, decision in decisions.items() if decision.is_about(result)}
        stale[key[:2]] += len(decisions) - len(current)
        verdict = None if result is None else mark_of_result(result)
        if current and verdict is not None:
            votes, most = {by: mark_of(value) for by, value in current.items()}, settle([*current.values()])
            label = mark_of(most) if most is not None else sum(votes.values()) / len(votes)
            labelled[key] = RowLabel(verdict, label, votes, most is not None)
    return labelled, stale


def calibrate(run: RunReader, rows: Mapping[tuple[str, str], StratifiedRows] | None = None) -> list[Calibration]:
    """Every dataset × model with labels, calibrated by them; `rows` are its rows, if they were read before."""
    labelled, stale = collect_labels(run, Labels(run.directory))
    pairs = (stratify(run) if rows is None else rows) if labelled else {}
    own = {pair: {key[2]: entry for key, entry in labelled.items() if key[:2] == pair} for pair in pairs}
    return [_calibrate_pair(run, pairs[pair], own[pair], stale[pair]) for pair in pairs if own[pair]]


def _calibrate_pair(run: RunReader, rows: StratifiedRows, labelled: Mapping[int, RowLabel], stale: int) -> Calibration:
    settled = [entry for entry in labelled.values() if entry.is_settled]
    votes = [[*entry.votes.values()] for entry in labelled.values()]
    common = replace(
        _describe_raw(run, rows),
        people=len({by for entry in labelled.values() for by in entry.votes}),
        alpha=krippendorff_alpha(votes),
        conflicts=len(labelled) - len(settled),
        stale=stale,
        attacks=_find_attacks(run, rows.dataset),
    )
    if rows.is_graded:
        return _measure_graded(common, rows, [(entry.verdict, entry.label) for entry in labelled.values()])
    strata = rows.strata({row: entry.label for row, entry in labelled.items()})
    corrected = correct_by_strata(strata, units=rows.units)
    measured = replace(common, corrected=corrected, rogan_gladen=_correct_by_rates(rows, strata))
    return _measure_classes(measured, rows, settled) if settled else measured


def _correct_by_rates(rows: StratifiedRows, strata: Sequence[Stratum]) -> Estimate | None:
    """The score corrected by the error rates of these strata; None unless rows are right or wrong."""
    marks = {key.mark for key in rows.rows} | {stratum.verdict for stratum in strata}
    rates = measure_error_rates(strata) if marks <= {0.0, 1.0} else None
    return rates and rogan_gladen(rows.mean * rows.units, rows.units, rates)


def _describe_raw(run: RunReader, rows: StratifiedRows) -> Calibration:
    """A dataset × model without labels."""
    card = _find_card(run, rows)
    metric, factor = (card.metric, 100.0 if card.is_percent else 1.0) if card else ('score', 100.0)
    return Calibration(
        rows.dataset, rows.model, metric, identify_judge(run, rows.dataset), raw_score(run, rows), factor
    )


def _find_card(run: RunReader, rows: StratifiedRows) -> Scorecard | None:
    return next((card for card in run.scorecards() if (card.dataset, card.model) == (rows.dataset, rows.model)), None)


def raw_score(run: RunReader, rows: StratifiedRows) -> Estimate:
    """The mean of the run's marks, with the run's own interval where that is its score."""
    card = _find_card(run, rows)
    if card and card.value is not None and card.low is not None and card.high is not None:
        factor = 100.0 if card.is_percent else 1.0
        if math.isclose(card.value, rows.mean * factor, rel_tol=1e-3, abs_tol=1e-3):
            return Estimate(rows.mean, card.low / factor, card.high / factor, rows.count)
    if not rows.is_graded:
        return Estimate(rows.mean, *wilson(rows.mean * rows.units, rows.units), rows.count)
    limits = mean_interval([(key.mark, 1) for key, members in rows.rows.items() for _ in members])
    return Estimate(rows.mean, *(limits or (rows.mean, rows.mean)), rows.count)


def _measure_graded(
    calibration: Calibration, rows: StratifiedRows, pairs: Sequence[tuple[float, float]]
) -> Calibration:
    marks = [*(number for pair in pairs for number in pair), *(key.mark for key in rows.rows)]
    scale = (0.0, 1.0) if calibration.factor > 1 else (min(marks), max(marks))
    alpha = _resample(pairs, krippendorff_alpha)
    return replace(calibration, corrected=correct_graded(rows.mean, rows.units, pairs, scale), kappa=alpha)


def _resample(units: Sequence[_Unit], measure: Callable[[Sequence[_Unit]], float | None]) -> Estimate | None:
    """A measure of labelled rows, with the interval of its bootstrap."""
    value = measure(units)
    low, high = bootstrap(units, lambda drawn: measure(drawn) or 0.0, resamples=_RESAMPLES)
    return None if value is None else Estimate(value, min(low, value), max(high, value), len(units))


def _measure_classes(calibration: Calibration, rows: StratifiedRows, settled: Sequence[RowLabel]) -> Calibration:
    """Agreement, kappa, precision and recall. Each label stands for as many rows as its stratum has for each.

    Of labels that are grades, and no verdicts, only alpha.
    """
    sizes = Counter(entry.verdict for entry in settled)
    counts = Counter({key.mark: 0 for key in rows.rows})
    for key, members in rows.rows.items():
        counts[key.mark] += len(members)
    units = [(entry.verdict, entry.label, counts[entry.verdict] / sizes[entry.verdict]) for entry in settled]
    names = _PREFERENCES if 0.5 in counts or calibration.metric == 'win_rate' else _NAMES
    marks = sorted({*counts, *(entry.label for entry in settled)}, reverse=True)
    if not {*marks} <= {*counts, *names}:
        return replace(calibration, kappa=_resample([entry[:2] for entry in settled], krippendorff_alpha))
    return replace(
        calibration,
        agreement=weighted_share([(verdict == label, weight) for verdict, label, weight in units]),
        kappa=_resample(units, lambda drawn: cohen_kappa([unit[:2] for unit in drawn], [unit[2] for unit in drawn])),
        classes=tuple(
            ClassQuality(
                names.get(mark, f'{mark:g}'),
                weighted_share([(label == mark, weight) for verdict, label, weight in units if verdict == mark]),
                weighted_share([(verdict == mark, weight) for verdict, label, weight in units if label == mark]),
            )
            for mark in marks
        ),
    )


def weighted_share(entries: Sequence[tuple[bool, float]]) -> Estimate | None:
    """The weighted share of hits, with Wilson's interval for as many rows as the weights are worth."""
    total = sum(weight for _, weight in entries)
    if not total:
        return None
    size = total**2 / sum(weight * weight for _, weight in entries)
    value = sum(weight for hit, weight in entries if hit) / total
    return Estimate(value, *wilson(value * size, size), len(entries))


def identify_judge(run: RunReader, dataset: str) -> dict[str, str]:
    """Digests of what the verdicts of a run depend on."""
    stored = [pair.get('judges') for (name, _), pair in pairs_of(run).items() if name == dataset]
    return digest_judge(run.config(), dataset, next(filter(None, reversed(stored)), []))


def digest_judge(config: Mapping[str, Any], dataset: str, identities: Sequence[str]) -> dict[str, str]:
    """Digests of what verdicts depend on: the judge's model and prompt, and how replies are read and marked.

    `config` is that of a run, as the run has stored it, `identities` are those of the judges' models.
    """
    scoring = (find_entries(config, dataset)[0] or {}).get('eval_cfg') or {}
    evaluator = scoring.get('evaluator') if isinstance(scoring, Mapping) else None
    evaluator = evaluator if isinstance(evaluator, Mapping) else {'type': evaluator}
    judged = 'judge_cfg' in evaluator or 'prompt_template' in evaluator
    values = {part: [evaluator.get(key, config.get(key)) for key in keys] for part, keys in _JUDGE_PARTS.items()}
    models = [model for model in config.get('models') or () if isinstance(model, Mapping)]
    values['model'] += [*(model for model in models if model.get('abbr') in values['model']), *identities]
    parts = values if judged else {}
    used = {key for keys in _JUDGE_PARTS.values() for key in keys}
    reading = {key: value for key, value in evaluator.items() if key not in used}
    others = {key: value for key, value in scoring.items() if key != 'evaluator'}
    return {part: _digest(value) for part, value in (parts | {'reader': [reading, others, __version__]}).items()}


def _find_attacks(run: RunReader, dataset: str) -> tuple[HitCount, ...]:
    """The attack rate of each of a run's judges, measured beside it: the probes of `runs/x` are in `runs/x-probe`."""
    counts = read_counts(run.directory.with_name(f'{run.directory.name}-probe'), 'probes')
    attacks = (ATTACKS, dataset, identify_judge(run, dataset))
    return tuple(count for count in counts if count.total and (count.name, count.dataset, count.judge) == attacks)


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


def carry_calibration(run: RunReader, source: str | Path) -> Iterator[tuple[Calibration, str]]:
    """The scores of a run corrected by the error rates that the labels of another run show, or why they are not.

    Error rates hold for one judge, one dataset and one model's answers: those of another model were outside the
    interval in a third of all draws (design/labels.md).
    """
    with RunReader(source) as other:
        labelled, _ = collect_labels(other, Labels(other.directory))
        labelled_rows = stratify(other)
        for pair, rows in stratify(run).items():
            raw, judge = _describe_raw(run, rows), identify_judge(other, rows.dataset)
            labels = {key[2]: entry.label for key, entry in labelled.items() if key[:2] == pair}
            changed = [part for part in raw.judge if raw.judge[part] != judge.get(part)]
            why = f'the calibration is stale: {", ".join(changed)} changed' if changed else ''
            if not labels:
                why = f'{source} has no labels of this dataset and model, and labels of others do not carry over'
            elif not why:
                rates = _correct_by_rates(rows, labelled_rows[pair].strata(labels))
                why = '' if rates else f'{source} needs labelled rows of both kinds, judged better than by chance'
                raw = replace(raw, rogan_gladen=rates)
            yield raw, why
