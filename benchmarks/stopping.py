"""How many rows `--until` saves, and how often its intervals hold the truth, by simulation.

    python benchmarks/stopping.py [--runs 10000]

Each run draws rows of two models with a known difference, in the rounds of `rolecall run --until`, looks after each
round, and stops as the command does. `wrong`: the worse model is called better (at no difference: either is).
"""

from __future__ import annotations

import argparse
import math
from statistics import median

import numpy as np

from rolecall.runs.stopping import size_round
from rolecall.scoring.confidence_sequence import ConfidenceSequence

DATASETS = {'MMLU': 14_042, 'GSM8K': 1_319}
DIFFERENCES = (
    *((0.0, 0.25), (0.02, 0.2), (0.02, 0.3), (0.05, 0.2), (0.05, 0.25), (0.05, 0.3)),
    *((0.1, 0.2), (0.1, 0.25), (0.1, 0.3), (0.2, 0.2), (0.2, 0.25), (0.2, 0.3)),
)
"""The true difference, and the share of rows on which the models differ."""
WIDTHS = ((14_042, 5.0, 0.6), (14_042, 2.0, 0.6), (14_042, 2.0, 0.9), (1_319, 2.0, 0.6), (1_319, 5.0, 0.8))


def decide(
    total: int, difference: float, discordant: float, drawn: np.random.Generator
) -> tuple[int, bool, bool, bool]:
    """Rows asked, whether it was decided, whether wrongly, and whether the interval holds the truth."""
    shares = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    watched = ConfidenceSequence(-1, 1)
    to_go = math.inf
    while watched.count < total and to_go:
        size = min(size_round(watched.count, to_go), total - watched.count)
        gained, lost, same = drawn.multinomial(size, shares).tolist()
        watched.add_counts({1.0: gained, -1.0: lost, 0.0: same})
        to_go = watched.count_to_exclude(0)
    decided = not to_go
    low, high = watched.interval()
    return watched.count, decided, decided and watched.mean * difference <= 0, low <= difference <= high


def open_width(total: int, width: float) -> ConfidenceSequence:
    return ConfidenceSequence(0, 1, population=total, half_width=width / 100)


def measure(total: int, width: float, share: float, drawn: np.random.Generator, *, whole: bool = False) -> int:
    """Rows asked until the interval is narrow enough; with `whole`, until it misses the truth, or 0 if it never does.

    Rows are not put back; `share` of all rows are right.
    """
    watched, right, to_go = open_width(total, width), round(total * share), math.inf
    truth = right / total
    while watched.count < total and to_go:
        size = min(size_round(watched.count, watched.count / 3 if whole else to_go), total - watched.count)
        hits = int(drawn.hypergeometric(right, total - watched.count - right, size))
        right -= hits
        watched.add_counts({1.0: hits, 0.0: size - hits})
        if not whole:
            to_go = watched.count_to_narrow(width / 100)
        elif watched.excludes(truth):
            return watched.count
    return 0 if whole else watched.count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--runs', type=int, default=10_000)
    runs = parser.parse_args().runs
    drawn = np.random.default_rng(0)
    print('| rows | difference | rows that differ | asked (median) | decided | wrong | interval holds |')
    print('|---|---:|---:|---:|---:|---:|---:|')
    for name, total in DATASETS.items():
        for difference, discordant in DIFFERENCES:
            ends = [decide(total, difference, discordant, drawn) for _ in range(runs)]
            asked, decided, wrong, holds = zip(*ends, strict=True)
            shares = ' | '.join(f'{sum(flags) / runs:.1%}' for flags in (decided, wrong, holds))
            row = f'| {name}, {total:,} | {100 * difference:g} | {discordant:.0%} | {median(asked):,.0f} | {shares} |'
            print(row.replace('%', ' %'), flush=True)
    print(
        '\n| rows | width | true score | asked (median) | interval holds after every round |\n|---|---:|---:|---:|---:|'
    )
    for total, width, share in WIDTHS:
        asked = median(measure(total, width, share, drawn) for _ in range(max(runs // 50, 9)))
        holds = sum(not measure(total, width, share, drawn, whole=True) for _ in range(runs)) / runs
        print(f'| {total:,} | ±{width:g} | {100 * share:g} | {asked:,.0f} | {100 * holds:.1f} % |', flush=True)


if __name__ == '__main__':
    main()
