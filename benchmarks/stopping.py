"""How many rows `--until` saves, and how often its intervals hold the truth, by simulation.

    python benchmarks/stopping.py [--runs 10000]

Each run draws rows of two models with a known difference, in the rounds of `rolecall run --until`, looks after each
round, and stops as the command does. `wrong`: the worse model is called better (at no difference: either is).
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

from rolecall.runs.stopping import list_rounds
from rolecall.scoring.confidence_sequence import MEASURING, ConfidenceSequence

DATASETS = {'MMLU': 14_042, 'GSM8K': 1_319}
DIFFERENCES = ((0.0, 0.25), (0.02, 0.2), (0.05, 0.2), (0.05, 0.3), (0.1, 0.2), (0.1, 0.3), (0.2, 0.25), (0.2, 0.3))
"""The true difference, and the share of rows on which the models differ."""
WIDTHS = ((5.0, 0.6), (2.0, 0.6), (2.0, 0.9))


def decide(
    total: int, difference: float, discordant: float, drawn: np.random.Generator
) -> tuple[int, bool, bool, bool]:
    """Rows asked, whether it was decided, whether wrongly, and whether the interval holds the truth."""
    shares = [(discordant + difference) / 2, (discordant - difference) / 2, 1 - discordant]
    watched = ConfidenceSequence(-1, 1)
    for begin, end in list_rounds(total):
        gained, lost, same = drawn.multinomial(end - begin, shares).tolist()
        watched.add_counts({1.0: gained, -1.0: lost, 0.0: same})
        if watched.excludes(0):
            break
    decided = watched.excludes(0)
    low, high = watched.interval()
    return watched.count, decided, decided and watched.mean * difference <= 0, low <= difference <= high


def measure(total: int, width: float, share: float, drawn: np.random.Generator) -> tuple[int, bool]:
    """Rows asked until the interval is narrow enough, and whether it holds the truth."""
    watched = ConfidenceSequence(0, 1, stakes=MEASURING)
    for begin, end in list_rounds(total):
        right = int(drawn.binomial(end - begin, share))
        watched.add_counts({1.0: right, 0.0: end - begin - right})
        low, high = watched.interval()
        if high - low <= width / 50:
            break
    return watched.count, low <= share <= high


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
    print('\n| width | true score | asked (median) of 14,042 | interval holds |\n|---|---:|---:|---:|')
    for width, share in WIDTHS:
        asked, holds = zip(*(measure(14_042, width, share, drawn) for _ in range(runs // 10)), strict=True)
        print(
            f'| ±{width:g} | {100 * share:g} | {median(asked):,.0f} | {10 * sum(holds) / runs:.1%} |'.replace('%', ' %')
        )


if __name__ == '__main__':
    main()
