"""The models that benchmarks and task files are asked with: a base model, a family, and messages."""

from .frozen_models import chat_model, text_model

models = [text_model(), text_model('chatml', meta_template='chatml'), chat_model()]
