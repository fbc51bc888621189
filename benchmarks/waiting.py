"""Where a run waits or computes: one table, each line against a baseline of the same run.

    taskset -c 0,1 python benchmarks/waiting.py             # about 8 minutes on two quiet cores
    python benchmarks/waiting.py [LINE …] [--rows 1000000] [--seeds 10] [--repeats 3]

Needs `rolecall[api]` (and `[score]` for three of the readers) and no network; the sandbox's line needs sandlock or
bubblewrap. Servers are processes on loopback; their seconds are from the first request to the last answer. CPU
seconds are those of the whole command, its children included, the least of the repeats taken in turns.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import api
import api_faults
import million
import prompts
from api_faults import Plan, Row, span, waste
from rolecall.core import MetaTemplate, TextRenderer, VaryingProgram
from rolecall.errors import MissingExtraError
from rolecall.scoring.answers import Scorable
from rolecall.scoring.code.sandbox_probe import BY_DEFAULT, probe_sandbox
from rolecall.scoring.evaluate import DatasetScorer, build_scorer

SMALL = """
def answer(prompt):
    return 'The answer is ' + str(2 * int(prompt.split()[1])) + '.'

models = [dict(abbr='double', type=answer)]
datasets = [dict(
    abbr=f'sums-{{part}}', type='File', path=f'rows.{{part}}.jsonl',
    reader_cfg=dict(input_columns=['i'], output_column='answer'),
    infer_cfg=dict(prompt_template=dict(type='PromptTemplate', template='Double {{i}} :')),
    eval_cfg=dict(evaluator='AccEvaluator', pred_postprocessor='stated_number_postprocess')) for part in range({datasets})]
"""
PROGRAMS = """
import os, sys
from pathlib import Path
from rolecall.scoring.code.execution import CodeProgram, run_program
from rolecall.scoring.code.sandbox import SANDBOXES, SandboxLimits

def count_ticks():
    parents, ticks = {}, {}
    for path in Path('/proc').glob('[0-9]*/stat'):
        try:
            fields = path.read_text().rpartition(')')[2].split()
        except OSError:
            continue
        number = int(path.parent.name)
        parents[number], ticks[number] = int(fields[1]), sum(map(int, fields[11:15]))
    ours = {os.getpid()}
    for _ in range(6):
        ours |= {number for number, parent in parents.items() if parent in ours}
    return sum(ticks[number] for number in ours) / os.sysconf('SC_CLK_TCK')

program = CodeProgram('def double(x):\\n    return 2 * x', checks='assert double(1) == 2')
def run(count):
    for _ in range(count):
        ended = run_program(program, SANDBOXES[sys.argv[1]], SandboxLimits(seconds=10))
        assert ended.passed, ended
run(2)
before = count_ticks()
run(100)
print((count_ticks() - before) / 100)
"""
"""CPU seconds of a program, those of processes that go on included."""
REPEATS, MILLION = [3], [1_000_000]
"""Set by `--repeats` and `--rows`."""


def run_command(folder: Path, *command: str) -> tuple[float, float]:
    """CPU seconds of a command, its children included, and its peak memory in MB."""
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONDONTWRITEBYTECODE'}
    with open(folder / 'output.txt', 'w') as output:
        process = subprocess.Popen(
            [sys.executable, *command], cwd=folder, env=environment, stdout=output, stderr=output
        )
        peak, ended = 0, False
        while not ended:
            peak = max(peak, read_peak(process.pid))  # the kernel's figure for a child has its parent's memory in it
            time.sleep(0.02)
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit((folder / 'output.txt').read_text())
    return used.ru_utime + used.ru_stime, (peak or used.ru_maxrss) / 1024


def read_peak(process: int) -> int:
    lines = Path(f'/proc/{process}/status').read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith('VmHWM')), 0)


def run_config(folder: Path, *options: str) -> tuple[float, float]:
    """CPU seconds and memory of a new run of the folder's config."""
    shutil.rmtree(folder / 'out', ignore_errors=True)
    return run_command(folder, '-m', 'rolecall', 'run', 'config.py', '--out', 'out', '-q', *options)


def least(*works: Callable[[], float]) -> list[float]:
    """The least of what each gives, taken in turns."""
    rounds = [[work() for work in works] for _ in range(REPEATS[0])]
    return [min(column) for column in zip(*rounds, strict=True)]


