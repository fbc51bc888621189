"""Calibrations, misread rates and orders in sentences, for the terminal, the report and the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rolecall.insight.calibration import Calibration, calibrate
from rolecall.insight.run_source import StoredRun
from rolecall.insight.strata import Order
from rolecall.scoring.corrected_scores import Estimate
from rolecall.strings import count_noun

if TYPE_CHECKING:
    from rolecall.insight.reading_errors import ReadingError


def describe_calibration(calibration: Calibration) -> Iterator[str]:
    """The raw score and the corrected one, and how often the verdicts are right."""
    factor, corrected = calibration.factor, calibration.corrected or calibration.raw
    name = f'{calibration.dataset} × {calibration.model}: {calibration.metric}'
    people = count_noun(calibration.people, 'person').replace('persons', 'people')
    labels = f'{count_noun(corrected.labels, "labelled row")} ({people})'
    yield f'{name} {_number(calibration.raw, factor)}; corrected by {labels}: {_number(corrected, factor)}'
    measures = (
        ('by error rates (Rogan–Gladen)', calibration.rogan_gladen, factor),
        ('agreement in percent', calibration.agreement, 100),
        ("Cohen's kappa" if calibration.agreement else "Krippendorff's alpha", calibration.kappa, 1),
        *((f'{kind.name}: precision in percent', kind.precision, 100) for kind in calibration.classes),
        *((f'{kind.name}: recall in percent', kind.recall, 100) for kind in calibration.classes),
    )
    yield from (f'  {name} {_number(number, scale)}' for name, number, scale in measures if number)
    for attacks in calibration.attacks:
        rate = (
            f'attack rate of {attacks.model} in percent' if len(calibration.attacks) > 1 else 'attack rate in percent'
        )
        yield f'  {rate} {attacks.share} (probed on {attacks.total} rows)'
    if calibration.alpha is not None:
        yield f"  agreement between people: Krippendorff's alpha {calibration.alpha:.2f}"
    if corrected.halved_by is None:
        yield '  More labels cannot halve the interval: the number of rows limits it.'
    else:
        yield f'  About {count_noun(corrected.halved_by, "more label")} would halve the interval.'
    if calibration.conflicts:
        yield f'  people are divided on {count_noun(calibration.conflicts, "row")}; one more label decides.'
    if calibration.stale:
        yield f'  {count_noun(calibration.stale, "label")} of earlier replies not counted: the rows were asked again.'
    yield f'  calibration of {", ".join(f"{part} {digest}" for part, digest in calibration.judge.items())}'


def describe_corrections(run: StoredRun) -> list[str]:
    """The corrected scores of a run that has labels, in a line each."""
    return [next(describe_calibration(calibration)) for calibration in calibrate(run.archive)]


def describe_carried(carried: Calibration, why: str, source: str) -> str:
    """The score of a run corrected by the labels of another, or why it is not."""
    name = f'{carried.dataset} × {carried.model}: {_number(carried.raw, carried.factor)}'
    if carried.rogan_gladen is None:
        return f'{name}; not corrected: {why}. Label 30 rows: rolecall runs label RUN --todo 30.'
    corrected = _number(carried.rogan_gladen, carried.factor)
    return f'{name}; corrected by the labels of {source} (Rogan–Gladen): {corrected}'


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
            decisions = count_noun(misread.share.labels, 'decision')
            kind = f'{misread.rows:,} {misread.kind}'
            yield f'  misread by {misread.reader}, of {kind}: {_number(misread.share, 100)} % ({decisions})'


def describe_order(order: Order) -> str:
    """Whether one model stays ahead of another."""
    verdict = 'stays' if order.low > 0 else 'is reversed' if order.high < 0 else 'is not decided'
    points = f'{100 * order.low:+.1f} to {100 * order.high:+.1f} points'
    return f'{order.dataset}: {order.better} before {order.worse}: the order {verdict} ({points}).'


def _number(share: Estimate, factor: float) -> str:
    digits = 2 if factor == 1 else 1
    return f'{share.value * factor:.{digits}f} [{share.low * factor:.{digits}f}, {share.high * factor:.{digits}f}]'
