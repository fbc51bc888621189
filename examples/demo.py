"""The main job on the embedded model: one generation dataset, one weighed by perplexity, one dialogue.

rolecall view examples/demo.py --all        what the model will receive
rolecall run examples/demo.py --out runs/demo
"""

import os

DATA = os.environ.get('ROLECALL_DATA', 'data')

models = [
    dict(
        abbr='smollm2',
        type='LlamaCpp',
        path='smollm2',
        meta_template='chatml',
        max_seq_len=2048,
        max_out_len=128,
    ),
]

sums = dict(
    abbr='gsm8k',
    type='GSM8KDataset',
    path=os.path.join(DATA, 'gsm8k'),
    reader_cfg=dict(input_columns=['question'], output_column='answer', test_range='[0:8]'),
    infer_cfg=dict(
        ice_template=dict(
            type='PromptTemplate',
            template=dict(round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt='{answer}')]),
        ),
        prompt_template=dict(
            type='PromptTemplate',
            ice_token='</E>',
            template=dict(
                begin=['</E>'], round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt='{answer}')]
            ),
        ),
        retriever=dict(type='FixKRetriever', fix_id_list=[0, 1]),
        inferencer=dict(type='GenInferencer', max_out_len=128),
    ),
    eval_cfg=dict(
        evaluator=dict(type='Gsm8kEvaluator'),
        pred_postprocessor=dict(type='gsm8k_postprocess'),
        dataset_postprocessor=dict(type='gsm8k_dataset_postprocess'),
    ),
)

ASK = '{question}\nA. {A}\nB. {B}\nC. {C}\nD. {D}\nAnswer:'
quiz = dict(
    abbr='quiz',
    type='File',
    path='data/quiz',
    reader_cfg=dict(input_columns=['question', 'A', 'B', 'C', 'D'], output_column='answer'),
    infer_cfg=dict(
        ice_template=dict(type='PromptTemplate', template={label: f'{ASK} {label}' for label in 'ABCD'}),
        prompt_template=dict(
            type='PromptTemplate',
            ice_token='</E>',
            template={label: f'Choose the right answer.\n\n</E>{ASK} {label}' for label in 'ABCD'},
        ),
        retriever=dict(type='FixKRetriever', fix_id_list=[0, 1, 2, 3, 4], ice_separator='\n\n', ice_eos_token='\n\n'),
        inferencer=dict(type='PPLInferencer'),
    ),
    eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
)

talk = dict(
    abbr='mt_bench',
    type='MTBenchDataset',
    path=os.path.join(DATA, 'mt_bench', 'question.jsonl'),
    reader_cfg=dict(input_columns=['question'], output_column='answer', test_range='[0:4]'),
    infer_cfg=dict(
        prompt_template=dict(
            type='MultiTurnPromptTemplate',
            template=dict(round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt='{answer}')]),
        ),
        retriever=dict(type='ZeroRetriever'),
        inferencer=dict(type='MultiTurnGenInferencer', infer_mode='every', max_out_len=96),
    ),
)

datasets = [sums, quiz, talk]
