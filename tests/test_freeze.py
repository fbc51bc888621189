"""The tool that freezes behaviour: recordings agree, and an output that differs is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parent.parent / 'tools' / 'freeze.py'


def freeze(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True, timeout=120)


def test_a_recording_agrees_with_the_next_and_a_difference_is_shown(tmp_path: Path) -> None:
    record, full = tmp_path / 'record.jsonl', tmp_path / 'full'
    options = ('arithmetic-set', '--file', record, '--full', full)
    assert freeze('record', *options).returncode == 0
    again = freeze('compare', *options)
    assert (again.returncode, again.stdout.partition(' (')[0]) == (0, '0 of 1 cases differ')

    record.write_text(json.dumps(json.loads(record.read_text()) | {'view': 'other'}))
    shown = full / 'arithmetic-set' / 'view.txt'
    shown.write_text(shown.read_text().replace('Calculate.', 'Compute.'))
    changed = freeze('compare', *options)
    assert changed.returncode == 1
    assert 'arithmetic-set: view differs' in changed.stdout
    assert 'prompt": "Compute.' in changed.stdout
    assert 'prompt": "Calculate.' in changed.stdout


def test_an_unknown_case_is_an_error_that_says_where_the_names_are() -> None:
    refused = freeze('compare', 'no-such-case')
    assert refused.returncode == 1
    assert 'no case matches no-such-case' in refused.stderr
    assert 'arithmetic' in freeze('list').stdout.splitlines()
