"""The configs that the page was opened with: their datasets, models and rows, and the requests they lead to."""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from rolecall.errors import ConfigError, DataError, Problem, RenderError
from rolecall.experiment.experiment import Experiment
from rolecall.experiment.lint.linter import lint_config
from rolecall.experiment.opening.judges import find_judge
from rolecall.experiment.opening.model_entries import ModelEntry
from rolecall.experiment.opening.tasks import TaskEntry
from rolecall.experiment.pairs.judge_pair import JudgePair
from rolecall.experiment.pairs.pair import Pair, Preview
from rolecall.experiment.previews.differences import align_lines, request_lines
from rolecall.insight.run_source import PairRows
from rolecall.models.http.media import MediaReader
from rolecall.models.tokenizers.text import replace_lone_surrogates
from rolecall.models.tokenizers.tokenizer import find_tokenizer
from rolecall.sources.datasets import Dataset, Row
from rolecall.ui.views.tokens import count_tokens
from rolecall.ui.web.page_json import cut_text, preview_as_json, row_as_json, tokens_as_json

_PAIRS_KEPT = 12
_CELL = 200
_PAGE = 100
_SEARCH_SECONDS = 0.4
_LINT_ROWS = 50
Split = Literal['test', 'train']
_SHOWN_MEDIA = re.compile(r'image/(png|jpeg|gif|webp|bmp|avif)|audio/[\w.+-]+|video/[\w.+-]+')


