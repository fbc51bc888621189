"""The documents' worked examples, and outputs of the released reference systems, through `preview`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolecall.core.render.spans import join_spans, texts_of
from rolecall.experiment.experiment import preview
from rolecall.experiment.pairs.pair import Preview
from tables import in_one

DATA = Path(__file__).parent / 'data'


def cases(name: str) -> list[Any]:
    lines = (DATA / name).read_text(encoding='utf-8').splitlines()
    return [pytest.param(case, id=case['id']) for case in map(json.loads, lines)]


def previews(case: dict[str, Any]) -> list[Preview]:
    model = case['model']
    dataset = {
        'abbr': 'demo',
        'type': 'Rows',
        'train': case['train'],
        'test': case['test'],
        'reader_cfg': case['reader_cfg'],
        'infer_cfg': case['infer_cfg'],
    }
    config: dict[str, Any] = {'datasets': [dataset]}
    if model is not None:
        type_ = 'OpenAI' if model['api'] else 'HuggingFaceCausalLM'
        config['models'] = [{'abbr': 'm', 'type': type_, 'path': 'none', 'meta_template': model['meta_template']}]
    return list(preview(config, replies=['answer1', 'answer2', 'answer3']))


def result(case: dict[str, Any], shown: list[Preview]) -> list[Any]:
    """One entry for each test row (for each model call of a dialogue); in ppl a mapping of label to prompt."""
    outcome = [(one.row, one.label, one.prompt if case['stage'] == 'prompt' else one.request) for one in shown]
    if case['mode'] == 'gen':
        return [prompt for _, _, prompt in outcome]
    rows: dict[int, dict[str, Any]] = {}
    for row, label, prompt in outcome:
        rows.setdefault(row, {})[str(label)] = prompt
    return list(rows.values())


@in_one
@pytest.mark.parametrize('case', cases('seed_examples.jsonl') + cases('reference.jsonl'))
def test_the_prompt_is_the_one_the_reference_gives(case: dict[str, Any]) -> None:
    shown = previews(case)
    assert result(case, shown) == case['expect']
    for one in shown:
        if one.request is not None:
            assert join_spans(one.spans) == texts_of(one.request)
