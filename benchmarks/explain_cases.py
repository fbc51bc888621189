"""Why two numbers differ, where the truth is known: eight made cases, and how often the intervals of a ladder hold it.

`python benchmarks/explain_cases.py [--simulations N]`. Each case is two configs that differ in the cause and in two settings
that the function does not look at; what is printed is the share that the cause gets. Then ladders of three edits with known
effects are simulated: rows are right with a probability that depends on the edits.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import ExitStack
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from explained_cases import CASES, HOT
from rolecall.insight.cause_shares import explain
from rolecall.insight.ladder import build_ladders
from rolecall.insight.scored_mixes import interval_of_shares
from rolecall.runs import run_config


def explain_cases() -> None:
    for cause, (left, right) in CASES.items():
        data = right['datasets'][0]
        asked = {**HOT, **data['infer_cfg']['inferencer'], 'stopping_criteria': ['\n\n']}
        infer = data['infer_cfg'] if cause == 'metric' else {**data['infer_cfg'], 'inferencer': asked}
        sides = left, {**right, 'datasets': [{**data, 'infer_cfg': infer}]}
        with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
            folder = Path(name)
            for side, config in zip('ab', sides, strict=True):
                run_config(config, out=folder / side, lint=False)
            begun = time.perf_counter()
            requests = 0
            if cause == 'metric':
                [explanation] = explain(folder / 'a', folder / 'b')
            else:
                [(ladder, stored)] = build_ladders(
                    folder / 'a', folder / 'b', stack, out=folder / 'ladder', configs=sides
                )
                requests = ladder.plan().requests
                ladder.ask()
                explanation = ladder.explain(stored)
            points = next(step.points for step in explanation.steps if step.cause == cause)
            share = points / (explanation.difference or 1.0)
            seconds = time.perf_counter() - begun
            print(
                f'{cause:>14}: {share:.0%} of {explanation.difference:+.1f} points, {requests} requests, {seconds:.1f} s'
            )


def simulate(times: int, rows: int, seed: int = 0) -> None:
    """The share of simulated ladders whose interval holds the true share, over all edits."""
    chance = random.Random(seed)
    effects = (0.0, 0.1, 0.25)
    mixes = [frozenset(at for at, has in enumerate(flags) if has) for flags in product((False, True), repeat=3)]
    everything = frozenset(range(3))
    hits = total = 0
    for _ in range(times):
        scores = {mix: [] for mix in mixes}
        for _ in range(rows):
            ease = chance.random()
            for mix in mixes:
                scores[mix].append(float(ease < 0.3 + sum(effects[edit] for edit in mix)))
        for edit, effect in enumerate(effects):
            ends = scores[frozenset()], scores[frozenset((edit,))], scores[everything - {edit}], scores[everything]
            shares = [((one - start) + (end - rest)) / 2 for start, one, rest, end in zip(*ends, strict=True)]
            interval = interval_of_shares(shares, [None] * rows)
            hits += interval is not None and interval.low <= effect <= interval.high
            total += 1
    print(f'{rows} rows: the interval of a share holds the true one in {hits / total:.1%} of {total:,}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--simulations', type=int, default=400)
    arguments = parser.parse_args()
    explain_cases()
    for rows in (30, 100, 300):
        simulate(arguments.simulations, rows)


if __name__ == '__main__':
    main()
