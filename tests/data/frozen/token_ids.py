"""A meta template of token ids: the prompt is carried as ids."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import text_model

MIXED = dict(
    begin=[1, 'x', 2],
    round=[dict(role='HUMAN', begin=[3], end=[4]), dict(role='BOT', begin=[5], end=[6], generate=True)],
)
models = [text_model('ids', meta_template=MIXED, tokenizer_path='tokenizer', max_seq_len=120)]
datasets = [dataset('text', TEXT), dataset('dialogue', dict(begin=['</E>'], round=ROUND), shots=(0, 1))]
