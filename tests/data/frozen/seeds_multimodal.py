"""The worked examples of the documents that have pictures, for messages."""

import json

from .frozen_models import chat_model

with open('seed_examples.jsonl', encoding='utf-8') as lines:
    cases = [case for case in map(json.loads, lines) if case['id'].startswith('multimodal')]
models = [chat_model()]
datasets = [
    dict(abbr=case['id'], type='Rows', **{key: case[key] for key in ('train', 'test', 'reader_cfg', 'infer_cfg')})
    for case in cases
]
