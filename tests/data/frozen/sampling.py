"""Several answers to one question, and settings of sampling at their different places."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import chat_model, text_model

models = [
    text_model(generation_kwargs=dict(temperature=0.7, top_k=10), stop_words=['\n\n']),
    chat_model(temperature=0.2, seed=3),
]
datasets = [
    dataset('samples', TEXT, inferencer=dict(type='GenInferencer', num_return_sequences=3, temperature=1.0)),
    dataset('self-consistency', dict(round=ROUND), inferencer=dict(type='SCInferencer', sc_size=3)),
    dataset('stops', TEXT, inferencer=dict(type='GenInferencer', stopping_criteria=['Q:'], max_out_len=5)),
]
