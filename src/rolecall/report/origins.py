"""The requests of a run's rows with their origins, worded again from the run's config."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from rolecall.config.files import Config, load_config
from rolecall.datasets import Dataset, Row, open_dataset
from rolecall.errors import RolecallError
from rolecall.pairs.build import build
from rolecall.pairs.pair import Pair, Preview
from rolecall.retrievers import Picked
from rolecall.runs.store.results import Result

__all__ = ['ConfigPreviews']


class ConfigPreviews:
    """Gives the previews of a result. Datasets are opened when the first of their rows is asked for.

    A dataset that can no longer be read gives none; `problems` says why.
    """

    def __init__(
        self, config: Mapping[str, Any] | str | Path, *, data: Mapping[str, str] | None = None, limit: int | None = None
    ) -> None:
        loaded = load_config(config) if isinstance(config, (str, Path)) else config
        plan = build(loaded)
        self._base = loaded.path.parent if isinstance(loaded, Config) else None
        self._data = data
        self._limit = limit
        self._tasks = {task.abbr: task for task in plan.tasks}
        self._model_entries = {model_entry.abbr: model_entry for model_entry in plan.model_entries}
        self._datasets: dict[str, Dataset] = {}
        self._pairs: dict[tuple[str, str], _Rows] = {}
        self.problems: dict[tuple[str, str], str] = {}

    def __call__(self, result: Result) -> list[Preview]:
        """What the config words for this row; nothing if it no longer has the row."""
        key = (result.dataset, result.model)
        if key in self.problems or result.dataset not in self._tasks or result.model not in self._model_entries:
            return []
        try:
            if key not in self._pairs:
                self._pairs[key] = _Rows(self._pair(*key), self._limit)
            return list(self._pairs[key].previews(result))
        except RolecallError as error:
            self.problems[key] = str(error)
            return []

    def _pair(self, dataset: str, model: str) -> Pair:
        task = self._tasks[dataset]
        if dataset not in self._datasets:
            self._datasets[dataset] = open_dataset(task.entry, base=self._base, data=self._data)
        return Pair(task, self._model_entries[model], self._datasets[dataset])


class _Rows:
    """The rows of one pair by number, read as far as they are asked for."""

    def __init__(self, pair: Pair, limit: int | None) -> None:
        self._pair = pair
        self._coming = pair.rows(limit)
        self._read: list[tuple[int, Row, Picked]] = []

    def previews(self, result: Result) -> Iterator[Preview]:
        self._read += islice(self._coming, max(0, result.row + 1 - len(self._read)))
        if result.row >= len(self._read):
            return iter(())
        number, row, picked = self._read[result.row]
        return self._pair.previews(number, row, picked, replies=result.replies)
