"""Write tests/slow.txt: the tests that take long enough to be left to `make test-all`.

make test PYTEST='--durations=0 --durations-min=0.02' | tee times.txt
python tools/slow_tests.py times.txt [--seconds 0.25]

A test is slow if one of its cases takes longer than that, or all its cases together ten times as long. What the list
names already stays in it, because a run that leaves tests out does not time them.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / 'tests' / 'slow.txt'
_TIMED = re.compile(r'\s*([\d.]+)s (?:call|setup|teardown)\s+tests/(\S+?\.py::\S+)')
_CASES_COUNT_AS = 10


def read_times(text: str) -> dict[str, Counter[str]]:
    """Seconds by case, by test function."""
    times: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for seconds, case in _TIMED.findall(text):
        times[case.partition('[')[0]][case] += float(seconds)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('durations', type=Path, help='what pytest --durations=0 printed')
    parser.add_argument('--seconds', type=float, default=0.25)
    options = parser.parse_args()
    listed = set(LIST.read_text('utf-8').split())
    for test, cases in read_times(options.durations.read_text('utf-8')).items():
        if max(cases.values()) > options.seconds or cases.total() > _CASES_COUNT_AS * options.seconds:
            listed.add(test)
    whole = {name for name in listed if '::' not in name}
    kept = sorted(name for name in listed if not any(name != other and name.startswith(other) for other in listed))
    LIST.write_text('\n'.join(kept) + '\n', 'utf-8')
    print(f'{len(kept)} entries, {len(whole)} of them whole files')


if __name__ == '__main__':
    main()
