"""Ladders where the truth is hard to see: stochastic models, two and three causes at once, causes that interact, rows that fail.

`python benchmarks/explain_mixed.py [--rows N] [--seeds N] [--sample N]`. A model's chance of a right answer is known for every
mix of settings, so the true share of each cause is. A row is easy or hard; a share of the replies (`HEAT`) is drawn anew for every
request, as with a temperature. Printed per case: the true and the attributed share of each cause, over all seeds how far they are
apart, how often the 95 % interval holds the true share, and how often a setting without any effect is told from one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any
from zlib import crc32

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from explained_cases import dataset, meta, number_in
from helpers import bot, human, system, template
from rolecall.insight.cause_shares import explain
from rolecall.insight.ladder import build_ladders
from rolecall.models.protocol import Sampling
from rolecall.runs import run_config

HEAT = 30
"""Of 100 replies, how many are drawn anew for every request."""
Chance = Callable[[frozenset[str]], float]


@dataclass(frozen=True)
class MixedCase:
    """Causes that differ, and the chance of a right answer with those of them that come from the right side."""

    causes: tuple[str, ...]
    chance: Chance
    failing: int = 0
    """Of 100 rows, how many fail on both sides, drawn anew."""

    def true_share(self, cause: str) -> float:
        """What the ladder measures: the mean of a cause alone, and of all but it."""
        nothing, everything = frozenset[str](), frozenset(self.causes)
        alone = self.chance(frozenset((cause,))) - self.chance(nothing)
        return 50 * (alone + self.chance(everything) - self.chance(everything - {cause}))


def sum_of(base: float, **effects: float) -> Chance:
    names = {name.replace('_', ' '): effect for name, effect in effects.items()}
    return lambda taken: base + sum(effect for name, effect in names.items() if name in taken)


def together(base: float, effect: float, *causes: str) -> Chance:
    return lambda taken: base + effect * (taken >= {*causes})


CASES = {
    'two': MixedCase(('system text', 'format', 'sampling'), sum_of(0.3, system_text=0.2, format=0.15)),
    'three': MixedCase(
        ('system text', 'examples', 'wording', 'sampling'), sum_of(0.4, system_text=0.2, examples=0.12, wording=-0.1)
    ),
    'two that cancel out': MixedCase(
        ('system text', 'format', 'wording'), sum_of(0.4, system_text=0.25, format=-0.25, wording=0.1)
    ),
    'two only together': MixedCase(('system text', 'format', 'sampling'), together(0.3, 0.3, 'system text', 'format')),
    'three only together': MixedCase(
        ('system text', 'examples', 'wording'), together(0.3, 0.3, 'system text', 'examples', 'wording')
    ),
    'two, rows fail': MixedCase(
        ('system text', 'format', 'sampling'), sum_of(0.3, system_text=0.2, format=0.15), failing=8
    ),
}


def make_model(case: MixedCase, seed: int) -> Any:
    def draw(*what: object) -> int:
        return crc32(repr((seed, *what)).encode()) % 1000

    def answer(prompt: str, sampling: Sampling) -> str:
        number = number_in(prompt)
        signs = {
            'system text': 'Think hard.' in prompt,
            'format': '<|im_start|>' in prompt,
            'examples': 'Example 24?' in prompt,
            'wording': 'Please.' in prompt,
            'sampling': sampling.temperature == 0.5,
        }
        taken = frozenset(cause for cause in case.causes if signs[cause])
        drawn = (prompt, sampling) if draw('heat', prompt, sampling) < 10 * HEAT else (number,)
        if draw('failing', *drawn) < 10 * case.failing:
            raise RuntimeError('the line is down')
        right = draw(*drawn) < 1000 * case.chance(taken)
        return f'The answer is {2 * number if right else -1}.'

    return answer


def make_rows(count: int) -> list[dict[str, str]]:
    return [
        {'question': f'What is {n} plus {n}?', 'answer': str(2 * n), 'first': '', 'second': ''} for n in range(count)
    ]


def make_side(case: MixedCase, seed: int, rows: int, taken: frozenset[str]) -> dict[str, Any]:
    begin = [system('Think hard.')] if 'system text' in taken else []
    question = 'Please. {question}' if 'wording' in taken else '{question}'
    infer: dict[str, Any] = {
        'prompt_template': template({'begin': begin, 'round': [human(question), bot('{answer}')]}),
        'inferencer': {'type': 'GenInferencer', 'max_out_len': 64}
        | ({'temperature': 0.5} if 'sampling' in taken else {}),
    }
    if 'examples' in case.causes:
        place = {**infer['prompt_template']['template'], 'begin': [*begin, '</E>']}
        chosen = [24, 3] if 'examples' in taken else [25, 4]
        infer['prompt_template'] = template(place, ice_token='</E>')
        infer['ice_template'] = template({'round': [human('{question}'), bot('{answer}')]})
        infer['retriever'] = {'type': 'FixKRetriever', 'fix_id_list': chosen}
    data = dataset(**infer)
    data['test'] = make_rows(rows)
    form = meta(mark='<|im_start|>' if 'format' in taken else '##')
    model = {'abbr': 'm', 'type': make_model(case, seed), 'meta_template': form}
    return {'models': [model], 'datasets': [data]}


def climb(case: MixedCase, seed: int, rows: int, sample: int | None) -> tuple[dict[str, Any], int, int]:
    """The steps by cause, the requests of the ladder, and the rows that it rests on."""
    sides = [make_side(case, seed, rows, taken) for taken in (frozenset[str](), frozenset(case.causes))]
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for side, config in zip('ab', sides, strict=True):
            run_config(config, out=folder / side, lint=False, force=True)
        [(ladder, stored)] = build_ladders(
            folder / 'a', folder / 'b', stack, out=folder / 'ladder', configs=sides, rows=sample or rows
        )
        requests = ladder.plan().requests
        ladder.ask()
        explanation = ladder.explain(stored)
        return {step.cause: step for step in explanation.steps}, requests, len(ladder.pairs)


def report(
    name: str, case: MixedCase, rows: int, seeds: Sequence[int], sample: int | None
) -> tuple[list[float], list[bool], list[bool]]:
    errors, holds, told = [], [], []
    shares: dict[str, list[float]] = {cause: [] for cause in case.causes}
    begun, requests = time.process_time(), 0
    in_order = 0
    for seed in seeds:
        steps, asked, _ = climb(case, seed, rows, sample)
        requests += asked
        for cause in case.causes:
            step, true = steps[cause], case.true_share(cause)
            shares[cause].append(step.points)
            errors.append(abs(step.points - true))
            holds.append(step.low <= true <= step.high)
            told.append((not step.low <= 0 <= step.high) == (true != 0))
        by_truth = sorted(case.causes, key=case.true_share)
        in_order += all(
            steps[one].points <= steps[other].points or case.true_share(one) == case.true_share(other)
            for one, other in pairwise(by_truth)
        )
    true = ', '.join(f'{cause} {case.true_share(cause):+.1f}: {fmean(shares[cause]):+.1f}' for cause in case.causes)
    rest = 100 * (case.chance(frozenset(case.causes)) - case.chance(frozenset())) - sum(
        map(case.true_share, case.causes)
    )
    seconds = (time.process_time() - begun) / len(seeds)
    print(f'{name}, {rows:,} rows × {len(seeds)}: {true} (true interaction {rest:+.1f})')
    print(
        f'  off by {fmean(errors):.1f} points, in the true order {in_order} of {len(seeds)}, '
        f'interval holds the truth {fmean(holds):.0%}, effect or none told {fmean(told):.0%}; '
        f'{requests // len(seeds):,} requests, {seconds:.1f} s CPU',
        flush=True,
    )
    return errors, holds, told


def reply_side(rows: int, seed: int) -> None:
    """Reader and denominator at once, without a model: in a tenth of the replies the first number is another, 8 % fail."""
    right, misread, failed = set(), set(), set()
    for number in range(rows):
        drawn = crc32(f'{seed}{number}'.encode()) % 100
        kept = failed if drawn < 8 else right if drawn < 70 else set[int]()
        kept.add(number)
        if drawn % 10 == 0:
            misread.add(number)

    def talk(prompt: str) -> str:
        number = number_in(prompt)
        if number in failed:
            raise RuntimeError('the line is down')
        begin = f'With {number} twice, the' if number in misread else 'The'
        return f'{begin} answer is {2 * number if number in right else -1}.'

    sides = []
    for scoring in (
        {'pred_postprocessor': 'stated_number_postprocess'},
        {'pred_postprocessor': 'first_number_postprocess', 'failures': 'wrong'},
    ):
        data = {**dataset(), 'test': make_rows(rows), 'eval_cfg': {'evaluator': {'type': 'number'}, **scoring}}
        sides.append({'models': [{'abbr': 'm', 'type': talk, 'meta_template': meta()}], 'datasets': [data]})
    lost, answered = len({*right} & misread - {0}), rows - len(failed)
    reader = -50 * lost * (1 / answered + 1 / rows)
    denominator = -50 * (2 * len(right) - lost) * (1 / answered - 1 / rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, config in zip('ab', sides, strict=True):
            run_config(config, out=folder / side, lint=False, force=True)
        begun = time.process_time()
        [explanation] = explain(folder / 'a', folder / 'b', configs=sides)
        print(f'reader {reader:+.1f}, denominator {denominator:+.1f}, {rows:,} rows: {explanation.sentence}', end=' ')
        print(f'{time.process_time() - begun:.1f} s CPU')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rows', type=int, default=300)
    parser.add_argument('--seeds', type=int, default=10)
    parser.add_argument('--sample', type=int, help='rows that the ladder asks about (default: all)')
    parser.add_argument('--case', choices=[*CASES], action='append')
    arguments = parser.parse_args()
    reply_side(arguments.rows, 0)
    totals: tuple[list[float], list[bool], list[bool]] = ([], [], [])
    for name in arguments.case or CASES:
        for own, more in zip(
            totals, report(name, CASES[name], arguments.rows, range(arguments.seeds), arguments.sample), strict=True
        ):
            own.extend(more)
    errors, holds, told = totals
    print(
        f'all: off by {fmean(errors):.1f} points, intervals hold {fmean(holds):.1%} of {len(holds)}, told {fmean(told):.1%}'
    )


if __name__ == '__main__':
    main()
