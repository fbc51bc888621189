"""The long fuzzing of `make faults`: new inputs for every target, as many as fit into `--seconds` each.

`--atheris` lets libFuzzer steer the same targets by coverage, where the package `atheris` is installed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings

sys.path.insert(0, str(Path(__file__).parent))
from reply_growth import growth_faults, subjects
from targets import TARGETS, Target, check

_ROUND = 200


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--seconds', type=float, default=60, help='for each target (60)')
    parser.add_argument('--target', action='append', choices=sorted(TARGETS), help='only this one; may be repeated')
    parser.add_argument('--atheris', action='store_true', help='let coverage choose the inputs')
    given_ = parser.parse_args()
    names = given_.target or list(TARGETS)
    if given_.atheris and len(names) > 1:  # libFuzzer ends its process
        return max(_run_alone(name, given_.seconds) for name in names)
    bad = 0 if given_.target else _let_replies_grow()
    for name in names:
        tried, problem = (_steer if given_.atheris else _fuzz)(TARGETS[name], given_.seconds)
        print(f'{name:32} {tried:>9,} inputs  {problem or "held"}', flush=True)
        bad += bool(problem)
    return 1 if bad else 0


def _let_replies_grow() -> int:
    """Readers, metrics and judge parsers whose time grows faster than the reply, up to a million characters."""
    bad = 0
    for name, call in subjects():
        faults = growth_faults(call, (1000, 8000, 64_000, 1_000_000))
        print(f'{name:60} {"; ".join(faults) or "held"}', flush=True)
        bad += bool(faults)
    return bad


def _fuzz(target: Target, seconds: float) -> tuple[int, str]:
    """Rounds of random inputs until time is up; the first that breaks a promise, made as small as possible."""
    ends, tried = time.monotonic() + seconds, 0

    def attack(given_: Any) -> None:
        nonlocal tried
        tried += 1
        check(target, given_)

    test: Callable[[], None] = settings(
        max_examples=_ROUND, deadline=None, database=None, derandomize=False, suppress_health_check=list(HealthCheck)
    )(given(target.inputs)(attack))
    while time.monotonic() < ends:
        try:
            test()
        except Exception as error:
            notes = '\n'.join(getattr(error, '__notes__', ()))
            return tried, f'{type(error).__name__}: {error}\n{notes}'[:2000]
    return tried, ''


def _steer(target: Target, seconds: float) -> tuple[int, str]:
    import atheris  # type: ignore[import-not-found]  # optional

    tried = 0

    def attack(given_: Any) -> None:
        nonlocal tried
        tried += 1
        check(target, given_)

    test = settings(database=None, deadline=None, suppress_health_check=list(HealthCheck))(given(target.inputs)(attack))
    atheris.instrument_all()
    atheris.Setup([sys.argv[0], f'-max_total_time={int(seconds)}', '-verbosity=0'], test.hypothesis.fuzz_one_input)
    atheris.Fuzz()  # ends the process
    return tried, ''


def _run_alone(name: str, seconds: float) -> int:
    command = [sys.executable, __file__, '--atheris', '--target', name, '--seconds', str(seconds)]
    ended = subprocess.run(command, capture_output=True, text=True, errors='replace')
    print(f'{name:32} {"held" if ended.returncode == 0 else ended.stderr[-2000:]}', flush=True)
    return int(ended.returncode != 0)


if __name__ == '__main__':
    sys.exit(main())
