"""Readers against replies of real models that others have graded: `../shared/logs` and `../shared/tables`.

Each log is a line: rows, rows whose verdict differs from the authors', replies that the authors could not read and that
got an answer here, and the time to read a reply. `--show LOG` lists the rows that differ. Half of the rows (by a hash of
their id) is meant to be looked at while readers are changed, the other half only to be scored: `--half look`, `--half check`.

    python benchmarks/real_replies.py
    python benchmarks/real_replies.py --half look --log mmlu_pro --show
    python benchmarks/real_replies.py --table FILE [--show]

`--table` reads a table of hard replies that were judged by hand: JSON lines with `family` (choice, number, text, yesno, math,
judge), `language`, `options`, `reply`, `value` (null if the reply gives none) and `also` (the same value in other words).
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rolecall.scoring.answers import Scorable
from rolecall.scoring.evaluate import DatasetScorer, build_scorer
from rolecall.scoring.metrics.judge_replies import read_rating
from rolecall.scoring.metrics.metric import Answer
from rolecall.scoring.metrics.verdicts import read_grade
from rolecall.scoring.readers.preferences import preference_in
from rolecall.scoring.readers.quotations import leave_out_quotations

SHARED = Path(__file__).resolve().parents[2] / 'shared'
_TAIL = 240
_JUDGED = {
    'preference': r'pairwise|better|besser|meilleure|更好|\[\[A>B\]\]',
    'verdict': r'[Cc]orrecte?\b|CORRECT|正确|richtig|criterion',
    'option': 'with a letter',
    'rating': '',
}
"""What a judge was asked for, by its question."""
_GRADES = {
    'CORRECT': 'A',
    'INCORRECT': 'B',
    'correct': 'A',
    'incorrect': 'B',
    '正确': 'A',
    '错误': 'B',
    'richtig': 'A',
    'falsch': 'B',
    'Y': 'A',
    'N': 'B',
}
_YES_NO = ('coin_flip', 'strategyqa')
_LETTERED = ('aqua', 'commonsenseqa', 'bigbench_date', 'bigbench_object_tracking')


@dataclass(frozen=True, slots=True)
class Case:
    """A reply, how it is to be read, and what its authors made of it."""

    log: str
    key: str
    kind: str
    """`option`, `number`, `math`, `yes_no`, `short`, `contains`, `rating` or `preference`"""
    reply: str
    gold: Any
    right: bool | None = None
    """The authors' verdict. A judge's reply has none: its reading is compared with `gold`."""
    unreadable: bool = False
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def half(self) -> str:
        return 'look' if zlib.crc32(self.key.encode()) % 2 else 'check'


@dataclass(slots=True)
class Tally:
    rows: int = 0
    differ: list[tuple[Case, Any]] = field(default_factory=list)
    unreadable: int = 0
    read_anyway: list[tuple[Case, Any]] = field(default_factory=list)
    seconds: float = 0.0
    characters: int = 0


def scorer_for(kind: str, letters: str) -> DatasetScorer:
    """The scorer that `run rows.jsonl --answer …` builds for such answers."""
    config: dict[str, dict[str, Any]] = {
        'option': {
            'evaluator': 'accuracy',
            'pred_postprocessor': {'type': 'choice_postprocess', 'choices': list(letters)},
        },
        'yes_no': {
            'evaluator': 'accuracy',
            'pred_postprocessor': {'type': 'choice_postprocess', 'choices': ['yes', 'no']},
        },
        'number': {'evaluator': 'number', 'pred_postprocessor': 'stated_number_postprocess'},
        'math': {'evaluator': 'math', 'pred_postprocessor': 'stated_expression_postprocess'},
        'short': {'evaluator': 'exact', 'pred_postprocessor': 'stated_text_postprocess'},
        'contains': {'evaluator': 'contains'},
    }
    return build_scorer(config[kind])


def rows_of(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(SHARED / 'logs' / f'{name}.jsonl.gz', 'rt', encoding='utf-8') as lines:
        yield from map(json.loads, lines)


def logged_cases() -> Iterator[Case]:
    for at, row in enumerate(rows_of('gsm8k_openai_2021')):
        yield _graded('gsm8k', row, at, 'number')
    for at, row in enumerate(rows_of('math_level5_zeroeval')):
        if row['verdict'] is not None:
            yield _graded('math_level5', row, at, 'math')
    for at, row in enumerate(rows_of('bbh_davinci_cot')):
        lettered = re.fullmatch(r'\(([A-R])\)', row['gold'])
        if lettered:
            yield _graded('bbh letters', row, at, 'option', gold=lettered[1], letters='ABCDEFGHIJKLMNOPQR')
        else:
            yield _graded('bbh free text', row, at, 'short')
    for at, row in enumerate(rows_of('mmlu_pro_cot')):
        letters = 'ABCDEFGHIJ'[: len(row['options'])]
        unreadable = row['verdict'] is None
        log = 'mmlu_pro unread' if unreadable else 'mmlu_pro'
        yield _graded(log, row, at, 'option', letters=letters, options=row['options'], unreadable=unreadable)
    for at, row in enumerate(rows_of('zero_shot_cot_gpt3')):
        task = row['benchmark']
        if task in _LETTERED:
            yield _graded(f'zero_shot {task}', row, at, 'option', letters='ABCDEF')
        elif task in _YES_NO:
            yield _graded('zero_shot yes/no', row, at, 'yes_no')
        else:
            yield _graded('zero_shot numbers', row, at, 'short' if task == 'last_letters' else 'number')
    for at, row in enumerate(rows_of('drift_prime_happy')):
        if row['gold'].lower() in ('yes', 'no'):
            tags = {tag.lower() for tag in re.findall(r'\[(yes|no)\]', row['reply'], re.IGNORECASE)}
            if len(tags) == 1:
                yield _case('[Yes] or [No]', row, at, 'yes_no', tags.pop(), right=True)
        elif boxes := re.findall(r'\\boxed\{(\d+)\}', row['reply']):
            yield _case('happy \\boxed', row, at, 'number', boxes[-1], right=True)
    for at, row in enumerate(rows_of('openqa_evouna_human')):
        yield _graded('open questions (people)', row, at, 'contains')
    for at, row in enumerate(rows_of('judge_llmbar')):
        sides = {'a': 'first', 'b': 'second', None: None}
        yield _case('judge llmbar', row, at, 'preference', sides[row['gold']])
    for at, row in enumerate(rows_of('preference_pandalm_human')):
        sides = {'1': 'first', '2': 'second', 'Tie': 'tie'}
        yield _case('judge pandalm', row, at, 'preference', sides.get(row['judge']))
    for at, row in enumerate(rows_of('judge_mtbench_ratings')):
        yield _case('judge mt_bench', row, at, 'rating', row['gold'])


def table_cases() -> Iterator[Case]:
    """Cases of other projects' tests that are about reading or comparing, with their own conventions."""
    for at, row in enumerate(_table('lighteval_extractive_match')):
        case = row['case']
        lettered = 'abc' in row['test']
        kind = 'option' if lettered else 'math'
        if isinstance(case.get('gold'), str) and isinstance(case.get('pred'), str) and 'expected' in case:
            yield _case(
                f'table lighteval {"letters" if lettered else "mathematics"}',
                row,
                at,
                kind,
                case['gold'],
                reply=case['pred'],
                right=bool(case['expected']),
                values={'letters': 'ABCD'},
            )
    for at, row in enumerate(_table('math_verify')):
        case = row['case']
        if isinstance(case.get('gold'), str) and isinstance(case.get('pred'), str) and 'expected' in case:
            yield _case(
                'table math-verify', row, at, 'math', case['gold'], reply=case['pred'], right=bool(case['expected'])
            )
    for at, row in enumerate(_table('readings_all')):
        if row.get('function') == 'extract_mcq_answer' and isinstance(row['args'][0], str):
            right = row['expected'] is not None
            gold = row['expected'] or 'A'
            yield _case(
                'table letters',
                row,
                at,
                'option',
                gold,
                reply=row['args'][0],
                right=right,
                values={'letters': 'ABCDEFGHIJ'},
            )


