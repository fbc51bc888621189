"""The runs that the page was opened with: scores, rows in pages, one row with everything known about it.

Rows are found by key, never by offset, so the millionth costs what the first does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rolecall.errors import DataError, RolecallError
from rolecall.pairs.pair import Preview
from rolecall.report.comparison import Comparison, compare_runs
from rolecall.report.counts import VERDICTS, verdict_of
from rolecall.report.run_source import OneModelRun, Run, StoredRun, requests_sent
from rolecall.report.score_text import (
    OUTCOMES,
    denominator,
    digits_of,
    grid_of,
    interval,
    left_out,
    score,
)
from rolecall.runs.store.results import Result
from rolecall.runs.store.run_reader import FILE, RunReader
from rolecall.scoring.scorecard import Scorecard
from rolecall.web.documents import ConfigDocument
from rolecall.web.labels import Labels
from rolecall.web.prompts_json import cut_text, preview_as_json, sent_as_json

__all__ = ['RowFilter', 'RunDocument', 'compare_as_json']

_CELL = 200
_TEXT = 100_000
_PAGE = 100
_CHUNK = 500
_SECONDS = 0.4
_LIVE_SECONDS = 30
_FLIPS = 500
_START = ('', '', -1)
_OTHER_VERDICTS = ('cut', 'labelled', 'disagrees')
"""Further filters: cut off by max_out_len, with a human label, with a label that differs from the verdict."""

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows of a run to list."""

    dataset: str = ''
    model: str = ''
    outcome: str = ''
    verdict: str = ''
    text: str = ''

    def accepts(self, result: Result) -> bool:
        """Whether a row is listed. (Dataset and model are matched by the store.)"""
        if self.outcome and result.outcome != self.outcome:
            return False
        if self.verdict in VERDICTS and verdict_of(result) != self.verdict:
            return False
        if self.verdict == 'cut' and not _is_cut(result):
            return False
        return not self.text or self.text.lower() in _searchable(result)


