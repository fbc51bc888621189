"""A judge, or any metric, measured by people's labels: how often it is right, and the score corrected for its errors.

A calibration belongs to the judge's model, prompt and reader. It carries over to another run only if all three are
the same there.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from rolecall._version import __version__
from rolecall.insight.strata import StratifiedRows, mark_of_result, stratify
from rolecall.runs.store.labels import Decision, Labels, mark_of, settle
from rolecall.runs.store.run_reader import RunReader
from rolecall.scoring.corrected_scores import (
    Corrected,
    Stratum,
    correct_by_strata,
    correct_graded,
    measure_error_rates,
    rogan_gladen,
)
from rolecall.scoring.rater_agreement import cohen_kappa, krippendorff_alpha
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import bootstrap, wilson

_RESAMPLES = 400
_JUDGE_PARTS = {'model': ('judge_cfg', 'judge_models'), 'prompt': ('prompt_template', 'dataset_cfg')}
_NAMES = {1.0: 'correct', 0.0: 'wrong'}
_PREFERENCES = {1.0: 'win', 0.5: 'tie', 0.0: 'loss'}


class Estimate(NamedTuple):
    """A share with its 95 % interval, and the labels it rests on."""

    value: float
    low: float
    high: float
    labels: float


class ClassQuality(NamedTuple):
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
    corrected: Corrected
    rogan_gladen: Corrected | None = None
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
    factor: float = 1.0
    """From marks to the scale of the report."""

    def as_dict(self) -> dict[str, Any]:
        """The calibration in plain values, ready for JSON."""
        values = asdict(self)
        named = {name: value for name, value in values.items() if name not in ('classes',)}
        for name in ('raw', 'corrected', 'rogan_gladen', 'agreement', 'kappa'):
            number = getattr(self, name)
            named[name] = None if number is None else number._asdict()
        classes = [
            {'name': kind.name, 'precision': _as_dict(kind.precision), 'recall': _as_dict(kind.recall)}
            for kind in self.classes
        ]
        return named | {'classes': classes}


def _as_dict(share: Estimate | None) -> dict[str, float] | None:
    return None if share is None else share._asdict()


class RowLabel(NamedTuple):
    """A labelled row: the run's mark, and what people say."""

    verdict: float
    label: float
    votes: tuple[float, ...]
    is_settled: bool


class LabelledPair(NamedTuple):
    """The labelled rows of a dataset × model, by number, with what cannot be used."""

    rows: dict[int, RowLabel]
    people: int = 0
    stale: int = 0

    @property
    def labels(self) -> dict[int, float]:
        """The label of each row, as a mark."""
        return {row: entry.label for row, entry in self.rows.items()}


def collect_labels(run: RunReader, labels: Labels) -> dict[tuple[str, str], LabelledPair]:
    """The labelled rows of every dataset × model that have a mark of the run."""
    by_pair: dict[tuple[str, str], dict[int, Mapping[str, Decision]]] = defaultdict(dict)
    for (dataset, model, row), decisions in labels.by_row().items():
        by_pair[dataset, model][row] = decisions
    return {pair: _collect_pair(run, pair, rows) for pair, rows in by_pair.items()}


def _collect_pair(run: RunReader, pair: tuple[str, str], rows: Mapping[int, Mapping[str, Decision]]) -> LabelledPair:
    labelled: dict[int, RowLabel] = {}
    people: set[str] = set()
    stale = 0
    for row, decisions in rows.items():
        result = run.result(*pair, row)
        current = {by: decision for by, decision in decisions.items() if decision.is_about(result)}
        stale += len(decisions) - len(current)
        verdict = None if result is None else mark_of_result(result)
        if current and verdict is not None:
            people.update(current)
            votes = tuple(mark_of(decision.value) for decision in current.values())
            most = settle([decision.value for decision in current.values()])
            label = mark_of(most) if most is not None else sum(votes) / len(votes)
            labelled[row] = RowLabel(verdict, label, votes, most is not None)
    return LabelledPair(labelled, len(people), stale)


