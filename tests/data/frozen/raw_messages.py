"""Messages written as an API takes them."""

from .dataset_parts import ROWS
from .frozen_models import chat_model, text_model

models = [chat_model(), text_model('chatml', meta_template='chatml')]
datasets = [
    dict(
        abbr='raw',
        type='Rows',
        test=ROWS,
        reader_cfg=dict(input_columns=['q'], output_column='a'),
        infer_cfg=dict(
            prompt_template=dict(
                type='RawPromptTemplate',
                messages=[dict(role='system', content='Be brief.'), dict(role='user', content='{q}')],
            ),
            inferencer=dict(type='ChatMLInferencer'),
        ),
        eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
    )
]
