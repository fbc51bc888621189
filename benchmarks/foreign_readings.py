"""How often a foreign name gives the verdict that its own system gives, on real replies and on our own cases.

    python benchmarks/foreign_readings.py --reference-python ENV/bin/python [--logs ../shared/logs] [--show N]

`ENV` has OpenCompass 0.5.4 and AISBench installed; without it, or without the logs, the script says so and stops. Each
line is one way of scoring that configs use: a postprocessor, an evaluator and a log that fits. Compared are what was read
and the verdict; an error of the package on a row is counted apart. `--cases FILE` writes the expected values of the cases
in tests/data/foreign_readings.jsonl anew.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import build_scorer

HERE = Path(__file__).parent
CASES = HERE.parent / 'tests' / 'data' / 'foreign_readings.jsonl'
LETTERS = {'options': 'ABCDEFGHIJ'}
MMLU, BBH, OPEN, GSM8K = 'mmlu_pro_cot', 'bbh_davinci_cot', 'openqa_evouna_human', 'gsm8k_openai_2021'
MATH, ARITHMETIC = 'math_level5_zeroeval', 'zero_shot_cot_gpt3'


class Way(NamedTuple):
    """One way of scoring, and the log whose replies fit it."""

    reader: str
    options: dict[str, Any]
    evaluator: str
    settings: dict[str, Any]
    log: str
    gold: str = ''
    """How a gold answer is written: as it is, `letter`, or `list`."""


WAYS = [
    *(Way('first_option_postprocess', LETTERS, 'AccEvaluator', {}, log) for log in (MMLU, ARITHMETIC)),
    Way('first_option_postprocess', {**LETTERS, 'cushion': False}, 'AccEvaluator', {}, MMLU),
    Way('last_option_postprocess', LETTERS, 'AccEvaluator', {}, MMLU),
    *(Way(f'{end}_capital_postprocess', {}, 'AccEvaluator', {}, MMLU) for end in ('first', 'last')),
    Way('first_capital_postprocess_multi', {}, 'AccEvaluator', {}, MMLU),
    Way('multiple_select_postprocess', {}, 'AccEvaluator', {}, MMLU),
    Way('bbh_mcq_postprocess', {}, 'BBHEvaluator_mcq', {}, BBH, 'letter'),
    Way('', {}, 'BBHEvaluator', {}, BBH),
    Way('bbh_freeform_postprocess', {}, 'AccEvaluator', {}, BBH),
    *(Way('gsm8k_postprocess', {}, evaluator, {}, GSM8K) for evaluator in ('Gsm8kEvaluator', 'AccEvaluator')),
    Way('gsm8k_postprocess', {}, 'Gsm8kEvaluator', {}, ARITHMETIC),
    Way('first_number_postprocess', {}, 'AccEvaluator', {}, ARITHMETIC),
    *(Way(f'math_postprocess{v}', {}, 'MATHEvaluator', {}, log) for v in ('', '_v2') for log in (MATH, ARITHMETIC)),
    Way('math_postprocess_v2', {}, 'MATHEvaluator', {'version': 'v2'}, MATH),
    Way('general_postprocess', {}, 'EMEvaluator', {}, OPEN, 'list'),
    Way('', {}, 'EMEvaluator', {}, OPEN, 'list'),
    *(
        Way('', {}, evaluator, {}, OPEN, 'list')
        for evaluator in ('TriviaQAEvaluator', 'NQEvaluator', 'SQuAD20Evaluator')
    ),
    *(Way('', {}, evaluator, {}, OPEN, 'list') for evaluator in ('BabiLongEvaluator', 'InfiniteBenchendiaEvaluator')),
    *(Way('', {}, evaluator, {}, ARITHMETIC) for evaluator in ('LambadaEvaluator', 'InfiniteBenchretrievekvEvaluator')),
    Way('', {}, 'LongBenchCodeSimEvaluator', {}, OPEN, 'list'),
    Way('triviaqa_postprocess', {}, 'TriviaQAEvaluator', {}, OPEN, 'list'),
    Way('charm_reason_postprocess', {}, 'CharmReasonEvaluator', {}, BBH, 'letter'),
    Way('strategyqa_pred_postprocess', {}, 'AccEvaluator', {}, ARITHMETIC),
    Way('GPQA_Simple_Eval_postprocess', {}, 'GPQAEvaluator', {}, MMLU),
    Way('mathbench_postprocess', {'name': 'single_choice_en'}, 'AccEvaluator', {}, GSM8K),
    Way('mgsm_postprocess', {'lang': 'en'}, 'MGSM_Evaluator', {}, GSM8K),
    Way('', {}, 'MATHVerifyEvaluator', {}, MATH),
]


def read_rows(folder: Path, way: Way) -> tuple[list[str], list[Any]]:
    """The replies of a log and the gold answers, as an OpenCompass dataset would hold them."""
    with gzip.open(folder / f'{way.log}.jsonl.gz', 'rt', encoding='utf-8') as lines:
        rows = [row for row in map(json.loads, lines) if isinstance(row['reply'], str)]
    if way.gold == 'letter':
        rows = [row for row in rows if row['gold'].startswith('(')]
        return [row['reply'] for row in rows], [row['gold'].strip('()') for row in rows]
    golds = [row['gold'] if way.gold == 'list' or isinstance(row['gold'], str) else str(row['gold']) for row in rows]
    return [row['reply'] for row in rows], golds


def ask_reference(python: Path, jobs: Sequence[Any]) -> list[dict[str, Any]]:
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    done = subprocess.run(
        [python, HERE / 'foreign_reference.py'],
        input=''.join(json.dumps(job) + '\n' for job in jobs),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if len(answers) != len(jobs):
        sys.exit(f'the reference stopped after {len(answers)} of {len(jobs)} jobs:\n{done.stderr[-2000:]}')
    return answers


def our_verdicts(system: str, way: Way, replies: list[str], golds: list[Any]) -> Iterator[tuple[Any, float]]:
    """What we read in each reply, reading as the system does, and its score in percent."""
    config: dict[str, Any] = {'evaluator': {'type': way.evaluator, **way.settings}, 'read_as': system}
    if way.reader:
        config['pred_postprocessor'] = {'type': way.reader, **way.options}
    scorer = build_scorer(config)
    verdicts = scorer.start(adds_up=False).add([Scorable(*row) for row in number_rows(replies, golds)])
    return ((verdict.extracted, 100 * (verdict.score or 0.0)) for verdict in verdicts)


def number_rows(replies: list[str], golds: list[Any]) -> Iterator[tuple[int, str, str, Any]]:
    return ((row, 'ok', reply, gold) for row, (reply, gold) in enumerate(zip(replies, golds, strict=True)))


def compare(system: str, way: Way, replies: list[str], golds: list[Any], theirs: dict[str, Any], show: int) -> str:
    """A line of the table."""
    name = f'{system} | {way.reader or "–"}{" (cushion off)" if way.options.get("cushion") is False else ""}'
    name += f' | {way.evaluator}{" v2" if way.settings else ""} | {way.log}'
    if 'error' in theirs:
        return f'| {name} | – | – | {theirs["error"]} |'
    read = right = errors = compared = 0
    rows = zip(
        replies, golds, theirs['readings'], theirs['scores'], our_verdicts(system, way, replies, golds), strict=True
    )
    for reply, gold, reading, score, (ours, ours_score) in rows:
        errors += isinstance(score, dict)
        read += blank(ours) == blank(reading)
        compared += score is not None
        if score is None:
            continue
        if isinstance(score, dict) or abs(ours_score - score) < 0.06:
            right += 1
        elif show:
            show -= 1
            print(
                f'  {name}: {reply[-200:]!r}, gold {gold!r}: they read {reading!r} ({score}), we {ours!r} ({ours_score})'
            )
    equal = f'{100 * read / len(replies):.2f} of {len(replies):,} | {100 * right / compared:.2f} of {compared:,}'
    return f'| {name} | {equal} | {errors} |'


def blank(reading: Any) -> Any:
    """What was read, nothing where the package writes a word for nothing."""
    return '' if reading in ('NULL', None) else str(reading)


def write_cases(python: Path) -> None:
    """Fill in what the packages read in our cases."""
    cases = [json.loads(line) for line in CASES.read_text('utf-8').splitlines()]
    jobs = [
        [
            case['system'],
            case['reader'],
            case['options'],
            case['evaluator'],
            case['settings'],
            [case['reply']],
            [case['gold']],
        ]
        for case in cases
    ]
    for case, answer in zip(cases, ask_reference(python, jobs), strict=True):
        case['reads'] = blank(answer['readings'][0])
        if case['evaluator']:
            case['right'] = answer['scores'][0] == 100
    CASES.write_text(''.join(json.dumps(case, ensure_ascii=False) + '\n' for case in cases), 'utf-8')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--reference-python', type=Path, required=True)
    parser.add_argument('--logs', type=Path, default=HERE.parent.parent / 'shared' / 'logs')
    parser.add_argument(
        '--only',
        nargs='+',
        default=[''],
        help='only ways whose postprocessor or evaluator has one of these in its name',
    )
    parser.add_argument('--show', type=int, default=0, help='differences to print for each way')
    parser.add_argument('--cases', action='store_true', help='write the expected values of the tests anew')
    arguments = parser.parse_args()
    if not arguments.reference_python.exists():
        sys.exit(f'skipped: no Python at {arguments.reference_python}.')
    if arguments.cases:
        write_cases(arguments.reference_python)
        return
    if not arguments.logs.is_dir():
        sys.exit(f'skipped: no logs at {arguments.logs}.')
    ways = [way for way in WAYS if any(part in f'{way.reader} {way.evaluator}' for part in arguments.only)]
    work = [(system, way, *read_rows(arguments.logs, way)) for system in ('opencompass', 'aisbench') for way in ways]
    jobs = [[system, *way[:4], replies, golds] for system, way, replies, golds in work]
    print(
        '| system | postprocessor | evaluator | log | equal readings, % | equal verdicts, % | errors of the package |'
    )
    print('|---|---|---|---|---|---|---|')
    for (system, way, replies, golds), theirs in zip(
        work, ask_reference(arguments.reference_python, jobs), strict=True
    ):
        print(compare(system, way, replies, golds, theirs, arguments.show))


if __name__ == '__main__':
    main()
