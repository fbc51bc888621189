"""The runs that the page was opened with: scores, rows in pages, one row with everything known about it.

Rows are found by key, never by offset, so the millionth costs what the first does.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, DataError, Problem, RolecallError, RunError
from rolecall.experiment.pairs.pair import Preview
from rolecall.insight.alignment import AlignedRun, align_runs, explain_differences, is_imported
from rolecall.insight.cause_shares import explain
from rolecall.insight.comparison import Comparison, Difference, compare_runs
from rolecall.insight.kept_counts import read_counts
from rolecall.insight.label_files import key_of
from rolecall.insight.run_source import StoredRun, judge_requests, requests_sent
from rolecall.insight.slices import CLASS, LENGTH, POSITION, can_divide
from rolecall.insight.sweep import read_sweep
from rolecall.runs.brake import Control
from rolecall.runs.run import ask_rows_again
from rolecall.runs.store.directory import FILE, is_running
from rolecall.runs.store.labels import Kind, Labels, RowKey, RunNotes, Value, settle
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import pairs_of
from rolecall.scoring.reading_choice import word_other_verdict
from rolecall.scoring.scorecard import Scorecard
from rolecall.ui.report.calibration_text import describe_calibration
from rolecall.ui.report.counts import UNFINISHED, VERDICTS, verdict_of
from rolecall.ui.report.score_text import OUTCOMES, describe_judges
from rolecall.ui.report.slice_tables import RunSlices
from rolecall.ui.web.documents import ConfigDocument
from rolecall.ui.web.label_queue import LabelQueue
from rolecall.ui.web.page_json import (
    LONGEST_TEXT,
    as_text,
    cut_text,
    describe_question,
    preview_as_json,
    row_cells,
    row_facts,
    score_table,
    sent_as_json,
)

_PAGE = 100
_CHUNK = 500
_SECONDS = 0.4
_LIVE_SECONDS = 30
_FLIPS = 500
_ROWS_LOOKED_AT = 20
"""Rows of each dataset whose columns are offered as slices: rows need not all have the same ones."""
_NUMBERS = (
    *('dataset', 'model', 'metric', 'left', 'right', 'difference', 'low', 'high', 'p', 'rows', 'compared'),
    *('different_gold', 'different_requests', 'left_model', 'right_model', 'differing', 'served'),
)
_START = ('', '', -1)
_OTHER_VERDICTS = ('cut', 'readings differ', 'labelled', 'disagrees')
"""Further filters: cut off by max_out_len, another verdict by the other reading, with a human label, with a label that
differs from the verdict."""

Counterpart = Callable[[Result], 'Result | None']
"""Finds the same row of another run or model."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows of a run to list."""

    dataset: str = ''
    model: str = ''
    outcome: str = ''
    verdict: str = ''
    text: str = ''
    first: int = 0
    """Rows before this one are left out."""
    against: Counterpart | None = None
    """Only rows that are scored differently there."""

    def accepts(self, result: Result) -> bool:
        """Whether a row is listed. (Dataset and model are matched by the store.)"""
        if result.row < self.first or (self.outcome and result.outcome != self.outcome):
            return False
        if self.verdict in VERDICTS and verdict_of(result) != self.verdict:
            return False
        if (self.verdict == 'cut' and not result.is_cut) or (self.verdict == 'readings differ' and not result.beside):
            return False
        if self.against is None:
            return True
        other = self.against(result)
        return other is not None and (verdict_of(result), result.score) != (verdict_of(other), other.score)


