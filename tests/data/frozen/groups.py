"""Scores of datasets together: groups, weights, and the summarizer of OpenCompass."""

from .dataset_parts import TEXT, dataset
from .frozen_models import chat_model, text_model

models = [text_model(), chat_model()]
datasets = [
    dataset(f'part-{number}', f'{number}. ' + TEXT, test=[dict(q=f'{number}.{n}?', a='yB7'[n % 3]) for n in range(3 + number)])
    for number in range(4)
]
summarizer = dict(
    dataset_abbrs=['all', 'weighted', 'part-0'],
    summary_groups=[
        dict(name='all', subsets=['part-0', 'part-1', 'part-2', 'part-3']),
        dict(name='weighted', subsets=['part-0', 'part-1'], weights={'part-0': 3, 'part-1': 1}),
    ],
)
