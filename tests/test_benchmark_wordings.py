"""Benchmarks by name ask exactly what the file of OpenCompass or lm-eval asks that their wording names.

`tests/data/benchmark_wordings.jsonl` holds digests of the requests that the two packages themselves make of their own
files on hostile rows; `benchmarks/benchmark_names.py` writes it.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from benchmark_rows import hostile_rows, hostile_task_rows, splits_of
from rolecall import load_config, preview
from rolecall.compat.benchmarks.records import read_benchmark, read_benchmarks

_GOLDEN = [
    json.loads(line)
    for line in (Path(__file__).parent / 'data' / 'benchmark_wordings.jsonl').read_text(encoding='utf-8').splitlines()
]
_CHATML = {
    'round': [
        {'role': 'HUMAN', 'begin': '<|im_start|>user\n', 'end': '<|im_end|>\n'},
        {'role': 'BOT', 'begin': '<|im_start|>assistant\n', 'end': '<|im_end|>\n', 'generate': True},
    ],
    'reserved_roles': [{'role': 'SYSTEM', 'begin': '<|im_start|>system\n', 'end': '<|im_end|>\n'}],
    'begin': '<s>',
}
_ROLES = [{'role': 'HUMAN', 'api_role': 'HUMAN'}, {'role': 'BOT', 'api_role': 'BOT', 'generate': True}]
_SYSTEM = {'reserved_roles': [{'role': 'SYSTEM', 'api_role': 'SYSTEM'}]}
_SIDES: dict[str, dict[str, Any]] = {
    'text': {'type': 'HuggingFaceCausalLM'},
    'chatml': {'type': 'HuggingFaceCausalLM', 'meta_template': _CHATML},
    'api': {'type': 'OpenAI', 'meta_template': {'round': _ROLES}},
    'api+system': {'type': 'OpenAI', 'meta_template': {'round': _ROLES, **_SYSTEM}},
}
_CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}{% if not loop.last or add_generation_prompt %}"
    '<|im_end|>\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}'
)
_CHAT_MODEL = [{'abbr': 'm', 'type': 'HuggingFacewithChatTemplate', 'path': 'none', 'chat_template': _CHAT}]
_SUBJECTS = 3
"""Subjects of a benchmark that are asked in every way; the others in one."""
_SETTINGS: list[dict[str, Any]] = [
    {'num_fewshot': 0},
    {'num_fewshot': 2},
    {'num_fewshot': 5},
    {'num_fewshot': 2, 'chat': True},
    {'num_fewshot': 2, 'chat': True, 'fewshot_as_multiturn': True, 'system_instruction': 'Be {{brief}}.'},
]


def _digest(requests: Any) -> str:
    return hashlib.sha256(json.dumps(requests, ensure_ascii=False, sort_keys=True).encode()).hexdigest()[:16]


def _lines(style: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in _GOLDEN:
        if line['style'] == style:
            found.setdefault(line['benchmark'], []).append(line)
    return found


def test_every_wording_that_names_a_file_is_held_to_it() -> None:
    named = {
        (one.name, style) for one in read_benchmarks() for style, wording in one.wordings.items() if wording.equals
    }
    assert named == {(line['benchmark'], line['style']) for line in _GOLDEN}


@pytest.mark.parametrize('name', _lines('opencompass'))
def test_a_wording_of_opencompass_asks_what_its_file_asks(name: str) -> None:
    golden = {line['subset']: line['requests'] for line in _lines('opencompass')[name]}
    entries = read_benchmark(name).wordings['opencompass'].entries
    by_subset = {str(entry.get('category') or entry.get('name') or ''): entry for entry in entries}
    assert list(by_subset) == list(golden)
    for number, (subset, entry) in enumerate(by_subset.items()):
        sides = _SIDES if number < _SUBJECTS else {'chatml': _SIDES['chatml']}
        rows = {split: hostile_rows(entry, count) for split, count in (('train', 12), ('test', 3))}
        given = {
            'type': 'Rows',
            'reader_cfg': {**entry['reader_cfg'], 'train_split': 'train', 'test_split': 'test'},
            **rows,
        }
        config = {
            'models': [{'abbr': side, **model} for side, model in sides.items()],
            'datasets': [{'abbr': 'd', 'infer_cfg': entry['infer_cfg'], **given}],
        }
        made: dict[str, list[Any]] = {}
        for one in preview(config):
            made.setdefault(one.model, []).append(one.request)
        assert {side: _digest(requests) for side, requests in made.items()} == {
            side: golden[subset][side] for side in sides
        }, subset


@pytest.mark.parametrize('name', _lines('lm-eval'))
def test_a_wording_of_lm_eval_asks_what_its_file_asks(name: str) -> None:
    lines = {line['subset']: line['requests'] for line in _lines('lm-eval')[name]}
    rows = hostile_task_rows(name, splits_of(read_benchmark(name).wordings['lm-eval'].entries[0]))
    for at, setting in enumerate(_SETTINGS):
        options = {key: value for key, value in setting.items() if key != 'chat'}
        loaded = load_config(name, emulate='lm-eval', **options)
        assert [entry['abbr'] for entry in loaded['datasets']] == list(lines)
        chosen = loaded['datasets'] if at == 1 else loaded['datasets'][:_SUBJECTS]
        made: dict[str, list[list[Any]]] = {entry['abbr']: [[], []] for entry in chosen}
        models = {'models': _CHAT_MODEL} if setting.get('chat') else {}
        for one in preview({'datasets': chosen, **models}, data=rows, limit=2):
            made[one.dataset][one.row].append(one.request)
        assert {subset: _digest(requests) for subset, requests in made.items()} == {
            subset: lines[subset][at] for subset in made
        }
