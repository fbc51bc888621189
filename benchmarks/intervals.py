"""How often intervals hold the truth: the tables of design/intervals.md.

    python benchmarks/intervals.py [paired|wins|single|means|groups]

Right and wrong are added up exactly over all outcomes where that is possible (up to 100 rows); the rest is simulated.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np

from rolecall.scoring.group_scores import summarise_groups
from rolecall.scoring.groups import read_groups
from rolecall.scoring.scorecard import Scorecard
from rolecall.scoring.statistics import (
    Interval,
    bootstrap,
    compare_paired,
    mean_interval,
    paired_difference,
    wilson,
    win_rate_interval,
)

SHARES = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
SIZES = (20, 50, 100, 1000)
CORRELATIONS = (0.0, 0.3, 0.6, 0.9)
DIFFERENCES = (0.0, 0.05, 0.1)
EXACT_UP_TO = 100
DRAWS = 20_000


def agresti_and_min(gained: int, lost: int, pairs: int) -> Interval:
    """Half a pair added to each cell: what was used before."""
    size, change = pairs + 2, gained - lost
    reach = 1.959964 * math.sqrt(max(gained + lost + 1 - change**2 / size, 0.0)) / size
    return Interval(max(-1.0, change / size - reach), min(1.0, change / size + reach))


def cell_shares(first: float, second: float, correlation: float) -> tuple[float, float]:
    """The shares of rows that the first alone and the second alone has right."""
    both = first * second + correlation * math.sqrt(first * (1 - first) * second * (1 - second))
    both = min(both, first, second)
    return first - both, second - both


def flips(pairs: int, gained: float, lost: float, drawn: np.random.Generator) -> Iterator[tuple[int, int, float]]:
    """Numbers of gained and lost rows with their probability."""
    if pairs > EXACT_UP_TO:
        for up, down, _ in drawn.multinomial(pairs, [gained, lost, 1 - gained - lost], size=DRAWS).tolist():
            yield up, down, 1 / DRAWS
        return
    for up in range(pairs + 1):
        for down in range(pairs - up + 1):
            same = pairs - up - down
            chance = math.comb(pairs, up) * math.comb(pairs - up, down) * gained**up * lost**down
            yield up, down, chance * (1 - gained - lost) ** same


def paired() -> None:
    """Paired differences of right and wrong."""
    drawn = np.random.default_rng(1)
    ours, before = cache(paired_difference), cache(agresti_and_min)
    print(
        '| rows | share right | equal models told apart, % | before | holds the truth, least % | before | width | before |'
    )
    print('|---:|---:|---:|---:|---:|---:|---:|---:|')
    for pairs in SIZES:
        for share in SHARES:
            found: dict[Callable[..., Interval], list[tuple[float, float, float]]] = {ours: [], before: []}
            for difference in DIFFERENCES:
                second = share - difference if share > 0.5 else share + difference
                for correlation in CORRELATIONS:
                    gained, lost = cell_shares(share, second, correlation)
                    cases = list(flips(pairs, gained, lost, drawn))
                    for method, rates in found.items():
                        rates.append((difference, *_hold(method, cases, pairs, share - second)))
            cells = []
            for rates in found.values():
                apart = max(1 - held for difference, held, _ in rates if not difference)
                width = sum(width for _, _, width in rates) / len(rates)
                cells.append((f'{100 * apart:.1f}', f'{100 * min(held for _, held, _ in rates):.1f}', f'{width:.3f}'))
            row = [text for pair in zip(*cells, strict=True) for text in pair]
            print(f'| {pairs:,} | {share:g} | {" | ".join(row)} |')


def _hold(
    method: Callable[..., Interval], cases: Sequence[tuple[int, int, float]], pairs: int, truth: float
) -> tuple[float, float]:
    held = width = 0.0
    for up, down, chance in cases:
        if chance > 1e-12:
            low, high = method(up, down, pairs)
            held += chance * (low - 1e-9 <= truth <= high + 1e-9)
            width += chance * (high - low)
    return held, width


def wins() -> None:
    """Win rates of judged comparisons, computed exactly for rates of 50 to 95 %."""
    ours = cache(_interval_of_wins)
    before = cache(lambda up, down, rows: wilson(up + (rows - up - down) / 2, rows))
    drawn = np.random.default_rng(1)
    print(
        '| rows | ties, % | equal models told apart, % | before | holds the truth, least % | before | width | before |'
    )
    print('|---:|---:|---:|---:|---:|---:|---:|---:|')
    for rows in (20, 50, 100):
        for ties in (0.0, 0.2, 0.5, 0.8):
            found: dict[Callable[..., Interval], list[tuple[float, float]]] = {ours: [], before: []}
            for rate in (0.5, 0.55, 0.6, 0.7, 0.8, 0.9, 0.95):
                if (lost := 1 - rate - ties / 2) < 0:
                    break
                cases = list(flips(rows, rate - ties / 2, lost, drawn))
                for method, rates in found.items():
                    rates.append(_hold(method, cases, rows, rate))
            cells = [
                (f'{100 * (1 - rates[0][0]):.1f}', f'{100 * min(rates)[0]:.1f}', f'{rates[0][1]:.3f}')
                for rates in found.values()
            ]
            print(
                f'| {rows} | {100 * ties:.0f} | {" | ".join(text for pair in zip(*cells, strict=True) for text in pair)} |'
            )


def _interval_of_wins(wins: int, losses: int, rows: int) -> Interval:
    scores = [1.0] * wins + [0.5] * (rows - wins - losses) + [0.0] * losses
    return win_rate_interval([(score, 1) for score in scores]) or Interval(0.0, 1.0)


def single() -> None:
    """One share: Wilson's interval, computed exactly."""
    print('| rows | mean, % | least of shares 5 to 95 %, % | least of shares 1 to 99 %, % |')
    print('|---:|---:|---:|---:|')
    for rows in SIZES:
        intervals = [wilson(right, rows) for right in range(rows + 1)]
        held = {}
        for percent in range(10, 991, 5):
            share = percent / 1000
            chances = (
                math.exp(math.lgamma(rows + 1) - math.lgamma(k + 1) - math.lgamma(rows - k + 1)
                         + k * math.log(share) + (rows - k) * math.log(1 - share))
                for k in range(rows + 1)
            )  # fmt: skip
            held[share] = sum(c for c, (low, high) in zip(chances, intervals, strict=True) if low <= share <= high)
        usual = [one for share, one in held.items() if 0.05 <= share <= 0.95]
        print(
            f'| {rows:,} | {100 * sum(usual) / len(usual):.1f} | {100 * min(usual):.1f} | {100 * min(held.values()):.1f} |'
        )