def write_small(folder: Path, datasets: int, rows: int = 20) -> None:
    """A config of many small datasets for a function."""
    (folder / 'config.py').write_text(SMALL.format(datasets=datasets))
    for part in range(datasets):
        lines = (json.dumps({'i': i, 'answer': str(2 * i)}) + '\n' for i in range(part, part + rows))
        (folder / f'rows.{part}.jsonl').write_text(''.join(lines))


def datasets(folder: Path) -> Iterator[Row]:
    best = api.compare(0.2, 57 * 35, 64, REPEATS[0], 57)
    bare, ours = best['bare aiohttp'], best['rolecall']
    ratio, whole = ours['requests'] / bare['requests'], ours['wall'] / bare['wall']
    text = f'{ours["requests"]:.2f} s: {ratio:.2f} times; the whole command {whole:.2f} times'
    yield Row('57 datasets × 35 rows, 64 at once', f'{bare["requests"]:.2f} s', text, '1.15 times', ratio <= 1.15)


def zero(folder: Path) -> Iterator[Row]:
    yield replace(api_faults.zero(64), scenario='a server that says 0 tokens left, always')


def windows(folder: Path) -> Iterator[Row]:
    yield api_faults.windows(64)


def strict(folder: Path) -> Iterator[Row]:
    for rate, burst, count in ((50, 1, 600), (500, 10, 5000)):
        counts = api_faults.measure(Plan(latency=0.1, per_second=rate, burst=burst), 'rolecall', count, 64, seconds=60)
        share = counts.taken / span(counts) / rate
        ours = f'{share:.0%} of the limit, {waste(counts):.1%} refused'
        yield Row(f'{rate}/s, burst {burst}', '', ours, '85 %, under 5 %', share >= 0.85 and waste(counts) < 0.05)


def tokens(folder: Path) -> Iterator[Row]:
    rate = 100_000 / 60
    plan = Plan(latency=0.5, per_second=rate, burst=2000, tokens=(100, 200))
    counts = api_faults.measure(plan, 'rolecall', 900, 64, seconds=120)
    ours = f'{counts.taken / span(counts) / rate:.1%} of the limit, {waste(counts):.1%} refused'
    yield Row('100,000 tokens/min, 900 calls', '', ours, 'under 3 % refused', waste(counts) < 0.03)


def clean(folder: Path) -> Iterator[Row]:
    best = api.compare(0.2, 2000, 512, max(REPEATS[0], 3), 1)
    bare, ours = best['bare aiohttp'], best['rolecall']
    ratio = ours['wall'] / bare['wall']
    text = f'{ours["wall"]:.2f} s: {ratio:.2f} times; requests {ours["requests"] / bare["requests"]:.2f} times'
    yield Row('clean, 512 at once, end to end', f'{bare["wall"]:.2f} s', text, '1.6 times', ratio <= 1.6)


def faults(folder: Path) -> Iterator[Row]:
    yield api_faults.faults(512, count=2000)


def make_reply(words: int, chance: random.Random) -> str:
    """A reply of so many words that weighs options and settles on one."""
    names = [
        'the',
        'question',
        'asks',
        'which',
        'value',
        'holds',
        'because',
        'pressure',
        'rises',
        'with',
        'volume',
        'so',
    ]
    text: list[str] = []
    while len(text) < words - 6:
        text += [
            *chance.choices(names, k=12),
            f'{chance.choice("ABCD")}.',
            'Option',
            f'({chance.choice("ABCD")})',
            'fits.',
        ]
    return ' '.join([*text, 'So', 'the', 'answer', 'is', '(C).'])


READERS: list[tuple[str, dict[str, Any], Callable[[random.Random], str], dict[str, Any], float]] = [
    ('options, 100 to 400 words', {'evaluator': 'accuracy', 'pred_postprocessor': {'type': 'choice_postprocess', 'choices': list('ABCD')}},
     lambda chance: make_reply(chance.randint(100, 400), chance), {'gold': 'C'}, 0.2),
    ('options, 6,000 words', {'evaluator': 'accuracy', 'pred_postprocessor': {'type': 'choice_postprocess', 'choices': list('ABCD')}},
     lambda chance: make_reply(6000, chance), {'gold': 'C'}, 4),
    ('PMMEvalFlores, 20 lines', {'evaluator': {'type': 'PMMEvalFloresEvaluator'}},
     lambda chance: '\n'.join(make_reply(20, chance) for _ in range(20)), {'gold': 'the question asks'}, 1),
    ('Gaokao cloze, 330 characters', {'evaluator': {'type': 'GaokaoBenchEvaluator_cloze'}},
     lambda chance: make_reply(50, chance) + f'【答案】 $x^2 + {chance.random()}$', {'gold': '$1 + x^2$'}, 1),
    ('general_cn, 330 characters', {'evaluator': 'accuracy', 'pred_postprocessor': 'general_cn_postprocess'},
     lambda chance: '因此' + make_reply(55, chance), {'gold': 'C'}, 1),
    ('MuSR, 10,000 repetitions', {'evaluator': {'type': 'MusrEvaluator'}},
     lambda chance: 'ANSWER: ' * 10_000 + '2', {'gold': '2'}, 1),
]  # fmt: skip


