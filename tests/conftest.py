"""Two profiles of tests: `make test` tries 25 examples of a property and leaves out what `slow.txt` lists; `make test-all`
runs those, and 100 examples. `HYPOTHESIS_PROFILE=explore` tries many new ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rolecall import redaction

# A busy machine makes no example slow to draw.
_SAME = {'derandomize': True, 'deadline': None, 'suppress_health_check': [HealthCheck.too_slow]}
settings.register_profile('steady', max_examples=25, **_SAME)
settings.register_profile('thorough', **_SAME)
settings.register_profile('explore', max_examples=3000, deadline=None)
settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'steady'))

SLOW = frozenset(Path(__file__).with_name('slow.txt').read_text('utf-8').split())
"""Files and functions (`tools/slow_tests.py` writes them from times), and the beginnings of single cases (`file::test[case`)."""
CASES = tuple(name for name in SLOW if '[' in name)


@pytest.fixture(autouse=True)
def _forget_keys() -> Iterator[None]:
    """A key that a test gives in code is not withheld from the streams of the next."""
    before = frozenset(redaction._REMEMBERED)
    yield
    redaction._REMEMBERED.intersection_update(before)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of slow tests alone is not even imported where slow tests are left out."""
    leaves_out = 'not slow' in config.option.markexpr
    return True if leaves_out and collection_path.name in SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what `slow.txt` lists, and the tests of properties."""
    for item in items:
        case = item.nodeid.removeprefix('tests/')
        function = case.partition('[')[0]
        if function in SLOW or function.partition('::')[0] in SLOW or case.startswith(CASES):
            item.add_marker(pytest.mark.slow)
        if getattr(getattr(item, 'obj', None), 'is_hypothesis_test', False):
            item.add_marker(pytest.mark.property)
