"""Two profiles of tests: `make test` tries 25 examples of a property and leaves out what `slow.txt` lists; `make test-all`
runs those, and 100 examples. `HYPOTHESIS_PROFILE=explore` tries many new ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes no example slow to draw.
_SAME = {'derandomize': True, 'deadline': None, 'suppress_health_check': [HealthCheck.too_slow]}
settings.register_profile('steady', max_examples=25, **_SAME)
settings.register_profile('thorough', **_SAME)
settings.register_profile('explore', max_examples=3000, deadline=None)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'steady'))

SLOW = tuple(Path(__file__).with_name('slow.txt').read_text('utf-8').split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `slow.txt` lists, and the tests of properties."""
    for item in items:
        if item.nodeid.removeprefix('tests/').startswith(SLOW):
            item.add_marker(pytest.mark.slow)
        if getattr(getattr(item, 'obj', None), 'is_hypothesis_test', False):
            item.add_marker(pytest.mark.property)
