from opencompass.datasets import CustomDataset
from opencompass.openicl.icl_evaluator import AccEvaluator
from opencompass.openicl.icl_inferencer import PPLInferencer
from opencompass.openicl.icl_prompt_template import PromptTemplate
from opencompass.openicl.icl_retriever import FixKRetriever

quiz_ppl_datasets = [
    dict(
        abbr='quiz-ppl',
        type=CustomDataset,
        path='rows/quiz.jsonl',
        reader_cfg=dict(input_columns=['question', 'A', 'B'], output_column='answer', train_split='test', test_split='test'),
        infer_cfg=dict(
            ice_template=dict(
                type=PromptTemplate,
                template={
                    label: dict(begin='</E>', round=[dict(role='HUMAN', prompt='{question}'), dict(role='BOT', prompt=f'{{{label}}}')])
                    for label in ['A', 'B']
                },
                ice_token='</E>',
            ),
            retriever=dict(type=FixKRetriever, fix_id_list=[0, 1]),
            inferencer=dict(type=PPLInferencer),
        ),
        eval_cfg=dict(evaluator=dict(type=AccEvaluator)),
    )
]