def calibrate(run: RunReader, labels: Labels | None = None) -> list[Calibration]:
    """Every dataset × model with labels, calibrated by them."""
    collected = collect_labels(run, labels or Labels(run.directory))
    pairs = stratify(run) if collected else {}
    return [
        _calibrate_pair(run, pairs[pair], labelled)
        for pair, labelled in collected.items()
        if labelled.rows and pair in pairs
    ]


def _calibrate_pair(run: RunReader, rows: StratifiedRows, labelled: LabelledPair) -> Calibration:
    card = _find_card(run, rows)
    settled = [entry for entry in labelled.rows.values() if entry.is_settled]
    common = Calibration(
        rows.dataset,
        rows.model,
        card.metric if card else 'score',
        identify_judge(run, rows.dataset),
        raw=raw_score(run, rows),
        corrected=Corrected(rows.mean, rows.mean, rows.mean, 0),
        people=labelled.people,
        alpha=krippendorff_alpha((entry.votes for entry in labelled.rows.values()), ordered=rows.is_graded),
        conflicts=len(labelled.rows) - len(settled),
        stale=labelled.stale,
        factor=100.0 if card is None or card.is_percent else 1.0,
    )
    if rows.is_graded:
        return _measure_graded(common, rows, labelled, percent=card is None or card.is_percent)
    strata = rows.strata(labelled.labels)
    is_binary = {entry.label for entry in settled} | {key.mark for key in rows.rows} <= {0.0, 1.0}
    rates = measure_error_rates(strata) if is_binary else None
    right = sum(stratum.rows for stratum in strata if stratum.verdict == 1.0) * rows.units / rows.count
    measured = replace(
        common,
        corrected=correct_by_strata(strata, units=rows.units),
        rogan_gladen=None if rates is None else rogan_gladen(right, rows.units, rates),
    )
    return _measure_classes(measured, rows, settled) if settled else measured


def _find_card(run: RunReader, rows: StratifiedRows) -> Scorecard | None:
    cards = run.scorecards()
    return next((card for card in cards if (card.dataset, card.model) == (rows.dataset, rows.model)), None)


def raw_score(run: RunReader, rows: StratifiedRows) -> Estimate:
    """The mean of the run's marks, with the run's own interval where that is its score."""
    card = _find_card(run, rows)
    factor = 100.0 if card is None or card.is_percent else 1.0
    own = card and card.value is not None and math.isclose(card.value, rows.mean * factor, rel_tol=1e-3, abs_tol=1e-3)
    if card and own and card.low is not None and card.high is not None:
        return Estimate(rows.mean, card.low / factor, card.high / factor, rows.count)
    return Estimate(rows.mean, *wilson(rows.mean * rows.units, rows.units), rows.count)


def _measure_graded(
    calibration: Calibration, rows: StratifiedRows, labelled: LabelledPair, *, percent: bool
) -> Calibration:
    pairs = [(entry.verdict, entry.label) for entry in labelled.rows.values()]
    marks = [number for pair in pairs for number in pair] + [key.mark for key in rows.rows]
    scale = (0.0, 1.0) if percent else (min(marks), max(marks))
    alpha = krippendorff_alpha(pairs, ordered=True)
    low, high = bootstrap(pairs, lambda drawn: krippendorff_alpha(drawn, ordered=True) or 0.0, resamples=_RESAMPLES)
    return replace(
        calibration,
        corrected=correct_graded(rows.mean, rows.units, pairs, scale),
        kappa=None if alpha is None else Estimate(alpha, min(low, alpha), max(high, alpha), len(pairs)),
    )


