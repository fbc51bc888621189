"""Cases that the reference systems themselves rendered (gen), each dataset for the first sides."""

import json

from .frozen_models import answer, score

with open('reference.jsonl', encoding='utf-8') as lines:
    cases = [case for case in map(json.loads, lines) if case['mode'] == 'gen' and not case['model']['api']]
models = [
    dict(abbr=f'side-{number}', type=answer, score=score, meta_template=case['model']['meta_template'], chat=case['model']['api'])
    for number, case in enumerate(cases[:4])
]
datasets = [
    dict(abbr=case['id'], type='Rows', **{key: case[key] for key in ('train', 'test', 'reader_cfg', 'infer_cfg')})
    for case in cases[:14]
]
