"""How often corrected scores hold the true one: the tables of design/labels.md, from public judgements of people.

    python benchmarks/labels.py grid        judges with known error rates, two intervals
    python benchmarks/labels.py queue       the same with the queue's 30 labels, as drawn and stretched
    python benchmarks/labels.py judges      how far the judges of these logs agree with people (docs/judge.md)
    python benchmarks/labels.py labels      scores corrected by 30, 100 and 300 labels
    python benchmarks/labels.py graded      ratings instead of right and wrong
    python benchmarks/labels.py carried     scores corrected by the labels of another system's answers
    python benchmarks/labels.py readings    scores with reading error, 30 decided rows
    python benchmarks/labels.py prior       how often readers that agree are wrong, by log

A log (`../shared/logs`) stands for all rows there could be. Runs of 500 rows are drawn from it, rows are labelled in the
order of the queue, and the corrected interval is compared with the score by the people of the whole log.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple
from itertools import product
from statistics import NormalDist
from typing import NamedTuple

from real_replies import SHARED, Case, logged_cases, rows_of, scorer_for
from rolecall.insight.reading_errors import RereadPair, RereadRow, read_rows, sampled_strata
from rolecall.insight.strata import StratifiedRows
from rolecall.runs.store.results import Result
from rolecall.scoring.answers import Scorable
from rolecall.scoring.corrected_scores import (
    Estimate,
    Stratum,
    correct_by_strata,
    correct_graded,
    measure_error_rates,
    rogan_gladen,
)
from rolecall.scoring.evaluate import build_scorer
from rolecall.scoring.readers.golds import GoldKind
from rolecall.scoring.statistics import bootstrap, cohen_kappa, wilson

ROWS = 500
SIZES = (30, 100, 300)
KINDS = {
    'option': GoldKind('letters', 'accuracy'),
    'yes_no': GoldKind('yes or no', 'accuracy', ('yes', 'no')),
    'number': GoldKind('numbers', 'number'),
    'math': GoldKind('formulas', 'math'),
    'short': GoldKind('short texts', 'exact'),
}


class Judged(NamedTuple):
    """A row as a judge marks it and as people do."""

    verdict: float
    people: float


def judged_logs() -> Iterator[tuple[str, list[Judged]]]:
    """Logs in which both a judge and people marked the rows."""
    sides = {'1': 1.0, '2': 0.0, '0': 0.5, 'Tie': 0.5}
    preferences = []
    for row in rows_of('preference_pandalm_human'):
        (vote, most), *_ = Counter(row['votes']).most_common()
        if str(row['judge']) in sides:
            preferences.append(Judged(sides[str(row['judge'])], sides[str(vote)] if most > 1 else 0.5))
    yield 'PandaLM, gpt-3.5 as judge, three people', preferences
    scorer = build_scorer({'evaluator': 'contains'})
    answers = []
    for row in rows_of('openqa_evouna_human'):
        [verdict] = scorer.start(adds_up=False).add([Scorable(0, 'ok', row['reply'], gold=row['gold'])])
        answers.append(Judged(float(bool(verdict.correct)), float(row['verdict'])))
    yield 'EVOUNA, "contains" as judge, a person', answers
    by_judge = defaultdict(list)
    for row in rows_of('judge_llmbar'):
        if row['gold'] is not None:
            first = row['gold'] == 'a'
            by_judge[row['source'].split()[-1].split('/')[0]].append(Judged(first, first == bool(row['verdict'])))
    for judge, rows in by_judge.items():
        if len(rows) >= 200:
            yield f'LLMBar, {judge} as judge, human gold', [Judged(float(a), float(b)) for a, b in rows]


def measure_judges() -> None:
    print('| judge, with the prompts of its authors | verdicts | agreement, % | κ |')
    print('|---|---:|---:|---:|')
    for name, rows in judged_logs():
        low, high = bootstrap(rows, lambda drawn: cohen_kappa(drawn) or 0.0)
        same = sum(row.verdict == row.people for row in rows)
        ends = wilson(same, len(rows))
        agreement = f'{100 * same / len(rows):.1f} [{100 * ends.low:.1f}, {100 * ends.high:.1f}]'
        print(f'| {name} | {len(rows):,} | {agreement} | {cohen_kappa(rows) or 0:.2f} [{low:.2f}, {high:.2f}] |')


def measure_labels(draws: int) -> None:
    print(
        '| log | raw | true | labels | corrected holds, % | width | Rogan–Gladen holds, % | width | labels alone, % | width | raw holds, % |'
    )
    print('|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|')
    for name, rows in judged_logs():
        true, raw = (statistics.fmean(row[place] for row in rows) for place in (1, 0))
        for size in SIZES:
            results = [_draw_corrections(rows, size, seed) for seed in range(draws)]
            columns = [_coverage([result[place] for result in results], true) for place in range(4)]
            cells = ' | '.join((*columns[:3], columns[3].split(' | ')[0]))
            print(f'| {name} | {100 * raw:.1f} | {100 * true:.1f} | {size} | {cells} |', flush=True)


def _draw_corrections(rows: Sequence[Judged], size: int, seed: int) -> list[Estimate | None]:
    """A run of rows drawn from the log, corrected by the labels of the first rows of its queue."""
    drawn = random.Random(seed)
    run = drawn.choices(rows, k=ROWS)
    stratified = StratifiedRows('log', str(seed))
    for number, row in enumerate(run):
        stratified.add(number, row.verdict)
    labels: dict[int, float] = {}
    while len(labels) < size:  # the queue is asked again after every fifth label, as a person would
        labels |= {row: run[row].people for _, row in stratified.queue(labels, 5)}
    strata = stratified.strata(labels)
    binary = {mark for row in run for mark in row} <= {0.0, 1.0}
    rates = measure_error_rates(strata) if binary else None
    right = sum(row.verdict for row in run)
    alone = [row.people for row in drawn.sample(run, size)]
    return [
        correct_by_strata(strata),
        rates and rogan_gladen(right, ROWS, rates),
        Estimate(statistics.fmean(alone), *wilson(sum(alone), size), size),
        Estimate(right / ROWS, *wilson(right, ROWS), ROWS),
    ]


def measure_grid(draws: int) -> None:
    """Judges with known error rates: our interval, and Wilson's limits of each verdict put together by squares."""
    print('| interval | holds, least % | holds, mean % | mean width, 30 labels |')
    print('|---|---:|---:|---:|')
    cells: dict[str, list[tuple[float, float, int]]] = defaultdict(list)
    for share, hits, misses, size in product((0.1, 0.5, 0.9), (0.7, 0.9, 0.99), (0.7, 0.9, 0.99), (30, 100)):
        corrections: dict[str, list[Estimate]] = defaultdict(list)
        for seed in range(draws):
            drawn = random.Random(seed)
            people = [float(drawn.random() < share) for _ in range(ROWS)]
            run = [Judged(float(drawn.random() < (hits if mark else 1 - misses)), mark) for mark in people]
            groups = [[row.people for row in run[:size] if row.verdict == verdict] for verdict in (0.0, 1.0)]
            rows = [sum(row.verdict == verdict for row in run) for verdict in (0.0, 1.0)]
            strata = [Stratum(float(at), count, groups[at]) for at, count in enumerate(rows) if count]
            corrections['draws from a Dirichlet distribution'].append(correct_by_strata(strata))
            corrections["Wilson's limits by squares"].append(_add_by_squares(strata))
        for name, entries in corrections.items():
            holds = statistics.fmean(entry.low <= share <= entry.high for entry in entries)
            cells[name].append((holds, statistics.fmean(entry.high - entry.low for entry in entries), size))
    for name, numbers in cells.items():
        least, mean = min(number[0] for number in numbers), statistics.fmean(number[0] for number in numbers)
        width = statistics.fmean(number[1] for number in numbers if number[2] == 30)
        print(f'| {name} | {100 * least:.1f} | {100 * mean:.1f} | {width:.3f} |')


