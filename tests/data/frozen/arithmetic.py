"""A generation dataset with examples as a dialogue, for a base model, a family and an API."""

from .frozen_models import chat_model, text_model

ROUND = [dict(role='HUMAN', prompt='Question: {question}\nAnswer:'), dict(role='BOT', prompt='{answer}')]
models = [text_model(), text_model('chatml', meta_template='chatml'), chat_model()]
datasets = [
    dict(
        abbr='sums',
        type='Rows',
        train=[dict(question=f'{n} + {n + 1}?', answer=str(2 * n + 1)) for n in range(5)],
        test=[dict(question=f'{n} + 3? {{answer}}', answer=str(n + 3)) for n in range(6)],
        reader_cfg=dict(input_columns=['question'], output_column='answer'),
        infer_cfg=dict(
            ice_template=dict(type='PromptTemplate', template=dict(round=ROUND)),
            prompt_template=dict(
                type='PromptTemplate',
                ice_token='</E>',
                template=dict(
                    begin=[dict(role='SYSTEM', fallback_role='HUMAN', prompt='Calculate.'), '</E>'], round=ROUND
                ),
            ),
            retriever=dict(type='FixKRetriever', fix_id_list=[3, 0, 1]),
            inferencer=dict(type='GenInferencer'),
        ),
        eval_cfg=dict(evaluator=dict(type='Gsm8kEvaluator')),
    )
]
