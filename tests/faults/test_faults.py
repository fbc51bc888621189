"""Nothing from outside stops, empties or escapes a run: every scenario ends with no row lost and no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from hostile_server import MISBEHAVIOURS
from scenarios import SCENARIOS, play

QUICK = ('a lone surrogate in an error', 'bits flipped in the store')
"""Those that every `make test` plays. `make test-all` adds those about processes and files; `make faults` plays all."""


LONG = ('every write, sync and rename fails, each in turn',)
"""Minutes: `make faults` alone."""


@pytest.mark.parametrize('name', QUICK)
def test_no_row_is_lost_to(name: str, tmp_path: Path) -> None:
    verdict = play(name, tmp_path)
    assert verdict.survived, verdict


@pytest.mark.heavy
@pytest.mark.parametrize('name', [name for name in SCENARIOS if name not in (*QUICK, *MISBEHAVIOURS, *LONG)])
def test_no_row_is_lost_to_rarer_faults_either(name: str, tmp_path: Path) -> None:
    verdict = play(name, tmp_path)
    if verdict.complaint.startswith('not tried'):
        pytest.skip(verdict.complaint)
    assert verdict.survived, verdict
