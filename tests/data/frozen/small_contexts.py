"""Contexts into which not all shots fit, or not even the question; bytes are tokens."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import chat_model, text_model

CHAT = (
    '{% for m in messages %}[{{ m.role }}] {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[bot] {% endif %}'
)
DIALOGUE = dict(begin=['</E>'], round=ROUND)
BYTES = dict(tokenizer_path='tokenizer')
models = [
    text_model('narrow', max_seq_len=110, **BYTES),
    text_model('family', meta_template='chatml', max_seq_len=260, **BYTES),
    text_model('template', chat_template=CHAT, max_seq_len=160, **BYTES),
    chat_model('messages', max_seq_len=150, **BYTES),
]
datasets = [
    dataset('text', '</E>' + TEXT, shots=(0, 1, 2, 3), inferencer=dict(type='GenInferencer', max_out_len=4)),
    dataset('dialogue', DIALOGUE, shots=(5, 4, 0), inferencer=dict(type='GenInferencer', max_out_len=4)),
    *(
        dataset(f'cut-{side}', '</E>' + TEXT, shots=(0, 1), inferencer=dict(type='GenInferencer', max_out_len=4, truncate=side))
        for side in ('left', 'middle', 'right')
    ),
    dataset(
        'random',
        '</E>' + TEXT,
        shots=(0,),
        retriever=dict(type='RandomRetriever', ice_num=4),
        inferencer=dict(type='GenInferencer', max_out_len=4, max_seq_len=100),
    ),
]