def _f1(drawn: random.Random) -> float:
    return 1.0 if drawn.random() < 0.8 else drawn.random()


KINDS: dict[str, tuple[Callable[[random.Random], float], float, tuple[float, float] | None]] = {
    'overlap scores around 0.9, most 1': (_f1, 0.9, (0.0, 1.0)),
    'overlap scores around 0.3': (lambda drawn: drawn.betavariate(2, 5), 2 / 7, (0.0, 1.0)),
    'scores of which 5 % are not 0': (lambda drawn: drawn.random() * (drawn.random() < 0.05), 0.025, (0.0, 1.0)),
    'ratings from 1 to 10': (lambda drawn: float(min(10, max(1, round(drawn.gauss(7.5, 2))))), 7.4246, None),
}


def means() -> None:
    """Means of numbers, and of paired differences of numbers."""
    drawn, draws = random.Random(1), 1500
    print('| scores | rows | score interval, % | bootstrap, % | equal models told apart, % |')
    print('|---|---:|---:|---:|---:|')
    for name, (draw, truth, scale) in KINDS.items():
        for rows in (10, 20, 50, 100):
            held = [0, 0, 0]
            for number in range(draws):
                scores = [draw(drawn) for _ in range(rows)]
                others = [one if drawn.random() < 0.5 else draw(drawn) for one in scores]
                found = mean_interval([(one, 1) for one in scores], scale=scale)
                held[0] += found is not None and found.low <= truth <= found.high
                if number < 400:
                    low, high = bootstrap(scores, lambda some: sum(some) / len(some), resamples=400, seed=number)
                    held[1] += low <= truth <= high
                tested = compare_paired(scores, others, [None] * rows)
                held[2] += tested.p is not None and tested.p < 0.05
            rates = (held[0] / draws, held[1] / 400, held[2] / draws)
            print(f'| {name} | {rows} | {" | ".join(f"{100 * rate:.1f}" for rate in rates)} |')


def groups() -> None:
    """The mean of datasets whose shares vary, with the datasets as a sample and as they are."""
    drawn, draws = np.random.default_rng(1), 2000
    print(
        '| datasets | rows each | mean share | spread of shares | holds the mean of all such datasets, % | of these, % |'
    )
    print('|---:|---:|---:|---:|---:|---:|')
    for members in (2, 4, 10, 57):
        [group] = read_groups({'groups': {'all': [str(number) for number in range(members)]}})
        for rows, share, spread in ((50, 0.7, 0.1), (200, 0.7, 0.0), (200, 0.9, 0.05), (1000, 0.7, 0.15)):
            held = [0, 0]
            for _ in range(draws):
                shares = [_share_around(share, spread, drawn) for _ in range(members)]
                cards = []
                for number, one in enumerate(shares):
                    right = int(drawn.binomial(rows, one))
                    low, high = wilson(right, rows)
                    value = 100 * right / rows
                    cards.append(Scorecard(str(number), 'm', 'accuracy', value, 100 * low, 100 * high, scored=rows))
                [found] = summarise_groups([group], cards)
                held[0] += _contains((found.low, found.high), 100 * share)
                held[1] += _contains(found.interval.within, 100 * sum(shares) / members)
            rates = ' | '.join(f'{100 * one / draws:.1f}' for one in held)
            print(f'| {members} | {rows:,} | {share:g} | {spread:g} | {rates} |')


def _share_around(share: float, spread: float, drawn: np.random.Generator) -> float:
    if not spread:
        return share
    strength = share * (1 - share) / spread**2 - 1
    return float(drawn.beta(share * strength, (1 - share) * strength))


def _contains(bounds: Sequence[float | None], truth: float) -> bool:
    low, high = bounds
    return low is not None and high is not None and low <= truth <= high


TABLES = {'paired': paired, 'wins': wins, 'single': single, 'means': means, 'groups': groups}

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('table', nargs='*', help=', '.join(TABLES))
    for name in parser.parse_args().table or TABLES:
        print(f'\n{name}: {TABLES[name].__doc__}\n')
        TABLES[name]()
