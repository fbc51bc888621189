"""Prompts per second: rolecall against hand-written `str.join` (the physical limit) and against OpenCompass.

    python benchmarks/prompts.py
    python benchmarks/prompts.py --rows 100000 --reference-python /path/with/opencompass/bin/python

All figures of one table come from one run on one machine. Also shown: that the cost does not depend on the number of
static shots, and that memory does not grow with the number of rows.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rolecall import PromptTemplate, compile
from rolecall.core import ApiRenderer, MetaTemplate, TextRenderer, VaryingProgram, Wording, compile_labels

Row = dict[str, str]
ASK = 'Question: {question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:'
ROUND = [{'role': 'HUMAN', 'prompt': ASK}, {'role': 'BOT', 'prompt': '{answer}'}]
SYSTEM = {'role': 'SYSTEM', 'fallback_role': 'HUMAN', 'prompt': 'Answer the question.'}
CHATML = {
    'round': [
        {'role': 'HUMAN', 'begin': '<|im_start|>user\n', 'end': '<|im_end|>\n'},
        {'role': 'BOT', 'begin': '<|im_start|>assistant\n', 'end': '<|im_end|>\n', 'generate': True},
    ],
    'reserved_roles': [{'role': 'SYSTEM', 'begin': '<|im_start|>system\n', 'end': '<|im_end|>\n'}],
}
API = {
    'round': [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}],
    'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}],
}
LABELS = {label: f'</E>{ASK} {label}' for label in 'ABCD'}
DIALOGUE = {'template': {'begin': [SYSTEM, '</E>'], 'round': ROUND}, 'ice_token': '</E>'}
CASES: dict[str, dict[str, Any]] = {
    '(a) 0-shot string': {'mode': 'gen', 'prompt': {'template': f'{ASK} {{answer}}'}},
    '(b) 5-shot dialogue, chat meta template': {
        'mode': 'gen', 'prompt': DIALOGUE, 'ice': {'template': {'round': ROUND}}, 'shots': 5, 'meta': CHATML,
    },
    '(c) the same as API messages': {
        'mode': 'gen', 'prompt': DIALOGUE, 'ice': {'template': {'round': ROUND}}, 'shots': 5, 'meta': API, 'api': True,
    },
    '(d) 5-shot, 4 labels, perplexity': {
        'mode': 'ppl', 'prompt': {'template': LABELS, 'ice_token': '</E>'}, 'ice': {'template': f'{ASK} {{answer}}'}, 'shots': 5,
    },
}  # fmt: skip


def made_rows(n: int, seed: int = 0) -> Iterator[Row]:
    """Rows of a multiple-choice dataset: a question of 100 words and four options."""
    pick = random.Random(seed)
    words = [''.join(pick.choices('abcdefghijklmnopqrstuvwxyz', k=pick.randint(2, 9))) for _ in range(2000)]
    for _ in range(n):
        yield {
            'question': ' '.join(pick.choices(words, k=100)),
            **{option: pick.choice(words) for option in 'ABCD'},
            'answer': pick.choice('ABCD'),
        }


def rate(ask: Callable[[Row], Any], rows: list[Row], *, each: int = 1) -> float:
    """Prompts per second, the best of three passes."""
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        for row in rows:
            ask(row)
        best = max(best, len(rows) * each / (time.perf_counter() - start))
    return best


def wording(case: dict[str, Any]) -> Wording:
    ice = PromptTemplate(**case['ice']) if case.get('ice') else None
    return Wording(PromptTemplate(**case['prompt']), ice, output_column='answer')


def ours(case: dict[str, Any], rows: list[Row], train: list[Row]) -> float:
    side = (
        ApiRenderer(MetaTemplate.read(case['meta']))
        if case.get('api')
        else TextRenderer(MetaTemplate.read(case['meta']) if case.get('meta') else None)
    )
    shots = train[: case.get('shots', 0)]
    if case['mode'] == 'gen':
        return rate(compile(wording(case), side, shots=shots), rows)
    programs = list(compile_labels(wording(case), side, shots=shots).values())
    return rate(lambda row: [program(row) for program in programs], rows, each=len(programs))


def by_hand(case: dict[str, Any], rows: list[Row], train: list[Row]) -> float:
    """What a person would write for this one prompt: the constant beginning kept, one join for each row."""
    join = ''.join
    if case['mode'] == 'ppl':
        shots = ''.join(f'{ASK} {{answer}}\n'.format(**row) for row in train[:5])

        def four(row: Row) -> list[str]:
            return [
                join((shots, 'Question: ', row['question'], '\nA. ', row['A'], '\nB. ', row['B'], '\nC. ', row['C'],
                      '\nD. ', row['D'], '\nAnswer: ', label))
                for label in 'ABCD'
            ]  # fmt: skip

        return rate(four, rows, each=4)
    if case.get('api'):
        before = [{'role': 'system', 'content': 'Answer the question.'}]
        for row in train[:5]:
            before += [{'role': 'user', 'content': ASK.format(**row)}, {'role': 'assistant', 'content': row['answer']}]

        def messages(row: Row) -> list[Any]:
            text = join(('Question: ', row['question'], '\nA. ', row['A'], '\nB. ', row['B'], '\nC. ', row['C'],
                         '\nD. ', row['D'], '\nAnswer:'))  # fmt: skip
            return [*before, {'role': 'user', 'content': text}]

        return rate(messages, rows)
    begin, end = 'Question: ', '\nAnswer: '
    if case.get('meta'):
        begin = (
            '<|im_start|>system\nAnswer the question.<|im_end|>\n'
            + ''.join(
                f'<|im_start|>user\n{ASK}<|im_end|>\n<|im_start|>assistant\n{{answer}}<|im_end|>\n'.format(**row)
                for row in train[:5]
            )
            + '<|im_start|>user\nQuestion: '
        )
        end = '\nAnswer:<|im_end|>\n<|im_start|>assistant\n'

    def text(row: Row) -> str:
        return join((begin, row['question'], '\nA. ', row['A'], '\nB. ', row['B'], '\nC. ', row['C'],
                     '\nD. ', row['D'], end))  # fmt: skip

    return rate(text, rows)


def reference(python: str | None, rows: list[Row], train: list[Row]) -> dict[str, float]:
    if python is None:
        return {}
    script = Path(__file__).parent / 'reference' / 'opencompass_prompts.py'
    job = json.dumps({'rows': rows[:1000], 'train': train, 'cases': CASES})
    done = subprocess.run([python, str(script)], input=job, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def varying(rows: list[Row], train: list[Row]) -> tuple[float, float]:
    """(e) shots that vary by row: the first pass, and once every training row has been worded."""
    pick = random.Random(1)
    ids = [tuple(pick.sample(range(len(train)), 5)) for _ in rows]
    program = VaryingProgram(
        wording(CASES['(b) 5-shot dialogue, chat meta template']), TextRenderer(MetaTemplate.read(CHATML)), train=train
    )
    rates = []
    for _ in range(2):
        start = time.perf_counter()
        for row, shots in zip(rows, ids, strict=True):
            program(row, shots)
        rates.append(len(rows) / (time.perf_counter() - start))
    return rates[0], rates[1]


def memory(n: int) -> int:
    """The peak memory in KiB after prompting n streamed rows."""
    case = CASES['(b) 5-shot dialogue, chat meta template']
    program = compile(wording(case), TextRenderer(MetaTemplate.read(CHATML)), shots=list(made_rows(5, seed=9)))
    for row in made_rows(n):
        program(row)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument('--rows', type=int, default=100_000)
    options.add_argument('--reference-python', help='a Python that has opencompass installed')
    given = options.parse_args()
    few, many = memory(given.rows // 10), memory(given.rows)
    rows = list(made_rows(given.rows))
    train = list(made_rows(1000, seed=7))
    theirs = reference(given.reference_python, rows, train)
    print(f'| {given.rows:,} rows, prompts/s | rolecall | by hand | of by hand | OpenCompass | times OpenCompass |')
    print('|---|---|---|---|---|---|')
    for name, case in CASES.items():
        mine, hand = ours(case, rows, train), by_hand(case, rows, train)
        there = theirs.get(name)
        compared = f'{there:,.0f} | {mine / there:,.0f}' if there else '– | –'
        print(f'| {name} | {mine:,.0f} | {hand:,.0f} | {mine / hand:.2f} | {compared} |')
    first, again = varying(rows, train)
    print(f'| (e) 5 varying shots, chat meta template | {first:,.0f} first, {again:,.0f} again | – | – | – | – |')
    shots = [
        compile(
            wording(CASES['(b) 5-shot dialogue, chat meta template']),
            TextRenderer(MetaTemplate.read(CHATML)),
            shots=train[:k],
        )
        for k in (0, 5, 50)
    ]
    print(
        '\nstatic shots 0 / 5 / 50:',
        ' / '.join(f'{rate(p, rows[:20_000]):,.0f}' for p in shots),
        'prompts/s (longer texts take longer to copy)',
    )
    print(
        f'peak memory after {given.rows // 10:,} and {given.rows:,} streamed rows: {few // 1024} and {many // 1024} MiB'
    )


if __name__ == '__main__':
    main()
