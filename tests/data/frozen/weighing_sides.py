"""Models that give log-probabilities: a base model and a family."""

from .frozen_models import text_model

models = [text_model(), text_model('chatml', meta_template='chatml')]
