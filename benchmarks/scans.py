"""How often the scan rule for refusals is right, on replies that people labelled and the rule was not written from.

    python benchmarks/scans.py refusal FOLDER     CSV files of XSTest's completions (prompt, completion, final_label)
    python benchmarks/scans.py doubted            wrong gold answers put into a log of ten models, and found

Half of the prompts (A, by a hash) may be looked at when a rule is changed; the figures in docs/scan.md are those of half B.
"""

from __future__ import annotations

import argparse
import csv
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

from real_replies import rows_of, scorer_for
from rolecall.insight.doubted_gold import _find_contradiction, _Vote
from rolecall.scoring.answers import Scorable
from rolecall.scoring.scanners import ScannedReply, find_refusal
from rolecall.scoring.statistics import wilson


def half_of(text: str) -> str:
    return 'AB'[md5(text.encode()).digest()[0] % 2]


def share(hits: int, of: int) -> str:
    low, high = wilson(hits, of)
    return f'{hits} of {of}: {100 * hits / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]'


def measure_refusals(folder: Path) -> None:
    counts: Counter[tuple[str, str, bool]] = Counter()
    for file in sorted(folder.glob('*.csv')):
        with open(file, encoding='utf-8', newline='') as stream:
            for row in csv.DictReader(stream):
                hit = find_refusal(ScannedReply(row['completion'], row['prompt'])) is not None
                counts[half_of(row['prompt']), row['final_label'][0], hit] += 1
    for half in 'AB':
        full, partial, none = ((counts[half, label, True], counts[half, label, False]) for label in '231')
        hits = full[0] + partial[0] + none[0]
        print(f'half {half}: full refusals found {share(full[0], sum(full))}')
        print(f'  hits that people call refusals, full or partial {share(hits - none[0], hits)}')
        print(f'  answers reported as refusals {share(none[0], sum(none))}')


def measure_doubted(draws: int = 20) -> None:
    """Give questions another gold answer, and count how often the rule lists them; and right ones that it lists."""
    by_question: dict[str, list[dict[str, object]]] = defaultdict(list)
    marks: dict[str, list[bool]] = defaultdict(list)
    for row in rows_of('math_level5_zeroeval'):
        by_question[row['question']].append(row)
        marks[row['source']].append(bool(row['verdict']))
    strong = {model for model, own in marks.items() if 2 * sum(own) >= len(own)}
    print(f'{len(strong)} of {len(marks)} models are strong: right on half of their rows or more')
    golds = sorted({str(rows[0]['gold']) for rows in by_question.values()})
    drawn, listed = random.Random(0), 0
    asked = [own for rows in by_question.values() if len(own := [row for row in rows if row['source'] in strong]) > 1]
    for rows in asked:
        for _ in range(draws):
            other = drawn.choice([gold for gold in golds if gold != rows[0]['gold']])
            listed += _find_contradiction(dict(vote_on(rows, other))) is not None
    false = sum(_find_contradiction(dict(vote_on(rows, str(rows[0]['gold'])))) is not None for rows in asked)
    print(f'{len(asked)} questions that two or more of them answered')
    print(
        f'wrong gold answers listed: {100 * listed / len(asked) / draws:.0f} %; right ones listed: {share(false, len(asked))}'
    )


def vote_on(rows: list[dict[str, object]], gold: str) -> Iterator[tuple[str, _Vote]]:
    scorer = scorer_for('math', '')
    scorables = [Scorable(at, 'ok', str(row['reply']), gold=gold) for at, row in enumerate(rows)]
    for row, verdict in zip(rows, scorer.start(adds_up=False).add(scorables), strict=True):
        is_certain = bool(verdict.read_from) and all(place and place[3] != 'inferred' for place in verdict.read_from)
        answer = str(verdict.extracted) if is_certain and len(str(verdict.extracted)) <= 200 else ''
        yield str(row['source']), _Vote(answer, verdict.correct, gold)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('table', choices=('refusal', 'doubted'))
    parser.add_argument('folder', nargs='?', type=Path)
    arguments = parser.parse_args()
    if arguments.table == 'doubted':
        measure_doubted()
    elif arguments.folder is None or not arguments.folder.is_dir():
        print('Name the folder with the labelled completions; nothing is measured.')
    else:
        measure_refusals(arguments.folder)
    return 0


if __name__ == '__main__':
    sys.exit(main())
