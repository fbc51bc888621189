"""No metric or reader takes longer than in proportion to the reply (`make faults` tries more, and up to 1e6 characters)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from reply_growth import SHAPES, growth_faults, subjects

FEW = (
    'newlines after A', 'spaces after A', 'spaces after 1', 'nested pairs', 'boxed', 'mixed', r'spaces after \boxed{',
    'spaces', 'word', 'letter after dashes', 'braces closed', 'list of objects',
)  # fmt: skip


@pytest.mark.filterwarnings('ignore::pytest.PytestUnraisableExceptionWarning')  # a limit that ends a finaliser
@pytest.mark.parametrize('kind', ['postprocessor', 'program', 'judge', 'metric', 'scan'])
def test_time_grows_no_faster_than_the_reply(kind: str) -> None:
    calls = {subject: call for subject, call in subjects() if subject.partition(' ')[0] == kind}
    assert calls
    assert {
        subject: faults for subject, call in calls.items() if (faults := growth_faults(call, (1000, 8000), FEW))
    } == {}


def test_the_shapes_cover_what_weak_models_repeat() -> None:
    assert len(SHAPES) > len(FEW)
    assert all(len(make(2000)) >= 1900 for make in SHAPES.values())


@pytest.mark.parametrize(('power', 'noticed'), [(1, False), (2, True)])
def test_a_quadratic_call_is_noticed(power: int, noticed: bool) -> None:
    def work(reply: str) -> None:
        for _ in range(100 * len(reply) ** power):
            pass

    assert bool(growth_faults(work, (50, 1600), ['one letter'])) is noticed
