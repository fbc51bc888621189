"""How often what a sweep states is true, by simulation: the errors of its line, and the intervals of the best variants.

`python benchmarks/sweep_intervals.py [--simulations N]`. Twelve wordings shift the chance of a right answer by a normal draw; rows
are hard or easy, and a fifth of the replies is drawn anew. The best and the most robust variant are chosen on every other row;
their score on the rows between is compared with the true one, beside the score on the rows that chose them.
"""

from __future__ import annotations

import argparse
import random
from math import sqrt
from statistics import fmean, pstdev

from rolecall.insight.sweep import Swept, pick_robust
from rolecall.insight.sweep_axes import AxisLevel, Entries, Variant
from rolecall.scoring.statistics import compare_paired

VARIANTS = 12
ANEW = 0.2
CLIPPED = (0.02, 0.98)


def simulate(rows: int, spread: float, chance: random.Random) -> tuple[Swept, dict[Variant, float]]:
    """A swept dataset of `rows`, and the true score of each variant, over all rows that there could be."""
    levels = [AxisLevel('wording', str(at), lambda entries: entries) for at in range(VARIANTS)]
    variants = [Variant(Entries({})), *(Variant(Entries({}), (level,)) for level in levels[1:])]
    true = {variant: min(max(0.6 + chance.gauss(0, spread), CLIPPED[0]), CLIPPED[1]) for variant in variants}
    ease = [chance.random() for _ in range(rows)]

    def answer(variant: Variant, row: int) -> float:
        drawn = chance.random() if chance.random() < ANEW else ease[row]
        return float(drawn < true[variant])

    scores = {variant: {row: answer(variant, row) for row in range(rows)} for variant in variants}
    again = {'again': {row: answer(variants[0], row) for row in range(rows)}}
    return Swept('d', 'm', True, scores, dict.fromkeys(variants, frozenset[int]()), again), true


def report(rows: int, spread: float, times: int) -> None:
    chance = random.Random(rows)
    lines: dict[str, list[bool]] = {'score ± 1.96 × rows': [], 'best': [], 'most robust': [], 'difference of two': []}
    naive, held = [], []
    spreads, noises, true_spreads = [], [], []
    for _ in range(times):
        swept, true = simulate(rows, spread, chance)
        base = swept.base
        lines['score ± 1.96 × rows'].append(abs(swept.mean(base) - true[base]) <= 1.96 * swept.row_error)
        for name, variant in (('best', swept.pick_best()), ('most robust', pick_robust([swept]))):
            chosen = swept.hold_out(variant)
            lines[name].append(chosen.held_out_interval[0] <= true[variant] <= chosen.held_out_interval[1])
            if name == 'best':
                naive.append(swept.mean(variant, swept.rows[::2]) - true[variant])
                held.append(chosen.held_out - true[variant])
        other = list(swept.scores)[1]
        before, after = ([swept.scores[variant][row] for row in swept.rows] for variant in (base, other))
        interval = compare_paired(before, after, [None] * rows).interval
        lines['difference of two'].append(interval.low <= true[other] - true[base] <= interval.high)
        spreads.append(swept.variance())
        true_spreads.append(pstdev(true.values()) ** 2 * VARIANTS / (VARIANTS - 1))
        noises.append(swept.noise or 0.0)
    shares = ', '.join(f'{name} {fmean(holds):.1%}' for name, holds in lines.items())
    print(f'{rows} rows, wordings ± {100 * spread:.0f}: {shares}')
    print(
        f'  best: {100 * fmean(naive):+.1f} points too high on the rows that chose it, {100 * fmean(held):+.1f} on the others; '
        f'wording ± {100 * sqrt(fmean(spreads)):.2f} (true {100 * sqrt(fmean(true_spreads)):.2f}), '
        f'noise ± {100 * sqrt(fmean(noise**2 for noise in noises)):.2f} '
        f'(true {100 * sqrt(0.24 * (1 - (1 - ANEW) ** 2) / rows):.2f})',
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--simulations', type=int, default=1000)
    arguments = parser.parse_args()
    for rows in (30, 100, 300):
        for spread in (0.0, 0.05):
            report(rows, spread, arguments.simulations)


if __name__ == '__main__':
    main()
