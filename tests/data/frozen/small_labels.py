"""Labels weighed in a context that is too small for their shots."""

from .dataset_parts import TEXT, dataset
from .frozen_models import text_model

LABELS = {label: f'</E>Q: {{q}}\nA: {label}' for label in ('A', 'certainly not')}
models = [text_model(f'bytes-{size}', max_seq_len=size, tokenizer_path='tokenizer') for size in (60, 110, 400)]
datasets = [
    dataset('labels', LABELS, shots=(0, 1, 2), inferencer=dict(type='PPLInferencer')),
    dataset('whole', '</E>' + TEXT, shots=(0, 1), metric='AveragePPLEvaluator', inferencer=dict(type='PPLOnlyInferencer')),
]