def _table(name: str) -> Iterator[dict[str, Any]]:
    with (SHARED / 'tables' / f'{name}.jsonl').open(encoding='utf-8') as lines:
        yield from map(json.loads, lines)


def _graded(
    log: str, row: Mapping[str, Any], at: int, kind: str, *, gold: Any = None, unreadable: bool = False, **values: Any
) -> Case:
    wanted = row['gold'] if gold is None else gold
    return _case(log, row, at, kind, wanted, right=row['verdict'], unreadable=unreadable, values=values)


def _case(
    log: str, row: Mapping[str, Any], at: int, kind: str, gold: Any, *, reply: str | None = None, **more: Any
) -> Case:
    text = row['reply'] if reply is None else reply
    return Case(log, f'{log}:{row.get("id", at)}:{at}', kind, text, gold, **more)


def measure(cases: Iterator[Case], half: str) -> dict[str, Tally]:
    tallies: dict[str, Tally] = {}
    scorers: dict[tuple[str, str], DatasetScorer] = {}
    for case in cases:
        if half not in ('all', case.half):
            continue
        tally = tallies.setdefault(case.log, Tally())
        if case.kind in ('preference', 'rating'):
            _measure_judge(case, tally)
            continue
        letters = str(case.values.get('letters', ''))
        scorer = scorers.setdefault((case.kind, letters), scorer_for(case.kind, letters))
        began = time.process_time()
        read = scorer.read(Scorable(0, 'ok', case.reply, gold=case.gold, values=case.values))
        _count(tally, case, time.process_time() - began)
        if case.unreadable:
            tally.unreadable += 1
            if read.outcome == 'ok':
                tally.read_anyway.append((case, read.extracted))
            continue
        mark = scorer.metric.mark(read.answers[0]) if scorer.metric and read.outcome == 'ok' else None
        if bool(mark and mark.correct) is not case.right:
            tally.differ.append((case, read.extracted))
    return tallies