def measure_queue(draws: int) -> None:
    """Judges with known error rates, good and bad: 30 labels in the order of the queue, with and without the stretch."""
    stretch = 1 + (NormalDist().inv_cdf(0.975) ** 2 + 1) / 4 / 32  # 30 labels, and half a one for each of four marks
    holds: dict[str, list[float]] = defaultdict(list)
    widths: dict[str, list[float]] = defaultdict(list)
    errors = ((0.9, 0.9), (0.7, 0.7), (0.6, 0.5), (0.9, 0.3), (0.98, 0.1))
    for share, (hits, misses) in product((0.2, 0.5, 0.8), errors):
        drawn = random.Random(f'{share}{hits}{misses}')
        people = [float(place < share * 4000) for place in range(4000)]
        rows = [Judged(float(drawn.random() < (hits if mark else 1 - misses)), mark) for mark in people]
        corrections = [entry for seed in range(draws) if (entry := _draw_corrections(rows, 30, seed)[0])]
        for name, factor in (('as drawn', 1 / stretch), ("stretched as Student's t is", 1.0)):
            ends = [
                (value - (value - low) * factor, value + (high - value) * factor)
                for value, low, high, *_ in map(astuple, corrections)
            ]
            holds[name].append(100 * statistics.fmean(low <= share <= high for low, high in ends))
            widths[name].append(100 * statistics.fmean(high - low for low, high in ends))
    print('| interval | holds, least % | holds, mean % | mean width |')
    print('|---|---:|---:|---:|')
    for name, shares in holds.items():
        print(f'| {name} | {min(shares):.1f} | {statistics.fmean(shares):.1f} | {statistics.fmean(widths[name]):.1f} |')