class RunDocument:
    """One run directory. It is read as it is on disk, so a run in progress shows its newest rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = RunReader(path)
        self.run: StoredRun = StoredRun(self._reader)
        self.labels = Labels(path)

    def summary(self) -> dict[str, Any]:
        """What the list of runs shows."""
        cards, pairs = self._reader.scorecards(), self._reader.pairs()
        scored = {(card.dataset, card.model) for card in cards}
        unfinished = (Scorecard(*pair, UNFINISHED, None) for pair in pairs if pair not in scored)
        return {
            'name': self.run.title,
            'path': str(self.path),
            'created': self._reader.created or self.run.created,
            'live': self._is_live(),
            **{f'own_{name}': value for name, value in RunNotes.read(self.path).as_json().items()},
            'damage': '; '.join(self.run.notices),
            'datasets': list(dict.fromkeys(dataset for dataset, _ in pairs)),
            'models': list(dict.fromkeys(model for _, model in pairs)),
            'scores': score_table([*cards, *unfinished]),
        }

    def overview(self) -> dict[str, Any]:
        """The summary, the names to filter rows by, and the last row of each pair: how far a run has come."""
        rows = {pair: self._reader.last_row(*pair) for pair in self._reader.pairs()}
        return {
            **self.summary(),
            'outcomes': list(OUTCOMES.items()),
            'verdicts': [*VERDICTS, *_OTHER_VERDICTS],
            'labelled': len(self.labels.by_row()),
            'remarks': [next(describe_calibration(entry)) for entry in self.queue.calibrations()]
            + describe_judges(self._reader.scorecards()),
            'scan': [{**asdict(hits), 'share': hits.share} for hits in read_counts(self.path, 'scan') if hits.hits],
            'control': asdict(Control.read(self.path)),
            'asked': [*dict.fromkeys(model for _, model in pairs_of(self._reader))],
            'columns': self._columns(),
            'swept': read_sweep(self.path),
            'last': {' × '.join(pair): row for pair, row in rows.items() if row is not None},
        }

    def write_notes(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Keep another name, note or list of tags with the run."""
        if not all(isinstance(changes.get(name, ''), str) for name in ('name', 'note', 'tags')):
            raise ConfigError(Problem('notes', 'expected texts: name, note and tags.'))
        notes = RunNotes.read(self.path)
        tags = re.split(r'[,\s]+', changes['tags']) if 'tags' in changes else list(notes.tags)
        notes = notes.change(
            name=changes.get('name'), note=changes.get('note'), add=tags, remove={*notes.tags} - {*tags}
        )
        notes.write(self.path)
        return notes.as_json()

    def slices(self, by: Sequence[str]) -> dict[str, Any]:
        """The scores by columns of the rows, by length, place of the answer or class, as tables."""
        chosen = [[column for column in by if column not in ('', CLASS)], [CLASS] if CLASS in by else []]
        tables: list[dict[str, Any]] = []
        notes: list[str] = []
        with RunReader(self.path) as reader:
            for columns in filter(None, chosen):  # answers without classes do not hide what else was chosen
                try:
                    tables += map(asdict, RunSlices.of(reader, columns).tables())
                except ConfigError as error:
                    notes.append(str(error))
        return {'tables': tables, 'notes': notes}

    def _columns(self) -> list[str]:
        """What the rows of the run can be sliced by."""
        values: dict[str, list[Any]] = {}
        for dataset in dict(self._reader.pairs()):
            for row in range(_ROWS_LOOKED_AT):
                for name, value in self._reader.fields(dataset, row).items():
                    values.setdefault(name, []).append(value)
        columns = [name for name, own in values.items() if name and can_divide(own)]
        return [*columns, LENGTH, POSITION, CLASS]

    def rows(self, wanted: RowFilter, after: str = '') -> dict[str, Any]:
        """The next rows after a key. A long search stops after a while and can be continued from its key.

        `end` is the key of the last row, after which the rows of a run in progress will come.
        """
        key: RowKey = _read_key(after) if after else _START
        cells: list[dict[str, Any]] = []
        deadline = time.monotonic() + _SECONDS
        while len(cells) < _PAGE:
            results = self._reader.rows_after(
                key, dataset=wanted.dataset or None, model=wanted.model or None, first=wanted.first, limit=_CHUNK
            )
            for result in results:
                key = key_of(result)
                if wanted.accepts(result) and self._has_text(wanted, result) and self._accepts_label(wanted, result):
                    cells.append(row_cells(result, self._question(result)))
                    if len(cells) == _PAGE:
                        return {'rows': cells, 'after': json.dumps(key)}
            if len(results) < _CHUNK:
                return {'rows': cells, 'after': None, 'end': json.dumps(key) if key != _START else ''}
            if time.monotonic() > deadline:
                break
        return {'rows': cells, 'after': json.dumps(key)}

    def row(self, dataset: str, model: str, row: int, config: ConfigDocument | None) -> dict[str, Any]:
        """One row with its requests, replies and verdict. Origins come from a config that words it the same way."""
        result = self.find(dataset, model, row)
        return {
            **row_cells(result, self._question(result)),
            'labels': {
                by: decision.value for by, decision in self.labels.by_row().get((dataset, model, row), {}).items()
            },
            'reason': cut_text(result.reason, LONGEST_TEXT),
            'replies': [cut_text(reply, LONGEST_TEXT) for reply in result.replies],
            'read_from': [place and list(place[:4]) for place in result.read_from or result.beside[4:]],
            'beside': word_other_verdict(result.beside),
            'reasoning': [cut_text(thought, LONGEST_TEXT) for thought in result.reasoning if thought],
            'prediction': as_text(result.prediction),
            'extracted': as_text(result.extracted),
            'gold': as_text(result.gold),
            'details': json.dumps(result.details, indent=1, ensure_ascii=False, default=str) if result.details else '',
            'prompts': list(self._prompts(result, config)),
            'judge': list(self._judgements(result, config)),
            'facts': list(row_facts(result)),
            'again': result.outcome != 'ok' and config is not None,
            'others': [
                row_cells(other)
                for name, other_model in self._reader.pairs()
                if name == dataset and other_model != model
                if (other := self._reader.result(dataset, other_model, row)) is not None
            ],
        }

    def prepare_again(self, dataset: str, model: str, row: int, config: ConfigDocument) -> Callable[[], None]:
        """Prepare to ask a model again about a row without an answer. It may take long; any thread may call it.

        The config must word the row as the run did.
        """
        result = self.find(dataset, model, row)
        if result.outcome == 'ok':
            raise DataError(f'row {row} of {dataset} × {model} has an answer.')
        if any(sent.changed for sent in requests_sent(self.run, result, _previews_from(config))):
            raise DataError(f'{config.path} now produces another prompt for this row, so it is not asked again.')

        def ask() -> None:
            summary = ask_rows_again(config.config, out=self.path, dataset=dataset, model=model, rows=[row])
            if why := summary.broken.get(model):
                raise RunError(why)

        return ask

    def decide(self, key: RowKey, kind: Kind, value: Value, by: str) -> None:
        """Keep what a person says about a row."""
        with suppress(ValueError):
            value = float(value) if kind == 'label' and value else value
        Labels(self.path, kind).add(key, value, by=by, result=self.find(*key))

    @cached_property
    def queue(self) -> LabelQueue:
        """The rows to decide next."""
        return LabelQueue(self._reader)

    def find(self, dataset: str, model: str, row: int) -> Result:
        """One row of the run."""
        result = self._reader.result(dataset, model, row)
        if result is None:
            damage = f'\n{self.run.damage}' if self.run.damage else ''
            raise DataError(f'{self.path}: no row {row} of {dataset} × {model}.{damage}')
        return result

    def counterpart(self, model: str) -> Counterpart:
        """Finds rows of this run by those of another one, or of another model of this one."""
        return lambda result: self._reader.result(result.dataset, model or result.model, result.row)

    def _question(self, result: Result) -> str:
        return describe_question(self._reader.fields(result.dataset, result.row))

    def _has_text(self, wanted: RowFilter, result: Result) -> bool:
        texts = (*result.replies, result.extracted, result.gold, result.reason, self._question(result))
        return not wanted.text or wanted.text.lower() in '\n'.join(map(str, texts)).lower()

    def _accepts_label(self, wanted: RowFilter, result: Result) -> bool:
        if wanted.verdict not in ('labelled', 'disagrees'):
            return True
        decisions = self.labels.by_row().get((result.dataset, result.model, result.row), {})
        label = settle([decision.value for decision in decisions.values()])
        return bool(decisions) and (wanted.verdict == 'labelled' or label != verdict_of(result))

    def _prompts(self, result: Result, config: ConfigDocument | None) -> Iterator[dict[str, Any]]:
        previews = _previews_from(config) if config is not None else None
        for sent in requests_sent(self.run, result, previews):
            if sent.origins and config is not None:
                pair = config.pair(result.dataset, result.model)
                yield preview_as_json(pair, sent.preview, config.config)
            else:
                yield sent_as_json(sent.preview, changed=sent.changed)

    def _judgements(self, result: Result, config: ConfigDocument | None) -> Iterator[dict[str, Any]]:
        """What a judge was asked about the row, and its replies."""
        worded = []
        if config is not None and result.judged:
            with suppress(RolecallError):
                worded = config.judge_prompts(result.dataset, result.model, result.row, replies=result.replies)
        for sent, reply in judge_requests(self.run, result):
            prompt = next(
                (worded_prompt for worded_prompt in worded if worded_prompt['request'] == sent.preview.request), None
            )
            prompt = prompt or {**sent_as_json(sent.preview, changed=bool(worded)), 'judge': True}
            yield {'prompt': prompt, 'reply': cut_text(reply, LONGEST_TEXT)}

    def _is_live(self) -> bool:
        """Whether the run is in progress: its lock is held or, if locks are unknown here, it was just written to."""
        running = is_running(self.path)
        if running is not None:
            return running
        files = [self.path / FILE, self.path / f'{FILE}-wal']
        newest = max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
        return time.time() - newest < _LIVE_SECONDS