def _measure_judge(case: Case, tally: Tally) -> None:
    began = time.process_time()
    preference = preference_in(case.reply) if case.kind == 'preference' else None
    value = read_rating(case.reply, Answer('')) if case.kind == 'rating' else preference and preference.side
    _count(tally, case, time.process_time() - began)
    if case.gold is None:
        tally.unreadable += 1
        if value is not None:
            tally.read_anyway.append((case, value))
    elif value != case.gold:
        tally.differ.append((case, value))


def _count(tally: Tally, case: Case, seconds: float) -> None:
    tally.rows += 1
    tally.seconds += seconds
    tally.characters += len(case.reply)


def judged_cases(path: Path) -> Iterator[Case]:
    """The rows of a table that was judged by hand, by family and language."""
    with path.open(encoding='utf-8') as lines:
        for row in map(json.loads, lines):
            options = row['options'] or {}
            values = {
                'letters': ''.join(options) or 'ABCDE',
                'options': list(options.values()),
                'language': row['language'],
            }
            kinds = {'choice': 'option', 'yesno': 'yes_no', 'text': 'short'}
            kind = kinds.get(row['family'], row['family'])
            if kind == 'judge':
                kind = next(kind for kind, pattern in _JUDGED.items() if re.search(pattern, row['question']))
            golds = [row['value'], *row['also']] if row['value'] is not None else None
            yield Case(row['family'], row['id'], kind, row['reply'], golds, values=values)


