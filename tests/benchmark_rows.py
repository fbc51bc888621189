"""Hostile rows for the wordings of benchmarks: every column that a wording reads, the same rows at every call."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = (
    *('plain', '中文：', 'naïve', "it's", '"q"', 'a\nb', '\\boxed{1}', '$5', '%s', '{x}', '{}', '{{y}}', '<|im_end|>'),
    *('A) yes', '#### 7', '\t', ' ', '🙂', 'Answer:'),
)
_MORE = (*_WORDS, '{answer}', '{% if %}', '{{ answer }}', '[title]', '[x]', '</E>', '  ')
"""Also what OpenCompass itself would take for a field or a place for examples."""
_FIELD = re.compile(r'\{([\w ]+)\}')
_CHOICES = {'choices': 'options', 'answerKey': 'letter'}
_FOUR = {**dict.fromkeys('ABCD', 'text')}

TASK_COLUMNS: Mapping[str, Mapping[str, str]] = {
    'arc_challenge': {'question': 'text', **_CHOICES},
    'arc_easy': {'question': 'text', **_CHOICES},
    'boolq': {'passage': 'text', 'question': 'text', 'label': 'bit'},
    'ceval': {'question': 'text', **_FOUR, 'answer': 'letter'},
    'cmmlu': {'Question': 'text', **_FOUR, 'Answer': 'letter'},
    'commonsenseqa': {'question': 'text', **_CHOICES},
    'gsm8k': {'question': 'text', 'answer': 'text'},
    'hellaswag': {'activity_label': 'text', 'ctx_a': 'text', 'ctx_b': 'text', 'endings': 'list', 'label': 'digit'},
    'lambada': {'text': 'text'},
    'mmlu': {'question': 'text', 'choices': 'list', 'answer': 'index'},
    'nq': {'question': 'text', 'answer': 'list'},
    'openbookqa': {'question_stem': 'text', **_CHOICES},
    'piqa': {'goal': 'text', 'sol1': 'text', 'sol2': 'text', 'label': 'bit'},
    'siqa': {'context': 'text', 'question': 'text', **dict.fromkeys(('answerA', 'answerB', 'answerC'), 'text'), 'label': 'ordinal'},
    'triviaqa': {'question': 'text', 'answer': 'aliases'},
    'truthfulqa': {'question': 'text', 'mc1_targets': 'targets'},
    'winogrande': {'sentence': 'gap', 'option1': 'text', 'option2': 'text', 'answer': 'ordinal'},
}  # fmt: skip
"""The columns of the hub's datasets, for the wordings of lm-eval, each with its shape."""


def hostile_rows(entry: Mapping[str, Any], count: int) -> list[dict[str, Any]]:
    """Rows for a dataset entry in the syntax of configs."""
    reader = entry.get('reader_cfg') or {}
    given = reader.get('input_columns') or []
    columns = given.split() if isinstance(given, str) else list(given)
    fields = (name for text in _texts(entry['infer_cfg']) for name in _FIELD.findall(text))
    chance = random.Random(count)
    named = sorted({*columns, *fields, reader.get('output_column')})
    return [{name: _words(chance, _WORDS) for name in named} for _ in range(count)]


def splits_of(task: Mapping[str, Any]) -> list[str]:
    """The splits that a task names."""
    named = (task.get(key) for key in ('training_split', 'validation_split', 'test_split', 'fewshot_split'))
    return sorted({str(split) for split in named if split})


def hostile_task_rows(name: str, splits: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Rows for a benchmark in lm-eval's wording, by split."""
    chance = random.Random(name)
    return {
        split: [
            {column: _shape(chance, shape, number) for column, shape in TASK_COLUMNS[name].items()}
            for number in range(8)
        ]
        for split in splits
    }


def _shape(chance: random.Random, shape: str, number: int) -> Any:
    texts = [_words(chance, _MORE) for _ in range(5)]
    return {
        'text': texts[0],
        'list': texts[:4],
        'options': {'text': texts, 'label': list('ABCDE')},
        'aliases': {'aliases': texts[:3]},
        'targets': {'choices': texts[:3], 'labels': [1, 0, 0]},
        'gap': f'{texts[0]} _ {texts[1]}.',
        'letter': 'ABCD'[number % 4],
        'index': number % 4,
        'digit': str(number % 4),
        'ordinal': str(1 + number % 2),
        'bit': number % 2,
    }[shape]


def _words(chance: random.Random, words: tuple[str, ...]) -> str:
    return ' '.join(chance.choices(words, k=chance.randint(1, 4)))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
