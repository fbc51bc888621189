"""What the linter is for: unknown fields, a leaked answer, examples from the test rows, odd values."""

from .dataset_parts import ROWS, dataset
from .frozen_models import chat_model, text_model

models = [text_model(), chat_model(), text_model('moss', meta_template='moss')]
datasets = [
    dataset('unknown-field', 'Q: {qestion}\nA: {a}'),
    dataset('leak', 'Q: {q}\nA: {a}', test=[dict(q=f'It is {n}{n}{n}, what is it?', a=f'{n}{n}{n}') for n in range(6)]),
    dataset('same-rows', '</E>{q} {a}', shots=(0, 1), train=ROWS),
    dataset('odd-values', '{q} {a}', test=[dict(q=None, a=1), dict(q=['x'], a='A'), dict(q='  ', a=''), dict(q=3.5, a='A')]),
    dataset('trailing-space', 'Q: {q}\nA: '),
]
