"""The config files and run directories that the page was opened with. Only the command line can name them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.runs.serving.bench_files import is_bench
from rolecall.runs.store.directory import FILE
from rolecall.ui.web.call_documents import CallDocument
from rolecall.ui.web.documents import ConfigDocument
from rolecall.ui.web.run_documents import RunDocument
from rolecall.ui.web.starting import StartedRun


class Workspace:
    """The configs and runs of one page. Configs are executed when the page first asks for them."""

    def __init__(self, paths: Sequence[Path], *, watched: Path | None = None) -> None:
        """`watched`: a log of an application's calls."""
        self.calls = None if watched is None else CallDocument(watched)
        self.benches = [path for path in paths if is_bench(path)]
        self._runs = [run for path in paths if path.is_dir() and not is_bench(path) for run in _find_runs(path)]
        self._configs = [path for path in paths if not path.is_dir()]
        self._documents: dict[int, ConfigDocument] = {}
        self._run_documents: dict[int, RunDocument] = {}
        self._started: list[StartedRun] = []
        for path in self._configs:
            if not path.is_file():
                raise ConfigError(Problem(str(path), 'no such file or directory.'))

    def document(self, number: int) -> ConfigDocument:
        """A config by its number, opened when first needed."""
        if number not in self._documents:
            self._documents[number] = self.reopen(number)
        return self._documents[number]

    def reopen(self, number: int) -> ConfigDocument:
        """A config by its number, as its file is now, for another thread."""
        if not 0 <= number < len(self._configs):
            raise ConfigError(Problem('config', f'there is no config number {number}.'))
        return ConfigDocument(self._configs[number])

    def run(self, number: int) -> RunDocument:
        """A run by its number, opened when first needed."""
        path = self.run_path(number)
        if number not in self._run_documents:
            self._run_documents[number] = RunDocument(path)
        return self._run_documents[number]

    def run_path(self, number: int) -> Path:
        """The directory of a run by its number."""
        if not 0 <= number < len(self._runs):
            raise ConfigError(Problem('run', f'there is no run number {number}.'))
        return self._runs[number]

    def start(self, config: int, options: Mapping[str, Any]) -> int:
        """Start a run of a config; its number among those that the page has started."""
        self._started.append(StartedRun(self.reopen(config), options))
        return len(self._started) - 1

    def started(self, number: int) -> dict[str, Any]:
        """How a run that the page has started is getting on, and its number among all runs once it has results."""
        if not 0 <= number < len(self._started):
            raise ConfigError(Problem('number', f'this page has started no run number {number}.'))
        state = self._started[number].as_json()
        out = self._started[number].out
        if state['begun'] and out.resolve() not in [path.resolve() for path in self._runs]:
            self._runs.append(out)
        paths = [path.resolve() for path in self._runs]
        return {**state, 'run': paths.index(out.resolve()) if state['begun'] else None}

    def config_for(self, dataset: str, model: str) -> ConfigDocument | None:
        """A config of the page that has this dataset and this model."""
        for number in range(len(self._configs)):
            try:
                document = self.document(number)
                document.task(dataset)
                document.model_entry(model)
            except RolecallError:
                continue
            return document
        return None

    def overview(self) -> dict[str, Any]:
        """Every config with its datasets and models, or why it cannot be opened; and every run."""
        return {
            'configs': [self._describe(number) for number in range(len(self._configs))],
            'runs': [{'path': str(path), 'name': path.resolve().name} for path in self._runs],
            'benches': [path.resolve().name for path in self.benches],
            'calls': None if self.calls is None else self.calls.path.name,
        }

    def runs(self) -> list[dict[str, Any]]:
        """Every run with its scores, or why it cannot be read."""
        return [self._summarise(number) for number in range(len(self._runs))]

    def _summarise(self, number: int) -> dict[str, Any]:
        try:
            return self.run(number).summary()
        except RolecallError as error:
            path = self._runs[number]
            return {'path': str(path), 'name': path.resolve().name, 'error': str(error)}

    def _describe(self, number: int) -> dict[str, Any]:
        try:
            return self.document(number).overview()
        except RolecallError as error:
            path = self._configs[number]
            return {'path': str(path), 'name': path.stem, 'datasets': [], 'models': [], 'error': str(error)}


def _find_runs(path: Path) -> list[Path]:
    """The run itself, or the runs in a directory of runs."""
    if (path / FILE).is_file():
        return [path]
    runs = sorted(inner.parent for inner in path.glob(f'*/{FILE}') if inner.is_file())
    if not runs:
        raise ConfigError(Problem(str(path), f'not a run directory: it has no {FILE}, nor has any directory in it.'))
    return runs
