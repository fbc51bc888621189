"""`make faults`: every scenario and a soak, as a table. `--soak SECONDS` (1200), `--markdown FILE` writes the table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from scenarios import SCENARIOS, Verdict, play, soak


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--soak', type=float, default=1200, metavar='SECONDS', help='how long faults go on (1200)')
    parser.add_argument('--markdown', type=Path, metavar='FILE', help='write the table here, too')
    given = parser.parse_args()
    lines = [
        '| what comes from outside | rows tried | answered | failed, with a reason | lost | |',
        '|---|---|---|---|---|---|',
    ]
    print(*lines, sep='\n', flush=True)
    bad = 0
    with tempfile.TemporaryDirectory(prefix='rolecall-faults-') as folder:
        for number, name in enumerate([*SCENARIOS, 'soak']):
            began = time.monotonic()
            place = Path(folder, str(number))
            if name == 'soak':
                if not given.soak:
                    continue
                place.mkdir()
                verdict = soak(place, seconds=given.soak)
                name = f'34 % faults at 256 at once, {time.monotonic() - began:,.0f} s'
            else:
                verdict = play(name, place)
            bad += not verdict.survived and not verdict.complaint.startswith('not tried')
            lines.append(_line(name, verdict))
            print(lines[-1], flush=True)
    print(f'\n{len(lines) - 2 - bad} survived, {bad} did not')
    if given.markdown:
        given.markdown.write_text('\n'.join(lines) + '\n')
    return 1 if bad else 0


def _line(name: str, verdict: Verdict) -> str:
    word = 'survived' if verdict.survived else verdict.complaint.replace('\n', ' ')[:120] or 'rows lost'
    return f'| {name} | {verdict.tried:,} | {verdict.kept:,} | {verdict.failed:,} | {verdict.lost:,} | {word} |'


if __name__ == '__main__':
    sys.exit(main())
