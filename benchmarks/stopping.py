"""How many rows `--until` saves, and how often its intervals hold the truth, by simulation.

    python benchmarks/stopping.py [--runs 10000]

Each run draws rows of two models with a known difference, in the rounds of `rolecall run --until`, looks after each
round, and stops as the command does. `wrong`: the worse model is called better (at no difference: either is).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from statistics import median

import numpy as np

from rolecall.runs.stopping import list_rounds
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
    for begin, end in list_rounds(total):
        gained, lost, same = drawn.multinomial(end - begin, shares).tolist()
        watched.add_counts({1.0: gained, -1.0: lost, 0.0: same})
        if watched.excludes(0):
            break
    decided = watched.excludes(0)
    low, high = watched.interval()
    return watched.count, decided, decided and watched.mean * difference <= 0, low <= difference <= high


def open_width(total: int, width: float) -> ConfidenceSequence:
    return ConfidenceSequence(0, 1, population=total, half_width=width / 100)


def draw_rounds(total: int, share: float, drawn: np.random.Generator) -> Iterator[dict[float, int]]:
    """The scores of each round, without putting rows back; `share` of all rows are right."""
    right = round(total * share)
    for begin, end in list_rounds(total):
        hits = int(drawn.hypergeometric(right, total - begin - right, end - begin))
        right -= hits
        yield {1.0: hits, 0.0: end - begin - hits}


def measure(total: int, width: float, share: float, drawn: np.random.Generator) -> int:
    """Rows asked until the interval is narrow enough."""
    watched = open_width(total, width)
    for counts in draw_rounds(total, share, drawn):
        watched.add_counts(counts)
        if all(watched.excludes(watched.mean + side * width / 50) for side in (1, -1)):  # cheaper than both ends
            low, high = watched.interval()
            if high - low <= width / 50:
                break
    return watched.count


def holds_always(total: int, width: float, share: float, drawn: np.random.Generator) -> bool:
    """Whether the interval holds the truth after every round up to the last row."""
    watched = open_width(total, width)
    for counts in draw_rounds(total, share, drawn):
        watched.add_counts(counts)
        if watched.excludes(round(total * share) / total):
            return False
    return True


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
        holds = sum(holds_always(total, width, share, drawn) for _ in range(runs)) / runs
        print(f'| {total:,} | ±{width:g} | {100 * share:g} | {asked:,.0f} | {100 * holds:.1f} % |', flush=True)


if __name__ == '__main__':
    main()