def clock_scoring(scorer: DatasetScorer, make: Callable[[random.Random], str], columns: dict[str, Any]) -> float:
    """CPU milliseconds of a reply that was not seen before."""
    chance = random.Random()
    rows = [Scorable(i, 'ok', make(chance), values=columns, **columns) for i in range(10)]
    began = time.process_time()
    scorer.start().add(rows)
    return (time.process_time() - began) / len(rows) * 1000


def readers(folder: Path) -> Iterator[Row]:
    for name, entry, make, columns, allowed in READERS:
        try:
            scorer = build_scorer(entry)
            clock_scoring(scorer, make, columns)  # reads word lists, compiles patterns
        except MissingExtraError:
            yield Row(f'a reply: {name}', '', "needs 'rolecall[score]'", f'{allowed} ms', False)
            continue
        (took,) = least(partial(clock_scoring, scorer, make, columns))
        yield Row(f'a reply: {name}', '', f'{took:.2f} ms CPU', f'{allowed} ms', took <= allowed)


def clock_program(folder: Path, sandbox: str) -> float:
    run_command(folder, 'programs.py', sandbox)
    return float((folder / 'output.txt').read_text())


def sandbox(folder: Path) -> Iterator[Row]:
    """A solution with its checks, each in a process of its own."""
    (folder / 'program.py').write_text('def double(x):\n    return 2 * x\nassert double(1) == 2')
    (folder / 'programs.py').write_text(PROGRAMS)
    names = [name for name in BY_DEFAULT if not probe_sandbox(name)]
    for name in names:
        bare, took = least(lambda: run_command(folder, '-I', 'program.py')[0], partial(clock_program, folder, name))
        what = f'sandbox, a program ({name})'
        yield Row(what, f'{bare * 1000:.0f} ms CPU', f'{took * 1000:.0f} ms CPU', '40 ms', took <= 0.04)
    if not names:
        yield Row('sandbox', '', 'neither bubblewrap nor sandlock is here', '40 ms', False)


def small(folder: Path) -> Iterator[Row]:
    write_small(folder, 100)
    run_config(folder)
    wall, cpu = least(lambda: clock_run(folder), lambda: run_config(folder)[0])
    yield Row('100 datasets × 20 rows, a function', '', f'{wall:.2f} s, CPU {cpu:.2f} s', '1.6 s', wall <= 1.6)


def clock_run(folder: Path) -> float:
    began = time.monotonic()
    run_config(folder)
    return time.monotonic() - began


def million_rows(folder: Path) -> Iterator[Row]:
    rows = MILLION[0]
    (folder / 'config.py').write_text(million.CONFIG)
    million.write_rows(folder, rows)
    bare, _ = run_command(folder, '-c', million.BARE)
    cpu, memory = run_config(folder)
    text = f'CPU {cpu:.1f} s ({cpu / bare:.1f} times), {memory:.0f} MB'
    allowed = 40 * rows / 1e6
    met = cpu <= allowed and memory < 250
    yield Row(f'{rows:,} rows, a function', f'CPU {bare:.1f} s', text, f'{allowed:g} s, 250 MB', met)


