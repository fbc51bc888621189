"""Dialogues turn by turn, in the three modes, for text and for messages."""

from .dataset_parts import ROWS
from .frozen_models import chat_model, text_model

TURNS = [{column: [f'{row[column]} {n}' for n in range(3)] for column in ('q', 'a')} for row in ROWS]
ROUND = [dict(role='HUMAN', prompt='{q}'), dict(role='BOT', prompt='{a}')]
models = [text_model(), text_model('qwen', meta_template='qwen'), chat_model()]
datasets = [
    dict(
        abbr=f'dialogue-{mode}',
        type='Rows',
        test=TURNS,
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(
            prompt_template=dict(
                type='MultiTurnPromptTemplate',
                template=dict(begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='Be kind.')], round=ROUND),
            ),
            inferencer=dict(type='MultiTurnGenInferencer', infer_mode=mode),
        ),
        eval_cfg=dict(evaluator=dict(type='MultiTurnEvaluator')),
    )
    for mode in ('every', 'every_with_gt', 'last')
]