def _add_by_squares(strata: Sequence[Stratum]) -> Estimate:
    value = sum(stratum.rows * stratum.mean for stratum in strata) / ROWS
    limits = [(stratum, wilson(sum(stratum.labels), len(stratum.labels))) for stratum in strata]
    rows = sum(stratum.rows * (stratum.mean - value) ** 2 for stratum in strata) / ROWS**2 * 1.96**2
    low, high = (
        math.sqrt(rows + sum((stratum.rows / ROWS * (stratum.mean - ends[side])) ** 2 for stratum, ends in limits))
        for side in (0, 1)
    )
    return Estimate(value, value - low, value + high, 0)


def measure_carried(draws: int) -> None:
    """Error rates of "contains" measured on one system's answers, and used for another's: EVOUNA has five systems."""
    scorer = build_scorer({'evaluator': 'contains'})
    systems = defaultdict(list)
    for row in rows_of('openqa_evouna_human'):
        [verdict] = scorer.start(adds_up=False).add([Scorable(0, 'ok', row['reply'], gold=row['gold'])])
        systems[row['note'].partition(';')[0]].append(Judged(float(bool(verdict.correct)), float(row['verdict'])))
    sizes = dict(zip(SIZES[1:], ('100 labels', 'all labels of the half, or 300'), strict=True))
    print(f'| labels of, score of | {" | ".join(f"{name}: holds, % | width" for name in sizes.values())} |')
    print('|---|---:|---:|---:|---:|')
    for name, is_same in (('the same system', True), ('another system', False)):
        pairs = [pair for pair in product(systems, repeat=2) if (pair[0] == pair[1]) == is_same]
        cells = []
        for size in sizes:
            corrections = [
                [_carry(*_draw_sides(systems[source], systems[target], size, seed)) for seed in range(draws)]
                for source, target in pairs
            ]
            trues = [statistics.fmean(row.people for row in systems[target]) for _, target in pairs]
            measured = [_measure(*entry) for entry in zip(corrections, trues, strict=True)]
            holds, widths = zip(*filter(None, measured), strict=True)
            cells.append(f'{statistics.fmean(holds):.1f} ({min(holds):.1f} to {max(holds):.1f})')
            cells.append(f'{statistics.fmean(widths):.1f}')
        print(f'| {name} ({len(pairs)}) | {" | ".join(cells)} |', flush=True)