def varying(folder: Path) -> Iterator[Row]:
    """Examples drawn for each row, against joining examples that were worded once."""
    rows, train = list(prompts.made_rows(5000)), list(prompts.made_rows(1000, seed=7))
    turn, reply = '<|im_start|>user\n', '<|im_start|>assistant\n'
    begin = '<|im_start|>system\nAnswer the question.<|im_end|>\n'
    worded = [f'{turn}{prompts.ASK}<|im_end|>\n{reply}{{answer}}<|im_end|>\n'.format(**row) for row in train]

    def by_hand(row: dict[str, str], numbers: tuple[int, ...]) -> str:
        texts = (turn, 'Question: ', row['question'], '\nA. ', row['A'], '\nB. ', row['B'], '\nC. ', row['C'], '\nD. ')
        return ''.join((begin, *[worded[i] for i in numbers], *texts, row['D'], '\nAnswer:<|im_end|>\n', reply))

    wording = prompts.wording(prompts.CASES['(b) 5-shot dialogue, chat meta template'])
    for shots in (5, 50):
        pick = random.Random(1)
        ids = [tuple(pick.sample(range(len(train)), shots)) for _ in rows]
        program = VaryingProgram(wording, TextRenderer(MetaTemplate.read(prompts.CHATML)), train=train)
        if program(rows[0], ids[0]) != by_hand(rows[0], ids[0]):
            sys.exit('the two prompts differ')
        hand, ours = (took / len(rows) * 1e6 for took in least(*(_clock(ask, rows, ids) for ask in (by_hand, program))))
        text = f'{ours:.1f} µs: {hand / ours:.2f} of by hand'
        yield Row(f'{shots} varying examples', f'{hand:.1f} µs', text, '0.4', hand / ours >= 0.4)


def _clock(ask: Callable[..., Any], *columns: list[Any]) -> Callable[[], float]:
    def once() -> float:
        began = time.process_time()
        for arguments in zip(*columns, strict=True):
            ask(*arguments)
        return time.process_time() - began

    return once


def messages(folder: Path) -> Iterator[Row]:
    rows, train = list(prompts.made_rows(20_000)), list(prompts.made_rows(10, seed=7))
    case = prompts.CASES['(c) the same as API messages']
    hand = [prompts.by_hand(case, rows, train) for _ in range(REPEATS[0])]
    ours = [prompts.ours(case, rows, train) for _ in range(REPEATS[0])]
    ratio = max(ours) / max(hand)
    yield Row(
        'API messages, 5 examples', f'{max(hand):,.0f}/s', f'{max(ours):,.0f}/s: {ratio:.2f}', '0.6', ratio >= 0.6
    )


def export(folder: Path) -> Iterator[Row]:
    took = []
    for count in (100, 500):
        write_small(folder, count, rows=5)
        run_config(folder)
        took += least(
            lambda: run_command(folder, *['-m', 'rolecall', 'export', 'results', 'out', '-o', 'results.jsonl'])[0]
        )
    few, many = took
    text = f'CPU {few:.2f} and {many:.2f} s: {many / few:.1f} times'
    yield Row('export results, 100 and 500 datasets', '', text, '5 times', many <= 5 * few)


def start(folder: Path) -> Iterator[Row]:
    write_small(folder, 1, rows=1)
    run_config(folder)
    bare, cpu = least(lambda: run_command(folder, '-c', 'pass')[0], lambda: run_config(folder)[0])
    yield Row('a run of one row', f'python CPU {bare:.2f} s', f'CPU {cpu:.2f} s', '0.25 s', cpu <= 0.25)


LINES: dict[str, Callable[[Path], Iterator[Row]]] = {
    'datasets': datasets, 'zero': zero, 'windows': windows, 'strict': strict, 'tokens': tokens, 'clean': clean,
    'faults': faults, 'readers': readers, 'sandbox': sandbox, 'small': small, 'million': million_rows,
    'varying': varying, 'messages': messages, 'export': export, 'start': start,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('lines', nargs='*', metavar='LINE', help=', '.join(LINES))
    parser.add_argument('--rows', type=int, default=MILLION[0], help='rows of the function model')
    parser.add_argument('--seeds', type=int, default=10, help='runs with faults, each drawn anew')
    parser.add_argument('--repeats', type=int, default=REPEATS[0], help='of each CPU time, in turns; the least counts')
    arguments = parser.parse_args()
    if folders := os.environ.get('PYTHONPATH'):  # lines run commands in folders of their own
        os.environ['PYTHONPATH'] = os.pathsep.join(map(os.path.abspath, folders.split(os.pathsep)))
    REPEATS[:], MILLION[:] = [arguments.repeats], [arguments.rows]
    api_faults.SEEDS[:] = range(1, arguments.seeds + 1)
    print(f'{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, Python {sys.version.split()[0]}\n')
    print('| line | baseline | rolecall | aim | |', '|---|---|---|---|---|', sep='\n')
    for name in arguments.lines or LINES:
        with tempfile.TemporaryDirectory() as folder:
            for row in LINES[name](Path(folder)):
                met = 'met' if row.met else '**missed**'
                print(f'| {row.scenario} | {row.bare} | {row.ours} | {row.aim} | {met} |', flush=True)


if __name__ == '__main__':
    main()
