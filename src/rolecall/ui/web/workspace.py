"""The configs, runs and log of calls that the page was opened with. Only the command line can name them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

from rolecall.checking import is_whole
from rolecall.core.prompts.pieces import Kind, Origin
from rolecall.core.render.spans import Span
from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.runs.brake import change_control
from rolecall.runs.planning import plan_run
from rolecall.runs.run_options import RunOptions
from rolecall.runs.serving.bench_files import is_bench
from rolecall.runs.store.directory import FILE
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import choose_version, describe_rows
from rolecall.ui.web.documents import ConfigDocument
from rolecall.ui.web.page_json import span_as_json
from rolecall.ui.web.run_documents import RunDocument

_OPTIONS: Mapping[str, tuple[str, type | tuple[type, ...]]] = {
    'dataset': ('--dataset', str),
    'model': ('--model', str),
    'limit': ('--limit', int),
    'max_cost': ('--max-cost', (int, float)),
}
"""What the page's form sets, as the command line calls it."""
_LAST = 4000
"""Characters of what a run prints that the page shows."""


def _read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options that the page's form sends; those left empty are left out."""
    options = {name: value for name, value in given.items() if value not in (None, '')}
    for name, value in options.items():
        if name not in _OPTIONS or isinstance(value, bool) or not isinstance(value, _OPTIONS[name][1]):
            raise ConfigError(Problem('options', f'{name!r:.40} cannot be set to {value!r:.40} here.'))
    return options


def plan_as_json(document: ConfigDocument, given: Mapping[str, Any]) -> dict[str, Any]:
    """What a run would send and cost at most, and where its results would be kept."""
    options = RunOptions(**_read_options(given))
    out, note = choose_version(document.experiment, Path('runs'), rows=describe_rows(options))
    plan = plan_run(document.experiment, replace(options, out=out))
    return {'lines': [*plan.lines()], 'requests': plan.requests, 'price': plan.price, 'out': str(out), 'note': note}


class StartedRun:
    """A run under way in a process of its own."""

    def __init__(self, document: ConfigDocument, given: Mapping[str, Any]) -> None:
        options = _read_options(given)
        document.experiment.select(dataset=options.get('dataset'), model=options.get('model'))
        rows = describe_rows(RunOptions(**options))
        self.out, _ = choose_version(document.experiment, Path('runs'), rows=rows)
        self._starts_before = _count_starts(self.out)
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  # closed when the run has ended
        self._printed = ''
        command = [sys.executable, '-m', 'rolecall', 'run', str(document.path), '--out', str(self.out), '--quiet']
        self._process = subprocess.Popen(
            [*command, *(f'{_OPTIONS[name][0]}={value}' for name, value in options.items())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._log,
            start_new_session=True,
            env={**os.environ, 'ROLECALL_LANG': 'en'},
        )

    def as_json(self) -> dict[str, Any]:
        """Whether it has begun to write results, whether it has ended and how, and what it printed last."""
        code = self._process.poll()
        if not self._log.closed:
            self._log.seek(0)
            self._printed = self._log.read().decode('utf-8', 'replace')[-_LAST:]
        if code is not None:
            self._log.close()
        begun = code == 0 or _count_starts(self.out) > self._starts_before  # with nothing to send, it does not start
        return {'out': str(self.out), 'begun': begun, 'code': code, 'printed': self._printed}


def _count_starts(out: Path) -> int:
    """How often a run directory was begun or continued; before the first time, it cannot be read."""
    with suppress(RolecallError), RunReader(out) as reader:
        return len(list(reader.starts()))
    return 0


def control_run(directory: Path, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Pause or resume a run under way, change its concurrency, or let go of a model."""
    known = {
        'paused': isinstance(changes.get('paused', False), bool),
        'concurrency': type(changes.get('concurrency', 1)) is int and changes.get('concurrency', 1) > 0,
        'drop': isinstance(changes.get('drop', ''), str),
    }
    if unknown := [name for name in changes if not known.get(name)]:
        raise ConfigError(Problem('control', f'{unknown[0]!r:.40} cannot be set to this.'))
    changes = {name: [value] if name == 'drop' else value for name, value in changes.items()}
    return asdict(change_control(directory, **changes))


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


_MOST_BYTES = 2_000_000
"""Read for one answer; the page asks for the rest."""


class CallDocument:
    """One log. It may not be there yet: the application may start later."""

    def __init__(self, path: Path) -> None:
        if path.is_dir():
            raise ConfigError(Problem(str(path), 'is a folder.', "Give the file of CallLog('calls.jsonl')."))
        self.path = path

    def read(self, after: int) -> dict[str, Any]:
        """The events behind a place in the file, and the place behind them. A line that is being written waits."""
        if not self.path.exists():
            return {'events': [], 'after': 0}
        with self.path.open('rb') as file:
            start = after if 0 <= after <= self.path.stat().st_size else 0
            file.seek(start)
            part = file.read(_MOST_BYTES)
        whole = part[: part.rfind(b'\n') + 1]
        events = [event for line in whole.splitlines() if (event := _read_event(line)) is not None]
        return {'events': events, 'after': start + len(whole)}


def _read_event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    if not isinstance(event, dict) or 'kind' not in event:
        return None
    spans = event.pop('spans', None)
    if isinstance(spans, list):
        calls = event.pop('calls', None)
        parts = [part for part in (*spans, *(calls if isinstance(calls, list) else ())) if isinstance(part, Mapping)]
        event['blocks'] = _make_blocks(parts)
        fields = {part.get('name'): str(part.get('text', '')) for part in parts if part.get('kind') == 'field'}
        event['asked'] = fields.get('input') or next(iter(fields.values()), '')
    return event


def _make_blocks(parts: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The spans of each message, or of the whole text. A message that calls tools says so in its heading."""
    kinds: tuple[Kind, ...] = get_args(Kind)
    blocks: dict[Any, dict[str, Any]] = {}
    for part in parts:
        role, number = str(part.get('role', '')), part.get('message')
        block = blocks.setdefault(str(number), {'heading': role, 'extra': '', 'spans': [], 'at': number})
        if 'arguments' in part:
            block['heading'] += f' · {part.get("name")}({part["arguments"]})'
        else:
            kind = next((kind for kind in kinds if kind == part.get('kind')), kinds[0])
            span = Span(str(part.get('text', '')), Origin(kind, str(part.get('name', ''))))
            block['spans'].append(span_as_json(span))
    ordered = sorted(blocks.values(), key=lambda block: block['at'] if is_whole(block['at']) else -1)
    return [{name: value for name, value in block.items() if name != 'at'} for block in ordered]
