"""What replies are worth: metrics with the readers that they are used with."""

from .dataset_parts import TEXT, dataset
from .frozen_models import chat_model, text_model

READERS = {
    'first-option': (dict(type='first_option_postprocess', options='ABCD'), 'AccEvaluator'),
    'last-option': (dict(type='last_option_postprocess', options='ABCD'), 'AccEvaluator'),
    'capital': (dict(type='first_capital_postprocess'), 'AccEvaluator'),
    'number': (dict(type='gsm8k'), 'Gsm8kEvaluator'),
    'math': (dict(type='math_postprocess_v2'), 'MATHEvaluator'),
    'phrase': (None, 'EMEvaluator'),
    'words': (None, 'SquadEvaluator'),
    'trivia': (None, 'TriviaQAEvaluator'),
    'rouge': (None, 'RougeEvaluator'),
    'bleu': (None, 'BleuEvaluator'),
}
GOLD = ['A', 'B', '7', 'D', '18', 'yes', 'no, because', '42', 'C']
ROWS = [dict(q=f'{n}?', a=GOLD[n % len(GOLD)]) for n in range(18)]
models = [text_model(), chat_model()]
datasets = [
    dataset(name, TEXT, test=ROWS, eval_cfg=dict(evaluator=dict(type=metric), **(dict(pred_postprocessor=reader) if reader else {})))
    for name, (reader, metric) in READERS.items()
]
