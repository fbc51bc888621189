"""Weighing instead of asking: labels, choices, whole texts, with and without a dialogue."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import text_model

LABELS = {label: f'</E>Q: {{q}}\nA: {label}' for label in ('A', 'certainly not')}
DIALOGUE = dict(begin=['</E>'], round=ROUND)
models = [text_model(), text_model('llama3', meta_template='llama3')]
datasets = [
    dataset('labels', LABELS, shots=(0, 2), inferencer=dict(type='PPLInferencer')),
    dataset('labels-normalised', LABELS, shots=(1,), inferencer=dict(type='PPLInferencer', normalizing_str='A: ')),
    dataset('labels-dialogue', DIALOGUE, shots=(0,), inferencer=dict(type='PPLInferencer', labels=['A', 'B'])),
    dataset('whole', '</E>' + TEXT, shots=(3,), metric='AveragePPLEvaluator', inferencer=dict(type='PPLOnlyInferencer')),
    dataset('choices', '</E>Q: {q}\nA:', shots=(0, 1), inferencer=dict(type='CLPInferencer')),
    dataset('choices-dialogue', DIALOGUE, shots=(0, 1), inferencer=dict(type='CLPInferencer')),
]