def _previews_from(config: ConfigDocument) -> Callable[[Result], list[Preview]]:
    """The requests of a row as a config words them; none where it has no such dataset, model or row."""

    def previews(result: Result) -> list[Preview]:
        try:
            return config.previews(result.dataset, result.model, result.row, replies=result.replies)
        except RolecallError:
            return []

    return previews


def compare_as_json(left: Path, right: Path, left_model: str | None, right_model: str | None) -> dict[str, Any]:
    """Two runs, or a model of each: every difference, and the rows that changed.

    The runs are opened anew, so that a long comparison does not keep the page waiting. The rows of a run of another
    harness are aligned by content: `aligned` has the counterpart of each.
    """
    with RunReader(left) as reader_left, RunReader(right) as reader_right:
        runs = StoredRun(reader_left, left_model), StoredRun(reader_right, right_model)
        aligned = None
        if left != right and (is_imported(reader_left) or is_imported(reader_right)):
            aligned = align_runs(reader_left, reader_right, left_model=left_model, right_model=right_model)
        comparison: Comparison = compare_runs(aligned or runs[0], runs[1])
        originals: dict[RowKey, Result] = {}  # the left run's rows as it numbers them, by their place in the comparison
        missing: list[tuple[str, str]] = []
        notes: list[str] = []
        if aligned is not None:
            pairs = zip(aligned.results(), aligned.pairs, strict=True)
            originals = {key_of(result): original.result for result, (original, _) in pairs}
            missing = [pair for pair in reader_left.pairs() if pair[0] not in aligned.names]
            notes = list(explain_differences(aligned, reader_right))
        return {
            'left': runs[0].title,
            'right': runs[1].title,
            'only_left': [*comparison.only_left, *(pair for pair in missing if left_model in (None, pair[1]))],
            'only_right': list(comparison.only_right),
            'aligned': None if aligned is None else _aligned_as_json(aligned),
            'notes': [cut_text(note, LONGEST_TEXT) for note in notes],
            'differences': [
                _difference_as_json(difference, originals, reader_left) for difference in comparison.differences
            ],
        }


