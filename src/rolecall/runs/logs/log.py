"""What every log comes to, and how it is written as a run directory that `report`, `compare` and `export` open."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import zip_longest
from operator import attrgetter
from pathlib import Path
from typing import Any

from rolecall._version import __version__
from rolecall.core.render.spans import Request
from rolecall.errors import RunError
from rolecall.models.protocol import Outcome, Reply
from rolecall.models.tokenizers.text import replace_lone_surrogates
from rolecall.plain_files import open_plain
from rolecall.runs.store.codec import checksum, pack_fields, pack_request, write_reply
from rolecall.runs.store.results import Result
from rolecall.runs.store.writer import Store
from rolecall.scoring.scorecard import IntervalBasis, Scorecard
from rolecall.scoring.statistics import mean_interval, wilson

NOT_RECORDED = 'not recorded'
LARGEST_LOG, _LARGEST_JSON = 8 << 30, 1 << 30
"""Bytes of a file, and of one that is read whole or a line of one: a sparse file costs its sender nothing."""
_SHARES = 1.0
_LIKE_THE_MEAN = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedRow:
    """One row as a log has it; None is "not recorded"."""

    dataset: str
    row: int
    requests: Sequence[Request] = ()
    replies: Sequence[str] = ()
    prediction: Any = None
    extracted: Any = None
    gold: Any = None
    score: float | None = None
    outcome: Outcome = 'ok'
    reason: str = ''
    fields: Mapping[str, Any] = field(default_factory=dict)
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedScore:
    """A number that the log reports for a dataset, on the harness' own scale."""

    dataset: str
    metric: str
    value: float
    further: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedLog:
    """A whole log."""

    harness: str
    version: str = NOT_RECORDED
    created: str = NOT_RECORDED
    model: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """How models were asked, by dataset: shots, sampling, template …"""
    rows: Sequence[ImportedRow] = ()
    scores: Sequence[ImportedScore] = ()

    @property
    def datasets(self) -> list[str]:
        """The datasets that have rows or scores."""
        return list(dict.fromkeys([*(row.dataset for row in self.rows), *(score.dataset for score in self.scores)]))


def keep_newest(logs: Sequence[ImportedLog]) -> tuple[list[ImportedLog], list[str]]:
    """The logs by their time, and what was left out of them: a model's older rows of a dataset that a newer log has."""
    newest: list[ImportedLog] = []
    left_out: list[str] = []
    taken: set[tuple[str, str]] = set()
    for log in sorted(logs, key=attrgetter('created'), reverse=True):
        names = log.datasets
        older = [name for name in names if (log.model, name) in taken]
        taken |= {(log.model, name) for name in names}
        left_out += [f'{name} × {log.model} of {log.created}' for name in older]
        rows = [row for row in log.rows if row.dataset not in older]
        scores = [score for score in log.scores if score.dataset not in older]
        if rows or scores or not older:
            newest.append(replace(log, rows=rows, scores=scores))
    return newest[::-1], left_out