class ConfigDocument:
    """One config file, executed when it is opened and again only when asked to reload."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.experiment = Experiment.open(path)
        self.config = self.experiment.config
        self._tasks = {replace_lone_surrogates(task.abbr): task for task in self.experiment.tasks}
        self._model_entries = {replace_lone_surrogates(entry.abbr): entry for entry in self.experiment.models}
        # by the names the page knows: URLs hold no lone surrogates
        self._pairs: OrderedDict[tuple[str, str | None], PairRows] = OrderedDict()
        self._findings: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def overview(self) -> dict[str, Any]:
        """The datasets and models by name, with what the page needs before a row is opened."""
        return {
            'path': str(self.path),
            'name': self.path.stem,
            'suffix': self.path.suffix,
            'datasets': [
                {
                    'abbr': abbr,
                    'inferencer': task.inferencer.name,
                    'labels': [str(label) for label in task.labels],
                    'columns': list(task.reader.input_columns),
                    'output': task.reader.output_column,
                }
                for abbr, task in self._tasks.items()
            ],
            'models': [{'abbr': abbr, 'kind': entry.kind} for abbr, entry in self._model_entries.items()],
        }

    def rows(self, dataset: str, *, after: int = -1, query: str = '', split: Split = 'test') -> dict[str, Any]:
        """The next rows after a number, those that contain the query. A long search stops and can be continued."""
        task, data = self.task(dataset), self.dataset(dataset)
        rows = data.train if split == 'train' else data.test
        total = len(rows)
        matches: list[dict[str, Any]] = []
        wanted = query.lower()
        deadline = time.monotonic() + _SEARCH_SECONDS
        number = max(after, -1)
        while len(matches) < _PAGE and number + 1 < total and time.monotonic() < deadline:
            number += 1
            text = _summarise_row(rows[number], task)
            if not wanted or wanted in text.lower():
                matches.append({'row': number, 'text': cut_text(text, _CELL)})
        return {'rows': matches, 'total': total, 'after': number if number + 1 < total else None}

    def prompts(self, dataset: str, model: str | None, row: int) -> dict[str, Any]:
        """Every request of one row, with origins and explanations; those to its judge are about stand-in replies."""
        pair, previews = self.pair(dataset, model), self.previews(dataset, model, row)
        why = '' if previews else 'the row has no request.'
        if not previews:
            try:
                pair.check_row(self.dataset(dataset).test[row])
            except RenderError as error:
                why = str(error)
        return {
            'prompts': [
                *(preview_as_json(pair, preview, self.config) for preview in previews),
                *self.judge_prompts(dataset, model, row),
            ],
            'values': row_as_json(previews[0].values if previews else self.dataset(dataset).test[row]),
            'unworded': why,
        }

    def judge_prompts(
        self, dataset: str, model: str | None, row: int, *, replies: Sequence[str] | None = None
    ) -> list[dict[str, Any]]:
        """What the dataset's judge receives about the replies to a row; nothing if it has no judge."""
        return [
            {**preview_as_json(pair, preview, self.config), 'judge': True}
            for pair, preview in self._judge_previews(dataset, model, row, replies=replies)
        ]

    def _judge_previews(
        self, dataset: str, model: str | None, row: int, *, replies: Sequence[str] | None = None
    ) -> list[tuple[Pair, Preview]]:
        rows = self._rows_of(dataset, model)
        judge = find_judge(rows.pair.task, self.experiment.models)
        position = rows.find(row)
        if judge is None or position is None:
            return []
        pair = JudgePair(rows.pair, judge)
        return [(pair, preview) for preview in pair.previews(*position, replies=replies)]

    def tokens(self, dataset: str, model: str | None, row: int, number: int) -> dict[str, Any]:
        """The tokens of one request of a row, if the model's tokenizer is on this machine."""
        pair, preview = self.find_preview(dataset, model, row, number)
        entry = pair.model_entry
        tokenizer = find_tokenizer(entry.entry) if entry is not None else None
        if tokenizer is None:
            return {'unknown': True}
        return tokens_as_json(count_tokens(pair, preview, tokenizer))

    def media(self, dataset: str, model: str | None, row: int, number: int, at: int) -> tuple[str, bytes]:
        """Type and bytes of a picture, sound or film of a request, if it lies in a folder that the config allows."""
        _, preview = self.find_preview(dataset, model, row, number)
        sources = [str(span.text) for span in preview.spans if span.origin.kind == 'media']
        if not 0 <= at < len(sources):
            raise DataError(f'the request has no medium {at}.')
        reader = MediaReader(self.experiment.media_folders)
        kind, content = reader.read(sources[at])
        if not _SHOWN_MEDIA.fullmatch(kind):
            raise DataError(f'{sources[at]:.200}: {kind} is not shown in the page.')
        return kind, content

    def find_preview(self, dataset: str, model: str | None, row: int, number: int) -> tuple[Pair, Preview]:
        """One request of a row, and the pair it comes from. Requests to the judge follow the others."""
        pair, previews = self.pair(dataset, model), self.previews(dataset, model, row)
        if 0 <= number < len(previews):
            return pair, previews[number]
        judged = self._judge_previews(dataset, model, row) if number >= 0 else []
        if not 0 <= number - len(previews) < len(judged):
            raise DataError(f'row {row} of {dataset} has no request {number}.')
        return judged[number - len(previews)]

    def findings(self, dataset: str = '', model: str = '') -> list[dict[str, Any]]:
        """What the linter finds, looking at the first rows of each dataset; or of one dataset with one model."""
        key = (dataset, model)
        if key not in self._findings:
            chosen = self.experiment
            if dataset:
                entry = self.model_entry(model or None)
                chosen = replace(chosen, tasks=(self.task(dataset),), models=(entry,) if entry else ())
            self._findings[key] = [asdict(finding) for finding in lint_config(chosen, limit=_LINT_ROWS)]
        return self._findings[key]

    def task(self, dataset: str) -> TaskEntry:
        """A dataset of the config by its abbr."""
        dataset = replace_lone_surrogates(dataset)
        if dataset not in self._tasks:
            raise ConfigError(Problem('datasets', f'no dataset named {dataset!r}.'))
        return self._tasks[dataset]

    def model_entry(self, model: str | None) -> ModelEntry | None:
        """A model of the config by its abbr; None if the config has no models."""
        if model is None and not self._model_entries:
            return None
        entry = self._model_entries.get(replace_lone_surrogates(model or ''))
        if entry is None:
            raise ConfigError(Problem('models', f'no model named {model!r}.'))
        return entry

    def dataset(self, dataset: str) -> Dataset:
        """The rows of a dataset, opened when first needed."""
        return self.experiment.dataset(self.task(dataset))

    def columns(self, dataset: str) -> list[str]:
        """The columns of a dataset's first row."""
        rows = self.dataset(dataset).test
        return list(rows[0]) if len(rows) else []

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
            self._pairs[key] = PairRows(self.experiment.pair(self.task(dataset), self.model_entry(model)))
            while len(self._pairs) > _PAIRS_KEPT:
                self._pairs.popitem(last=False)
        self._pairs.move_to_end(key)
        return self._pairs[key]


def _summarise_row(row: Row, task: TaskEntry) -> str:
    """The text of a row's input columns (of all columns, if none are named) on one line."""
    columns = [column for column in task.reader.input_columns if column in row] or list(row)
    return ' · '.join(' '.join(str(row[column]).split()) for column in columns)


def diff_as_json(left: Preview, right: Preview) -> dict[str, Any]:
    """Two requests aligned, the words that differ marked."""
    changes = align_lines(request_lines(left), request_lines(right))
    return {
        'sides': [
            {'dataset': preview.dataset, 'model': preview.model, 'row': preview.row, 'mode': preview.mode}
            for preview in (left, right)
        ],
        'same': all(change.same for change in changes),
        'changes': [[change.left, change.right] for change in changes],
    }
