"""The queue of the page: rows to label or to read, the most helpful first, and what the decisions so far come to."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rolecall.insight.calibration import Calibration, calibrate, collect_labels
from rolecall.insight.label_files import PLACE, key_of
from rolecall.insight.reading_errors import DECISIONS, Rereading
from rolecall.insight.strata import StratifiedRows, queue_rows, stratify
from rolecall.runs.store.labels import Labels, RowKey, settle
from rolecall.runs.store.run_reader import RunReader
from rolecall.ui.report.calibration_text import describe_calibration, describe_order, describe_reading

_LENGTH = 20


class LabelQueue:
    """The rows of one run to decide about. What is slow to read is read again only if the run has grown."""

    def __init__(self, run: RunReader) -> None:
        self._run = run
        self._labels = Labels(run.directory)
        self._answers = Labels(run.directory, 'answer')
        self._state: object = None
        self._pairs: dict[tuple[str, str], StratifiedRows] = {}
        self._comparing: set[tuple[str, str]] = set()
        self._rereading: Rereading | None = None
        self._calibrated: tuple[object, list[Calibration]] = None, []

    def calibrations(self) -> list[Calibration]:
        """The scores corrected by the labels so far."""
        if decisions := self._labels.by_row():
            self._read_rows()
        if self._calibrated[0] is not decisions:
            self._calibrated = decisions, calibrate(self._run, self._pairs)
        return self._calibrated[1]

    def _read_rows(self) -> None:
        state = [(pair, self._run.last_row(*pair)) for pair in self._run.pairs()]
        if state != self._state:
            self._state, self._pairs, self._rereading, self._calibrated = state, stratify(self._run), None, (None, [])
            cards = self._run.scorecards()
            self._comparing = {(card.dataset, card.model) for card in cards if card.metric == 'win_rate'}

    def next_rows(self, task: str, by: str, skipped: int = 0) -> dict[str, Any]:
        """The rows that a person should decide next, how far everybody has come, and the scores so far.

        `task`: to label rows; `answer`, to say which answer replies give; `second`, to label rows that others have.
        `skipped`: how many rows the person has passed over, for which others are listed.
        """
        self._read_rows()
        decisions = (self._answers if task == 'answer' else self._labels).by_row()
        people = Counter(person for by_person in decisions.values() for person in by_person)
        values = {key: [each.value for each in by_person.values()] for key, by_person in decisions.items()}
        divided = [key for key, own in values.items() if len(set(own)) > 1 and settle(own) is None]
        length = _LENGTH + skipped
        rows = self._describe_answers(length) if task == 'answer' else self._describe_labels(task, by, divided, length)
        return rows | {
            'done': len(decisions),
            'wanted': DECISIONS,
            'people': list(people.items()),
            'divided': [list(key) for key in divided],
        }

    def _describe_labels(self, task: str, by: str, divided: list[RowKey], length: int) -> dict[str, Any]:
        decisions = self._labels.by_row()
        if task == 'second':
            keys = [key for key in dict.fromkeys([*divided, *decisions]) if by not in decisions[key]][:length]
        else:
            labelled, _ = collect_labels(self._run, self._labels)
            keys = queue_rows(self._pairs, {key: entry.label for key, entry in labelled.items()}, length)
        return {
            'rows': [dict(zip(PLACE, key, strict=True), choices=self._choices(key)) for key in keys],
            'lines': [line for calibration in self.calibrations() for line in describe_calibration(calibration)],
        }

    def _choices(self, key: RowKey) -> tuple[str, ...]:
        """The labels that a row can have; none where a number is asked for."""
        rows = self._pairs.get(key[:2])
        if rows is not None and rows.is_graded:
            return ()
        compares = key[:2] in self._comparing or (rows is not None and any(place.mark == 0.5 for place in rows.rows))
        return ('win', 'tie', 'loss') if compares else ('correct', 'wrong')

    def _describe_answers(self, length: int) -> dict[str, Any]:
        self._rereading = self._rereading or Rereading(self._run, self._run.pairs())
        rows = [
            dict(zip(PLACE, key_of(row.result), strict=True), choices=[value for value, _ in row.candidates])
            for row in self._rereading.queue(length)
        ]
        lines = [line for error in self._rereading.errors() for line in describe_reading(error)]
        return {'rows': rows, 'lines': [*lines, *map(describe_order, self._rereading.orders())]}
