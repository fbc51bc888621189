"""Whatever comes in, every reader returns or raises an error of ours, soon and in bounded memory (see `targets.py`)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).parent))
from targets import TARGETS, check

EXAMPLES = 25
"""Inputs for each target in `make test`; `make faults` tries thousands."""


@pytest.mark.parametrize('name', TARGETS)
def test_no_input_breaks(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=max(6, int(EXAMPLES * target.weight)), deadline=None, suppress_health_check=list(HealthCheck)
    )
    @given(target.inputs)
    def attack(given_: Any) -> None:
        check(target, given_)

    attack()