def _draw_sides(
    rows: Sequence[Judged], others: Sequence[Judged], size: int, seed: int
) -> tuple[Sequence[Judged], Sequence[Judged]]:
    """The labelled rows, and those to score. Of one system, they are two random halves."""
    drawn = random.Random(seed)
    if rows is not others:
        return drawn.choices(rows, k=size), drawn.choices(others, k=ROWS)
    shuffled = drawn.sample(rows, len(rows))
    return shuffled[: len(rows) // 2][:size], shuffled[len(rows) // 2 :]


def _carry(labelled: Sequence[Judged], run: Sequence[Judged]) -> Estimate | None:
    strata = [
        Stratum(verdict, len(labels), labels)
        for verdict in (0.0, 1.0)
        if (labels := [row.people for row in labelled if row.verdict == verdict])
    ]
    rates = measure_error_rates(strata)
    return rates and rogan_gladen(sum(row.verdict for row in run), len(run), rates)


def _measure(corrections: Sequence[Estimate | None], true: float) -> tuple[float, float] | None:
    """How many of the intervals hold the true score, in per cent, and their mean width; None if there are none."""
    measured = [corrected for corrected in corrections if corrected is not None]
    if not measured:
        return None
    holds = statistics.fmean(corrected.low <= true <= corrected.high for corrected in measured)
    return 100 * holds, 100 * statistics.fmean(corrected.high - corrected.low for corrected in measured)


def _coverage(corrections: Sequence[Estimate | None], true: float) -> str:
    measured = _measure(corrections, true)
    return f'{measured[0]:.1f} | {measured[1]:.1f}' if measured else '– | –'


def measure_graded(draws: int) -> None:
    """Ratings: a judge's against another judge's of the same answers, made from MT-Bench's distribution of ratings."""
    ratings = [float(row['gold']) for row in rows_of('judge_mtbench_ratings') if row['gold'] is not None]
    print('| ratings of MT-Bench (1 to 10); labels differ by | labels | holds, % | width |')
    print('|---|---:|---:|---:|')
    noises: Mapping[str, Callable[[random.Random, float], float]] = {
        'up to 1 either way': lambda drawn, rating: rating + drawn.choice((-1, 0, 0, 1)),
        'one less, and half of them 2 either way': lambda drawn, rating: rating - 1 + drawn.choice((-2, 0, 0, 2)),
        'nothing in common': lambda drawn, rating: drawn.choice(ratings),
    }
    for name, noise in noises.items():
        drawn = random.Random(1)
        rows = [Judged(rating, min(10.0, max(1.0, noise(drawn, rating)))) for rating in ratings]
        true = statistics.fmean(row.people for row in rows)
        for size in SIZES:
            corrections = []
            for seed in range(draws):
                run = random.Random(seed).choices(rows, k=ROWS)
                mean = statistics.fmean(row.verdict for row in run)
                corrections.append(correct_graded(mean, ROWS, run[:size], (1.0, 10.0)))
            holds = statistics.fmean(entry.low <= true <= entry.high for entry in corrections)
            width = statistics.fmean(entry.high - entry.low for entry in corrections)
            print(f'| {name} | {size} | {100 * holds:.1f} | {width:.2f} |', flush=True)


# -- reading errors ----------------------------------------------------------------------------------------------------


class Log(NamedTuple):
    """A log of replies: each case with what every reader makes of it, whichever of them is the run's own."""

    name: str
    cases: Sequence[Case]
    rows: Sequence[RereadRow]


def reading_logs(half: str) -> Iterator[Log]:
    """The logs whose verdicts rest on reading, as all readers read them."""
    by_log: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
    for case in logged_cases():
        if case.kind in KINDS and case.right is not None and half in ('all', case.half):
            by_log[case.log, case.kind, str(case.values.get('letters', ''))].append(case)
    for (name, kind, letters), cases in by_log.items():
        if len(cases) >= 50:
            golds = KINDS[kind]._replace(choices=tuple(letters)) if kind == 'option' else KINDS[kind]
            results = [Result('log', 'm', at, 'ok', correct=bool(case.right)) for at, case in enumerate(cases)]
            scorables = [Scorable(at, 'ok', case.reply, case.gold, case.values) for at, case in enumerate(cases)]
            rows = read_rows(scorer_for(kind, letters), golds, results, scorables)
            yield Log(f'{name}{f" {len(letters)} letters" if letters else ""}', cases, list(rows.values()))


def run_readings(log: Log) -> Iterator[tuple[str, list[tuple[RereadRow, float]]]]:
    """The rows of a log as runs that read with each reader have them, with the authors' verdict."""
    for reader in log.rows[0].views:
        if reader != "the run's":
            yield (
                reader,
                [
                    (
                        RereadRow(row.result, row.scorable, {**row.views, "the run's": row.views[reader]}, row.kind),
                        float(bool(case.right)),
                    )
                    for row, case in zip(log.rows, log.cases, strict=True)
                ],
            )


def measure_prior() -> None:
    print('| log | the run reads with | rows alike | misread | doubtful | misread |')
    print('|---|---|---:|---:|---:|---:|')
    ours: list[tuple[str, int, int]] = []
    for log in reading_logs('look'):
        seen = set()
        for reader, rows in run_readings(log):
            counts = Counter((row.trait, row.mark != true) for row, true in rows)
            sums = {trait: counts[trait, False] + counts[trait, True] for trait in ('alike', 'doubtful')}
            cells = ' | '.join(f'{rows:,} | {counts[trait, True]:,}' for trait, rows in sums.items())
            if reader == 'ours':
                ours.append((log.name, counts['alike', True], sums['alike']))
            if cells not in seen:
                print(f'| {log.name} | {reader} | {cells} |', flush=True)
            seen.add(cells)
    misread, alike = (sum(entry[place] for entry in ours) for place in (1, 2))
    name, most, of = max(ours, key=lambda entry: entry[1] / entry[2])
    print(f'With our reader, {misread} of {alike:,} rows read alike are misread, most often {most} of {of} ({name}).')


def measure_readings(draws: int) -> None:
    print('| log | the run reads with | raw | true | with 30 decided rows holds, % | width | raw holds, % | width |')
    print('|---|---|---:|---:|---:|---:|---:|---:|')
    shares = []
    for log in reading_logs('check'):
        seen = set()
        for reader, rows in run_readings(log):
            true, raw = statistics.fmean(true for _, true in rows), statistics.fmean(row.mark for row, _ in rows)
            if (views := tuple(row.views["the run's"].mark for row, _ in rows)) in seen:
                continue  # reads as another reader does
            seen.add(views)
            results = [_draw_reading(rows, seed) for seed in range(draws)]
            columns = [_coverage([result[place] for result in results], true) for place in range(2)]
            shares.append(float(columns[0].split(' | ')[0]))
            print(f'| {log.name} | {reader} | {100 * raw:.1f} | {100 * true:.1f} | {" | ".join(columns)} |', flush=True)
    print(f'Mean coverage {statistics.fmean(shares):.1f} %, least {min(shares):.1f} %.')


def _draw_reading(rows: Sequence[tuple[RereadRow, float]], seed: int) -> list[Estimate]:
    run = random.Random(seed).choices(rows, k=min(ROWS, len(rows)))
    pair = RereadPair('log', str(seed), {at: row for at, (row, _) in enumerate(run)}, len(run), None)  # type: ignore[arg-type]
    decided: dict[int, float] = {}
    while len(decided) < 30:
        decided |= {row: run[row][1] for row in pair.queue(decided, 5)}
    right = sum(row.mark for row, _ in run)
    return [correct_by_strata(sampled_strata(pair, decided)), Estimate(0.0, *wilson(right, len(run)), 0)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        'table', choices=('grid', 'queue', 'judges', 'labels', 'graded', 'carried', 'readings', 'prior')
    )
    parser.add_argument('--draws', type=int, default=400)
    arguments = parser.parse_args()
    if not (SHARED / 'logs').is_dir():
        print(f'{SHARED / "logs"}: not here; nothing is measured.')
        return 0
    if arguments.table in ('prior', 'judges'):
        {'prior': measure_prior, 'judges': measure_judges}[arguments.table]()
    else:
        {
            'grid': measure_grid,
            'queue': measure_queue,
            'labels': measure_labels,
            'graded': measure_graded,
            'carried': measure_carried,
            'readings': measure_readings,
        }[arguments.table](arguments.draws)
    return 0


if __name__ == '__main__':
    sys.exit(main())
