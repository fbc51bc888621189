"""Why two numbers differ, where the truth is known, and how often the intervals of a ladder hold it.

`python benchmarks/explain_cases.py [made|noisy|smollm2|intervals …] [--rows N] [--simulations N]`. Each case is two configs that
differ in the cause and in one or two settings that do not matter; what is printed is the share that the cause gets. `made`:
eight deterministic functions. `noisy`: the same, wrong on a fifth of the rows, drawn anew whenever anything sent changes.
`smollm2`: the embedded model, greedy, where the other setting is a stop string that never occurs. `intervals`: ladders of
three edits with known effects are simulated; rows are right with a probability that depends on the edits.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / 'tests'))

from explained_cases import CASES, HOT, noisy_sides
from rolecall.insight.cause_shares import explain
from rolecall.insight.ladder import build_ladders
from rolecall.insight.scored_mixes import make_share
from rolecall.runs import run_config
from sweeps import TEMPLATE, make_rows

Sides = tuple[dict[str, Any], dict[str, Any]]


def explain_case(cause: str, sides: Sides) -> None:
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        folder = Path(name)
        for side, config in zip('ab', sides, strict=True):
            run_config(config, out=folder / side, lint=False, force=True)
        begun = time.process_time()
        requests = 0
        if cause in ('metric', 'reader'):
            [explanation] = explain(folder / 'a', folder / 'b', configs=sides)
        else:
            [(ladder, stored)] = build_ladders(
                folder / 'a', folder / 'b', stack, out=folder / 'ladder', configs=sides, rows=10_000
            )
            requests = ladder.plan().requests
            ladder.ask()
            explanation = ladder.explain(stored)
        steps = ', '.join(f'{step.cause} {step.points:+.1f} {step.note}' for step in explanation.steps)
        points = sum(step.points for step in explanation.steps if step.cause == cause)
        share = points / (explanation.difference or 1.0)
        seconds = time.process_time() - begun
        print(
            f'{cause:>14}: {share:.0%} of {explanation.difference:+.1f} points ({steps}); {requests} requests, {seconds:.1f} s CPU'
        )


def with_other_settings(cause: str, sides: Sides) -> Sides:
    """A temperature and a stop string on the right side that the made models do not look at."""
    left, right = sides
    if cause == 'metric':
        return left, right
    data = right['datasets'][0]
    asked = {**HOT, **data['infer_cfg']['inferencer'], 'stopping_criteria': ['\n\n']}
    return left, {**right, 'datasets': [{**data, 'infer_cfg': {**data['infer_cfg'], 'inferencer': asked}}]}


def small_model_cases(rows: int) -> Mapping[str, Sides]:
    """The embedded model on questions with options; the right side also has a stop string that never occurs."""

    def config(*, stop: str = '', model: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
        template = {'type': 'PromptTemplate', 'template': changes.get('template', TEMPLATE)}
        asked = {
            'type': 'GenInferencer',
            'max_out_len': changes.get('length', 8),
            **({'stopping_criteria': [stop]} if stop else {}),
        }
        infer = {'prompt_template': template, 'inferencer': asked}
        if 'shots' in changes:
            infer['ice_template'] = {'type': 'PromptTemplate', 'template': TEMPLATE}
            infer['prompt_template'] = {**template, 'template': '</E>' + TEMPLATE, 'ice_token': '</E>'}
            infer['retriever'] = {'type': 'FixKRetriever', 'fix_id_list': changes['shots']}
        data = {
            'abbr': 'kinds',
            'type': 'Rows',
            'test': make_rows(rows, 0),
            'train': make_rows(8, 1),
            'reader_cfg': {'input_columns': ['question', 'A', 'B', 'C', 'D'], 'output_column': 'answer'},
            'infer_cfg': infer,
            'eval_cfg': {
                'evaluator': {'type': 'AccEvaluator'},
                'pred_postprocessor': changes.get('reader', 'first_capital_postprocess'),
            },
        }
        entry = {
            'abbr': 'smollm2',
            'type': 'LlamaCpp',
            'path': 'smollm2',
            'max_seq_len': 2048,
            'parallel': 1,
            'meta_template': 'chatml',
        }
        return {'models': [{**entry, **(model or {})}], 'datasets': [data]}

    stop = '@@never@@'
    turned = TEMPLATE.replace('A. {A}\nB. {B}', 'A. {B}\nB. {A}')
    return {
        'format': (config(), config(stop=stop, model={'meta_template': 'llama2'})),
        'examples': (config(shots=[0, 1]), config(shots=[2, 3], stop=stop)),
        'wording': (config(), config(template=TEMPLATE.replace('Question: ', 'Pick the right one: '), stop=stop)),
        'option order': (config(), config(template=turned, stop=stop)),
        'length': (config(length=24), config(length=1, stop=stop)),
        'reader': (config(length=24), config(length=24, reader='last_capital_postprocess')),
    }


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
            share = make_share('', shares, [None] * rows, 1.0)
            hits += share.low is not None and share.low <= effect <= share.high
            total += 1
    print(f'{rows} rows: the interval of a share holds the true one in {hits / total:.1%} of {total:,}')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('what', nargs='*', default=['made', 'noisy', 'intervals'])
    parser.add_argument('--rows', type=int, default=300)
    parser.add_argument('--simulations', type=int, default=400)
    arguments = parser.parse_args()
    for what in arguments.what:
        print(what)
        if what == 'made':
            for cause, sides in CASES.items():
                explain_case(cause, with_other_settings(cause, sides))
        elif what == 'noisy':
            for cause in sorted({*CASES} - {'metric'}):
                explain_case(cause, with_other_settings(cause, noisy_sides(cause, arguments.rows)))
        elif what == 'smollm2':
            for cause, sides in small_model_cases(arguments.rows).items():
                explain_case(cause, sides)
        else:
            for rows in (30, 100, 300):
                simulate(arguments.simulations, rows)


if __name__ == '__main__':
    main()
