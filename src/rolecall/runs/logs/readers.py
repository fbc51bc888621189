"""Logs of other harnesses by name: which harness wrote one, and how it becomes a run directory."""

from __future__ import annotations

from pathlib import Path

from rolecall.runs.logs.inspect_log import read_inspect
from rolecall.runs.logs.lm_eval_log import read_lm_eval
from rolecall.runs.logs.log import ImportedLog, keep_newest, write_run
from rolecall.runs.logs.opencompass_log import read_opencompass


def find_harness(source: Path) -> str | None:
    """The harness that wrote a log; None if it is not one that we know."""
    if source.suffix == '.eval':
        return 'inspect'
    if source.is_file():
        return 'lm-eval' if source.name.startswith('results_') and source.suffix == '.json' else None
    if next(source.rglob('results_*.json'), None) is not None:
        return 'lm-eval'
    return 'opencompass' if next(source.rglob('predictions'), None) is not None else None


def read_log(harness: str, source: Path, out: Path) -> tuple[list[ImportedLog], list[str]]:
    """Write a log as a run directory; what was read, and what a newer log replaces."""
    if harness == 'lm-eval':
        logs = read_lm_eval(source)
    elif harness == 'inspect':
        logs = read_inspect(source)
    else:
        logs = read_opencompass(source, 'OpenCompass' if harness == 'opencompass' else 'AISBench')
    logs, left_out = keep_newest(logs)
    write_run(logs, str(source), out)
    return logs, left_out
