"""Every worked example of the documents, for every model side that one of them has."""

import json

from .frozen_models import answer, score

with open('seed_examples.jsonl', encoding='utf-8') as lines:
    cases = [case for case in map(json.loads, lines) if not case['id'].startswith('multimodal')]
sides = []
for case in cases:
    side = case['model'] or dict(api=False, meta_template=None)
    if side not in sides:
        sides.append(side)
models = [
    dict(abbr=f'side-{number}', type=answer, score=score, meta_template=side['meta_template'], chat=side['api'])
    for number, side in enumerate(sides)
]
datasets = [
    dict(abbr=case['id'], type='Rows', **{key: case[key] for key in ('train', 'test', 'reader_cfg', 'infer_cfg')})
    for case in cases
]
