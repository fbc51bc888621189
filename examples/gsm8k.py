"""GSM8K, five worked examples from the training split, as a dialogue.

Eight rows lie beside this file; ROLECALL_DATA names a folder with the whole of it: `gsm8k/train.jsonl`, …

    rolecall view examples/gsm8k.py --model qwen-chatml
"""

import os

from rolecall.sources.config.finder import read_base

with read_base():
    from .models import models

example = [
    dict(role='HUMAN', prompt='Question: {question}\nAnswer:'),
    dict(role='BOT', prompt='{answer}'),
]

datasets = [
    dict(
        abbr='gsm8k',
        type='GSM8KDataset',
        path=os.path.join(os.environ.get('ROLECALL_DATA', 'data'), 'gsm8k'),
        reader_cfg=dict(input_columns=['question'], output_column='answer'),
        infer_cfg=dict(
            ice_template=dict(type='PromptTemplate', template=dict(round=example)),
            prompt_template=dict(
                type='PromptTemplate',
                ice_token='</E>',
                template=dict(
                    begin=[
                        dict(
                            role='SYSTEM',
                            fallback_role='HUMAN',
                            prompt='Solve the problem step by step. End with a line "#### " and the number.',
                        ),
                        '</E>',
                    ],
                    round=example,
                ),
            ),
            retriever=dict(type='FixKRetriever', fix_id_list=[0, 1, 2, 3, 4]),
            inferencer=dict(type='GenInferencer', max_out_len=512),
        ),
    )
]