def _measure_classes(calibration: Calibration, rows: StratifiedRows, settled: Sequence[RowLabel]) -> Calibration:
    """Agreement, kappa, precision and recall. Each label stands for as many rows as its stratum has for each."""
    sizes = Counter(entry.verdict for entry in settled)
    counts = Counter({key.mark: 0 for key in rows.rows})
    for key, members in rows.rows.items():
        counts[key.mark] += len(members)
    units = [(entry.verdict, entry.label, counts[entry.verdict] / sizes[entry.verdict]) for entry in settled]

    def kappa_of(drawn: Sequence[tuple[float, float, float]]) -> float:
        return cohen_kappa([unit[:2] for unit in drawn], [unit[2] for unit in drawn]) or 0.0

    names = _PREFERENCES if 0.5 in counts or calibration.metric == 'win_rate' else _NAMES
    marks = sorted({*counts, *(entry.label for entry in settled)}, reverse=True)
    kappa = cohen_kappa([unit[:2] for unit in units], [unit[2] for unit in units])
    low, high = bootstrap(units, kappa_of, resamples=_RESAMPLES)
    return replace(
        calibration,
        agreement=weighted_share([(verdict == label, weight) for verdict, label, weight in units]),
        kappa=None if kappa is None else Estimate(kappa, min(low, kappa), max(high, kappa), len(units)),
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
    """Digests of what verdicts depend on: the judge's model and prompt, and how replies are read and marked."""
    config = run.config()
    entries = [entry for entry in config.get('datasets') or () if isinstance(entry, Mapping)]
    scoring = next((entry.get('eval_cfg') for entry in entries if entry.get('abbr') == dataset), None) or {}
    evaluator = scoring.get('evaluator') if isinstance(scoring, Mapping) else None
    evaluator = evaluator if isinstance(evaluator, Mapping) else {'type': evaluator}
    judged = 'judge_cfg' in evaluator or 'prompt_template' in evaluator
    parts = {
        part: [evaluator.get(key, config.get(key)) for key in keys] for part, keys in _JUDGE_PARTS.items() if judged
    }
    used = {key for keys in _JUDGE_PARTS.values() for key in keys}
    reading = {key: value for key, value in evaluator.items() if key not in used}
    others = {key: value for key, value in scoring.items() if key != 'evaluator'}
    return {part: _digest(value) for part, value in (parts | {'reader': [reading, others, __version__]}).items()}


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, default=str).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class CarriedCalibration:
    """A score corrected by the labels of another run with the same judge, or why it is not."""

    dataset: str
    model: str
    raw: Estimate
    corrected: Corrected | None = None
    changed: tuple[str, ...] = ()
    """What differs between the two judges: the calibration is stale."""
    factor: float = 100.0


def carry_calibration(run: RunReader, source: str | Path) -> Iterator[CarriedCalibration]:
    """The scores of a run corrected by the error rates that the labels of another run show."""
    with RunReader(source) as other:
        collected = collect_labels(other, Labels(other.directory))
        known = {pair: rows for pair, rows in stratify(other).items() if pair in collected}
        judges = {dataset: identify_judge(other, dataset) for dataset, _ in known}
    for (dataset, model), rows in stratify(run).items():
        judge = identify_judge(run, dataset)
        raw = raw_score(run, rows)
        alike = [name for name in judges if judges[name] == judge]
        named = [name for name in (dataset, *judges) if name in judges][:1]
        changed = (
            () if alike or not named else tuple(part for part in judge if judge[part] != judges[named[0]].get(part))
        )
        strata = [
            stratum for pair, own in known.items() if pair[0] in alike for stratum in own.strata(collected[pair].labels)
        ]
        rates = None if rows.is_graded else measure_error_rates(_pool(strata))
        corrected = None if rates is None else rogan_gladen(rows.mean * rows.units, rows.units, rates)
        yield CarriedCalibration(dataset, model, raw, corrected, changed)


def _pool(strata: Sequence[Stratum]) -> list[Stratum]:
    """Strata of several models as one for each verdict."""
    return [
        Stratum(
            verdict,
            sum(stratum.rows for stratum in strata if stratum.verdict == verdict),
            [label for stratum in strata if stratum.verdict == verdict for label in stratum.labels],
        )
        for verdict in sorted({stratum.verdict for stratum in strata})
    ]
