"""The configs that the page was opened with: their datasets, models and rows, and the requests they lead to."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any

from rolecall.config.files import load_config
from rolecall.datasets import Dataset, Row
from rolecall.errors import ConfigError, DataError, Problem
from rolecall.lint.linter import lint_config
from rolecall.models.http.media import MediaReader
from rolecall.pairs.entries import Entries, build_entries, media_folders
from rolecall.pairs.judges import JudgePair, find_judge
from rolecall.pairs.model_entries import ModelEntry
from rolecall.pairs.pair import Pair, Preview
from rolecall.pairs.tasks import Task
from rolecall.report.run_source import PairRows
from rolecall.tokenizers.tokenizer import find_tokenizer
from rolecall.views.differences import align_lines, request_lines
from rolecall.views.facts import title_of
from rolecall.views.tokens import count_tokens
from rolecall.web.prompts_json import cut_text, preview_as_json, row_as_json, tokens_as_json

__all__ = ['ConfigDocument', 'diff_as_json']

_PAIRS_KEPT = 12
_CELL = 200
_PAGE = 100
_SEARCH_SECONDS = 0.4
_LINT_ROWS = 50
_SHOWN_MEDIA = re.compile(r'image/(png|jpeg|gif|webp|bmp|avif)|audio/[\w.+-]+|video/[\w.+-]+')


class ConfigDocument:
    """One config file, executed when it is opened and again only when asked to reload."""

    def __init__(self, path: Path, config: Mapping[str, Any] | None = None) -> None:
        self.path = path
        self.config: Mapping[str, Any] = load_config(path) if config is None else config
        self.plan: Entries = build_entries(self.config)
        self._tasks = {task.abbr: task for task in self.plan.tasks}
        self._model_entries = {model_entry.abbr: model_entry for model_entry in self.plan.model_entries}
        self._datasets: dict[str, Dataset] = {}
        self._pairs: OrderedDict[tuple[str, str | None], PairRows] = OrderedDict()
        self._findings: list[dict[str, Any]] | None = None

    def overview(self) -> dict[str, Any]:
        """The datasets and models by name, with what the page needs before a row is opened."""
        return {
            'path': str(self.path),
            'name': self.path.stem,
            'datasets': [
                {
                    'abbr': task.abbr,
                    'inferencer': task.inferencer.name,
                    'labels': [str(label) for label in task.labels],
                    'columns': list(task.reader.input_columns),
                    'output': task.reader.output_column,
                }
                for task in self.plan.tasks
            ],
            'models': [{'abbr': entry.abbr, 'kind': entry.kind} for entry in self.plan.model_entries],
        }

    def rows(self, dataset: str, *, after: int = -1, query: str = '') -> dict[str, Any]:
        """The next rows after a number, those that contain the query. A long search stops and can be continued."""
        task, data = self.task(dataset), self.dataset(dataset)
        total = len(data.test)
        found: list[dict[str, Any]] = []
        wanted = query.lower()
        deadline = time.monotonic() + _SEARCH_SECONDS
        number = after
        while len(found) < _PAGE and number + 1 < total and time.monotonic() < deadline:
            number += 1
            text = _summarise_row(data.test[number], task)
            if not wanted or wanted in text.lower():
                found.append({'row': number, 'text': cut_text(text, _CELL)})
        return {'rows': found, 'total': total, 'after': number if number + 1 < total else None}

    def prompts(self, dataset: str, model: str | None, row: int) -> dict[str, Any]:
        """Every request of one row, with origins and explanations."""
        rows = self._rows_of(dataset, model)
        previews = self.previews(dataset, model, row)
        return {
            'prompts': [
                *(preview_as_json(rows.pair, preview, self.config) for preview in previews),
                *self._judge_prompts(rows, row),
            ],
            'values': row_as_json(previews[0].values) if previews else {},
        }

    def _judge_prompts(self, rows: PairRows, row: int) -> list[dict[str, Any]]:
        """What the dataset's judge receives about stand-in replies to a row; nothing if it has no judge."""
        judge = find_judge(rows.pair.task, self.plan.model_entries)
        found = rows.find(row)
        if judge is None or found is None:
            return []
        pair = JudgePair(rows.pair, judge)
        return [{**preview_as_json(pair, preview, self.config), 'judge': True} for preview in pair.previews(*found)]

    def tokens(self, dataset: str, model: str | None, row: int, number: int) -> dict[str, Any]:
        """The tokens of one request of a row, if the model's tokenizer is on this machine."""
        pair, preview = self.pair(dataset, model), self.find_preview(dataset, model, row, number)
        entry = pair.model_entry
        tokenizer = find_tokenizer(entry.entry) if entry is not None else None
        if tokenizer is None:
            return {'unknown': "Not known here: the model's tokenizer is not on this machine."}
        return tokens_as_json(count_tokens(pair, preview, tokenizer))

    def media(self, dataset: str, model: str | None, row: int, number: int, at: int) -> tuple[str, bytes]:
        """Type and bytes of a picture, sound or film of a request, if it lies in a folder that the config allows."""
        preview = self.find_preview(dataset, model, row, number)
        sources = [str(span.text) for span in preview.spans if span.origin.kind == 'media']
        if not 0 <= at < len(sources):
            raise DataError(f'the request has no medium {at}.')
        reader = MediaReader(self.media_folders)
        kind, content = reader.read(sources[at])
        if not _SHOWN_MEDIA.fullmatch(kind):
            raise DataError(f'{sources[at]:.200}: {kind} is not shown in the page.')
        return kind, content

    @cached_property
    def media_folders(self) -> tuple[Path, ...]:
        """The folders whose files rows may name."""
        return media_folders(self.plan.tasks, base=self.path.parent, allowed=self.config.get('media_folders'))

    def find_preview(self, dataset: str, model: str | None, row: int, number: int) -> Preview:
        """One request of a row."""
        previews = self.previews(dataset, model, row)
        if not 0 <= number < len(previews):
            raise DataError(f'row {row} of {dataset} has no request {number}.')
        return previews[number]

    def findings(self) -> list[dict[str, Any]]:
        """What the linter finds, looking at the first rows of each dataset."""
        if self._findings is None:
            self._findings = [asdict(finding) for finding in lint_config(self.config, limit=_LINT_ROWS)]
        return self._findings

    def task(self, dataset: str) -> Task:
        """A dataset of the config by its abbr."""
        if dataset not in self._tasks:
            raise ConfigError(Problem('datasets', f'no dataset named {dataset!r}.'))
        return self._tasks[dataset]

    def model_entry(self, model: str | None) -> ModelEntry | None:
        """A model of the config by its abbr; None if the config has no models."""
        if model is None and not self._model_entries:
            return None
        if model not in self._model_entries:
            raise ConfigError(Problem('models', f'no model named {model!r}.'))
        return self._model_entries[model]

    def dataset(self, dataset: str) -> Dataset:
        """The rows of a dataset, opened when first needed."""
        if dataset not in self._datasets:
            self._datasets[dataset] = self.task(dataset).open(base=self.path.parent)
        return self._datasets[dataset]

    def pair(self, dataset: str, model: str | None) -> Pair:
        """One dataset × model."""
        return self._rows_of(dataset, model).pair

    def previews(
        self, dataset: str, model: str | None, row: int, *, replies: Sequence[str] | None = None
    ) -> list[Preview]:
        """Every request of one row."""
        rows = self._rows_of(dataset, model)
        if rows.find(row) is None:
            raise DataError(f'{dataset} has no row {row}.')
        return rows.previews(row, replies=replies)

    def _rows_of(self, dataset: str, model: str | None) -> PairRows:
        key = (dataset, model)
        if key not in self._pairs:
            pair = Pair(self.task(dataset), self.model_entry(model), self.dataset(dataset))
            self._pairs[key] = PairRows(pair)
            while len(self._pairs) > _PAIRS_KEPT:
                self._pairs.popitem(last=False)
        self._pairs.move_to_end(key)
        return self._pairs[key]


def _summarise_row(row: Row, task: Task) -> str:
    """The text of a row's input columns (of all columns, if none are named) on one line."""
    columns = [column for column in task.reader.input_columns if column in row] or list(row)
    return ' · '.join(' '.join(str(row[column]).split()) for column in columns)


def diff_as_json(left: Preview, right: Preview) -> dict[str, Any]:
    """Two requests aligned, the words that differ marked."""
    changes = align_lines(request_lines(left), request_lines(right))
    return {
        'titles': [title_of(left), title_of(right)],
        'same': all(change.same for change in changes),
        'changes': [[change.left, change.right] for change in changes],
    }
