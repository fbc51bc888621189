"""What every scenario uses: a config, the command line with bounded memory, and the verdict on what came of it."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

__all__ = ['ROWS', 'Verdict', 'judge', 'never', 'rolecall', 'write_config']

ROWS = 40
MEMORY = 1 << 30
"""What a run may take at the most, while hostile replies are read."""


@dataclass(frozen=True)
class Verdict:
    """What came of a scenario."""

    tried: int
    kept: int
    failed: int
    """Rows that ended as `failed`, each with a reason."""
    lost: int
    complaint: str = ''
    """What went wrong with the tool itself: a traceback, a hang, too much memory. Empty if nothing did."""

    @property
    def survived(self) -> bool:
        return not self.lost and not self.complaint


def write_config(
    folder: Path, url: str, *, rows: int = ROWS, data: Path | None = None, name: str = 'config.py', **entry: object
) -> Path:
    """A config of one model and one dataset: so many rows of its own, or those of a file."""
    model = {
        'abbr': 'toy', 'type': 'OpenAI', 'path': 'toy', 'base_url': url, 'key': 'sk-secret-of-the-test',
        'retry': 1, 'timeout': 20, 'max_reply_bytes': 8 << 20, 'max_out_len': 8, **entry,
    }  # fmt: skip
    own = [{'question': f'row {number}', 'answer': f'answer {number}'} for number in range(rows)]
    source = {'type': 'Rows', 'test': own} if data is None else {'path': str(data)}
    dataset = {
        'abbr': 'rows', **source,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': {'type': 'PromptTemplate', 'template': {'round': [{'role': 'HUMAN', 'prompt': '{question}'}]}},
            'inferencer': {'type': 'GenInferencer', 'max_out_len': 8},
        },
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }  # fmt: skip
    config = folder / name
    config.write_text(f'models = [{model!r}]\ndatasets = [{dataset!r}]\n')
    return config


def rolecall(*arguments: str, seconds: float = 120, **options: object) -> subprocess.CompletedProcess[str]:
    """The command line, with bounded memory."""
    return subprocess.run(
        [sys.executable, '-m', 'rolecall', *arguments],
        capture_output=True, text=True, errors='replace', timeout=seconds,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (6 * MEMORY, 6 * MEMORY)), **options,  # type: ignore[call-overload]
    )  # fmt: skip


def judge(out: Path, rows: int, *ran: subprocess.CompletedProcess[str], is_bad: Callable[[int], bool]) -> Verdict:
    """Read the results back, and look for what must not be there."""
    complaint = next((f'traceback: {one.stderr[-300:]}' for one in ran if 'Traceback' in one.stderr + one.stdout), '')
    shown = ''.join(one.stdout + one.stderr for one in ran)
    if '\x1b]0;' in shown or '\x1b[2J' in shown:
        complaint = complaint or 'escape sequences reached the terminal'
    if 'sk-secret-of-the-test' in shown:
        complaint = complaint or 'the key was shown'
    exported = rolecall('export', 'results', str(out))
    reported = rolecall('report', str(out))
    for one in (exported, reported):
        if 'Traceback' in one.stderr or one.returncode not in (0, 1):
            complaint = complaint or f'{one.args[3:5]} failed: {one.stderr[-300:]}'
    results = {row['row']: row for row in map(json.loads, exported.stdout.splitlines())}
    kept = sum(row['outcome'] in ('ok', 'unparsed') for row in results.values())
    failed = sum(row['outcome'] == 'failed' and bool(row.get('reason')) for row in results.values())
    whole = {number for number, row in results.items() if row['outcome'] != 'failed' or row.get('reason')}
    answered = {number for number, row in results.items() if row['outcome'] in ('ok', 'unparsed')}
    lost = sum(number not in (whole if is_bad(number) else answered) for number in range(rows))
    return Verdict(rows, kept, failed, lost, complaint)


def never(row: int) -> bool:
    """No row is bad."""
    return False
