"""MT-Bench: two turns, the second asked with the model's own answer to the first.

Eight rows lie beside this file; ROLECALL_DATA names a folder with the whole of it: `mt_bench/question.jsonl`.

    rolecall view examples/mt_bench.py --model gpt --turn 1
"""

import os

from rolecall.sources.config.finder import read_base

with read_base():
    from .models import models

datasets = [
    dict(
        abbr='mt_bench',
        type='MTBenchDataset',
        path=os.path.join(os.environ.get('ROLECALL_DATA', 'data'), 'mt_bench', 'question.jsonl'),
        reader_cfg=dict(input_columns=['question'], output_column='answer'),
        infer_cfg=dict(
            prompt_template=dict(
                type='MultiTurnPromptTemplate',
                template=dict(
                    round=[
                        dict(role='HUMAN', prompt='{question}'),
                        dict(role='BOT', prompt='{answer}'),
                    ]
                ),
            ),
            retriever=dict(type='ZeroRetriever'),
            inferencer=dict(type='MultiTurnGenInferencer', infer_mode='every', max_out_len=512),
        ),
    )
]