class RunDocument:
    """One run directory. It is read as it is on disk, so a run in progress shows its newest rows."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._reader = RunReader(path)
        self.run: Run = StoredRun(self._reader)
        self.labels = Labels(path)

    def overview(self) -> dict[str, Any]:
        """The scores as a table, and the names to filter rows by."""
        cards = self._reader.scorecards()
        pairs = self._reader.pairs()
        return {
            'name': self.run.title,
            'path': str(self.path),
            'created': self._reader.created or self.run.created,
            'live': self._is_live(),
            'scores': _score_table([*cards, *_list_unfinished(cards, pairs)]),
            'datasets': list(dict.fromkeys(dataset for dataset, _ in pairs)),
            'models': list(dict.fromkeys(model for _, model in pairs)),
            'outcomes': list(OUTCOMES.items()),
            'verdicts': [*VERDICTS, *_OTHER_VERDICTS],
            'agreement': self.labels.agreement(),
        }

    def rows(self, wanted: RowFilter, after: str = '') -> dict[str, Any]:
        """The next rows after a key. A long search stops after a while and can be continued from its key."""
        key: Key = _read_key(after) if after else _START
        found: list[dict[str, Any]] = []
        deadline = time.monotonic() + _SECONDS
        while len(found) < _PAGE:
            results = self._reader.rows_after(
                key, dataset=wanted.dataset or None, model=wanted.model or None, limit=_CHUNK
            )
            for result in results:
                key = (result.dataset, result.model, result.row)
                if wanted.accepts(result) and self._accepts_label(wanted, key):
                    found.append(_row_cells(result))
                    if len(found) == _PAGE:
                        return {'rows': found, 'after': json.dumps(key)}
            if len(results) < _CHUNK:
                return {'rows': found, 'after': None}
            if time.monotonic() > deadline:
                return {'rows': found, 'after': json.dumps(key)}
        return {'rows': found, 'after': json.dumps(key)}

    def row(self, dataset: str, model: str, row: int, config: ConfigDocument | None) -> dict[str, Any]:
        """One row with its requests, replies and verdict. Origins come from a config that words it the same way."""
        result = self._find(dataset, model, row)
        return {
            **_row_cells(result),
            'label': self.labels.find((dataset, model, row)),
            'reason': cut_text(result.reason, _TEXT),
            'replies': [cut_text(reply, _TEXT) for reply in result.replies],
            'reasoning': [cut_text(thought, _TEXT) for thought in result.reasoning if thought],
            'prediction': _as_text(result.prediction),
            'extracted': _as_text(result.extracted),
            'gold': _as_text(result.gold),
            'details': json.dumps(result.details, indent=1, ensure_ascii=False, default=str) if result.details else '',
            'prompts': list(self._prompts(result, config)),
            'facts': list(_facts(result)),
            'others': [
                _row_cells(other)
                for name, other_model in self._reader.pairs()
                if name == dataset and other_model != model
                if (other := self._reader.result(dataset, other_model, row)) is not None
            ],
        }

    def label(self, dataset: str, model: str, row: int, label: str) -> None:
        """Keep what a person says about a row."""
        self.labels.add((dataset, model, row), label, verdict_of(self._find(dataset, model, row)))

    def _find(self, dataset: str, model: str, row: int) -> Result:
        result = self._reader.result(dataset, model, row)
        if result is None:
            raise DataError(f'{self.path}: no row {row} of {dataset} × {model}.')
        return result

    def _accepts_label(self, wanted: RowFilter, key: Key) -> bool:
        if wanted.verdict == 'labelled':
            return bool(self.labels.find(key))
        return wanted.verdict != 'disagrees' or self.labels.disagrees(key)

    def only_model(self, model: str) -> Run:
        """The part of this run that belongs to one model, as a run."""
        return OneModelRun(self._reader, model)

    def _prompts(self, result: Result, config: ConfigDocument | None) -> Iterator[dict[str, Any]]:
        previews = _previews_from(config) if config is not None else None
        for sent in requests_sent(self.run, result, previews):
            if sent.origins and config is not None:
                pair = config.pair(result.dataset, result.model)
                yield preview_as_json(pair, sent.preview, config.config)
            else:
                yield sent_as_json(sent.preview, changed=sent.changed)

    def _is_live(self) -> bool:
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


def compare_as_json(left: Run, right: Run) -> dict[str, Any]:
    """Two runs, or two models of one run: every difference, and the rows that changed."""
    found: Comparison = compare_runs(left, right)
    names = ('dataset', 'model', 'metric', 'left', 'right', 'difference', 'low', 'high', 'p', 'rows', 'compared')
    return {
        'left': left.title,
        'right': right.title,
        'only_left': list(found.only_left),
        'only_right': list(found.only_right),
        'differences': [
            {
                **{name: getattr(one, name) for name in names},
                'flipped': len(one.flips),
                'flips': [[_row_cells(flip.left), _row_cells(flip.right)] for flip in one.flips[:_FLIPS]],
            }
            for one in found.differences
        ],
    }


def _is_cut(result: Result) -> bool:
    """Whether a reply of the row was cut off by `max_out_len`."""
    ended = result.details.get('ended')
    return isinstance(ended, list | tuple) and 'length' in ended


def _list_unfinished(cards: Sequence[Scorecard], pairs: Sequence[tuple[str, str]]) -> Iterator[Scorecard]:
    scored = {(card.dataset, card.model) for card in cards}
    return (Scorecard(*pair, 'not finished', None) for pair in pairs if pair not in scored)


def _score_table(cards: Sequence[Scorecard]) -> dict[str, Any]:
    grid, digits = grid_of(cards), digits_of(cards)
    return {
        'models': list(grid.models),
        'lines': [
            {
                'dataset': line[0],
                'metric': line[1],
                'cells': [_score_cell(grid.card(line, model), digits[line[1]]) for model in grid.models],
            }
            for line in grid.lines
        ],
    }


def _score_cell(card: Scorecard | None, digits: int) -> dict[str, Any] | None:
    if card is None:
        return None
    return {
        'score': score(card, digits),
        'interval': interval(card, digits),
        'scored': denominator(card) if card.total else '',
        'rest': '; '.join(filter(None, (left_out(card), card.describe_replies(digits)))),
        'error': card.error,
    }


def _row_cells(result: Result) -> dict[str, Any]:
    """What the list shows of a row: short texts only."""
    reply = result.replies[-1] if result.replies else ''
    return {
        'dataset': result.dataset,
        'model': result.model,
        'row': result.row,
        'outcome': result.outcome,
        'verdict': verdict_of(result),
        'score': result.score,
        'answer': cut_text(' '.join(_as_text(result.extracted, longest=_CELL).split()), _CELL),
        'goldCell': cut_text(' '.join(_as_text(result.gold, longest=_CELL).split()), _CELL),
        'replyCell': cut_text(' '.join(reply[: 4 * _CELL].split()), _CELL),
    }


def _as_text(value: object, *, longest: int = _TEXT) -> str:
    if value is None or isinstance(value, str):
        return cut_text(value or '', longest)
    return cut_text(json.dumps(value, ensure_ascii=False, default=str), longest)


def _searchable(result: Result) -> str:
    parts: list[Mapping[str, Any] | object] = [*result.replies, result.extracted, result.gold, result.reason]
    return '\n'.join(str(part) for part in parts).lower()


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    if result.input_tokens is not None:
        yield 'input', f'{result.input_tokens:,} tokens'
    if result.output_tokens is not None:
        yield 'output', f'{result.output_tokens:,} tokens'
    if result.seconds is not None:
        yield 'time', f'{result.seconds:.2f} s'
    if result.shots:
        yield 'examples', f'training {"row" if len(result.shots) == 1 else "rows"} {", ".join(map(str, result.shots))}'
    if result.shots_dropped:
        yield 'dropped to fit', f'{result.shots_dropped}'
    if result.cluster:
        yield 'belongs to', result.cluster
    if result.fingerprint:
        yield 'fingerprint', result.fingerprint


def _read_key(text: str) -> Key:
    try:
        dataset, model, row = json.loads(text)
        return str(dataset), str(model), int(row)
    except (ValueError, TypeError) as error:
        raise DataError(f'not a key of a row: {text!r:.60}.') from error
