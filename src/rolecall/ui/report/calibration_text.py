"""Calibrations, misread rates and orders in sentences, for the terminal, the report and the page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rolecall.insight.calibration import Calibration, CarriedCalibration, Estimate
from rolecall.insight.reading_errors import ReadingError
from rolecall.insight.strata import Order
from rolecall.scoring.corrected_scores import Corrected
from rolecall.strings import count_noun


def describe_calibration(calibration: Calibration) -> Iterator[str]:
    """The raw score and the corrected one, and how often the verdicts are right."""
    factor, corrected = calibration.factor, calibration.corrected
    name = f'{calibration.dataset} × {calibration.model}: {calibration.metric}'
    people = '1 person' if calibration.people == 1 else f'{calibration.people} people'
    labels = f'{count_noun(corrected.labels, "labelled row")} ({people})'
    yield f'{name} {_number(calibration.raw, factor)}; corrected by {labels}: {_number(corrected, factor)}'
    if calibration.rogan_gladen:
        yield f'  by error rates (Rogan–Gladen): {_number(calibration.rogan_gladen, factor)}'
    if calibration.agreement:
        yield f'  agreement {_number(calibration.agreement, 100)} %{_chance(calibration)}'
    elif calibration.kappa:
        yield f"  Krippendorff's alpha of verdicts and labels: {_number(calibration.kappa, 1)}"
    for kind in calibration.classes:
        measures = (('precision', kind.precision), ('recall', kind.recall))
        shares = [f'{name} {_number(share, 100)} %' for name, share in measures if share]
        yield f'  {kind.name}: {", ".join(shares)}'
    if calibration.alpha is not None:
        yield f"  the people among themselves: Krippendorff's alpha {calibration.alpha:.2f}"
    yield f'  {_describe_more(corrected)}'
    if calibration.conflicts:
        yield f'  people are divided on {count_noun(calibration.conflicts, "row")}; one more label decides.'
    if calibration.stale:
        yield f'  {count_noun(calibration.stale, "label")} of earlier replies not counted: the rows were asked again.'
    yield f'  calibration of {_describe_judge(calibration.judge.items())}'


def describe_carried(carried: CarriedCalibration, source: str) -> str:
    """The score of a run corrected by the labels of another."""
    name = f'{carried.dataset} × {carried.model}: {_number(carried.raw, carried.factor)}'
    if carried.changed:
        return f'{name}; not corrected: the calibration of {source} is stale ({", ".join(carried.changed)} changed).'
    if carried.corrected is None:
        return f'{name}; not corrected: {source} has no labels of both right and wrong rows by this judge.'
    return f'{name}; corrected by the labels of {source} (Rogan–Gladen): {_number(carried.corrected, carried.factor)}'


def describe_reading(error: ReadingError) -> Iterator[str]:
    """A score with its reading error, the readers' own scores, and how often they misread."""
    name = f'{error.dataset} × {error.model}'
    decided = f'by {count_noun(error.corrected.labels, "decided row")}'
    yield f'{name}: {_number(error.raw, 100)}; with reading error, {decided}: {_number(error.corrected, 100)}'
    sample = f' (of {error.total:,})' if error.rows < error.total else ''
    yield f'  {count_noun(error.rows, "row")}{sample} read by all readers: {error.doubtful:,} doubtful'
    yield f'  score by reader: {", ".join(f"{reader} {100 * score:.1f}" for reader, score in error.readers.items())}'
    for misread in error.misread:
        if misread.share.value or misread.reader == "the run's":
            decisions = count_noun(int(misread.share.labels), 'decision')
            kind = f'{misread.rows:,} {misread.kind}'
            yield f'  misread by {misread.reader}, of {kind}: {_number(misread.share, 100)} % ({decisions})'


def describe_order(order: Order) -> str:
    """Whether one model stays ahead of another."""
    turned = 'the order is reversed' if order.high < 0 else 'the order is not decided'
    verdict = 'the order stays' if order.survives else turned
    points = f'{100 * order.low:+.1f} to {100 * order.high:+.1f} points'
    return f'{order.dataset}: {order.better} before {order.worse}: {verdict} ({points}).'


def _chance(calibration: Calibration) -> str:
    return f", Cohen's kappa {_number(calibration.kappa, 1)}" if calibration.kappa else ''


def _describe_more(corrected: Corrected) -> str:
    if corrected.halved_by is None:
        return 'More labels cannot halve the interval: the number of rows limits it.'
    return f'About {count_noun(corrected.halved_by, "more label")} would halve the interval.'


def _describe_judge(parts: Iterable[tuple[str, str]]) -> str:
    return ', '.join(f'{part} {digest}' for part, digest in parts)


def _number(share: Estimate | Corrected, factor: float) -> str:
    digits = 2 if factor == 1 else 1
    return f'{share.value * factor:.{digits}f} [{share.low * factor:.{digits}f}, {share.high * factor:.{digits}f}]'
