"""How examples are chosen."""

from .dataset_parts import ROUND, TEXT, dataset
from .frozen_models import chat_model, text_model

KINDS = {
    'zero': dict(type='ZeroRetriever'),
    'fixed': dict(type='FixKRetriever', fix_id_list=[4, 2]),
    'random': dict(type='RandomRetriever', ice_num=3, seed=7),
    'bm25': dict(type='BM25Retriever', ice_num=2),
    'window': dict(type='SlidingWindowRetriever', k=2),
    'separator': dict(type='FixKRetriever', fix_id_list=[1, 0], ice_separator=' ## ', ice_eos_token=' $$ '),
}
models = [text_model(), chat_model()]
datasets = [
    *(dataset(f'text-{kind}', '</E>' + TEXT, shots=(0,), retriever=retriever) for kind, retriever in KINDS.items()),
    *(
        dataset(f'dialogue-{kind}', dict(begin=['</E>'], round=ROUND), shots=(0,), retriever=retriever)
        for kind, retriever in KINDS.items()
    ),
]