def write_run(logs: Sequence[ImportedLog], source: str, out: Path) -> None:
    """Write logs of one harness into a new run directory."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise RunError(f'{out}: not an empty directory. Choose another with --out.')
    store = Store(out)
    try:
        for log in logs:
            _write_log(store, log)
        manifest = {
            'rolecall': __version__,
            'imported': {
                'harness': logs[0].harness,
                'version': logs[0].version,
                'created': logs[0].created,
                'source': source,
                'settings': {log.model: log.settings or NOT_RECORDED for log in logs},
            },
            'models': {log.model: {'name': log.model} for log in logs},
            'pairs': [{'dataset': name, 'model': log.model} for log in logs for name in log.datasets],
        }
        store.record_start(manifest, json.dumps({'models': [{'abbr': log.model, 'path': log.model} for log in logs]}))
    finally:
        store.close()


def _write_log(store: Store, log: ImportedLog) -> None:
    """Write each table in one transaction: with one for each row, a large log would wait for the disk."""
    marks = [_fingerprints(log, row) for row in log.rows]
    marked = list(zip(log.rows, marks, strict=True))
    store.import_entries(entry for row, keys in marked for entry in _request_entries(row, keys))
    store.import_fields(_fields_entry(row) for row in log.rows if row.fields)
    results: dict[str, list[Result]] = {}
    for row, keys in marked:
        results.setdefault(row.dataset, []).append(_result(log.model, row, keys))
    store.import_results(result for group in results.values() for result in group)
    cards = [_scorecard(log, score, results.get(score.dataset, ())) for score in log.scores]
    if cards:
        store.record_scores(cards)


def _request_entries(row: ImportedRow, marks: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for mark, request, reply in zip_longest(marks, row.requests, row.replies[: len(marks)], fillvalue=''):
        yield mark, 'generate', 'ok', pack_request(request), write_reply(Reply(reply)), None


def _fields_entry(row: ImportedRow) -> tuple[Any, ...]:
    entry = (row.dataset, row.row, pack_fields(row.fields))
    return (*entry, checksum(*entry))


def _fingerprints(log: ImportedLog, row: ImportedRow) -> list[str]:
    """A fingerprint for each request of a row."""
    place = [log.harness, log.model, row.dataset, row.row]
    texts = [json.dumps([*place, *request], default=repr, sort_keys=True) for request in enumerate(row.requests)]
    return [hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32] for text in texts]


def _result(model: str, row: ImportedRow, marks: Sequence[str]) -> Result:
    correct = None if row.score not in (0, 1) else row.score == 1
    return Result(
        row.dataset,
        model,
        row.row,
        row.outcome,
        row.reason,
        prediction=row.prediction if row.prediction is not None else (row.replies[0] if row.replies else None),
        extracted=row.extracted,
        gold=row.gold,
        score=row.score,
        correct=correct,
        fingerprint=marks[0] if marks else '',
        fingerprints=tuple(marks),
        replies=tuple(row.replies),
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        seconds=row.seconds,
    )


def _scorecard(log: ImportedLog, score: ImportedScore, results: Sequence[Result]) -> Scorecard:
    """The log's own number. Its interval is ours, from the log's rows, where the number is their mean."""
    scores = [result.score for result in results if result.score is not None]
    mean = sum(scores) / len(scores) if scores else None
    scale = next(
        (
            factor
            for factor in (1.0, 100.0)
            if mean is not None and abs(score.value - mean * factor) < _LIKE_THE_MEAN * factor
        ),
        None,
    )
    share = scale is not None and all(0 <= score <= _SHARES for score in scores)
    factor = 100.0 / (scale or 1.0) if share else 1.0
    low = high = basis = None
    if share and len(scores) > 1:
        right = all(score in (0, 1) for score in scores)
        weighed = [(score, 1) for score in scores]
        interval = wilson(sum(scores), len(scores)) if right else mean_interval(weighed, scale=(0, 1))
        low, high = (100 * bound for bound in interval or (0.0, 1.0))
        basis = IntervalBasis('of the rows in the log', 0.95)
    outcomes = Counter[str](result.outcome for result in results)
    value = score.value * factor
    return Scorecard(
        *(score.dataset, log.model, score.metric, value, low, high, len(scores), len(results), outcomes),
        unit='%' if share else '',
        imported=f'{log.harness} {log.version}',
        interval=basis,
        further={name: value * factor for name, value in score.further.items()},
    )


@contextmanager
def reading(place: object, harness: str) -> Iterator[None]:
    """While a part of a log is read: values of another shape than the harness writes are an error with its place."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, OverflowError) as error:
        raise RunError(f'{place}: not as {harness} writes it ({type(error).__name__}: {error}).') from error


def read_json(place: Path | str, text: str | bytes | None = None) -> Any:
    """A JSON file of a log, or a text at a place of it; what is wrong with it names the place."""
    try:
        if text is None:
            with open_plain(place, largest=_LARGEST_JSON) as file:
                text = file.read()
        return _make_storable(json.loads(text), text)
    except OSError as error:
        raise RunError(f'{place}: cannot be read: {error.strerror or error}.') from error
    except (ValueError, RecursionError) as error:
        raise RunError(f'{place}: not the JSON of a log: {error}.') from error


def _make_storable(value: Any, text: str | bytes) -> Any:
    """The value without halves of surrogate pairs, which JSON can escape and neither a file nor SQLite can hold."""
    if (b'\\u' if isinstance(text, bytes) else '\\u') not in text:  # type: ignore[operator]  # bytes in bytes
        return value
    if isinstance(value, str):
        return replace_lone_surrogates(value)
    if isinstance(value, dict):
        return {replace_lone_surrogates(key): _make_storable(inner, text) for key, inner in value.items()}
    return [_make_storable(inner, text) for inner in value] if isinstance(value, list) else value


def read_json_lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The values of a file with one on each line, with their places. Lines end with a line feed and nothing else."""
    try:
        file = open_plain(path, largest=LARGEST_LOG)
    except OSError as error:
        raise RunError(f'{path}: cannot be read: {error.strerror or error}.') from error
    with file as lines:
        for number, line in enumerate(iter(partial(lines.readline, _LARGEST_JSON), b''), 1):
            place = f'{path}:{number}'
            if len(line) == _LARGEST_JSON:
                raise RunError(f'{place}: longer than {_LARGEST_JSON:,} bytes.')
            if line.strip():
                try:
                    yield place, read_json(place, line)
                except RunError as error:
                    if line.endswith(b'\n'):
                        raise
                    raise RunError(
                        f'{error} The file is cut off; remove its last line to import the others.'
                    ) from error
