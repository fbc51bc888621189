"""Runs that the page starts: planned and priced first, then made by a process that outlives the page."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rolecall.errors import ConfigError, Problem, RolecallError
from rolecall.runs.brake import change_control
from rolecall.runs.planning import plan_run
from rolecall.runs.run_options import RunOptions
from rolecall.runs.store.run_reader import RunReader
from rolecall.runs.versions import choose_version, describe_rows
from rolecall.ui.web.documents import ConfigDocument

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
        begun = _count_starts(self.out) > self._starts_before
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