def explain_as_json(left: Path, right: Path) -> dict[str, Any]:
    """Why the scores of two runs differ, with the bars of a waterfall."""
    explanations = explain(left, right)
    names = {str(path): path.resolve().name for path in (left, right)}
    return {
        'explanations': [
            {
                'name': f'{explanation.dataset} × {explanation.model}',
                'sentence': explanation.sentence,
                'bars': [asdict(bar) | {'name': names.get(bar.name, bar.name)} for bar in explanation.waterfall()],
                'unknown': list(explanation.unknown),
            }
            for explanation in explanations
        ]
    }


def _difference_as_json(
    difference: Difference, originals: Mapping[RowKey, Result], reader: RunReader
) -> dict[str, Any]:
    flips = []
    for flip in difference.flips[:_FLIPS]:
        left = originals.get(key_of(flip.left), flip.left)
        question = describe_question(reader.fields(left.dataset, left.row))
        flips.append([row_cells(left, question), row_cells(flip.right)])
    return {**{name: getattr(difference, name) for name in _NUMBERS}, 'flipped': len(difference.flips), 'flips': flips}


def _aligned_as_json(aligned: AlignedRun) -> dict[str, dict[str, Any]]:
    """By dataset of the left run: the right run's name of it, and its number of each row."""
    by_dataset: dict[str, dict[str, Any]] = {
        name: {'dataset': other, 'rows': {}} for name, other in aligned.names.items()
    }
    for left, right in aligned.pairs:
        by_dataset[left.result.dataset]['rows'][left.result.row] = right.result.row
    return by_dataset


def _read_key(text: str) -> RowKey:
    try:
        dataset, model, row = json.loads(text)
        return str(dataset), str(model), int(row)
    except (ValueError, TypeError) as error:
        raise DataError(f'not a key of a row: {text!r:.60}.') from error
