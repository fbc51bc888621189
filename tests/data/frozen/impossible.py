"""A config that cannot run: every problem is reported at once, and nothing is sent."""

from .dataset_parts import TEXT, dataset
from .frozen_models import chat_model, text_model

models = [text_model(), chat_model()]
datasets = [
    dataset('no-place', TEXT, shots=(0, 1)),
    dataset('no-such-row', '</E>' + TEXT, shots=(99,)),
    dataset('homeless-role', dict(round=[dict(role='NARRATOR', prompt='Once.'), dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')])),
    dataset('no-such-metric', TEXT, metric='AccuracyEvaluator'),
]