def measure_judged(cases: Iterator[Case]) -> dict[str, Tally]:
    """Rows that are read as something else than a person reads them: by family, and by language."""
    tallies: dict[str, Tally] = {}
    for case in cases:
        began = time.process_time()
        reading, right = _read_judged(case)
        seconds = time.process_time() - began
        for name in (case.log, f'  {case.values["language"]}', 'all'):
            tally = tallies.setdefault(name, Tally())
            _count(tally, case, seconds)
            if not right:
                tally.differ.append((case, reading))
    order = sorted(tallies, key=lambda name: (name == 'all', name.startswith(' ')))
    return {name: tallies[name] for name in order}


def _read_judged(case: Case) -> tuple[Any, bool]:
    wanted = case.gold and str(case.gold[0])
    own = leave_out_quotations(case.reply)
    if case.kind == 'preference':
        preference = preference_in(own)
        sides = {'first': 'A', 'second': 'B', 'tie': 'tie'}
        judged = preference and sides[preference.side]
        return judged, judged == (wanted and re.sub(r'([AB])>+([AB])', r'\1', wanted))
    if case.kind == 'rating':
        rating = read_rating(own, Answer(''))
        return rating, (rating is None) if wanted is None else str(rating).removesuffix('.0') == wanted
    if case.kind == 'verdict':
        grade = read_grade(own)
        graded = grade.value if grade and grade.counts else None
        return graded, graded == (wanted and _GRADES.get(wanted, wanted))
    scorer = scorer_for(case.kind, str(case.values['letters']))
    read = scorer.read(Scorable(0, 'ok', case.reply, gold=case.gold, values=case.values))
    if case.gold is None or read.outcome != 'ok':
        return read.extracted, case.gold is None and read.outcome == 'unparsed'
    mark = scorer.metric.mark(read.answers[0]) if scorer.metric else None
    return read.extracted, bool(mark and mark.correct)


def print_table(tallies: Mapping[str, Tally]) -> None:
    print(
        f'{"log":28}{"rows":>7}{"differ":>8}{"%":>7}{"unreadable":>12}{"read":>6}{"characters":>12}{"ms a reply":>12}'
    )
    for log, tally in tallies.items():
        graded = tally.rows - tally.unreadable
        share = f'{100 * len(tally.differ) / graded:.2f}' if graded else '–'
        print(
            f'{log:28}{tally.rows:7}{len(tally.differ):8}{share:>7}{tally.unreadable:12}{len(tally.read_anyway):6}'
            f'{tally.characters // tally.rows:12}{1000 * tally.seconds / tally.rows:12.3f}'
        )


def show(tally: Tally, most: int, tail: int) -> None:
    for title, rows in (('differs', tally.differ), ('read anyway', tally.read_anyway)):
        for case, reading in rows[:most]:
            print(f'── {title}: {case.key}   gold {case.gold!r}, authors {case.right}, ours {reading!r}')
            if case.values.get('options'):
                print('   options', case.values['options'])
            print(f'   {case.reply[-tail:]!r}')


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--half', choices=('look', 'check', 'all'), default='all')
    parser.add_argument('--log', default='', help='only logs whose name contains this')
    parser.add_argument('--show', action='store_true', help='list the rows that differ')
    parser.add_argument('--most', type=int, default=40)
    parser.add_argument('--tail', type=int, default=_TAIL, help='characters of a reply to show')
    parser.add_argument('--table', type=Path, help='a table of replies that were judged by hand, instead of the logs')
    options = parser.parse_args(arguments)
    if options.table:
        tallies = measure_judged(case for case in judged_cases(options.table) if options.log in case.log)
        print_table(tallies)
        if options.show:
            show(tallies['all'], options.most, options.tail)
        return 0
    if not (SHARED / 'logs').is_dir():
        print(f'skipped: {SHARED / "logs"} is not there.')
        return 0
    sources: tuple[Callable[[], Iterator[Case]], ...] = (logged_cases, table_cases)
    cases = (case for source in sources for case in source() if options.log in case.log)
    tallies = measure(cases, options.half)
    print_table(tallies)
    if options.show:
        for tally in tallies.values():
            show(tally, options.most, options.tail)
    return 0


if __name__ == '__main__':
    sys.exit(main())
