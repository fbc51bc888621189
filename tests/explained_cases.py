"""Two configs that differ in one thing that matters and one that does not, asked of a function that shows which.

Each case has the cause that the answers depend on, so that the true share of every cause is known.
"""

from __future__ import annotations

import random
import re
from typing import Any
from zlib import crc32

from helpers import bot, human, system, template
from rolecall.models.protocol import Reply, Sampling, Scored

ROWS = [
    {
        'number': number,
        'question': f'What is {number} plus {number}?',
        'answer': str(2 * number),
        'first': f'option {number} one',
        'second': f'option {number} two',
    }
    for number in range(60)
]
TRAIN = [{**row, 'question': f'Example {row["number"]}?'} for row in ROWS]


def number_in(prompt: str) -> int:
    return int(re.findall(r'What is (\d+) plus', prompt)[-1])


def right(prompt: str, when: bool) -> str:
    """The right answer under a condition; without it, only to every fifth question."""
    number = number_in(prompt)
    return f'The answer is {2 * number if when or number % 5 == 0 else -1}.'


def needs_bos(prompt: str) -> str:
    return right(prompt, prompt.startswith('<s>'))


def needs_chatml(prompt: str) -> str:
    return right(prompt, '<|im_start|>' in prompt)


def needs_system(prompt: str) -> str:
    return right(prompt, 'Think hard.' in prompt)


def needs_example(prompt: str) -> str:
    return right(prompt, 'Example 24?' in prompt)


def needs_order(prompt: str) -> str:
    return right(prompt, prompt.index(' one') < prompt.index(' two'))


def reasons(prompt: str) -> str:
    number = number_in(prompt)
    return f'First, 1 and {number}. The answer is {2 * number}.'


def talks(prompt: str, sampling: Sampling) -> Reply:
    number = number_in(prompt)
    words = f'{"well " * (number % 40)}the answer is {2 * number}.'.split()
    cut = sampling.max_out_len is not None and len(words) > sampling.max_out_len
    kept = words[: sampling.max_out_len] if cut else words
    return Reply(' '.join(kept), reason='length' if cut else 'stop')


def weigh(prompts: list[str]) -> list[Scored]:
    """A long answer has the lower sum, and the higher mean."""
    return [
        Scored(tuple(range(len(text))), (None, *[-0.1 if 'long' in text else -0.5] * (len(text) - 1)))
        for text in prompts
    ]


def dataset(**infer: Any) -> dict[str, Any]:
    return {
        'abbr': 'sums',
        'type': 'Rows',
        'test': ROWS,
        'train': TRAIN,
        'reader_cfg': {'input_columns': ['question', 'first', 'second'], 'output_column': 'answer'},
        'infer_cfg': {
            'prompt_template': template({'round': [human('{question}'), bot('{answer}')]}),
            'inferencer': {'type': 'GenInferencer', 'max_out_len': 64},
            **infer,
        },
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}, 'pred_postprocessor': 'stated_number_postprocess'},
    }


def meta(begin: str = '', mark: str = '##') -> dict[str, Any]:
    return {
        'begin': begin,
        'round': [
            {'role': 'HUMAN', 'begin': f'{mark}user\n', 'end': '\n'},
            {'role': 'BOT', 'begin': f'{mark}assistant\n', 'end': '\n', 'generate': True},
        ],
    }


def dialogue(*first: Any, question: str = '{question}') -> dict[str, Any]:
    return template({'begin': list(first), 'round': [human(question), bot('{answer}')]})


def config(data: dict[str, Any], function: Any, **model: Any) -> dict[str, Any]:
    return {'models': [{'abbr': 'm', 'type': function, 'meta_template': meta(), **model}], 'datasets': [data]}


def few_shot(seed: int, **infer: Any) -> dict[str, Any]:
    examples = template('</E>{question}\n{answer}', ice_token='</E>')
    return dataset(
        prompt_template=examples,
        ice_template=template('{question}\n{answer}'),
        retriever={'type': 'FixKRetriever', 'fix_id_list': random.Random(seed).sample(range(len(TRAIN)), 4)},
        **infer,
    )


HOT = {'type': 'GenInferencer', 'max_out_len': 64, 'temperature': 0.7}
"""A setting that these functions do not look at."""
FIRST_NUMBER = {'evaluator': {'type': 'AccEvaluator'}, 'pred_postprocessor': 'first_number_postprocess'}
LONG = 'a very long answer'
CHOICES = [
    {'question': f'What is {number} plus {number}?', 'answer': LONG if number % 4 else 'no'} for number in range(40)
]


def choosing(decide_by: str, **infer: Any) -> dict[str, Any]:
    labels = {label: f'{{question}}\n{label}' for label in ('no', LONG)}
    return {
        **dataset(
            prompt_template=template(labels), inferencer={'type': 'PPLInferencer', 'decide_by': decide_by}, **infer
        ),
        'test': CHOICES,
        'reader_cfg': {'input_columns': ['question'], 'output_column': 'answer'},
        'eval_cfg': {'evaluator': {'type': 'AccEvaluator'}},
    }


CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    'BOS': (config(dataset(inferencer=HOT), needs_bos), config(dataset(), needs_bos, meta_template=meta('<s>'))),
    'format': (
        config(dataset(inferencer=HOT), needs_chatml),
        config(dataset(), needs_chatml, meta_template=meta(mark='<|im_start|>')),
    ),
    'metric': (
        config(choosing('sum'), reasons, score=weigh),
        config(choosing('per_token'), reasons, score=weigh),
    ),
    'examples': (config(few_shot(1, inferencer=HOT), needs_example), config(few_shot(0), needs_example)),
    'reader': (config(dataset(inferencer=HOT), reasons), config({**dataset(), 'eval_cfg': FIRST_NUMBER}, reasons)),
    'length': (
        config(dataset(), talks),
        config(dataset(inferencer={'type': 'GenInferencer', 'max_out_len': 16, 'temperature': 0.7}), talks),
    ),
    'system text': (
        config(dataset(prompt_template=dialogue(system('Think hard.')), inferencer=HOT), needs_system),
        config(dataset(prompt_template=dialogue()), needs_system),
    ),
    'option order': (
        config(
            dataset(prompt_template=dialogue(question='{question}\n{first}\n{second}'), inferencer=HOT), needs_order
        ),
        config(dataset(prompt_template=dialogue(question='{question}\n{second}\n{first}')), needs_order),
    ),
}
"""By the cause that matters: the two configs. All but `metric` differ in the temperature as well."""


def make_noisy(function: Any, share: int = 20) -> Any:
    """The function, wrong on some rows by chance that is drawn anew whenever anything that it is sent changes."""

    def noisy(prompt: str, sampling: Sampling) -> Any:
        drawn = crc32(f'{prompt}{sampling}'.encode()) % 100
        answer = function(prompt) if function is not talks else talks(prompt, sampling)
        return 'The answer is -2.' if drawn < share else answer

    return noisy


def noisy_sides(cause: str, rows: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """The configs of a case with more rows, and with a noisy model."""
    many = [
        {**ROWS[number % len(ROWS)], 'number': number, 'question': f'What is {number} plus {number}?'}
        | {'answer': str(2 * number)}
        for number in range(rows)
    ]
    noisy = make_noisy(CASES[cause][0]['models'][0]['type'])
    left, right_side = (
        {
            'models': [{**side['models'][0], 'type': noisy}],
            'datasets': [{**side['datasets'][0], 'test': many}],
        }
        for side in CASES[cause]
    )
    return left, right_side
