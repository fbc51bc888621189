"""Parts of a dataset: slices, samples, splits, columns without an answer."""

from .frozen_models import chat_model

ROWS = [dict(q=f'{n}?', a='AB'[n % 2], extra=[n]) for n in range(20)]
models = [chat_model()]


def part(abbr, **reader):
    columns = dict(input_columns=['q', 'extra'], output_column='a')
    return dict(
        abbr=abbr,
        type='Rows',
        train=ROWS[10:],
        test=ROWS,
        reader_cfg=columns | reader,
        infer_cfg=dict(
            ice_template=dict(type='PromptTemplate', template='{q} {extra} {a}'),
            prompt_template=dict(type='PromptTemplate', template='</E>{q} {extra}', ice_token='</E>'),
            retriever=dict(type='FixKRetriever', fix_id_list=[0, 1]),
            inferencer=dict(type='GenInferencer'),
        ),
        eval_cfg=dict(evaluator=dict(type='AccEvaluator')),
    )


datasets = [
    part('slice', test_range='[3:7]'),
    part('sample', test_range=4),
    part('share', test_range=0.2),
    part('swapped', train_split='test', test_split='train'),
    part('no-answer', output_column=None),
]
