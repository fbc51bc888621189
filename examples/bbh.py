"""Three tasks of BIG-Bench Hard: two asked in words, one weighed label by label.

Eight rows of each lie beside this file; ROLECALL_DATA names a folder with all of them: `bbh/date_understanding.json`.

    rolecall view examples/bbh.py --dataset bbh-boolean_expressions --model base
"""

import os

from rolecall.sources.config.finder import read_base

with read_base():
    from .models import models

where = os.path.join(os.environ.get('ROLECALL_DATA', 'data'), 'bbh')
reader = dict(input_columns=['input'], output_column='target', train_split='test')


def asked(task, hint):
    """A task that the model answers in its own words."""
    return dict(
        abbr=f'bbh-{task}',
        type='BBHDataset',
        path=where,
        name=task,
        reader_cfg=reader,
        infer_cfg=dict(
            prompt_template=dict(
                type='PromptTemplate',
                template=dict(
                    round=[
                        dict(role='HUMAN', prompt=f"{hint}\n\nQ: {{input}}\nA: Let's think step by step."),
                        dict(role='BOT', prompt='{target}'),
                    ]
                ),
            ),
            retriever=dict(type='ZeroRetriever'),
            inferencer=dict(type='GenInferencer', max_out_len=512),
        ),
    )


weighed = dict(
    abbr='bbh-boolean_expressions',
    type='BBHDataset',
    path=where,
    name='boolean_expressions',
    reader_cfg=reader,
    infer_cfg=dict(
        ice_template=dict(
            type='PromptTemplate',
            template={label: f'</E>{{input}} {label}' for label in ('True', 'False')},
            ice_token='</E>',
        ),
        retriever=dict(type='RandomRetriever', ice_num=3),
        inferencer=dict(type='PPLInferencer'),
    ),
)

datasets = [
    asked('date_understanding', 'Infer the date from context.'),
    asked('movie_recommendation', 'Recommend movies similar to the given list of movies.'),
    weighed,
]
